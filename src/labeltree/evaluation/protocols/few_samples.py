"""`few-samples`: accuracy of a linear probe that learns from few samples, or from noisy labels."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.errors import DataError
from labeltree.evaluation.fitted_probe import fit_probe, standardized
from labeltree.evaluation.protocol_registry import Inputs, ProtocolResult, register
from labeltree.evaluation.representations import Reading
from labeltree.evaluation.sample_columns import Column, Number, Place
from labeltree.evaluation.statistics import across_runs
from labeltree.evaluation.subsampling import ranked_in_label
from labeltree.metrics.probe_by_sgd import SGDProbe

__all__ = ["FewSamplesOptions", "few_samples", "noisy_labels"]


@dataclass(frozen=True)
class FewSamplesOptions:
    """Options of `few_samples`.

    Attributes:
        roles: Representations to read: `features`, `embeddings` or both.
        per_class: Numbers of training samples per class; smaller classes contribute all their samples.
        shares: Fractions of every class's training samples, at least one sample; 1.0 = all samples.
        totals: Numbers of training samples, drawn regardless of class.
        noise: Noise rates r: a label is redrawn from all N classes with probability r, so that it stays the
            same with probability 1 − r(N−1)/N.
        seeds: Number of random draws of samples and labels for every size and noise rate.
        probe: `logistic`, as in the standard evaluation, or `sgd`, as in `sgd-probe`.
    """

    roles: tuple[str, ...] = ("features",)
    per_class: tuple[int, ...] = (1, 2, 5, 10, 20, 50)
    shares: tuple[float, ...] = ()
    totals: tuple[int, ...] = ()
    noise: tuple[float, ...] = (0.0,)
    seeds: int = 5
    probe: Literal["logistic", "sgd"] = "logistic"

    def __post_init__(self) -> None:
        if not (self.per_class or self.shares or self.totals) or not self.noise:
            raise ValueError("per_class, shares and totals are all empty, or noise is; name one number")
        if min((*self.per_class, *self.totals, self.seeds)) < 1:
            raise ValueError("per_class, totals and seeds must be at least 1")
        if not all(0 < share <= 1 for share in self.shares) or not all(0 <= r <= 1 for r in self.noise):
            raise ValueError(f"shares {self.shares} must lie in (0, 1], noise {self.noise} in [0, 1]")
        check_choice("probe", self.probe, ("logistic", "sgd"))


@register(
    "few-samples",
    summary="linear probe learned from few samples, or from wrong labels; mean and sd over draws",
    source="Ghanooni et al., Tables 3, 5, 6 (there the encoder learns from them too, here the probe alone)",
    options=FewSamplesOptions,
)
def few_samples(inputs: Inputs, options: FewSamplesOptions) -> ProtocolResult:
    """Fit a probe to every draw, and test it on all test samples with a finest label."""
    if not len(inputs.learned) or not len(inputs.tested):
        raise DataError("it needs training and test samples with finest labels")
    parts = {
        role: _measure_reading(reading, inputs, options, role)
        for role, reading in inputs.chosen(options.roles).items()
    }
    counts = {"training samples to draw from": len(inputs.learned), "draws": options.seeds}
    notes = ["The encoder is the same throughout: only the probe learns from fewer samples or wrong labels."]
    of_draws = (
        "other draws of training samples and for other test samples"
        if options.seeds > 1
        else "other test samples, not for other draws of training samples, of which there is one"
    )
    if inputs.resampling is not None:
        notes.append(f"The intervals allow for {of_draws}.")
    return ProtocolResult.joined("Linear probe from few samples", parts, counts=counts, notes=notes)


def _measure_reading(
    reading: Reading, inputs: Inputs, options: FewSamplesOptions, role: str
) -> ProtocolResult:
    part = ProtocolResult("")
    test, truth = reading.vectors[inputs.tested], inputs.nodes[inputs.tested]
    work = len(list(_sizes(options))) * len(options.noise) * options.seeds
    done = 0
    for noise in options.noise:
        suffix = f"_noise_{noise:g}" if noise else ""
        for kind, size in _sizes(options):
            tops: list[float] = []
            shares = torch.zeros(len(truth), dtype=torch.float64)
            for draw in range(options.seeds):
                seed = inputs.settings.seed + draw
                rows = _drawn(inputs, kind, size, seed)
                labels = noisy_labels(inputs.nodes[rows], noise, seed)
                right = (
                    _predict(reading.vectors[rows], labels, test, inputs, options, seed) == truth
                ).double()
                tops.append(float(right.mean()))
                shares += right / options.seeds
                done += 1
                if inputs.progress is not None:
                    inputs.progress(f"probes from few samples, by {role}", done, work)
            column = Column(f"top1_{kind}_{size:g}{suffix}", shares, inputs.tested)
            part.columns.append(column)
            sd = statistics.stdev(tops) if len(tops) > 1 else math.nan
            number = _average_draws(tops, inputs.estimate(column), inputs)
            curve = f"by_{kind}{suffix}"
            at = len(part.curves.get(f"sd_{curve}", []))
            part.put(Place("scores", column.name), number)
            part.put(Place("scores", f"{column.name}_sd"), Number(sd))
            part.put(Place("curves", f"top1_{curve}", at), number)
            part.put(Place("curves", f"sd_{curve}", at), Number(sd))
            for name in ("top1", "sd"):
                part.axes.setdefault(f"{name}_{curve}", []).append(float(size))
    return part


def _average_draws(tops: list[float], of_samples: Number, inputs: Inputs) -> Number:
    """The mean over draws, with an interval for the variance of both training draws and test samples."""
    if inputs.resampling is None or len(tops) == 1:
        return of_samples
    value, error = np.array([of_samples.value]), np.array([of_samples.error])
    groups, confidence = inputs.units_of(inputs.tested).count, inputs.resampling.confidence
    ends = across_runs(value, [np.array(tops)[:, None]], error, groups, confidence=confidence)
    low, high = np.where(ends.error > 0, np.clip([ends.low, ends.high], 0.0, 1.0), np.nan)
    return Number(of_samples.value, float(low[0]), float(high[0]), float(ends.error[0]))


def _sizes(options: FewSamplesOptions) -> Iterator[tuple[str, float]]:
    """The kind (`per_class`, `share`, `total`) and value of every training size."""
    yield from (("per_class", size) for size in options.per_class)
    yield from (("share", share) for share in options.shares)
    yield from (("total", size) for size in options.totals)


def _drawn(inputs: Inputs, kind: str, size: float, seed: int) -> Tensor:
    """Training rows of one draw; larger draws with the same seed include the smaller ones."""
    rows = inputs.learned
    if kind == "total":
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
        return rows[order[: int(size)].sort().values]
    rank, count = ranked_in_label(inputs.nodes[rows], seed)
    return rows[rank < (size if kind == "per_class" else (size * count).clamp_min(1))]


def noisy_labels(labels: Tensor, rate: float, seed: int) -> Tensor:
    """Redraw each label with probability `rate` from the N labels that occur.

    A label stays the same with probability 1 − r(N−1)/N and becomes each other label with probability r/N
    (Ghanooni et al., Section 8.1).

    Example:
        >>> import torch
        >>> noisy_labels(torch.tensor([3, 5, 9]), 0.0, 0).tolist()
        [3, 5, 9]
    """
    generator = torch.Generator().manual_seed(seed)
    classes = torch.unique(labels)
    anew = torch.rand(len(labels), generator=generator) < rate
    drawn = classes[torch.randint(len(classes), (len(labels),), generator=generator)]
    return torch.where(anew, drawn, labels)


def _predict(
    train: Tensor, labels: Tensor, test: Tensor, inputs: Inputs, options: FewSamplesOptions, seed: int
) -> Tensor:
    if options.probe == "logistic":
        return fit_probe(train, labels, inputs.settings).predict(test)
    if inputs.settings.standardize:
        train, test = standardized(train, test)
    return SGDProbe(seed=seed).fit(train, labels).predict(test)
