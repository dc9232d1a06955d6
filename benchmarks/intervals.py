"""Time and memory of confidence intervals, paired tests, and what is decided with them.

    python benchmarks/intervals.py [--short]

Intervals by the bootstrap, 2,000 draws: of twenty means; of everything that a classifier is judged by, by
depth and subtree; of AUROC, average precision and ten rates of every node; of NMI. Paired tests of two
methods in twenty metrics, 10,000 sign flips. Conformal calibration and prediction.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from harness import Results, Row, Size, Table, choose, main
from inputs import balanced
from labeltree.decisions import ClassNodes, Promise, fit_rule
from labeltree.evaluation.judging_taxonomy import JudgingTaxonomy
from labeltree.evaluation.reported_nodes import NodeIntervals
from labeltree.evaluation.result import ProtocolResult
from labeltree.evaluation.sample_columns import ResamplingUnits, estimate
from labeltree.evaluation.search_and_answer_columns import answer_columns
from labeltree.evaluation.statistics import (
    Bootstrap,
    GroupSums,
    Partition,
    Resampling,
    agreement_intervals,
    mcnemar,
    sign_flip_test,
)
from labeltree.metrics.functional import node_ranking_metrics
from labeltree.metrics.functional.node_resampling import RATES, decided_nodes, nodes_at
from labeltree.taxonomy import Taxonomy
from peak import forget_peak, resident

METRICS = 20
SIGNAL = 4.0  # of the right class among standard normal logits: AUROC about 0.99, accuracy about a half


def predicted(n: int, taxonomy: Taxonomy, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Logits (n, leaves) and labels (n,)."""
    generator = torch.Generator().manual_seed(seed)
    label = torch.randint(taxonomy.num_leaves, (n,), generator=generator)
    logits = torch.randn(n, taxonomy.num_leaves, generator=generator)
    logits[torch.arange(n), label] += SIGNAL
    return logits, taxonomy.leaves[label]


def timed(call: Callable[[], object]) -> tuple[float, float, float]:
    """CPU seconds, seconds by the clock and megabytes over the baseline of one call."""
    gc.collect()
    forget_peak()
    before, began, busy = resident("VmRSS:"), time.perf_counter(), time.process_time()
    call()
    cpu, wall = time.process_time() - busy, time.perf_counter() - began
    return cpu, wall, (resident("VmHWM:") - before) / 1e6


def means(n: int, resamples: int, groups: np.ndarray | None) -> None:
    """Intervals of plain means."""
    values = np.random.default_rng(0).random((n, 1, METRICS))
    Bootstrap(GroupSums.of(values, groups), resamples=resamples).interval()


def paired(n: int, resamples: int) -> None:
    """Difference, its interval, and both tests of two methods."""
    rng = np.random.default_rng(0)
    values = (rng.random((n, 2, METRICS)) < 0.7).astype(float)
    sums = GroupSums.of(values)
    Bootstrap(sums, resamples=resamples).interval([1, -1], method="percentile")
    sign_flip_test(sums, permutations=5 * resamples)
    for metric in range(METRICS):
        mcnemar(values[:, 0, metric], values[:, 1, metric])


def classifier(n: int, resamples: int, taxonomy: Taxonomy) -> None:
    """Scores, accuracy by depth, top-1 and HF1 by subtree of one classifier, with intervals."""
    logits, nodes = predicted(n, taxonomy)
    answers = taxonomy.leaves[logits.argmax(1)]
    rows, units = torch.arange(n), ResamplingUnits(Resampling(resamples), np.arange(n))
    columns = answer_columns(answers, nodes, nodes > 0, JudgingTaxonomy.of(taxonomy), rows)
    estimate(columns, rows, units, nodes, taxonomy)


def every_node(n: int, resamples: int, taxonomy: Taxonomy) -> None:
    """What the protocol `node-scores` has of one representation, with intervals."""
    logits, target = predicted(n, taxonomy)
    probabilities = torch.softmax(logits.double(), 1)
    units = ResamplingUnits(Resampling(resamples), np.arange(n))
    nodes = NodeIntervals(ProtocolResult(""), units, taxonomy)
    counted = np.arange(taxonomy.num_nodes) > 0
    ranking = dict.fromkeys(("auroc", "average_precision"), counted)
    nodes.add_ranking(probabilities, target, taxonomy.leaves, ranking)
    of = (target, taxonomy, units.groups, units.count)
    said = decided_nodes(taxonomy.leaves[logits.argmax(1)], *of)
    nodes.add_rates("decision_", said, {f"decision_{name}": counted for name in RATES})
    limits = torch.full((taxonomy.num_nodes,), 1 / taxonomy.num_leaves, dtype=torch.float64)
    at = nodes_at(limits, probabilities, *of)
    nodes.add_rates("point_", at, {f"point_{name}": counted for name in RATES})


def agreement(n: int, resamples: int, classes: int) -> None:
    """NMI and AMI of one clustering."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, n)
    clusters = np.where(rng.random(n) < 0.6, labels, rng.integers(0, classes, n))
    agreement_intervals([Partition.of(labels, clusters, np.arange(n), n)], [], 0.95)


def decide(n: int, taxonomy: Taxonomy) -> Mapping[str, Callable[[], object]]:
    """Calibration on n samples and answers for n more."""
    classes = ClassNodes(taxonomy.leaves, taxonomy)
    (scores, nodes), (others, _) = predicted(n, taxonomy), predicted(n, taxonomy, 1)
    rule = fit_rule(scores, nodes, classes)
    return {
        "calibrate": lambda: fit_rule(scores, nodes, classes),
        "answer, coverage 0.9": lambda: rule.answer(others, Promise(0.9)),
    }


def measure(size: Size) -> Results:
    """A table of intervals and tests, and one of decisions."""
    n = choose(size, full=10_000, short=10_000, tiny=200)
    resamples = choose(size, full=2_000, short=500, tiny=40)
    taxonomy = choose(size, full=balanced(8, 64, 428), short=balanced(8, 64, 428), tiny=balanced(2, 4, 8))
    groups = np.arange(n) // 4
    logits, target = predicted(n, taxonomy)
    probabilities = torch.softmax(logits.double(), 1)
    of_nodes = f"{taxonomy.num_nodes - 1} nodes"
    calls: dict[str, Callable[[], object]] = {
        f"intervals of {METRICS} means": lambda: means(n, resamples, None),
        f"the same, {len(np.unique(groups)):,} groups": lambda: means(n, resamples, groups),
        f"paired tests of {METRICS} metrics": lambda: paired(n, resamples),
        f"a classifier, by depth and {of_nodes}": lambda: classifier(n, resamples, taxonomy),
        f"AUROC and average precision of {of_nodes}, no interval": lambda: node_ranking_metrics(
            probabilities, target, taxonomy
        ),
        f"these and ten rates of {of_nodes}": lambda: every_node(n, resamples, taxonomy),
        f"NMI and AMI, {taxonomy.num_leaves} classes": lambda: agreement(n, resamples, taxonomy.num_leaves),
    }
    columns = ("asked", "CPU s", "by the clock", "MB over baseline")
    rows: list[Row] = [[what, *timed(call)] for what, call in calls.items()]
    decided: list[Row] = [[what, *timed(call)] for what, call in decide(n, taxonomy).items()]
    classes = f"{taxonomy.num_leaves} classes"
    return Results(
        [
            Table(f"{n:,} test samples, {resamples:,} draws", columns, rows),
            Table(f"Decisions, {n:,} samples, {classes}", columns, decided),
        ],
        notes=["Draws are made anew for every row; protocols of one evaluation share them."],
    )


if __name__ == "__main__":
    main(__doc__, measure)
