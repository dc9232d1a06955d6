"""Approximate search: which parameters find the nearest rows often enough, measured on rows of the index.

LanceDB's default parameters are not enough: of the ten nearest they found 46 % among 100,000 vectors and 17 %
among a million. So an index is tuned when it is built: some of its rows are searched for, exactly and with
more and more effort, until nine and a half of ten neighbours are found. What was chosen and measured is
stored with the index.

The index is `IVF_RQ`: vectors are sorted into partitions, of which a query looks into some, and are compared
by a code of one bit a dimension; the best candidates are then compared in full. Why this kind: "Search" in
docs/performance.md. Its codes need a multiple of eight dimensions and fail for the inner products of
hyperbolic points, whose lengths differ widely; `IVF_FLAT`, which keeps the vectors themselves, serves there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol, runtime_checkable

import numpy as np

from labeltree.index.distances import distances, lorentz_queries
from labeltree.index.exact import ExactMatrix
from labeltree.index.store import IndexSettings

__all__ = ["Tunable", "Tuning", "approximate_pays", "exact_up_to", "measure_tuning", "rank_candidates"]

Array = np.ndarray[Any, Any]

EXACT_UP_TO = 50_000_000
"""Numbers (rows × dimensions) up to which search is exact: 200,000 rows of 256. At half of that an
approximate query took 6 to 15 CPU ms and an exact one 13 to 14 (`python benchmarks/index.py --short`): little
gain, and what is exact needs no tuning and misses nothing."""
TARGET = 0.95
GROWTH = 1.1
"""The index is tuned again when it has this many times the rows of the last tuning."""
NEIGHBOURS = 10
NUM_QUERIES = 300
CANDIDATES = (10, 20, 50, 100, 200, 400, 800, 1600)
_Z = 1.645  # of a one-sided interval of 95 %
_BATCH = 50
_MARGIN = 0.05  # probes with which a batch finds less than this below the target are not measured further


@runtime_checkable
class Tunable(Protocol):
    """A store with an approximate index that can be tuned."""

    @property
    def settings(self) -> IndexSettings:
        """Those of the index."""

    def build_approximate(self, kind: str, partitions: int) -> None:
        """Make the approximate index, or make it anew."""

    def candidates(self, queries: Array, count: int, probes: int | None) -> list[Array]:
        """Numbers of about `count` nearest rows of each query, nearest first."""

    def approximate_rows(self) -> tuple[int, int]:
        """How many rows the approximate index holds, and how many came after it."""


@dataclass(frozen=True)
class Tuning:
    """Parameters of an approximate index, and what they were measured to find.

    Attributes:
        kind: `IVF_RQ` or `IVF_FLAT`.
        partitions: Into how many parts the rows are sorted.
        probes: In how many of them a query looks.
        candidates: How many rows are compared in full for ten neighbours.
        recall: Share of the ten nearest rows that is found, the mean over queries.
        recall_low: The lower end of its interval of 95 % (one-sided), which reached the target.
        queries: Number of held-out queries.
        rows: Number of rows when it was measured.
        reached: Whether the target was reached; if not, search stays exact unless asked otherwise.
    """

    kind: str
    partitions: int
    probes: int
    candidates: int
    recall: float
    recall_low: float
    queries: int
    rows: int
    reached: bool = True

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Tuning | None:
        """The tuning in `IndexSettings.approximate`; None if there is none."""
        names = {field.name for field in fields(cls)}
        settings = {name: value for name, value in stored.items() if name in names}
        return cls(**settings) if {"kind", "partitions", "probes", "candidates"} <= set(settings) else None

    def to_dict(self) -> dict[str, Any]:
        """For `IndexSettings.approximate`."""
        return asdict(self)

    def outgrown(self, rows: int) -> bool:
        """Whether the index has a tenth more, or fewer, rows than when it was tuned."""
        return not self.rows / GROWTH <= rows <= self.rows * GROWTH

    def effort(self, k: int) -> tuple[int, int]:
        """Candidates and probes of a query for k rows."""
        candidates = math.ceil(self.candidates * max(1.0, k / NEIGHBOURS))
        return max(k, candidates), self.probes


def exact_up_to(dim: int) -> int:
    """The number of rows up to which search is exact unless asked otherwise."""
    return EXACT_UP_TO // dim


def approximate_pays(rows: int, dim: int) -> bool:
    """Whether this many rows are searched approximately by default."""
    return rows * dim > EXACT_UP_TO


def _kind(settings: IndexSettings) -> str:
    """The kind of approximate index that suits the vectors of an index."""
    return "IVF_RQ" if settings.metric != "dot" and settings.dim % 8 == 0 else "IVF_FLAT"


def _num_partitions(rows: int) -> int:
    """Twice the square root of the number of rows: at a million, 500 rows in each."""
    return max(1, min(rows // 8, 2 * math.isqrt(rows)))


def rank_candidates(
    matrix: ExactMatrix, settings: IndexSettings, query: Array, rows: Array
) -> tuple[Array, Array]:
    """Positions and exact distances of candidates, nearest first, ties in the order of rows.

    Args:
        matrix: All vectors.
        settings: Of the index.
        query: `(d,)`.
        rows: Numbers of rows `(m,)`.
    """
    positions = np.searchsorted(matrix.rows, np.sort(rows))
    values = distances(settings.geometry, query, matrix.vectors[positions], settings.curvature)
    order = np.lexsort((positions, values))
    return positions[order], values[order]


def measure_tuning(
    store: Tunable,
    matrix: ExactMatrix,
    *,
    num_queries: int = NUM_QUERIES,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Tuning:
    """Build the approximate index of a store and find the least effort that reaches the target.

    Random rows are the queries, each searched for without itself. Probes double until some number of
    candidates suffices: the lower end of the interval of the recall must reach 0.95. A row that is as near as
    the tenth counts as found, so that ties and duplicates do not matter.

    Args:
        store: Whose index is built.
        matrix: Its vectors.
        num_queries: How many rows to search for.
        seed: Of their choice.
        progress: Called with a line about each step.
    """
    settings, n = store.settings, len(matrix)
    kind, partitions = _kind(settings), _num_partitions(n)
    store.build_approximate(kind, partitions)
    places = np.random.default_rng(seed).choice(n, min(num_queries, n), replace=False)
    queries = np.asarray(matrix.vectors[places], np.float32)
    exact = matrix.nearest(settings.geometry, queries, NEIGHBOURS + 1, curvature=settings.curvature)
    limits = [
        values[positions != place][:NEIGHBOURS]
        for (positions, values), place in zip(exact, places, strict=True)
    ]
    asked = lorentz_queries(queries, settings.curvature) if settings.metric == "dot" else queries

    def recalls(probes: int, few: int) -> Array:
        recall = np.zeros((few, len(CANDIDATES)))
        for at in range(0, few, _BATCH):
            several = store.candidates(asked[at : min(at + _BATCH, few)], CANDIDATES[-1] + 1, probes)
            for row, rows in enumerate(several, at):
                recall[row] = _found(matrix, settings, queries[row], rows, int(places[row]), limits[row])
        return recall

    best: Tuning | None = None
    for probes in _doubled(max(1, partitions // 256), partitions):
        last = probes == partitions
        if not last and recalls(probes, min(_BATCH, len(places))).mean(0).max() < TARGET - _MARGIN:
            continue
        recall = recalls(probes, len(places))
        for column, count in enumerate(CANDIDATES):
            mean, low = _interval(recall[:, column])
            tuning = Tuning(kind, partitions, probes, count, mean, low, len(places), n, low >= TARGET)
            if best is None or tuning.reached or tuning.recall_low > best.recall_low:
                best = tuning
            if tuning.reached:
                break
        assert best is not None
        if progress is not None:
            progress(f"{probes} of {partitions} partitions: recall@{NEIGHBOURS} {best.recall:.3f}")
        if best.reached:
            break
    assert best is not None
    return best


def _found(
    matrix: ExactMatrix, settings: IndexSettings, query: Array, rows: Array, place: int, nearest: Array
) -> Array:
    """The share of the nearest that is among the first candidates, for each of `CANDIDATES`."""
    if not len(nearest):
        return np.ones(len(CANDIDATES))
    positions = np.searchsorted(matrix.rows, rows)
    values = distances(settings.geometry, query, matrix.vectors[positions], settings.curvature)
    near = (values <= nearest[-1]) & (positions != place)
    counts = [min(int(near[: count + 1].sum()), len(nearest)) for count in CANDIDATES]
    return np.asarray(counts) / len(nearest)


def _interval(recalls: Array) -> tuple[float, float]:
    """The mean, and the lower end of its one-sided interval of 95 %.

    For the lower end a query that found nothing is added, so that a few without a miss are no certainty.
    """
    cautious = np.append(recalls, 0.0)
    error = float(cautious.std()) / math.sqrt(len(cautious))
    return float(recalls.mean()), float(cautious.mean()) - _Z * error


def _doubled(first: int, last: int) -> list[int]:
    sizes = [first]
    while sizes[-1] < last:
        sizes.append(min(2 * sizes[-1], last))
    return sizes
