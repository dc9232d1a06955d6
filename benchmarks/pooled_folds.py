"""Numbers of a cross-validation, pooled over its folds, and of parts by an attribute: do the intervals hold?

    python benchmarks/pooled_folds.py [--short]

Samples of the worlds of `coverage.py` are divided into five folds, a group in one fold, and each is evaluated
by itself, as a run of a cross-validation is; the classifiers learn from the same samples every time. Every
sample is of one of two sites. Written down, from 400 repetitions, are how often the 95 % interval of each
pooled number, and of that of the first site, holds its mean over all repetitions, and the median width over
that of the true spread. A cell fails if a binomial test against a coverage of 0.93 rejects at 0.05 divided by
the number of cells.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from scipy.stats import binom

from coverage import _NOISE, TREE, World, _table
from harness import Results, Row, Size, Table, choose, main
from labeltree.evaluation import EvaluationSettings, evaluate, pool_folds
from labeltree.evaluation.result import EvaluationResult

LEAST = 0.93
NUMBERS = ("recall_at_1", "map_at_r", "ahp", "cpcc", "parent_violations", "top1", "hierarchical_f1")
OF_SITE = ("recall_at_1", "map_at_r", "ahp", "top1", "hierarchical_f1")
WORLDS = (World("plain", 150), World("plain", 500), World("groups", 300, group=5))
_FOLDS = 5


def repetition(world: World, number: int, seed: int) -> np.ndarray:
    """`(12, 3)` value and ends of each pooled number, and of those of the first site."""
    rng = np.random.default_rng((100 + number, seed))
    points, of, groups = world.draw(rng)
    units = np.arange(len(of)) if groups is None else groups
    fold, site = (rng.integers(many, size=units.max() + 1)[units] for many in (_FOLDS, 2))
    settings = EvaluationSettings(resamples=300, leave_group_out="never", classifier="probe", by=("site",))
    results: list[EvaluationResult] = []
    for k in range(_FOLDS):
        rows = np.flatnonzero(fold == k)
        table = _table(world, points[rows], of[rows], None if groups is None else groups[rows], _NOISE, rng)
        others = len(table) - len(rows)
        sites = np.concatenate([np.where(site[rows] == 0, "Graz", "Wien"), np.full(others, "")])
        ids = np.concatenate([rows, np.arange(others) + 10_000])
        table = replace(table, attributes={"site": sites}, instances=torch.from_numpy(ids))
        results.append(evaluate(table, TREE, name="run", settings=settings))
    pooled = pool_folds(results, [each.outcomes["run"] for each in results]).main
    found = [[pooled.score(name, "embeddings"), *pooled.interval(name, "embeddings")] for name in NUMBERS]
    graz = next(part for part in pooled.by_attribute if part.value == "Graz")
    keys = [f"embeddings.{name}" for name in OF_SITE]
    return np.array(found + [[graz.scores[key], *graz.intervals[key]] for key in keys])


def rows(world: World, number: int, repetitions: int) -> tuple[list[Row], list[tuple[int, int]]]:
    """The rows of a world, and of each how often its interval held the truth, and of how many."""
    drawn = np.stack([repetition(world, number, seed) for seed in range(repetitions)])
    found, held = list[Row](), list[tuple[int, int]]()
    for at, name in enumerate((*NUMBERS, *(f"{name} of a site" for name in OF_SITE))):
        value, low, high = drawn[:, at].T
        truth, known = value.mean(), ~np.isnan(low)
        held.append((int(((low <= truth) & (truth <= high))[known].sum()), int(known.sum())))
        width = float(np.median((high - low)[known]) / (2 * 1.96 * value.std())) if known.any() else np.nan
        share = held[-1][0] / max(held[-1][1], 1)
        found.append([world.title, name, truth, share, width, float(1 - known.mean())])
    return found, held


def measure(size: Size) -> Results:
    """A row for each number of each world."""
    repetitions = choose(size, full=400, short=20, tiny=3)
    worlds = choose(size, full=WORLDS, short=WORLDS[:1], tiny=WORLDS[:1])
    parts = [rows(world, number, repetitions) for number, world in enumerate(worlds)]
    held = [each for _, of in parts for each in of]
    doubtful = sum(binom.cdf(h, n, LEAST) < 0.05 / len(held) for h, n in held if n)
    columns = ("world", "number", "expected", "held", "width", "without interval")
    least = min(h / n for h, n in held if n)
    note = f"{doubtful} of {len(held)} cells fail; the least coverage is {least:.3f}. {repetitions:,} draws."
    return Results(
        [Table("Pooled over five folds, 95 %", columns, [r for of, _ in parts for r in of])], {}, [note]
    )


if __name__ == "__main__":
    main(__doc__, measure)
