"""The index at a million vectors of 256 dimensions: build, size, latency, recall, filters.

    python benchmarks/index.py [--short] [--embeddings FILE.npz] [--kinds 2000] [--rows 10000000 --dim 128]

Three kinds of vectors: 2,000 clusters and 50,000 clusters (unit centres plus noise of length 1, so that the
ten nearest lie among rows that are nearly as near), and real embeddings: rows of a file drawn with
repetition, with noise of length 0.1; without `--embeddings` the third is left out. Queries are drawn like the
rows and are not in the index. The index lies in the system's temporary folder (TMPDIR). A query is one call
of `Index.search`, with the reading of the ids found; its CPU milliseconds, of all threads, are its latency on
one quiet core, and what the clock said is beside them. Approximate and filtered queries are asked in turn,
and so are exact ones and bare matrix products, of which the ratio is the median over rounds. The subtree has
a hundredth of the rows.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from harness import Results, Size, Table, choose, in_turn, main
from labeltree.index import Index, IndexRows
from labeltree.taxonomy import Taxonomy

Array = np.ndarray[Any, Any]
NAMES = [f"branch {i}/leaf {j}" for i in range(10) for j in range(10)]
TREE = Taxonomy.from_paths(NAMES)
GOAL = 0.95
_CHUNK = 100_000


def noisy(starts: Array, chosen: Array, length: float, rng: np.random.Generator) -> Array:
    """Unit vectors ``(n, d)`` float32: the chosen starts with noise of about a length."""
    dim = starts.shape[1]
    found = np.empty((len(chosen), dim), np.float32)
    for at in range(0, len(chosen), _CHUNK):
        some = starts[chosen[at : at + _CHUNK]]
        some = some + rng.standard_normal(some.shape, np.float32) * (length / np.sqrt(dim))
        found[at : at + _CHUNK] = some / np.linalg.norm(some, axis=1, keepdims=True)
    return found


def clusters(n: int, dim: int, count: int) -> tuple[Array, Array]:
    """Vectors of clusters, and for each the hundredth to which its cluster belongs."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((count, dim), np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    chosen = rng.integers(count, size=n)
    return noisy(centres, chosen, 1.0, rng), chosen * 100 // count


def real(n: int, file: str) -> tuple[Array, Array]:
    """Rows of a table of embeddings with noise, and for each the hundredth in the order of its label."""
    with np.load(file, allow_pickle=False) as table:
        starts, nodes = table["embeddings"].astype(np.float32), table["nodes"]
    starts /= np.linalg.norm(starts, axis=1, keepdims=True)
    rng = np.random.default_rng(0)
    chosen = rng.integers(len(starts), size=n)
    ranks = np.empty(len(starts), np.int64)
    ranks[np.argsort(nodes, kind="stable")] = np.arange(len(starts))
    return noisy(starts, chosen, 0.1, rng), ranks[chosen] * 100 // len(starts)


def megabytes(folder: Path) -> float:
    """Size of the files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def latencies(index: Index, queries: Array, ways: dict[str, dict[str, Any]]) -> dict[str, Array]:
    """Milliseconds of the processor and of the clock of each of the queries ``(2, q)``, by way of asking.

    They are asked one by one, each in every way before the next, so that a busy machine is so for all ways.
    """
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for options in ways.values():
        index.search(queries[0], k=10, columns=[], **options)
    for query in queries:
        for name, options in ways.items():
            began, busy = time.perf_counter(), time.process_time()
            index.search(query, k=10, columns=[], **options)
            found[name].append((1e3 * (time.process_time() - busy), 1e3 * (time.perf_counter() - began)))
    return {name: np.asarray(times).T for name, times in found.items()}


def recall(index: Index, queries: Array, **options: Any) -> float:
    """Share of the ten nearest that approximate search finds."""
    exact = index.search(queries, k=10, exact=True, columns=[], **options)
    found = index.search(queries, k=10, exact=False, columns=[], **options)
    shares = [len(set(a.ids) & set(b.ids)) / len(a.ids) for a, b in zip(exact, found, strict=True)]
    return float(np.mean(shares))


def one_kind(vectors: Array, parts: Array, queries: Array) -> tuple[list[Any], list[Any], dict[str, float]]:
    """Rows of both tables without their names, and figures."""
    leaves = TREE.encode(NAMES).numpy()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "index"
        ids = [str(number) for number in range(len(vectors))]
        began, busy = time.perf_counter(), time.process_time()
        index = Index.create(folder, IndexRows(ids, vectors, leaves[parts]), taxonomy=TREE)
        index.vectors()
        if not index.info().approximate:
            index.tune()
        made = (time.process_time() - busy, time.perf_counter() - began)
        tuning = index.info().approximate
        rows, table, matrix = len(vectors), megabytes(folder / "rows.lance"), megabytes(folder / "exact")
        ways = {"approximate": {"exact": False}, "filtered": {"exact": False, "within": NAMES[37]}}
        times_of = latencies(index, queries, ways)
        approximate, filtered = times_of["approximate"], times_of["filtered"]
        mapped, few = index.vectors(), iter(range(10**9))
        timings = in_turn(
            {
                "product": lambda: mapped @ queries[next(few) % len(queries)],
                "query": lambda: index.search(
                    queries[next(few) % len(queries)], k=10, exact=True, columns=[]
                ),
            },
            "product",
            rounds=9,
        )
        found = recall(index, queries)
        how = f"{tuning['kind']}, {tuning['probes']} of {tuning['partitions']}, {tuning['candidates']}"
        figures = {
            "exact": timings["query"].ratio,
            "approximate": float(np.median(approximate[0])),
            "recall": found,
            "filtered": float(np.median(filtered[0]) / np.median(approximate[0])),
        }
        built: list[Any] = [rows, *made, 4e-6 * vectors.size, table, matrix, how]
        spread = [
            float(np.percentile(times, share))
            for times in (approximate[0], approximate[1], filtered[0], filtered[1])
            for share in (50, 95)
        ]
        asked: list[Any] = [tuning["recall"], tuning["recall_low"], found, *spread]
        asked += [1e3 * timings["query"].seconds, figures["exact"]]
    return built, asked, figures


def measure(
    size: Size,
    embeddings: str | None = None,
    kinds: str | None = None,
    rows: str | None = None,
    dim: str | None = None,
) -> Results:
    """All kinds of vectors at one size, or some."""
    n = int(rows or choose(size, full=1_000_000, short=100_000, tiny=2_000))
    width = int(dim or choose(size, full=256, short=256, tiny=16))
    held_out = choose(size, full=200, short=200, tiny=20)
    counts = choose(size, full=(2_000, 50_000), short=(2_000, 50_000), tiny=(20, 100))
    made = {
        f"{count:,} clusters": lambda count=count: clusters(n + held_out, width, count) for count in counts
    }
    if embeddings is not None:
        made["real, with noise"] = lambda: real(n + held_out, embeddings)
    if kinds is not None:
        made = {
            name: make for name, make in made.items() if name.split()[0].replace(",", "") in kinds.split("+")
        }
    built, asked, figures = [], [], []
    for name, make in made.items():
        vectors, parts = make()
        first, second, figure = one_kind(vectors[:n], parts[:n], vectors[n:])
        built.append([f"{name}, {vectors.shape[1]}-d", *first])
        asked.append([name, *second])
        figures.append(figure)
        del vectors
    measured = {
        f"P18 {key}": pick(figure[key] for figure in figures)
        for key, pick in (("exact", max), ("approximate", max), ("recall", min), ("filtered", max))
    }
    notes = [
        "Built: the table, the matrix of exact search, and the approximate index with its tuning. "
        f"How: kind, partitions looked into of all, candidates. Recall on {held_out} held-out queries.",
    ]
    if embeddings is not None:
        notes.append(
            "The real embeddings are those of the study of emoji: "
            "`labeltree embed studies/emoji/runs/supcon-seed0 --out emoji-all.npz`."
        )
    columns = ("vectors", "rows", "built, CPU s", "clock, s", "vectors, MB", "table, MB", "matrix, MB", "how")
    times = ("CPU p50, ms", "CPU p95", "clock p50", "clock p95")
    asked_columns = ("vectors", "recall@10 tuned", "its lower end", "recall@10", *times)
    asked_columns += (*tuple(f"within 1 %: {name}" for name in times), "exact, CPU ms", "× matrix product")
    return Results(
        [Table("Build and size", columns, built), Table("Queries", asked_columns, asked)], measured, notes
    )


if __name__ == "__main__":
    main(
        __doc__,
        measure,
        {
            "embeddings": "an embeddings table, for the third kind",
            "kinds": "which, such as 2000+real; else all",
            "rows": "how many",
            "dim": "of how many dimensions; those of a file stay as they are",
        },
    )
