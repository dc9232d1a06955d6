"""Time and memory of the retrieval metrics (P10), beside the matrix product and beside plain Python loops.

    python benchmarks/metrics.py [--short]

Every sample searches all others: n × n pairs of 128 dimensions, float32, labels 8/64/512. `random` embeddings
know nothing of the labels; those of `clusters` do, as trained ones. "All" is recall@k, MAP@R, mAP, HP@k and
AHP@250; "by depth" adds the first three at each of three depths; "whole" takes AHP over whole rankings;
"graded" adds H-AP, NDCG, ASI and AP at each depth, of all queries or, as an evaluation does, of 2,500.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor

from harness import Results, Row, Size, Table, choose, main
from inputs import balanced
from labeltree.geometry import Geometry, get_geometry
from labeltree.metrics.functional import average_hierarchical_precision, retrieval_metrics
from labeltree.taxonomy import Taxonomy
from peak import forget_peak, resident
from retrieval_loops import loop_metrics

D = 128
GEOMETRIES = ("sphere", "euclidean", "poincare")
ASKED = ("HP@1..250", "all", "all, by depth", "all, whole")
SMALL = (*ASKED, "all, graded", "all, 2,500 graded")


def tree(n: int) -> Taxonomy:
    """8/64/512 nodes, or 2/4/8 for few samples."""
    return balanced(8, 64, 512) if n >= 1_000 else balanced(2, 4, 8)


def sample(kind: str, n: int, taxonomy: Taxonomy) -> tuple[Tensor, Tensor]:
    """Unit vectors (n, d) and leaves (n,)."""
    generator = torch.Generator().manual_seed(0)
    nodes = taxonomy.leaves[torch.randint(len(taxonomy.leaves), (n,), generator=generator)]
    points = torch.randn(n, D, generator=generator)
    if kind == "clusters":
        centres = torch.randn(taxonomy.num_nodes, D, generator=generator)
        points += centres[taxonomy.paths[nodes]].sum(dim=1)
    return torch.nn.functional.normalize(points), nodes


def asked(
    points: Tensor, nodes: Tensor, taxonomy: Taxonomy, geometry: Geometry
) -> Mapping[str, Callable[[], object]]:
    """What is timed."""
    everything = partial(retrieval_metrics, points, nodes, taxonomy, geometry=geometry)
    precision = partial(average_hierarchical_precision, points, nodes, taxonomy, geometry=geometry)
    calls = (
        partial(precision, k=250),
        everything,
        partial(everything, depths=(1, 2, 3)),
        partial(everything, ahp_k=len(points)),
        partial(everything, graded=True),
        partial(everything, graded=torch.arange(len(points)) % max(1, len(points) // 2500) == 0),
    )
    return dict(zip(SMALL, calls, strict=True))


def timed(call: Callable[[], object]) -> tuple[float, float, float]:
    """CPU seconds, seconds by the clock and megabytes over the baseline of one call."""
    gc.collect()
    forget_peak()
    before, began, busy = resident("VmRSS:"), time.perf_counter(), time.process_time()
    call()
    cpu, wall = time.process_time() - busy, time.perf_counter() - began
    return cpu, wall, (resident("VmHWM:") - before) / 1e6


def product(n: int) -> float:
    """CPU seconds of the matrix product of all pairs, in tiles that stay in the cache."""
    points, out = torch.randn(n, D), torch.empty(1024, 1024)
    began = time.process_time()
    for rows in points.split(1024):
        for columns in points.split(1024):
            torch.mm(
                rows, columns.T, out=out[: len(rows)].view(-1)[: len(rows) * len(columns)].view(len(rows), -1)
            )
    return time.process_time() - began


def table(
    n: int, cases: Mapping[tuple[str, str], tuple[str, ...]]
) -> tuple[Table, dict[tuple[str, ...], float]]:
    """One size; `cases` says what is asked of each geometry and kind of embeddings."""
    taxonomy = tree(n)
    rows: list[Row] = []
    seconds: dict[tuple[str, ...], float] = {}
    for (name, kind), wanted in cases.items():
        points, nodes = sample(kind, n, taxonomy)
        points *= 0.7 if name == "poincare" else 1.0
        calls = asked(points, nodes, taxonomy, get_geometry(name))
        for what in wanted:
            base = product(n)
            cpu, wall, memory = timed(calls[what])
            rows.append([f"{name}, {kind}", what, cpu, wall, cpu / base, memory])
            seconds[name, kind, what] = cpu
    columns = ("embeddings", "asked", "CPU s", "by the clock", "÷ matrix product", "MB over baseline")
    return Table(f"{n:,} × {n:,}", columns, rows), seconds


def loops(n: int, queries: int) -> tuple[Table, float]:
    """Plain loops over some of the queries, scaled to all, and ours; values are compared."""
    taxonomy = tree(n)
    points, nodes = sample("clusters", n, taxonomy)
    rows: list[Row] = []
    least = math.inf
    for what, length in (("all", 250), ("all, whole", n)):
        began = time.process_time()
        theirs = loop_metrics(points, nodes, taxonomy, queries, length)
        slow = (time.process_time() - began) * n / queries
        ours = retrieval_metrics(points, nodes, taxonomy, ahp_k=length)
        fast = timed(partial(retrieval_metrics, points, nodes, taxonomy, ahp_k=length))[0]
        if queries == n:
            for key, value in theirs.items():
                torch.testing.assert_close(
                    float(ours[f"ahp@{length}" if key == "ahp" else key]), value, rtol=1e-3, atol=1e-3
                )
        rows.append([what, slow, fast, slow / fast])
        least = min(least, slow / fast)
    columns = ("asked", "plain loops, CPU s", "ours, CPU s", "loops ÷ ours")
    return Table(f"Plain Python loops, {n:,} × {n:,}, sphere, clusters", columns, rows), least


def grouped(n: int, sizes: tuple[int, ...] = (2, 10, 100)) -> Table:
    """Leave-group-out: results of the query's own group do not count; beside the same without groups."""
    taxonomy = tree(n)
    points, nodes = sample("clusters", n, taxonomy)
    everything = partial(retrieval_metrics, points, nodes, taxonomy)
    plain = timed(everything)[0]
    rows: list[Row] = [["none", plain, 1.0]]
    for each in sizes:
        groups = torch.randperm(n, generator=torch.Generator().manual_seed(1)) // each
        taken = timed(partial(everything, query_groups=groups))[0]
        rows.append([f"of {each} samples", taken, taken / plain])
    columns = ("groups", "CPU s", "÷ without groups")
    return Table(f"Without the query's own group, all, {n:,} × {n:,}, sphere, clusters", columns, rows)


def measure(size: Size) -> Results:
    """A table a size, and the loops."""
    small = choose(size, full=10_000, short=10_000, tiny=300)
    large = choose(size, full=50_000, short=50_000, tiny=600)
    kinds = choose(size, full=["random", "clusters"], short=["random"], tiny=["clusters"])
    spaces = choose(size, full=GEOMETRIES, short=("sphere",), tiny=GEOMETRIES)
    first, _ = table(small, {(name, kind): SMALL for name in spaces for kind in kinds})
    wanted = choose(size, full=ASKED, short=ASKED[:2], tiny=ASKED)
    second, seconds = table(
        large,
        {(name, kind): wanted if name == "sphere" else wanted[:2] for name in spaces for kind in kinds},
    )
    queries = choose(size, full=200, short=50, tiny=small)
    third, least = loops(small, queries)
    measured = {
        "P10 precision": max(seconds["sphere", kind, "HP@1..250"] for kind in kinds),
        "P10 all": max(taken for (name, *_), taken in seconds.items() if name == "sphere"),
        "P10 loops": least,
    }
    note = (
        f"The loops ran for {queries} of {small:,} queries and are scaled. Goals count the sphere; "
        '"÷ matrix product": CPU seconds over those of the product of all pairs, taken just before.'
    )
    return Results([first, second, third, grouped(small)], measured, [note])


if __name__ == "__main__":
    main(__doc__, measure)
