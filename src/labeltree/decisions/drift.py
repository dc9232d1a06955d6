"""Whether a batch of new samples is like the held-out ones, on which coverage was calibrated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.data.held_out_sizes import FEWEST_FOR_DRIFT
from labeltree.decisions.conformal import count_groups, group_codes
from labeltree.decisions.novelty import FALSE_ALARMS, Reference
from labeltree.errors import DataError
from labeltree.geometry import Geometry
from labeltree.runs import EmbeddingTable

__all__ = ["NO_GROUPS", "Drift", "DriftRule", "Seen", "fit_drift"]

NO_GROUPS = (
    "the held-out samples are of groups (patients), and these samples do not say of which they are: name the "
    "column of groups in a table"
)
"""Why samples without groups cannot be compared with those of groups."""

_MOST = 1_000  # samples of a side whose embeddings are compared: the test takes memory for all pairs
_PERMUTATIONS = 499
_ROUNDING = 1e-3  # to which copies have one embedding, also in half precision

_WORDS = {
    "distance": ("they lie farther from the training samples", "they lie nearer to the training samples"),
    "certainty": ("the model is less sure of its answers", "the model is surer of its answers"),
    "embeddings": ("they lie elsewhere in the space of embeddings",) * 2,
}
_NOTHING = "no difference is found"


@dataclass(frozen=True)
class Seen:
    """What the tests read of n samples.

    Attributes:
        distance: (n,) distance to the nearest reference sample.
        certainty: (n,) the largest class probability.
        embeddings: (n, d) points; None: they are not compared.
        groups: (n,) groups of samples that belong together, -1 for a sample that is a group of its own; or
            None.
        only_copies: Whether all groups are of copies of one sample, so that none is that of a patient.
    """

    distance: Tensor
    certainty: Tensor
    embeddings: Tensor | None
    groups: Tensor | None = None
    only_copies: bool = False

    def __len__(self) -> int:
        return len(self.distance)


@dataclass(frozen=True)
class Drift:
    """The outcome of the tests of one batch.

    Attributes:
        p_values: The p-value of each test by name: `distance`, `certainty`, `embeddings`.
        directions: How the batch would differ, in words, by name, whether or not that is more than chance.
        count: The number of samples or groups of the batch.
        unit: What was counted: `samples` or `groups`.
        held: The number of those that they were compared with.
    """

    p_values: Mapping[str, float]
    directions: Mapping[str, str]
    count: int
    unit: str
    held: int

    @property
    def p_value(self) -> float:
        """The smallest p-value times the number of tests (Bonferroni), at most 1."""
        return min(1.0, len(self.p_values) * min(self.p_values.values()))

    @property
    def differences(self) -> dict[str, str]:
        """How the batch differs, in words, by test: no difference where the test finds none.

        A test finds one if its p-value times the number of tests is at most 5 %, as that of an alarm.
        """
        significant = {name: len(self.p_values) * p <= FALSE_ALARMS for name, p in self.p_values.items()}
        return {name: words if significant[name] else _NOTHING for name, words in self.directions.items()}

    def alarms(self, false_alarms: float = FALSE_ALARMS) -> bool:
        """Whether the batch differs, if at most this share of batches that do not differ may be said to."""
        return self.p_value <= false_alarms

    def sentence(self) -> str:
        """What was found, in words, for a user: how the batch differs, or that it raises no alarm."""
        smallest = min(self.p_values, key=lambda name: self.p_values[name])
        chance = "p < 0.001" if self.p_value < 0.001 else f"p = {self.p_value:.3f}"
        if not self.alarms():
            return (
                f"no difference is found between these {self.count} {self.unit} and the {self.held} held-out "
                f"{self.unit} that coverage was calibrated on ({chance})"
            )
        return (
            f"these {self.count} {self.unit} are not like the held-out samples that coverage was "
            f"calibrated on ({chance}; {self.directions[smallest]}), so coverage may fall short: "
            "check some answers, and calibrate on labelled samples of this source with 'labeltree "
            "calibrate RUN --data DATA'"
        )


@dataclass(frozen=True)
class DriftRule:
    """Held-out samples, with which batches are compared.

    Attributes:
        held: What the tests read of the held-out samples; `groups` are those of patients and the like, None
            if the only groups were of copies, of which one is left.
        reference: The samples that distances are measured to.
        seed: Of the draws.
    """

    held: Seen
    reference: Reference
    seed: int = 0

    def seen(self, table: EmbeddingTable, probabilities: Tensor) -> Seen:
        """What the tests read of samples.

        Args:
            table: n samples of the same encoder.
            probabilities: (n, C) their class probabilities.
        """
        return _see(table, probabilities, self.reference)

    def cannot_test(self, batch: Seen) -> str:
        """Why a batch cannot be compared; empty if it can.

        If the held-out samples have groups (patients) and the batch tells none, its samples may all be of
        a few patients, who differ from others without any drift.
        """
        if self.held.groups is not None and (batch.groups is None or batch.only_copies):
            return NO_GROUPS
        sizes = [count_groups(each.groups, len(each)) for each in (batch, self.held)]
        if min(sizes) < FEWEST_FOR_DRIFT:
            which = "samples" if sizes[0] < FEWEST_FOR_DRIFT else "held-out samples"
            return f"{min(sizes)} {which} (or groups of them) are too few; a test takes {FEWEST_FOR_DRIFT}"
        return ""

    def test(self, batch: Seen) -> Drift | None:
        """Compare a batch with the held-out samples; None if it cannot be told, see `cannot_test`.

        Distance and certainty are compared by the two-sample test of Kolmogorov and Smirnov, embeddings by
        the energy distance (Székely & Rizzo 2004) with 499 permutations. Of every group one sample is drawn,
        since samples of one group are not independent, and groups may be larger here than there.
        """
        from scipy.stats import ks_2samp

        if self.cannot_test(batch):
            return None
        grouped = self.held.groups is not None or _differ_within_groups(batch)
        new, held = (_one_of_each(each, self.seed) for each in (batch, self.held))
        p_values, directions = {}, {}
        for name in ("distance", "certainty"):
            ours, theirs = getattr(new, name).numpy(), getattr(held, name).numpy()
            p_values[name] = float(ks_2samp(ours, theirs).pvalue)
            more = (ours.mean() > theirs.mean()) == (name == "distance")
            directions[name] = _WORDS[name][0 if more else 1]
        if new.embeddings is not None and held.embeddings is not None:
            draw = torch.Generator().manual_seed(self.seed)
            points = [
                each[torch.randperm(len(each), generator=draw)[:_MOST]]
                for each in (new.embeddings, held.embeddings)
            ]
            p_values["embeddings"] = _permutation_p(points[0], points[1], self.reference.space, draw)
            directions["embeddings"] = _WORDS["embeddings"][0]
        return Drift(p_values, directions, len(new), "groups" if grouped else "samples", len(held))


def fit_drift(
    reference: EmbeddingTable,
    held: EmbeddingTable,
    probabilities: Tensor,
    *,
    named_groups: bool = False,
    seed: int = 0,
) -> DriftRule:
    """Read the held-out samples that batches will be compared with.

    Copies of one sample, such as equal files, are groups, too, but no patients: if there are no others, one
    sample of each counts, and batches need not say of which group they are.

    Args:
        reference: Labelled samples, such as those of training.
        held: n samples that the encoder was not trained on, from the source that coverage was calibrated on.
        probabilities: (n, C) their class probabilities.
        named_groups: Whether the groups are those of a column that was named, and so no mere copies.
        seed: Of the draws.

    Raises:
        DataError: If one of the tables is empty.
    """
    known = Reference.of(reference)
    if not len(known) or not len(held):
        raise DataError("there are no samples to compare batches with")
    seen = _see(held, probabilities, known)
    if not (named_groups or _differ_within_groups(reference) or _differ_within_groups(held)):
        seen = _one_of_each(seen, seed)
    return DriftRule(seen, known, seed)


def _see(table: EmbeddingTable, probabilities: Tensor, reference: Reference) -> Seen:
    parts = [reference.distances(points).amin(1) for points in torch.split(table.embeddings, 256)]
    distance = torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64)
    certainty = probabilities.double().amax(1) if len(table) else distance
    return Seen(distance, certainty, table.embeddings.double(), table.groups, not table.tells_groups)


def _differ_within_groups(each: Seen | EmbeddingTable) -> bool:
    """Whether some group has samples of different embeddings; copies have one, up to rounding."""
    if each.groups is None or each.embeddings is None:
        return False
    there = each.groups >= 0
    _, codes = each.groups[there].unique(return_inverse=True)  # type: ignore[no-untyped-call]
    points = each.embeddings[there].double()
    if not len(points):
        return False
    first = torch.zeros_like(points)
    first[codes] = points  # one of each group
    return not torch.allclose(points, first[codes], rtol=0, atol=_ROUNDING * float(points.abs().max()))


def _one_of_each(seen: Seen, seed: int) -> Seen:
    """One sample of every group, drawn at random; all samples if there are no groups."""
    if seen.groups is None or not len(seen):
        return seen
    order = torch.randperm(len(seen), generator=torch.Generator().manual_seed(seed))
    codes = group_codes(seen.groups, len(seen))[order]
    first = torch.full((int(codes.max()) + 1,), len(seen))
    first.scatter_reduce_(0, codes, torch.arange(len(seen)), "amin")
    rows = order[first[first < len(seen)]].sort().values
    points = None if seen.embeddings is None else seen.embeddings[rows]
    return Seen(seen.distance[rows], seen.certainty[rows], points)


def _permutation_p(first: Tensor, second: Tensor, space: Geometry, draw: torch.Generator) -> float:
    """The permutation p-value of the energy distance of two samples of points."""
    points = torch.cat([first, second])
    count, n = len(points), len(first)
    distances = space.pairwise_distance(points, points)
    marks = torch.zeros(count, 1 + _PERMUTATIONS, dtype=torch.float64)
    marks[:n, 0] = 1
    for column in range(1, 1 + _PERMUTATIONS):
        marks[torch.randperm(count, generator=draw)[:n], column] = 1
    within = (marks * (distances @ marks)).sum(0)
    all_pairs, ours = distances.sum(), (distances.sum(1)[:, None] * marks).sum(0)
    between = ours - within
    theirs = all_pairs - within - 2 * between
    m = count - n
    energy = 2 * between / (n * m) - within / n**2 - theirs / m**2
    # a permutation that gives the same partition ties with the first one up to rounding
    as_far = energy[1:] >= energy[0] - 1e-9 * energy.abs().max()
    return (1 + int(as_far.sum())) / (1 + _PERMUTATIONS)
