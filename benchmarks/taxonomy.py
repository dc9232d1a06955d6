"""Time of large taxonomies: 100,000 nodes, WordNet's nouns, embeddings of 10,000 classes.

    python benchmarks/taxonomy.py [--wordnet FOLDER]

FOLDER holds WordNet's data.noun and index.noun (Debian: wordnet-base, /usr/share/wordnet); without it that
part is left out.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch

from labeltree.taxonomy import Taxonomy, TaxonomyDAG

T = TypeVar("T")


def timed(what: str, work: Callable[[], T], repeat: int = 1) -> T:
    """Do the work and print the seconds it took, the best of several times."""
    best, result = float("inf"), None
    for _ in range(repeat):
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
    print(f"{what:<52} {best:9.4f} s", flush=True)
    return result  # type: ignore[return-value]


def large_tree() -> None:
    """A tree of about 100,000 nodes: built, saved, read, asked."""
    paths = [(f"g{i // 300}", f"f{i // 20}", f"s{i}") for i in range(95_000)]
    tree = timed("100,000 nodes from paths", lambda: Taxonomy.from_paths(paths))
    with tempfile.TemporaryDirectory() as folder:
        for suffix in (".json", ".csv", ".txt", ".nwk"):
            file = Path(folder) / f"tree{suffix}"
            timed(f"  saved as {suffix}", lambda file=file: tree.save(file))  # type: ignore[misc]
            timed(f"  read from {suffix}", lambda file=file: Taxonomy.from_file(file))  # type: ignore[misc]
    names = [tree.names[node] for node in tree.leaves.tolist()]
    timed("  95,000 labels encoded", lambda: tree.encode(names))
    generator = torch.Generator().manual_seed(0)
    u, v = tree.leaves[torch.randint(len(tree.leaves), (2, 1_000_000), generator=generator)]
    timed("  LCA of a million pairs (first)", lambda: tree.lca(u, v))
    timed("  LCA of a million pairs", lambda: tree.lca(u, v), 3)
    timed("  relation of 8192 pairs", lambda: tree.relation(u[:8192], v[:8192]), 20)
    timed("  class embeddings, sparse, 95,000 classes", tree.sparse_class_embeddings)
    dag = timed("  the same as a DAG", lambda: TaxonomyDAG.from_tree(tree))
    timed("  LCA of a million pairs (first)", lambda: dag.lca(u, v))


def many_classes() -> None:
    """Embeddings of 10,000 classes in random order, in a tree of one branch, which is the slowest."""
    tree = Taxonomy.from_paths([("top", f"a{i % 57}", f"b{i % 399}", f"c{i}") for i in range(10_000)])
    classes = tree.leaves[torch.randperm(10_000, generator=torch.Generator().manual_seed(0))]
    timed("10,000 class embeddings, Algorithm 1", lambda: tree.class_embeddings(classes))
    timed("10,000 class embeddings, sparse", lambda: tree.sparse_class_embeddings(classes))
    timed("10,000 class embeddings, 128 dimensions", lambda: tree.class_embeddings(classes, dim=128))


def wordnet(folder: str) -> None:
    """WordNet's nouns, a DAG of 82,115 nodes."""
    dag = timed("WordNet's nouns", lambda: TaxonomyDAG.from_wordnet(folder))
    u = dag.leaves[torch.randint(len(dag.leaves), (1000,), generator=torch.Generator().manual_seed(0))]
    timed("  LCA of a million pairs (first)", lambda: dag.lca(u[:, None], u))
    timed("  LCA of a million pairs", lambda: dag.lca(u[:, None], u))
    timed("  path length of a million pairs", lambda: dag.path_length(u[:, None], u))
    timed("  projected by the ODIR rule", lambda: dag.project("odir"))
    timed("  projected by the YOLO9000 rule", lambda: dag.project("yolo9000"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wordnet", metavar="FOLDER")
    options = parser.parse_args()
    print(f"{torch.get_num_threads()} threads")
    large_tree()
    many_classes()
    if options.wordnet:
        wordnet(options.wordnet)
