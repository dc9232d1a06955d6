"""Intervals and tests of retrieval: do they hold, how wide are they, and how often do equal encoders differ?

    python benchmarks/retrieval_intervals.py [--repetitions 300] [--seconds 1200] [--processes 2]

In every repetition test samples are drawn from one world, embedded with noise by three encoders, and
evaluated and compared by labeltree. What a number would be on average, at this number of samples and with
this encoder, is its mean over all repetitions: an interval of 95 % should hold it in 95 % of them, and be as
wide as the true spread asks for; p should be 0.05 or less in 5 % of the comparisons of two encoders with
equal noise. Power is the share of p ≤ 0.05 against an encoder with more noise. *Queries* are the same figures
with queries resampled as if each were no result of the others.

The worlds have 18 classes in a tree of three depths. *tail*: classes as frequent as 1/rank; *apart*: classes
so far apart that nearly all is right; *groups*: samples in fives, each five with a shift of its own. With
--raw FILE the figures of all repetitions are kept, and a later call goes on from there.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import binom

from labeltree.atomic import atomic_write
from labeltree.evaluation import EvaluationSettings, compare, evaluate
from labeltree.evaluation.outcomes import Outcomes
from labeltree.evaluation.statistics import Bootstrap, GroupSums, sign_flip_test
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

COLUMNS = ("recall_at_1", "map_at_r", "mean_average_precision", "ahp", "h_ap", "ndcg", "asi")
TREE = Taxonomy.from_paths([(a, a + b, a + b + c) for a in "abc" for b in "uv" for c in "xyz"])
BRANCH = "recall_at_1 of branch a"
ROWS = (*COLUMNS, BRANCH)
OUT = Path(__file__).parent / "results"
CONFIDENCE = 0.95
_DIM, _NOISE, _MORE = 6, 0.5, 0.65
_KEPT_EVERY = 100  # repetitions
_KNOWN = 90  # samples that classifiers learn from; retrieval needs none


@dataclass(frozen=True)
class World:
    """What test samples are drawn from."""

    name: str
    samples: int
    tail: bool = False
    apart: float = 1.0
    group: int = 1

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Points, classes, and groups of test samples."""
        centres = self._centres()
        shares = 1 / np.arange(1, len(centres) + 1) if self.tail else np.ones(len(centres))
        items = self.samples // self.group
        of = np.repeat(rng.choice(len(centres), items, p=shares / shares.sum()), self.group)
        points = centres[of] + rng.normal(size=(len(of), _DIM))
        if self.group == 1:
            return points, of, None
        points += np.repeat(0.7 * rng.normal(size=(items, _DIM)), self.group, axis=0)
        return points, of, np.repeat(np.arange(items), self.group)

    def _centres(self) -> np.ndarray:
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
    World("plain", 150),
    World("plain", 500),
    World("tail", 150, tail=True),
    World("apart", 150, apart=4.0),
    World("groups", 100, group=5),
    World("groups", 300, group=5),
)


def _table(
    points: np.ndarray, of: np.ndarray, groups: np.ndarray | None, noise: float, rng: np.random.Generator
) -> EmbeddingTable:
    fixed = np.random.default_rng(11)
    known = np.arange(_KNOWN) % TREE.num_leaves
    everything = np.concatenate(
        [points + noise * rng.normal(size=points.shape), fixed.normal(size=(_KNOWN, _DIM))]
    )
    return EmbeddingTable(
        torch.from_numpy(everything).float(),
        TREE.leaves[torch.from_numpy(np.concatenate([of, known]))],
        split=np.array(["test"] * len(points) + ["train"] * _KNOWN),
        groups=None if groups is None else torch.from_numpy(np.concatenate([groups, np.full(_KNOWN, -1)])),
    )


def repetition(world: World, seed: int) -> dict[str, Any]:
    """The numbers, intervals and p-values of one draw of test samples."""
    rng = np.random.default_rng((WORLDS.index(world), seed))
    points, of, groups = world.draw(rng)
    settings = EvaluationSettings(resamples=500, leave_group_out="never", seed=seed)
    noises = {"one": _NOISE, "other": _NOISE, "worse": _MORE}
    results = {
        name: evaluate(_table(points, of, groups, noise, rng), TREE, name=name, settings=settings)
        for name, noise in noises.items()
    }
    outcomes = {name: result.outcomes[name] for name, result in results.items()}
    metrics = [f"embeddings.{name}" for name in COLUMNS]
    how: dict[str, Any] = {"strata_metrics": ["recall_at_1"], "min_samples": 10}
    how |= {"resamples": 500, "permutations": 1000, "seed": seed}
    found = compare(outcomes, baseline="one", metrics=metrics, **how)
    main = results["one"].main
    row: dict[str, Any] = {}
    for name in COLUMNS:
        entry = found.metric(name, "embeddings")
        low, high = main.interval(name) or (np.nan, np.nan)
        before = _by_queries(outcomes, name, seed)
        row[name] = [
            main.score(name), low, high, entry.differences["other"].p, entry.differences["worse"].p, *before
        ]  # fmt: skip
    for part in found.strata:
        if part.name == "a":
            mine, differences = part.estimates["one"], part.differences
            ends = [mine.value, mine.low, mine.high, differences["other"].p, differences["worse"].p]
            row[BRANCH] = [*ends, np.nan, np.nan, np.nan, np.nan]
    return row


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


def _one(task: tuple[World, int]) -> tuple[World, dict[str, Any]]:
    torch.set_num_threads(1)
    return task[0], repetition(*task)


def tables(rows: dict[World, list[dict[str, Any]]]) -> Iterator[str]:
    """A table for every world."""
    for world, several in rows.items():
        if len(several) < 2:
            continue
        units = world.samples // world.group
        what = f"{world.samples} samples" + (f" in {units} groups" if world.group > 1 else "")
        yield f"### {world.name}, {what}: {len(several)} repetitions\n"
        yield (
            "| number | mean | true ± | interval holds it | queries | width / true width | queries | none "
            "| equal: p ≤ 0.05 | queries | power | queries |"
        )
        yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
        for name in ROWS:
            part = np.array([row[name] for row in several if name in row], dtype=float)
            if len(part) < len(several) / 2:
                continue
            true, spread = part[:, 0].mean(), part[:, 0].std(ddof=1)
            cells = [f"{true:.3f}", f"{spread:.3f}"]
            for low, high in ((part[:, 1], part[:, 2]), (part[:, 5], part[:, 6])):
                known = ~np.isnan(low)
                held = ((low <= true) & (true <= high))[known].mean() if known.any() else np.nan
                width = np.median((high - low)[known]) / (2 * 1.96 * spread) if known.any() else np.nan
                cells += [f"{held:.3f}", f"{width:.2f}"]
            none, same, worse = np.isnan(part[:, 1]).mean(), part[:, (3, 7)], part[:, (4, 8)]
            alarms, power = (np.nanmean(np.where(np.isnan(p), np.nan, p <= 0.05), 0) for p in (same, worse))
            shown = [cells[0], cells[1], cells[2], cells[4], cells[3], cells[5], f"{none:.2f}"]
            shown += [f"{alarms[0]:.3f}", f"{alarms[1]:.3f}", f"{power[0]:.2f}", f"{power[1]:.2f}"]
            yield f"| {name} | " + " | ".join("–" if cell == "nan" else cell for cell in shown) + " |"
        yield ""


def failures(rows: dict[World, list[dict[str, Any]]]) -> list[str]:
    """Cells whose coverage is below .93 or whose false alarms are above .06, by exact binomial tests."""
    cells = [(world, name, part) for world, part in rows.items() for name in ROWS]
    level, found = 0.05 / max(2 * len(cells), 1), []
    for world, name, several in cells:
        part = np.array([row[name] for row in several if name in row], dtype=float)
        if len(part) < len(several) / 2:
            continue
        known, true = part[~np.isnan(part[:, 1])], part[:, 0].mean()
        held = int(((known[:, 1] <= true) & (true <= known[:, 2])).sum())
        if binom.cdf(held, len(known), 0.93) < level:
            found.append(f"{world.name} {world.samples} {name}: {held} of {len(known)} intervals hold it")
        p = part[:, 3][~np.isnan(part[:, 3])]
        alarms = int((p <= 0.05).sum())
        if binom.sf(alarms - 1, len(p), 0.06) < level:
            found.append(f"{world.name} {world.samples} {name}: {alarms} of {len(p)} tests alarm")
    return found


def keep(path: Path, rows: dict[World, list[dict[str, Any]]]) -> None:
    """Write the figures of all repetitions, for a later call to go on from."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps({f"{w.name} {w.samples}": several for w, several in rows.items()}))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=300, help="of every world")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--raw", type=Path, help="JSON of all repetitions, which a later call goes on from")
    parser.add_argument("--out", type=Path, default=OUT / "retrieval_intervals.md")
    options = parser.parse_args()
    rows: dict[World, list[dict[str, Any]]] = {world: [] for world in WORLDS}
    if options.raw is not None and options.raw.is_file():
        kept = json.loads(options.raw.read_text("utf-8"))
        rows = {world: kept.get(f"{world.name} {world.samples}", []) for world in WORLDS}
    tasks = sorted(
        ((world, seed) for world in WORLDS for seed in range(len(rows[world]), options.repetitions)),
        key=lambda task: task[1],
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
    text = "\n".join(["`python benchmarks/retrieval_intervals.py`\n", *tables(rows)])
    wrong = failures(rows)
    text += (
        "\nCells that fail (coverage below .93 or false alarms above .06, tested exactly at .05 / cells): "
    )
    text += "; ".join(wrong) + "\n" if wrong else "none.\n"
    options.out.with_suffix(".md").write_text(text, "utf-8")
    print(text)


if __name__ == "__main__":
    main()
