"""Time of large taxonomies: 100,000 nodes, WordNet's nouns, embeddings of 10,000 classes (P13).

    python benchmarks/taxonomy.py [--short] [--wordnet FOLDER]

FOLDER holds WordNet's data.noun and index.noun (Debian: wordnet-base, /usr/share/wordnet); without it that
part is left out.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch

from harness import Results, Size, Table, choose, main
from labeltree.data import wordnet_dag
from labeltree.pairs import PairRelation
from labeltree.taxonomy import Taxonomy, TaxonomyDAG

T = TypeVar("T")


class Clock:
    """Times work and keeps a row for each."""

    def __init__(self) -> None:
        self.rows: list[list[str | float]] = []

    def __call__(self, what: str, work: Callable[[], T], repeats: int = 1) -> T:
        """Do the work and keep the CPU seconds it took, the best of several times."""
        took = []
        for _ in range(repeats):
            began = time.process_time()
            result = work()
            took.append(time.process_time() - began)
        self.rows.append([what, min(took)])
        return result


def large_tree(clock: Clock, leaves: int) -> None:
    """A tree of about 100,000 nodes: built, saved, read, asked."""
    paths = [(f"g{i // 300}", f"f{i // 20}", f"s{i}") for i in range(leaves)]
    tree = clock("from paths", lambda: Taxonomy.from_paths(paths))
    with tempfile.TemporaryDirectory() as folder:
        for suffix in (".json", ".csv", ".txt", ".nwk"):
            file = Path(folder) / f"tree{suffix}"
            clock(f"saved as {suffix}", lambda file=file: tree.save(file))  # type: ignore[misc]
            clock(f"read from {suffix}", lambda file=file: Taxonomy.from_file(file))  # type: ignore[misc]
    names = [tree.names[node] for node in tree.leaves.tolist()]
    clock("all leaves encoded", lambda: tree.encode(names))
    generator = torch.Generator().manual_seed(0)
    pairs = max(10 * leaves, 8192)
    u, v = tree.leaves[torch.randint(len(tree.leaves), (2, pairs), generator=generator)]
    clock(f"LCA of {pairs:,} pairs, first time", lambda: tree.lca(u, v))
    clock(f"LCA of {pairs:,} pairs", lambda: tree.lca(u, v), 3)
    clock("relation of 8192 pairs", lambda: tree.relation(u[:8192], v[:8192]), 20)
    clock("relation of a batch of 8192", lambda: PairRelation.of_batch(tree.paths, u[:8192]), 20)
    clock("class embeddings of all leaves, sparse", tree.sparse_class_embeddings)
    dag = clock("the same as a DAG", lambda: TaxonomyDAG.from_tree(tree))
    clock(f"LCA of {pairs:,} pairs there, first time", lambda: dag.lca(u, v))


def many_classes(clock: Clock, classes: int) -> None:
    """Embeddings of classes in random order, in a tree of one branch, which is the slowest."""
    tree = Taxonomy.from_paths([("top", f"a{i % 57}", f"b{i % 399}", f"c{i}") for i in range(classes)])
    order = tree.leaves[torch.randperm(classes, generator=torch.Generator().manual_seed(0))]
    clock("Algorithm 1", lambda: tree.class_embeddings(order))
    clock("sparse", lambda: tree.sparse_class_embeddings(order))
    dim = min(128, classes)
    clock(f"{dim} dimensions", lambda: tree.class_embeddings(order, dim=dim))


def nouns(clock: Clock, folder: str) -> None:
    """WordNet's nouns, a DAG of 82,115 nodes."""
    dag = clock("read", lambda: wordnet_dag(folder))
    u = dag.leaves[torch.randint(len(dag.leaves), (1000,), generator=torch.Generator().manual_seed(0))]
    clock("LCA of a million pairs, first time", lambda: dag.lca(u[:, None], u))
    clock("LCA of a million pairs", lambda: dag.lca(u[:, None], u))
    clock("path length of a million pairs", lambda: dag.path_length(u[:, None], u))
    clock("projected by the ODIR rule", lambda: dag.project("odir"))
    clock("projected by the YOLO9000 rule", lambda: dag.project("yolo9000"))


def measure(size: Size, wordnet: str | None = None) -> Results:
    """CPU seconds of each piece of work."""
    leaves = choose(size, full=95_000, short=95_000, tiny=300)
    classes = choose(size, full=10_000, short=10_000, tiny=300)
    columns = ("work", "CPU s")
    tree, embeddings, dag = Clock(), Clock(), Clock()
    large_tree(tree, leaves)
    many_classes(embeddings, classes)
    tables = [Table(f"A tree of {leaves:,} leaves", columns, tree.rows)]
    tables.append(Table(f"Embeddings of {classes:,} classes", columns, embeddings.rows))
    if wordnet:
        nouns(dag, wordnet)
        tables.append(Table("WordNet's nouns", columns, dag.rows))
    took = {str(what): float(seconds) for what, seconds in [*tree.rows, *embeddings.rows]}
    relation = max(took["relation of 8192 pairs"], took["relation of a batch of 8192"])
    slowest = max(float(seconds) for _, seconds in embeddings.rows)
    return Results(tables, {"P13 classes": slowest, "P13 relation": 1e3 * relation})


if __name__ == "__main__":
    main(__doc__, measure, {"wordnet": "folder of WordNet's data.noun and index.noun"})
