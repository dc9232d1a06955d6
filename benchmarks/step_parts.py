"""One training step, cut into its parts: what `training_step` of the module does, with a clock between."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor

from labeltree.training.batches import Batch
from labeltree.training.module import RepresentationModule

__all__ = ["PARTS", "PartedStep", "clock_of"]

PARTS = (
    "views",
    "keys",
    "encoder forward",
    "heads forward",
    "loss forward",
    "loss backward",
    "heads backward",
    "encoder backward",
    "optimiser",
)


def clock_of(device: torch.device) -> Callable[[], float]:
    """Seconds: of the processor that the process used, or by the clock when a GPU has done all its work."""
    if device.type != "cuda":
        return time.process_time

    def clock() -> float:
        torch.cuda.synchronize(device)
        return time.perf_counter()

    return clock


class PartedStep:
    """Takes a module's training steps, and says how long each part took.

    The graph is cut before the objective and before every loss: what comes in is made a leaf there, so that
    the backward pass can be walked one part after the other. What is computed stays the same.

    Args:
        module: is trained.
        optimizer: of its parameters.
        dtype: of mixed precision; None = float32.
    """

    def __init__(
        self, module: RepresentationModule, optimizer: torch.optim.Optimizer, dtype: torch.dtype | None = None
    ) -> None:
        self._module, self._optimizer, self._dtype = module, optimizer, dtype
        self._clock = clock_of(next(module.parameters()).device)
        self._seconds: dict[str, float] = {}
        self._before_objective: list[tuple[Tensor, Tensor]] = []
        self._before_losses: list[tuple[Tensor, Tensor]] = []
        self._last = 0.0

    def __call__(self, batch: Batch) -> dict[str, float]:
        """Seconds of every part of a step on a batch."""
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._before_objective, self._before_losses = [], []
        with ExitStack() as hooks:
            for hook in self._hooks():
                hooks.callback(hook.remove)
            self._last = self._clock()
            device = next(self._module.parameters()).device.type
            with torch.autocast(device, self._dtype, enabled=self._dtype is not None):
                loss = self._module.training_step(batch, 0)
            self._mark("optimiser")  # no part of its own: what comes after the loss, such as the queue
        loss.backward()  # type: ignore[no-untyped-call]
        self._mark("loss backward")
        _go_on(self._before_losses)
        self._mark("heads backward")
        _go_on(self._before_objective)
        self._mark("encoder backward")
        self._optimizer.step()
        self._optimizer.zero_grad()
        self._mark("optimiser")
        return self._seconds

    def _hooks(self) -> list[Any]:
        module = self._module
        encoder = module.encoder.without_adapter
        hooks = [encoder.register_forward_pre_hook(lambda *_: self._mark("views"))]
        if module.momentum is not None:
            hooks.append(module.momentum.register_forward_pre_hook(lambda *_: self._mark("views")))
            hooks.append(module.momentum.register_forward_hook(lambda *_: self._mark("keys")))

        def objective_begins(_: object, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
            self._mark("encoder forward")
            features, *others = given
            return (_cut(features, self._before_objective), *others), named

        def loss_begins(_: object, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
            self._mark("heads forward")
            return given, {name: _cut(value, self._before_losses) for name, value in named.items()}

        hooks.append(module.objective.register_forward_pre_hook(objective_begins, with_kwargs=True))
        for term in module.objective.terms.values():
            hooks.append(term.loss.register_forward_pre_hook(loss_begins, with_kwargs=True))  # type: ignore[union-attr]
            hooks.append(term.loss.register_forward_hook(lambda *_: self._mark("loss forward")))  # type: ignore[union-attr]
        return hooks

    def _mark(self, part: str) -> None:
        """All since the last mark was this part's."""
        now = self._clock()
        self._seconds[part] += now - self._last
        self._last = now


def _cut(value: Any, cuts: list[tuple[Tensor, Tensor]]) -> Any:
    if isinstance(value, list):
        return [_cut(one, cuts) for one in value]
    if not (isinstance(value, Tensor) and value.requires_grad):
        return value
    leaf = value.detach().requires_grad_()
    cuts.append((value, leaf))
    return leaf


def _go_on(cuts: list[tuple[Tensor, Tensor]]) -> None:
    reached = [(value, leaf.grad) for value, leaf in cuts if leaf.grad is not None]
    torch.autograd.backward([value for value, _ in reached], [grad for _, grad in reached])
