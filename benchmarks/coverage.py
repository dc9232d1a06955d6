"""Intervals and tests of `evaluate` and `compare`: do they hold, how wide are they, do equals differ?

    python benchmarks/coverage.py [--repetitions 300] [--seconds 1200] [--processes 2] [--raw FILE.npz]

In every repetition test samples are drawn from one world, embedded with noise by three encoders, and
evaluated and compared by labeltree. What a number would be on average, at this number of samples and with
this encoder and these training samples, is its mean over all repetitions: an interval of 95 % should hold it
in 95 % of them, and be as wide as the true spread asks for; p should be 0.05 or less in 5 % of the
comparisons of two encoders with equal noise. Power is the share of p ≤ 0.05 against an encoder with more
noise. *Queries* are the same figures with queries resampled as if each were no result of the others.

The worlds have 18 classes in a tree of three depths. *tail*: classes as frequent as 1/rank; *apart*: classes
so far apart that nearly all is right; *groups*: samples in fives of one class, each five with a shift of its
own; *donors*: few groups of many samples of all classes, with such shifts. Every
fourth repetition is compared; larger worlds are drawn less often, as the tables say. With
--raw FILE the figures of all repetitions are kept, to four decimals or more, and a later call goes on from
there, on any machine: results/coverage.npz holds those of the committed table.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import binom

from labeltree.atomic import atomic_write
from labeltree.evaluation import EvaluationSettings, compare, evaluate
from labeltree.evaluation.comparing.comparison import Comparison, MetricComparison
from labeltree.evaluation.outcomes import Outcomes
from labeltree.evaluation.result import MethodResult
from labeltree.evaluation.statistics import Bootstrap, GroupSums, sign_flip_test
from labeltree.evaluation.statistics.means_over_nodes import largest_unseen
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

SEARCHED = ("recall_at_1", "map_at_r", "mean_average_precision", "ahp", "h_ap", "ndcg", "asi")
MEASURED = (
    *SEARCHED,
    *("ap_at_depth_1", "cpcc", "pair_violations", "parent_violations"),
    *("top1", "hierarchical_f1", "mistake_severity", "accuracy_at_depth_1"),
)
NODES = ("auroc", "average_precision", "decision_sensitivity", "point_specificity")  # means over the nodes
TREE = Taxonomy.from_paths([(a, a + b, a + b + c) for a in "abc" for b in "uv" for c in "xyz"])
BRANCH = "recall_at_1 of branch a"
ROWS = (*MEASURED, BRANCH, *(f"{name} of nodes" for name in NODES))
OUT = Path(__file__).parent / "results"
CONFIDENCE = 0.95
SHARES = ("recall_at_1", "top1", "hierarchical_f1", "accuracy_at_depth_1", BRANCH)  # means from 0 to 1
FAILING = tuple(f"{name} of nodes" for name in NODES)
WIDEST = 1.6  # times the width of the true spread
_DIM, _NOISE, _MORE = 6, 0.5, 0.65
_KEPT_EVERY = 300  # repetitions
_COMPARED_EVERY = 4  # repetitions: to compare costs three times as much as to evaluate
_FIGURES, _UNKNOWN = 9, -(2**31)  # of a number in a repetition, as they are kept
_CHANCES = [3, 4, 7, 8]  # those that are p
_KNOWN = 270  # samples that classifiers learn from and are set by


@dataclass(frozen=True)
class World:
    """What test samples are drawn from."""

    name: str
    samples: int
    tail: bool = False
    apart: float = 1.0
    group: int = 1
    mixed: bool = False  # the samples of a group are of all classes
    dear: int = 1  # one repetition of it for so many of the others

    @property
    def title(self) -> str:
        return f"{self.name} {self.samples}"

    @property
    def unit(self) -> float:
        """What figures are rounded to where they are kept: far below what a repetition varies by."""
        return 1e-6 if self.samples > 1000 else 1e-4

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Points, classes, and groups of test samples."""
        centres = self.centres()
        shares = 1 / np.arange(1, len(centres) + 1) if self.tail else np.ones(len(centres))
        items = self.samples // self.group
        drawn = self.samples if self.mixed else items
        of = np.repeat(rng.choice(len(centres), drawn, p=shares / shares.sum()), self.samples // drawn)
        points = centres[of] + rng.normal(size=(len(of), _DIM))
        if self.group == 1:
            return points, of, None
        points += np.repeat(0.7 * rng.normal(size=(items, _DIM)), self.group, axis=0)
        return points, of, np.repeat(np.arange(items), self.group)

    def centres(self) -> np.ndarray:
        """The mean of every class."""
        rng = np.random.default_rng(7)
        above = {}
        rows = []
        for node in TREE.leaves.tolist():
            path = TREE.path(node)
            place = np.zeros(_DIM)
            for depth, scale in enumerate((1.4, 1.0, 0.8)):
                key = path[: depth + 1]
                if key not in above:
                    above[key] = scale * rng.normal(size=_DIM)
                place = place + above[key]
            rows.append(self.apart * place)
        return np.array(rows)


WORLDS = (
    World("plain", 50),
    World("plain", 150, dear=4),
    World("plain", 500, dear=16),
    World("plain", 5000, dear=80),
    World("tail", 50, tail=True),
    World("tail", 150, tail=True, dear=4),
    World("apart", 50, apart=4.0),
    World("apart", 150, apart=4.0, dear=4),
    World("groups", 30, group=5),
    World("groups", 100, group=5, dear=4),
    World("groups", 300, group=5, dear=16),
    World("groups", 500, group=5, dear=16),
    World("donors", 100, group=10, mixed=True, dear=4),
    World("donors", 280, group=40, mixed=True, dear=16),
)


def _table(
    world: World,
    points: np.ndarray,
    of: np.ndarray,
    groups: np.ndarray | None,
    noise: float,
    rng: np.random.Generator,
) -> EmbeddingTable:
    """Embeddings of the points, and of the same training and validation samples every time."""
    fixed = np.random.default_rng(11)
    known = np.arange(_KNOWN) % TREE.num_leaves
    learnt = world.centres()[known] + fixed.normal(size=(_KNOWN, _DIM))
    learnt += noise * fixed.normal(size=learnt.shape)
    return EmbeddingTable(
        torch.from_numpy(np.concatenate([points + noise * rng.normal(size=points.shape), learnt])).float(),
        TREE.leaves[torch.from_numpy(np.concatenate([of, known]))],
        split=np.array(["test"] * len(points) + ["train"] * (_KNOWN * 2 // 3) + ["val"] * (_KNOWN // 3)),
        groups=None if groups is None else torch.from_numpy(np.concatenate([groups, np.full(_KNOWN, -1)])),
    )


def repetition(world: World, seed: int) -> dict[str, list[float]]:
    """Value, ends and p-values of every number for one draw of test samples."""
    rng = np.random.default_rng((WORLDS.index(world), seed))
    points, of, groups = world.draw(rng)
    settings = EvaluationSettings(
        resamples=500,
        leave_group_out="never",
        seed=seed,
        protocols=("node-scores",),
        options={"node-scores": {"roles": ["embeddings"]}},
        classifier="probe",
    )
    noises = (
        {"one": _NOISE, "other": _NOISE, "worse": _MORE} if seed % _COMPARED_EVERY == 0 else {"one": _NOISE}
    )
    results = {
        name: evaluate(
            _table(world, points, of, groups, noise, rng),
            TREE,
            name=name,
            settings=settings if name == "one" else replace(settings, resamples=1),  # only outcomes are used
        )
        for name, noise in noises.items()
    }
    main = results["one"].main
    if len(results) == 1:
        return _row(main)
    outcomes = {name: result.outcomes[name] for name, result in results.items()}
    found = compare(
        outcomes,
        baseline="one",
        metrics=[f"embeddings.{name}" for name in MEASURED]
        + [f"node-scores.embeddings.{name}" for name in NODES[:2]],
        strata_metrics=["recall_at_1"],
        min_samples=10,
        resamples=500,
        permutations=1000,
        seed=seed,
    )
    row = _row(main, found, outcomes, seed)
    for part in found.strata:
        if part.name == "a":
            mine = part.estimates["one"]
            row[BRANCH] = [mine.value, mine.low, mine.high, *_tests(part), *[np.nan] * 4]
    return row


def _row(
    main: MethodResult,
    found: Comparison | None = None,
    outcomes: dict[str, Outcomes] | None = None,
    seed: int = 0,
) -> dict[str, list[float]]:
    """Value, ends and p-values of the numbers of one evaluation; NaN where nothing is compared with it."""
    row: dict[str, list[float]] = {}
    unknown = [np.nan] * 2
    for name in MEASURED:
        depth = name.startswith("accuracy_at_depth_")
        ends = main.depth_intervals["probe"][0] if depth else main.interval(name)
        value = main.by_depth["probe"][0] if depth else main.score(name)
        tests = unknown if found is None else _tests(found.metric(name, "embeddings"))
        before = (
            unknown * 2 if outcomes is None or name not in SEARCHED else _by_queries(outcomes, name, seed)
        )
        row[name] = [value, *(ends or unknown), *tests, *before]
    for name in NODES:
        key, of_nodes = f"embeddings.{name}", main.protocols["node-scores"]
        tests = unknown
        if found is not None and name in NODES[:2]:  # their outcomes are kept
            tests = _tests(found.metric(f"embeddings.{name}", "node-scores"))
        row[f"{name} of nodes"] = [
            of_nodes.scores[key],
            *of_nodes.intervals.get(key, unknown),
            *tests,
            *unknown * 2,
        ]
    return row


def _tests(entry: MetricComparison) -> list[float]:
    found = entry.differences
    return [found[name].p if name in found else np.nan for name in ("other", "worse")]


def _by_queries(outcomes: dict[str, Outcomes], name: str, seed: int) -> list[float]:
    """Interval and p-values with queries resampled as if they were no results."""
    key = ("embeddings", name)
    sums = {
        other: GroupSums.of(
            np.stack([outcomes["one"].values[key], outcomes[other].values[key]], axis=1)[:, :, None],
            outcomes["one"].groups,
        )
        for other in ("other", "worse")
    }
    ends = Bootstrap(sums["other"].runs([0]), resamples=500, seed=seed).interval(confidence=CONFIDENCE)
    tests = [float(sign_flip_test(each, permutations=1000, seed=seed)[0]) for each in sums.values()]
    return [float(ends.low[0]), float(ends.high[0]), *tests]


def _one(task: tuple[World, int]) -> tuple[World, dict[str, list[float]]]:
    torch.set_num_threads(1)
    return task[0], repetition(*task)


@dataclass(frozen=True)
class Cell:
    """The repetitions of one number in one world: rows of its value, ends, p-values, and those by queries."""

    world: World
    name: str
    rows: np.ndarray

    @property
    def true(self) -> float:
        return float(np.nanmean(self.rows[:, 0]))

    @property
    def spread(self) -> float:
        return float(np.nanstd(self.rows[:, 0], ddof=1))

    def held(self, low: int = 1) -> np.ndarray:
        """Whether each interval, whose lower end is column `low`, holds the true value."""
        known = self.rows[~np.isnan(self.rows[:, low])]
        return np.asarray((known[:, low] <= self.true) & (self.true <= known[:, low + 1]))

    def width(self, low: int = 1) -> float:
        """The median width, beside that of the true spread."""
        return self._beside(np.nanmedian(self.rows[:, low + 1] - self.rows[:, low]))

    @property
    def least_width(self) -> float:
        """What no valid interval can be narrower than, likewise; 0 unless most draws have only right samples.

        Of n right ones of n, an interval that holds each p in 95 % of the draws holds all p with pⁿ > .05. A
        sample may fail in all its nodes at once, or (specificity) be found in all nodes of another path.
        """
        if np.nanmedian(self.rows[:, 0]) < 1 - 1e-12:
            return 0.0
        if self.name in FAILING:
            return self._beside(unseen_of_nodes(self.world, "specificity" in self.name))
        units = self.world.samples / self.world.group * (1 / 3 if self.name == BRANCH else 1)  # of 3 branches
        return self._beside((1 - 0.05 ** (1 / units)) * (self.name in SHARES))

    def alarms(self, column: int) -> np.ndarray:
        """Whether each p-value of a column is at most .05."""
        return np.asarray(self.rows[~np.isnan(self.rows[:, column]), column] <= 0.05)

    def _beside(self, width: float) -> float:
        return float(width) / (2 * 1.96 * self.spread) if self.spread else float("nan")


@cache
def unseen_of_nodes(world: World, elsewhere: bool) -> float:
    """How far a mean over the nodes may be below 1 if 5 % of draws are all right, in the median draw."""
    found = []
    for seed in range(200):
        _, of, _ = world.draw(np.random.default_rng((WORLDS.index(world), seed)))
        lines = TREE.ancestors[TREE.leaves[torch.from_numpy(of)], 1:].numpy()
        counts, nodes = np.bincount(lines.reshape(-1), minlength=TREE.num_nodes), len(np.unique(lines))
        loss = (1 / counts[lines]).sum(axis=1)
        if elsewhere:  # the path of another branch that costs most
            paths = TREE.ancestors[TREE.leaves, 1:].numpy()
            costs = np.where(counts > 0, 1 / np.maximum(len(of) - counts, 1), 0.0)[paths].sum(axis=1)
            loss = np.where(lines[:, :1] != paths[:, 0], costs, 0.0).max(axis=1)
        weights = np.bincount(np.arange(len(of)) // world.group, loss) / nodes
        found.append(largest_unseen(weights, 0.05))
    return float(np.median(found))


def cells(world: World, several: list[dict[str, list[float]]]) -> list[Cell]:
    """The cells of a world that have at least an eighth of its repetitions."""
    parts = [(name, [row[name] for row in several if name in row]) for name in ROWS]
    return [
        Cell(world, name, np.array(part, dtype=float))
        for name, part in parts
        if len(part) >= len(several) / 8
    ]


def table(world: World, several: list[dict[str, list[float]]]) -> Iterator[str]:
    """The lines of the table of a world."""
    units = world.samples // world.group
    what = f"{world.samples} samples" + (f" in {units} groups" if world.group > 1 else "")
    compared = sum(not np.isnan(row["top1"][3]) for row in several)
    yield f"### {world.name}, {what}: {len(several):,} repetitions, {compared:,} of them compared\n"
    yield (
        "| number | mean | true ± | interval holds it | queries | width / true width | queries | none "
        "| equal: p ≤ 0.05 | queries | power | queries |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    for cell in cells(world, several):
        shown = [f"{cell.true:.3f}", f"{cell.spread:.3f}"]
        shown += [f"{held.mean():.3f}" if len(held) else "–" for held in (cell.held(), cell.held(5))]
        shown += [f"{cell.width(low):.2f}" if len(cell.held(low)) else "–" for low in (1, 5)]
        shown.append(f"{np.isnan(cell.rows[:, 1]).mean():.2f}")
        for column, digits in ((3, 3), (7, 3), (4, 2), (8, 2)):
            alarms = cell.alarms(column)
            shown.append(f"{alarms.mean():.{digits}f}" if len(alarms) else "–")
        yield f"| {cell.name} | " + " | ".join(shown) + " |"
    yield ""


def failures(measured: list[Cell]) -> list[str]:
    """Cells whose coverage is below .93 or whose false alarms are above .06, by exact binomial tests."""
    level, wrong = 0.05 / max(2 * len(measured), 1), []
    for cell in measured:
        held, alarms = cell.held(), cell.alarms(3)
        if len(held) and binom.cdf(held.sum(), len(held), 0.93) < level:
            wrong.append(f"{cell.world.title} {cell.name}: {held.sum()} of {len(held)} intervals hold it")
        if len(alarms) and binom.sf(alarms.sum() - 1, len(alarms), 0.06) < level:
            wrong.append(f"{cell.world.title} {cell.name}: {alarms.sum()} of {len(alarms)} tests alarm")
    return wrong


def wide(measured: list[Cell]) -> list[str]:
    """Cells whose median width is above 1.6 times that of the true spread, and what the least can be."""
    return [
        f"{cell.world.title} {cell.name} {cell.width():.2f}"
        + (f" (at least {cell.least_width:.2f})" if cell.least_width > WIDEST else "")
        for cell in measured
        if len(cell.held()) and cell.width() > WIDEST
    ]


def keep(path: Path, rows: dict[World, list[dict[str, list[float]]]]) -> None:
    """Write the figures of all repetitions as whole multiples of a unit, for a later call to go on from."""
    figures: dict[str, Any] = {}
    for world, several in rows.items():
        table = np.full((len(several), len(ROWS), _FIGURES), np.nan)
        for number, row in enumerate(several):
            for name, figures_of in row.items():
                table[number, ROWS.index(name)] = figures_of
        table /= world.unit
        scaled = np.round(table)
        scaled[:, :, _CHANCES] = np.ceil(table[:, :, _CHANCES] - 1e-6)  # p > .05 stays above it
        whole = np.where(np.isnan(scaled), _UNKNOWN, scaled).astype(np.int32)
        figures[world.title] = np.ascontiguousarray(whole.transpose(1, 2, 0))  # packs best
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, names=np.array(ROWS), **figures)


def read_kept(path: Path) -> dict[World, list[dict[str, list[float]]]]:
    """What `keep` has written; a branch of which a repetition knows nothing is left out of its row."""
    rows: dict[World, list[dict[str, list[float]]]] = {}
    with np.load(path) as kept:
        names = kept["names"].tolist()
        for world in WORLDS:
            table = kept[world.title].transpose(2, 0, 1) if world.title in kept.files else np.empty((0, 0, 0))
            table = np.where(table == _UNKNOWN, np.nan, table * world.unit)
            rows[world] = [
                {
                    name: figures.tolist()
                    for name, figures in zip(names, row, strict=True)
                    if name != BRANCH or not np.isnan(figures).all()
                }
                for row in table
            ]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=300, help="of every world")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--raw", type=Path, help=".npz of all repetitions, which a later call goes on from")
    parser.add_argument("--out", type=Path, default=OUT / "coverage.md")
    options = parser.parse_args()
    rows: dict[World, list[dict[str, list[float]]]] = {world: [] for world in WORLDS}
    if options.raw is not None and options.raw.is_file():
        rows = read_kept(options.raw)
    tasks = sorted(
        (
            (world, seed)
            for world in WORLDS
            for seed in range(len(rows[world]), -(-options.repetitions // world.dear))
        ),
        key=lambda task: (task[1] * task[0].dear, WORLDS.index(task[0])),
    )
    until = time.monotonic() + options.seconds
    with multiprocessing.get_context("forkserver").Pool(options.processes) as pool:
        for number, (world, row) in enumerate(pool.imap(_one, tasks), start=1):
            rows[world].append(row)
            if options.raw is not None and number % _KEPT_EVERY == 0:
                keep(options.raw, rows)
            if time.monotonic() > until:
                pool.terminate()
                break
    if options.raw is not None:
        keep(options.raw, rows)
    known = {world: several for world, several in rows.items() if len(several) > 1}
    text = "\n".join(
        ["`python benchmarks/coverage.py`\n", *(line for part in known.items() for line in table(*part))]
    )
    measured = [cell for part in known.items() for cell in cells(*part)]
    for what, listed in (
        (
            "fail (coverage below .93 or false alarms above .06, tested exactly at .05 / tests)",
            failures(measured),
        ),
        (
            f"are wide (median width above {WIDEST} × the true one; in brackets the least valid one)",
            wide(measured),
        ),
    ):
        text += f"\nOf {len(measured)} cells, {len(listed)} {what}: {'; '.join(listed) or 'none'}.\n"
    options.out.with_suffix(".md").write_text(text, "utf-8")
    print(text)


if __name__ == "__main__":
    main()
