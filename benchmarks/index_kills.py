"""Kill changes of an index at random moments: it must open, and hold the old state or the new one.

A process of its own makes the change. It gets SIGKILL after a random share of the time that the change takes
undisturbed. Then the index is opened and read whole: ids, labels, vectors, taxonomy, the matrix of exact
search, and what filters give. At last the change is made again, undisturbed.

    python benchmarks/index_kills.py                     64 kills, 8 of each change
    python benchmarks/index_kills.py --seed 1            at other moments
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import random
import shutil
import signal
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from harness import Results, Row, Size, Table, choose, main
from labeltree.errors import DataError
from labeltree.index import Filter, Index, IndexRows
from labeltree.taxonomy import Taxonomy, TaxonomyMapping

CHANGES = ("build", "overwrite", "add", "replace", "delete", "compact", "move", "matrix")
LEAVES = [f"order {a}/family {b}/species {c}" for a in range(4) for b in range(4) for c in range(4)]
OLD = Taxonomy.from_paths(LEAVES)
NEW = Taxonomy.from_paths([leaf.replace("order 3/", "order 0/new ") for leaf in reversed(LEAVES[4:])])
DIM = 64


def rows(first: int, count: int, seed: int) -> IndexRows:
    """Random vectors with random labels, some at inner nodes and some missing."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(count, DIM)).astype(np.float32)
    nodes = rng.integers(-1, OLD.num_nodes, count)
    splits = [("train", "test")[i % 2] for i in range(count)]
    return IndexRows([f"sample {first + i}" for i in range(count)], vectors, nodes, splits=splits)


def build(where: Path, n: int, seed: int = 0, *, overwrite: bool = False) -> Index:
    return Index.create(where, rows(0, n, seed), taxonomy=OLD, overwrite=overwrite)


def change(kind: str, where: Path, n: int) -> None:
    """Make one change of an index of n samples."""
    if kind in ("build", "overwrite"):
        build(where, n, 0 if kind == "build" else 1, overwrite=kind == "overwrite")
        return
    index = Index.open(where)
    some = max(1, n // 4)
    if kind == "add":
        index.add(rows(n, some, 2))
    elif kind == "replace":
        index.replace(rows(n - some, some, 3))
    elif kind == "delete":
        index.delete([f"sample {i}" for i in range(0, n, 4)])
    elif kind == "compact":
        index.compact()
    elif kind == "move":
        index.move(NEW, TaxonomyMapping.between(OLD, NEW)[0])
    else:
        index.vectors()


def state(where: Path) -> str | None:
    """A fingerprint of all that an index holds; None without one; an error if its parts contradict it."""
    try:
        index = Index.open(where)
    except DataError as error:
        if "there is no index" in str(error):
            return None
        raise
    table = index.rows(["id", "node", "split", "vector"])
    ids, nodes = table["id"].to_pylist(), table["node"].to_numpy()
    vectors = np.stack(table["vector"].to_numpy(zero_copy_only=False)) if len(ids) else np.zeros((0, DIM))
    if not (np.array_equal(index.vectors(), vectors) and np.array_equal(index.labels(), nodes)):
        raise AssertionError("the matrix of exact search is not that of the table")
    tree = index.taxonomy
    for name in ("order 0", "order 1/family 2", "order 2/family 0/species 1"):
        node = tree.find(name)
        wanted = np.flatnonzero((nodes >= node) & (nodes < int(tree.subtree_end[node])))
        if index.rows(["id"], Filter.of(tree, within=name))["id"].to_pylist() != [ids[i] for i in wanted]:
            raise AssertionError(f"the filter '{name}' gives other samples")
    whole = hashlib.sha256()
    for part in ("\n".join(ids).encode(), nodes.tobytes(), vectors.tobytes(), tree.digest.encode()):
        whole.update(part)
    return whole.hexdigest()


def prepare(kind: str, where: Path, n: int) -> None:
    """The index as it is before a change."""
    if kind == "build":
        return
    index = build(where, n)
    if kind == "compact":
        for part in range(10):
            index.add(rows(10 * n + 50 * part, 50, part))


def in_a_process(kind: str, where: Path, n: int, kill_after: float | None) -> tuple[float, bool]:
    """Make a change in a process of its own; the seconds it took, and whether it was killed.

    The process is forked from one that has imported the libraries and done nothing else.
    """
    os.environ["PYTHONWARNINGS"] = "ignore:lancedb fork support:RuntimeWarning"  # what is forked is at rest
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["lancedb", "torch", "labeltree.index.index"])
    mine, theirs = context.Pipe()
    process = context.Process(target=_child, args=(theirs, kind, where, n))
    process.start()
    mine.recv()  # it is ready
    began = time.perf_counter()
    mine.send("go")
    process.join(kill_after)
    took = time.perf_counter() - began
    process.kill()
    process.join()
    if process.exitcode not in (0, -signal.SIGKILL):
        raise RuntimeError(f"{kind}: the process ended with {process.exitcode}")
    return took, process.exitcode != 0


def _child(pipe: Connection, kind: str, where: Path, n: int) -> None:
    pipe.send("ready")
    pipe.recv()
    change(kind, where, n)


def trials(kind: str, count: int, n: int, folder: Path, rng: random.Random) -> tuple[Row, list[str]]:
    """Kill one kind of change so many times; a row of the table, and what went wrong."""
    before, after = folder / f"{kind} before", folder / f"{kind} after"
    prepare(kind, before, n)
    if before.exists():
        shutil.copytree(before, after)
    usual, _ = in_a_process(kind, after, n, None)
    old, new = state(before), state(after)
    kills = {"old": 0, "new": 0}
    wrong: list[str] = []
    number = 0
    while sum(kills.values()) + len(wrong) < count and number < 20 * count:
        number += 1
        where = folder / f"{kind} {number}"
        if before.exists():
            shutil.copytree(before, where)
        moment = rng.uniform(0, usual)
        took, killed = in_a_process(kind, where, n, moment)
        if not killed:  # it was done before that: the machine is quicker now
            usual = min(usual, took)
            shutil.rmtree(where)
            continue
        try:
            found = state(where)
            if found not in (old, new):
                wrong.append(f"{kind}, killed after {moment:.3f} s: neither the old nor the new state")
            kills["old" if found == old else "new"] += 1
            if found != new or kind in ("compact", "matrix"):
                change(kind, where, n)
            if state(where) != new:
                wrong.append(f"{kind}, killed after {moment:.3f} s: made again, it ends otherwise")
        except Exception as error:
            wrong.append(f"{kind}, killed after {moment:.3f} s: {type(error).__name__}: {error}")
        shutil.rmtree(where, ignore_errors=True)
    ends = ["the same", "the same"] if old == new else [kills["old"], kills["new"]]
    return [kind, sum(kills.values()), 1000 * usual, *ends, len(wrong)], wrong


def measure(size: Size, seed: str = "0") -> Results:
    """Kill each kind of change, or, in the tiny form, three of them once."""
    n = choose(size, full=20_000, short=20_000, tiny=300)
    count = choose(size, full=8, short=2, tiny=1)
    kinds = choose(size, full=CHANGES, short=CHANGES, tiny=("build", "replace", "move"))
    rng = random.Random(int(seed))
    table: list[Row] = []
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for kind in kinds:
            row, found = trials(kind, count, n, Path(folder), rng)
            table.append(row)
            wrong += found
    if wrong:
        raise RuntimeError("\n".join(wrong))
    columns = ("change", "kills", "undisturbed, ms", "then old", "then new", "wrong")
    return Results([Table(f"Changes of an index of {n:,} samples, killed by SIGKILL", columns, table)], {})


if __name__ == "__main__":
    main(__doc__, measure, {"seed": "of the moments; else 0"})
