"""The options of `compare`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Annotated

from labeltree.options.schema import Option, Options, Place, RunPlace, argument, as_place
from labeltree.options.shared import ShownProgress

__all__ = ["CompareOptions", "name_runs"]


def name_runs(runs: Sequence[RunPlace]) -> dict[str, Place]:
    """Runs by name: the last part of the path, or the whole of it where others end likewise.

    Raises:
        ValueError: If one is given twice.
    """
    places = [as_place(run) for run in runs]
    last = Counter(map(_last_part, places))
    methods: dict[str, Place] = {}
    for place in places:
        name = _last_part(place) if last[_last_part(place)] == 1 else str(place)
        if name in methods:
            raise ValueError(f"'{place}' is named twice; a run is compared with other runs")
        methods[name] = place
    return methods


def _last_part(place: Place) -> str:
    path = Path(place)
    return path.stem if path.suffix in (".npz", ".parquet") else path.resolve().name


@dataclass(frozen=True)
class CompareOptions(Options):
    """What to compare, and how surely."""

    methods: Annotated[
        Mapping[str, RunPlace | Sequence[RunPlace]] | Sequence[RunPlace],
        argument(
            "runs, or a mapping of the name of each method to its run, or to its runs with different seeds; "
            "the first is the baseline"
        ),
    ]
    _: KW_ONLY
    baseline: Annotated[
        str | None, Option("the method that the others are compared with", metavar="NAME")
    ] = None
    taxonomy: Annotated[
        Place | None,
        Option(
            "of the labels of embeddings tables (default: the tree of their labels); runs on another one are "
            "evaluated on it first, RUN/on-FILE",
            metavar="FILE",
        ),
    ] = None
    mapping: Annotated[
        Mapping[Place, Place],
        Option(
            "with `taxonomy`: what became of a run's classes, from 'labeltree taxonomy map'; repeatable",
            "In Python maps runs, or names of methods, to files; for other runs, what is certain is used",
            metavar="RUN=FILE",
            repeat=True,
        ),
    ] = field(default_factory=dict)
    split: Annotated[str, Option("of embeddings tables")] = "test"
    metrics: Annotated[
        Sequence[str] | None,
        Option(
            "only these, such as answer_top1 recall_at_1, or knn.features.top1 of a protocol: fewer need "
            "less correction",
            metavar="METRIC",
        ),
    ] = None
    strata_metrics: Annotated[
        Sequence[str] | None,
        argument("metrics to compare by subtree, depth and class frequency; None = the usual ones"),
    ] = None
    min_samples: Annotated[
        int, argument("subtrees, depths and frequency bands with fewer samples are omitted")
    ] = 20
    confidence: Annotated[float, Option("of the intervals")] = 0.95
    resamples: Annotated[int, Option("of the bootstrap (default 2000)", least=0)] = 2000
    permutations: Annotated[int, Option("of the tests (default 10000)", least=1)] = 10_000
    seed: Annotated[int, Option("of both", least=0, most=2**32 - 1)] = 0
    out: Annotated[Place, Option("where to write (default ./comparison)", metavar="FOLDER")] = "comparison"
    report: Annotated[
        Place | None,
        Option("where the page goes (default comparison.html beside the others)", metavar="FILE"),
    ] = None
    gate: Annotated[
        Place | None,
        Option(
            "rules on what a new run may lose: 'labeltree compare NEW OLD --gate gate.yaml' ends with 1 "
            "unless all of them hold",
            "The verdicts are in the result; there are two methods, the second of which is the old one",
            metavar="FILE",
        ),
    ] = None
    title: Annotated[str | None, Option("of the page")] = None
    progress: ShownProgress = None

    def check(self) -> None:
        if not isinstance(self.methods, Mapping):
            object.__setattr__(self, "methods", name_runs(self.methods))
        if self.gate is not None and len(self.methods) != 2:
            raise self.refusal(
                f"`gate` is about a new run and an old one; there are {len(self.methods)} runs or methods"
            )
