"""The choice of implementation: the dense reference, tiles, or automatic by size and device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

import torch

from labeltree.checks import check_choice
from labeltree.pairs.kernels.launch_kernels import can_run

__all__ = ["Implementation", "Plan", "asked", "implementation", "planned"]

Implementation = Literal["auto", "dense", "streaming", "triton"]

_FEW_PAIRS = 192 * 192  # below this, streaming costs more than it saves


@dataclass(frozen=True)
class Plan:
    """How the primitives are computed.

    Attributes:
        name: `"dense"` holds all pairs at once; `"streaming"` walks over tiles of them; `"triton"` does so in
            GPU kernels if available, and streams otherwise; `"auto"` chooses by the number of pairs and the
            device.
        tile: Rows and columns of a tile; None: chosen for the device.
        keep: Bytes of tiles that are kept for the backward rather than computed again.
    """

    name: Implementation = "auto"
    tile: int | None = None
    keep: int = 64 << 20


_PLAN: ContextVar[Plan] = ContextVar("labeltree_pairs_plan", default=Plan())  # noqa: B039 (it is frozen)


@contextmanager
def implementation(
    name: Implementation = "auto", *, tile: int | None = None, keep: int | None = None
) -> Iterator[None]:
    """Choose the implementation of the primitives within a `with` block, and in backward passes run there.

    Args:
        name: See `Plan`; `"auto"` is the default everywhere.
        tile: Rows and columns of a tile, for tests and measurements.
        keep: Bytes of tiles that a forward keeps for its backward.

    Example:
        >>> with implementation("dense"):  # differentiable twice, needs the memory of all pairs
        ...     planned(torch.device("cpu"), 10**6).name
        'dense'
    """
    check_choice("implementation", name, Implementation)
    if tile is not None and not tile >= 1:
        raise ValueError(f"tile must be at least 1; got {tile}")
    token = _PLAN.set(Plan(name, tile, Plan.keep if keep is None else keep))
    try:
        yield
    finally:
        _PLAN.reset(token)


def asked() -> Plan:
    """The plan as set by the caller, possibly `"auto"`."""
    return _PLAN.get()


def planned(device: torch.device, pairs: int) -> Plan:
    """The plan for a number of pairs on a device, with `"auto"` resolved."""
    plan = asked()
    if plan.name != "auto":
        return plan
    if pairs <= _FEW_PAIRS:
        return Plan("dense", plan.tile, plan.keep)
    fast = device.type == "cuda" and can_run(device)
    return Plan("triton" if fast else "streaming", plan.tile, plan.keep)
