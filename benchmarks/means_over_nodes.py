"""Means over nodes whose nodes have few cases: do their intervals hold the true mean, and how wide are they?

    python benchmarks/means_over_nodes.py [--short]

Samples of classes with the given numbers of cases are answered by noisy scores: the score of the right class
is larger by *skill*, or by that of each class. *Each*: samples that a case, such as a patient, has. Written
down, from 1,000 repetitions, are how often the 95 % interval holds the mean that is expected at these numbers
of cases, and its median width over that of the true sampling distribution; beside it, how often that of the
jackknife alone does. A cell fails if a binomial test against a coverage of 0.93 rejects at 0.05 divided by
the number of cells.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binom

from harness import Results, Row, Size, Table, choose, main
from labeltree.evaluation.reported_nodes import NodeIntervals, ReportedNodes, counted_nodes, node_result
from labeltree.evaluation.sample_columns import ResamplingUnits
from labeltree.evaluation.statistics import Resampling
from labeltree.evaluation.statistics.jackknife import block_counts
from labeltree.evaluation.statistics.means_over_nodes import MeanOverNodes
from labeltree.metrics.functional import node_decision_metrics, node_ranking_metrics
from labeltree.metrics.functional.node_resampling import RATES, decided_nodes
from labeltree.taxonomy import Taxonomy

Floats = NDArray[np.float64]
LEAST = 0.93
NUMBERS = (*RATES, "auroc", "average_precision")


class World(NamedTuple):
    """Numbers of cases and skill of each class, samples of each case, and whether classes have parents."""

    cases: tuple[int, ...]
    skill: tuple[float, ...]
    each: int = 1
    tree: bool = False

    @property
    def taxonomy(self) -> Taxonomy:
        """A class for each number of cases."""
        names = [f"class {number:02}" for number in range(len(self.cases))]
        return Taxonomy.from_paths(
            [(f"parent {n // 2:02}", name) for n, name in enumerate(names)] if self.tree else names
        )


class OfJackknife(MeanOverNodes):
    """A mean of which only the blocks are known."""

    def add(self, value: Floats, left: Floats, shares: object) -> None:
        """Add the metric of some nodes."""
        super().add(value, left, ())


class JackknifeAlone(NodeIntervals):
    """The intervals without what the jackknife cannot see."""

    def _means(self) -> list[MeanOverNodes]:
        blocks = block_counts(self.units.count).shape[1]
        return [OfJackknife(self.units.count, blocks) for _ in range(self.taxonomy.max_depth + 1)]


def several(cases: tuple[int, ...], skill: float, tree: bool = False, each: int = 1) -> World:
    """A world whose classes are equally hard."""
    return World(cases, (skill,) * len(cases), each, tree)


FEW, MIXED = (8, 2, 3, 3), (4.0, 4.0, 0.0, 0.0)
WORLDS = [
    *(several(FEW, skill) for skill in (1.0, 2.0, 4.0)),
    World(FEW, MIXED),
    World((3, 3, 3, 3), MIXED),
    *(several((2, 3, 4, 5, 6, 7, 8, 2, 3, 4), skill, tree) for skill in (2.0, 4.0) for tree in (False, True)),
    *(several((2,) * 40, skill) for skill in (2.0, 4.0)),
    several((1, 2, 3, 2) * 10, 2.0),
    *(several((20,) * 4 + (2,) * 4, skill, tree) for skill in (2.0, 4.0) for tree in (False, True)),
    several((4, 40), 1.0),
    several((20,) * 4, 2.0),
    *(several(cases, 2.0, each=5) for cases in (FEW, (20,) * 4 + (2,) * 4)),
]


def repetition(world: World, seed: int) -> Floats:
    """`(7, 5)` value, ends, and ends by the jackknife alone, of each number."""
    rng = np.random.default_rng([seed, *world.cases])
    taxonomy, classes = world.taxonomy, len(world.cases)
    of_case = np.repeat(np.arange(classes), world.cases)
    group = np.repeat(np.arange(len(of_case)), world.each)
    label = of_case[group]
    shared = rng.normal(size=(len(of_case), classes))[group] if world.each > 1 else 0.0
    scores = rng.normal(size=(len(group), classes)) + shared
    scores[np.arange(len(group)), label] += np.array(world.skill)[label]
    nodes = taxonomy.leaves
    target, p = nodes[torch.from_numpy(label)], torch.softmax(torch.from_numpy(scores), 1)
    answers = nodes[p.argmax(1)]
    units = ResamplingUnits(Resampling(1), group)
    rates = node_decision_metrics(answers, target, taxonomy)
    values = {name: rates[name] for name in RATES}
    values |= node_ranking_metrics(p, target, taxonomy, classes=nodes)
    reported = ReportedNodes.of(rates, taxonomy)
    counted = counted_nodes(values, reported)
    found = []
    for kind in (NodeIntervals, JackknifeAlone):
        result = node_result(values, reported)
        intervals = kind(result, units, taxonomy)
        said = decided_nodes(answers, target, taxonomy, units.groups, units.count)
        intervals.add_rates("", said, {name: counted[name] for name in RATES})
        intervals.add_ranking(p, target, nodes, {name: counted[name] for name in NUMBERS[len(RATES) :]})
        found.append([result.intervals.get(name, (np.nan, np.nan)) for name in NUMBERS])
    value = [[result.scores[name]] for name in NUMBERS]
    return np.concatenate([value, *found], axis=1)


def rows(world: World, repetitions: int) -> tuple[list[Row], list[tuple[int, int]]]:
    """The rows of a world, and of each how often its interval held the truth, and of how many."""
    drawn = np.stack([repetition(world, seed) for seed in range(repetitions)])
    found, held = list[Row](), list[tuple[int, int]]()
    sizes = ", ".join(f"{count} of {size}" for size, count in Counter(world.cases).items())
    skill = " and ".join(f"{each:g}" for each in dict.fromkeys(world.skill))
    for number, name in enumerate(NUMBERS):
        value, low, high, of_jackknife, upper = drawn[:, number].T
        truth, spread = value.mean(), 2 * 1.96 * value.std()
        known = ~np.isnan(low)
        holds = int(((low <= truth) & (truth <= high))[known].sum())
        held.append((holds, int(known.sum())))
        alone = ((of_jackknife <= truth) & (truth <= upper)).mean()
        width = float(np.median((high - low)[known]) / spread) if spread else float("nan")
        found.append(
            [
                sizes,
                skill,
                world.each,
                "yes" if world.tree else "no",
                name,
                truth,
                holds / max(int(known.sum()), 1),
                width,
                float(alone),
                float(1 - known.mean()),
            ]
        )
    return found, held


def measure(size: Size) -> Results:
    """A row for each number of each world."""
    repetitions = choose(size, full=1000, short=30, tiny=4)
    worlds = choose(size, full=WORLDS, short=WORLDS, tiny=WORLDS[:2])
    parts = [rows(world, repetitions) for world in worlds]
    held = [each for _, of in parts for each in of]
    doubtful = sum(binom.cdf(h, n, LEAST) < 0.05 / len(held) for h, n in held)
    columns = (
        "cases",
        "skill",
        "samples of each",
        "tree",
        "mean over nodes of",
        "expected",
        "held",
        "width",
        "held by the jackknife",
        "without interval",
    )
    table = Table("Means over nodes, 95 %", columns, [row for of, _ in parts for row in of])
    least = min(h / max(n, 1) for h, n in held)
    note = f"{doubtful} of {len(held)} cells fail; the least coverage is {least:.3f}. {repetitions:,} draws."
    return Results([table], {}, [note])


if __name__ == "__main__":
    main(__doc__, measure)
