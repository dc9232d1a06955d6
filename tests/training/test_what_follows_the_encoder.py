"""The momentum encoder, its keys and the average of the weights: each step of a linear encoder, by hand."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor, nn

from labeltree.models import Encoder, register_encoder
from labeltree.training.fit import train
from labeltree.training.recipe import Recipe

pytestmark = pytest.mark.slow

MOMENTUM, DECAY = 0.75, 0.6


@register_encoder("test-linear", summary="one linear layer without a bias")
def linear_encoder(channels: int, image_size: int) -> Encoder:
    class Linear(Encoder):
        def __init__(self) -> None:
            super().__init__("test-linear", 6)
            self.body = nn.Linear(channels * image_size**2, 6, bias=False)

        @property
        def stages(self) -> list[nn.Module]:
            return [self.body]

        def forward(self, images: Tensor) -> Tensor:
            features: Tensor = self.body(images.flatten(1))
            return features

    return Linear()


class Look(Callback):
    """The weights before every step and after the last, the batches, the queue, what validation has seen."""

    def __init__(self) -> None:
        self.weights: list[dict[str, Tensor]] = []
        self.queues: list[Tensor] = []
        self.views: list[list[Tensor]] = []
        self.validated: list[tuple[Tensor, Tensor]] = []

    def _take(self, module: Any) -> None:
        found = {"encoder": module.encoder.body.weight}
        if module.momentum is not None:
            head, own = module.objective.head, module.momentum.head
            found |= {"keys": module.momentum.encoder.body.weight}
            found |= {f"head {name}": p for name, p in head.named_parameters()}
            found |= {f"key head {name}": p for name, p in own.named_parameters()}
        if module.averaged is not None:
            found |= {"average": module.averaged.module.body.weight}
        self.weights.append({name: weight.detach().clone() for name, weight in found.items()})

    def on_train_batch_start(self, trainer, module, batch, _):
        self._take(module)
        args = batch["samples"], batch["instances"], batch["epoch"]
        self.views.append([module.views.training(*args, view) for view in range(2)])

    def on_train_batch_end(self, trainer, module, *_):
        if module.queue is not None:
            self.queues.append(module.queue.vectors.clone())

    def on_validation_batch_end(self, trainer, module, _, batch, *__):
        plain = module.plain(batch["samples"], batch["instances"]).flatten(1)
        self.validated.append((plain, module._validation[-1][0]))

    def on_train_end(self, trainer, module):
        self._take(module)


@pytest.fixture
def watched(
    recipe_of: Callable[..., Recipe], tmp_path: Path
) -> Callable[..., tuple[Look, dict[str, Tensor]]]:
    def run(objective: str, **settings: Any) -> tuple[Look, dict[str, Tensor]]:
        look = Look()
        recipe = recipe_of(
            objective,
            encoder="test-linear",
            epochs=1,
            head__layers=1,
            head__dim=4,
            optimizer__name="sgd",
            optimizer__lr=0.5,
            optimizer__schedule="constant",
            optimizer__warmup_epochs=0,
            **settings,
        )
        folder = train(recipe, tmp_path / "run", callbacks=[look], progress_bar=False)
        assert len(look.weights) == 5  # of four steps
        moved = [(after["encoder"] - before["encoder"]).abs().max() for before, after in steps(look)]
        assert min(moved[1:]) > 1e-4  # there is something to follow; the queue begins empty
        return look, folder.load_weights()

    return run


def steps(look: Look) -> list[tuple[dict[str, Tensor], dict[str, Tensor]]]:
    return list(zip(look.weights[:-1], look.weights[1:], strict=True))


def test_the_momentum_encoder_follows_before_each_step(watched) -> None:
    look, _ = watched("selfcon", queue__momentum=MOMENTUM)
    heads = [name for name in look.weights[0] if name.startswith("head ")]
    assert heads
    for before, after in steps(look):
        for own, leading in [("keys", "encoder"), *((f"key {name}", name) for name in heads)]:
            expected = MOMENTUM * before[own] + (1 - MOMENTUM) * before[leading]
            torch.testing.assert_close(after[own], expected, rtol=1e-5, atol=1e-6)
    assert (look.weights[-1]["keys"] - look.weights[0]["keys"]).abs().max() > 1e-4


def test_keys_are_of_the_other_view(watched) -> None:
    look, _ = watched("selfcon", queue__momentum=MOMENTUM)
    for (_, after), views, queue in zip(steps(look), look.views, look.queues, strict=True):
        features = views[1].flatten(1) @ after["keys"].T
        (weight, *bias) = (after[name] for name in after if name.startswith("key head "))
        vectors = features @ weight.T + (bias[0] if bias else 0)
        expected = vectors / vectors.norm(dim=1, keepdim=True)
        torch.testing.assert_close(queue[-len(expected) :], expected, rtol=1e-4, atol=1e-5)
        assert (views[0] - views[1]).abs().max() > 0.01


@pytest.mark.parametrize("evaluate", [False, True])
def test_the_average_follows_after_each_step_and_is_evaluated_where_asked(watched, evaluate: bool) -> None:
    look, saved = watched("supcon", ema=DECAY, ema_evaluate=str(evaluate).lower())
    (_, first), *later = steps(look)
    torch.testing.assert_close(first["average"], first["encoder"], rtol=0, atol=0)
    for before, after in later:
        expected = DECAY * before["average"] + (1 - DECAY) * after["encoder"]
        torch.testing.assert_close(after["average"], expected, rtol=1e-5, atol=1e-6)
    last = look.weights[-1]
    assert (last["average"] - last["encoder"]).abs().max() > 1e-4
    evaluated = last["average" if evaluate else "encoder"]
    assert torch.equal(saved["encoder.body.weight"], evaluated)
    for plain, features in look.validated:
        torch.testing.assert_close(features, plain @ evaluated.T, rtol=1e-4, atol=1e-5)
    assert look.validated
