"""Whether answers hold the truth as often as was promised, by chance of the samples that were drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from labeltree.decisions.conformal import group_codes

__all__ = ["calibrated_units", "group_coverage", "is_kept", "may_be_kept", "say_kept"]

_FEW_ANSWERS, _FEW_GROUPS = 20, 6


def may_be_kept(promised: float, measured: float, high: float, calibrated: int) -> bool:
    """Whether a coverage may be the promised one, by chance of test samples and of calibration samples.

    The coverage given the calibration samples varies with their draw, as a Beta distribution (Vovk 2012),
    whose deviation is about √(c(1−c)/(n+2)). Its 95 % interval and that of the test samples are added as
    errors of independent numbers.

    Args:
        promised: The promised coverage c.
        measured: The coverage of the test samples.
        high: Upper end of its confidence interval; NaN if there is none.
        calibrated: Number n of calibration samples (or groups) that the thresholds come from; 0 if unknown.
    """
    of_draw = 1.96 * math.sqrt(promised * (1 - promised) / (calibrated + 2)) if calibrated else 0.0
    of_test = 0.0 if math.isnan(high) else high - measured
    return promised - measured <= math.hypot(of_draw, of_test)


def is_kept(
    promised: float, measured: float, high: float, calibrated: int, *, samples: int, groups: int | None = None
) -> bool | None:
    """Whether a coverage may be the promised one; None if nobody can tell.

    That is so of fewer than 20 answers, and of fewer than six groups, which are too few for an interval.

    Args:
        promised: See `may_be_kept`.
        measured: See there.
        high: See there.
        calibrated: See there.
        samples: Number of answers.
        groups: Number of their groups; None without groups.
    """
    if samples < _FEW_ANSWERS or (groups is not None and groups < _FEW_GROUPS):
        return None
    return may_be_kept(promised, measured, high, calibrated)


def say_kept(
    kept: bool | None,
    promised: float,
    measured: float,
    low: float,
    *,
    beyond: Literal["below", "above"] = "below",
) -> str:
    """What `is_kept` says, in words.

    Only what the samples support is called kept: a coverage that is no less than promised, and whose interval
    leaves no room for more than twice the share of wrong answers that the promise allows. Else a promise that
    may be kept is "not clearly below it".

    Args:
        kept: What `is_kept` says.
        promised: The promised coverage.
        measured: The coverage of the test samples.
        low: Lower end of its confidence interval; NaN if there is none.
        beyond: Where a broken promise lies: a share that was promised to be small is above it.
    """
    if kept is None:
        return "too few to tell"
    if not kept:
        return "not kept"
    supported = measured >= promised and 1 - low <= 2 * (1 - promised) + 1e-9
    return "kept" if supported else f"not clearly {beyond} it"


def calibrated_units(counts: Mapping[str, int]) -> int:
    """How many groups, or without groups samples, thresholds come from, by the counts of the protocol."""
    return counts.get("groups for the thresholds", counts.get("for the thresholds", 0))


def group_coverage(holds: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
    """The share of the answers of each group that hold the truth.

    Args:
        holds: (n,) bool, whether each answer holds the truth.
        groups: (n,) group of each answer, −1 for one that is a group of its own.

    Returns:
        The shares (g,) float64, and the last row (g,) of each group.
    """
    codes = group_codes(groups, len(groups))
    count = int(codes.max()) + 1 if len(codes) else 0
    sizes = torch.bincount(codes, minlength=count).double()
    shares = torch.bincount(codes, holds.double(), minlength=count) / sizes
    last = torch.zeros(count, dtype=torch.int64).scatter_reduce_(0, codes, torch.arange(len(codes)), "amax")
    return shares, last
