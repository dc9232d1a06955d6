"""Compiling the encoder of a run."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labeltree.training.checks import check_idle
from labeltree.training.module import RepresentationModule

__all__ = ["compile_encoders"]

BACKEND = "inductor"


def compile_encoders(module: RepresentationModule, device: torch.device) -> None:
    """Let `torch.compile` make what training calls of the encoder, and of the momentum encoder.

    It is made when it is first called. Names and values of parameters stay what they are, so checkpoints of
    compiled and other runs are alike.

    Args:
        module: changed in place.
        device: that training runs on.

    Raises:
        ValueError: if nothing can be compiled here, or training does not call the encoder.
    """
    check_idle(module.recipe, ["compile"], module.reads_features, "where features are computed once")
    try:
        torch.compile(_probe, backend=BACKEND)(torch.zeros(8, device=device))
    except RuntimeError as error:
        inner = getattr(error, "inner_exception", error)  # what stopped the compiler
        reason = next((line for line in str(inner).splitlines() if line.strip()), type(inner).__name__)
        raise ValueError(
            f"compile is True, but nothing can be compiled here: {reason}. It needs a C++ compiler and "
            "the headers of Python (on Debian: g++ and python3-dev); install them, or leave compile out"
        ) from error
    encoders: list[nn.Module] = [module.encoder.without_adapter]
    if module.momentum is not None:
        encoders.append(module.momentum.encoder)
    for encoder in encoders:
        encoder.compile(backend=BACKEND)


def _probe(x: Tensor) -> Tensor:
    return (x + 1).sin()
