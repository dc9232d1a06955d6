"""How many planted mistakes of a tree are found, and how many of those found are planted, on any table.

Planted are moved nodes (`labeltree.taxonomy.wrong_trees.perturb`), halves of one leaf (each tenth leaf is
cut in two at random, to be merged), and two leaves under one name (pairs at random, to be split). What a tree
has by itself that does not fit counts as found wrongly, so precision is a lower bound. Inner nodes whose
children were exchanged are counted as `dissolve` if half of their children are strangers.

    python benchmarks/tree_suspects.py TABLE TAXONOMY --split test --seeds 3
"""

from __future__ import annotations

import argparse
import statistics
import warnings

import torch
from torch import Tensor

from labeltree.curation.tree_suspects import KINDS, TreeSuspects, find_tree_suspects
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy, load_taxonomy
from labeltree.taxonomy.wrong_trees import perturb


def main() -> None:
    """Plant, look, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table")
    parser.add_argument("taxonomy")
    parser.add_argument("--split")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--depth", type=int, help="cut the tree at this depth")
    parser.add_argument("--shares", default="0.1,0.2")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    vectors, nodes, tree = read(options)
    kinds = options.kinds.split(",")
    print(f"{tree}; {len(nodes):,} samples", flush=True)
    print(
        "| planted | planted of tested | precision at the number planted | listed: precision, recall "
        "| significant: precision, recall |\n|---|---|---|---|---|",
        flush=True,
    )
    for share in map(float, options.shares.split(",")):
        rows: dict[str, list[list[float]]] = {}
        for seed in range(options.seeds):
            wrong, to = perturb(tree, share, seed)
            back = torch.empty_like(to)
            back[to] = torch.arange(len(to))
            strange = [int(to[tree.parent[back[v]]]) != int(wrong.parent[v]) for v in range(1, len(wrong))]
            moved = {v for v, other in enumerate(strange, 1) if other}
            mixed = set()
            for v in range(len(wrong)):
                children = (wrong.parent == v).nonzero()[:, 0].tolist()
                if sum(child in moved for child in children) * 2 >= len(children) > 0:
                    mixed.add(v)
            some = tuple(kind for kind in ("move", "dissolve") if kind in kinds)
            if some:
                found = find_tree_suspects(vectors, to[nodes], wrong, kinds=some, seed=seed)
                for kind, planted in (("move", moved), ("dissolve", mixed)):
                    if kind in some:
                        count(rows, kind, found, planted, testable(wrong, to[nodes], kind))
        report(rows, f"share {share:g}")
    rows = {}
    for seed in range(options.seeds):
        for kind, plant in (("merge", halve), ("split", join)):
            if kind in kinds:
                labels, changed, planted = plant(nodes, tree, seed)
                found = find_tree_suspects(vectors, labels, changed, kinds=(kind,), seed=seed)
                count(rows, kind, found, planted, planted)
    report(rows, "each tenth leaf")


def read(options: argparse.Namespace) -> tuple[Tensor, Tensor, Taxonomy]:
    """Vectors, labels, and the part of the tree that occurs."""
    tree = load_taxonomy(options.taxonomy)
    assert isinstance(tree, Taxonomy)
    table = EmbeddingTable.load(options.table, tree)
    if options.split:
        table = table.select(options.split)
    if options.limit:
        table = table.rows(
            torch.randperm(len(table), generator=torch.Generator().manual_seed(0))[: options.limit]
        )
    nodes = table.nodes
    if options.depth:
        tree, to = tree.cut(options.depth)
        nodes = torch.where(nodes >= 0, to[nodes.clamp(min=0)], -1)
    known = nodes > 0
    present = torch.unique(tree.ancestors[nodes[known]])
    tree, to = tree.subgraph(present[present >= 0])
    return (table.features if table.features is not None else table.embeddings)[known], to[nodes[known]], tree


def testable(tree: Taxonomy, nodes: Tensor, kind: str) -> set[int]:
    """Moved nodes with a sibling, or inner nodes with three children or more."""
    children = torch.bincount(tree.parent[1:], minlength=len(tree))
    if kind == "dissolve":
        return {v for v in range(1, len(tree)) if int(children[v]) >= 3}
    return {v for v in range(1, len(tree)) if int(children[tree.parent[v]]) >= 2 and int(tree.depth[v]) > 1}


def count(
    rows: dict[str, list[list[float]]], kind: str, found: TreeSuspects, planted: set[int], tested: set[int]
) -> None:
    """Add precision and recall of one draw; a suspect pair is right if both leaves are halves of one."""
    planted = planted & tested
    listed = [one for one in found.found if one.kind == kind]
    stems = [name.removesuffix(" (twin)") for name in found.taxonomy.names]
    hit = [one.node in planted and (kind != "merge" or stems[one.node] == stems[one.other]) for one in listed]
    sure = [right for right, one in zip(hit, listed, strict=True) if one.significant]
    number = len(planted) // 2 if kind == "merge" else len(planted)
    tests = max(found.tested[kind], 1)
    rows.setdefault(kind, []).append(
        [
            number,
            tests,
            sum(hit[:number]) / max(number, 1),
            *(
                part
                for some in (hit, sure)
                for part in (
                    sum(some) / len(some) if some else float("nan"),
                    sum(some) / max(number, 1),
                    len(some),
                )
            ),
        ]
    )


def report(rows: dict[str, list[list[float]]], what: str) -> None:
    """Print means and standard deviations over draws."""
    for kind, values in rows.items():
        columns = list(zip(*values, strict=True))

        def told(place: int, columns: list[tuple[float, ...]] = columns) -> str:
            some = [value for value in columns[place] if value == value]
            if not some:
                return "–"
            sd = f" ± {statistics.stdev(some):.2f}" if len(some) > 1 else ""
            return f"{statistics.mean(some):.2f}{sd}"

        number, tests = (statistics.mean(columns[place]) for place in (0, 1))
        print(
            f"| {kind}, {what} | {number:.0f} of {tests:.0f} | {told(2)} | {told(3)}, {told(4)} "
            f"({statistics.mean(columns[5]):.0f} listed) | {told(6)}, {told(7)} "
            f"({statistics.mean(columns[8]):.0f}) |",
            flush=True,
        )


def halve(nodes: Tensor, tree: Taxonomy, seed: int) -> tuple[Tensor, Taxonomy, set[int]]:
    """Each tenth leaf as two leaves with samples at random: the labels, the tree, the new leaves."""
    generator = torch.Generator().manual_seed(seed)
    leaves = tree.leaves[torch.bincount(nodes, minlength=len(tree))[tree.leaves] >= 6]
    chosen = leaves[torch.randperm(len(leaves), generator=generator)[: max(1, len(leaves) // 10)]].tolist()
    parents, names = tree.parent.tolist(), list(tree.names)
    labels = nodes.clone()
    twins = []
    for leaf in chosen:
        twin = len(names)
        names.append(f"{names[leaf]} (twin)")
        parents.append(parents[leaf])
        rows = (nodes == leaf).nonzero()[:, 0]
        labels[rows[torch.rand(len(rows), generator=generator) < 0.5]] = twin
        twins += [leaf, twin]
    return _renumbered(labels, names, parents, twins)


def join(nodes: Tensor, tree: Taxonomy, seed: int) -> tuple[Tensor, Taxonomy, set[int]]:
    """Pairs of leaves as one, a tenth of the leaves (at least one pair): the labels, the tree, the leaves."""
    generator = torch.Generator().manual_seed(seed)
    leaves = tree.leaves[torch.bincount(nodes, minlength=len(tree))[tree.leaves] >= 12]
    order = leaves[torch.randperm(len(leaves), generator=generator)].tolist()
    labels = nodes.clone()
    kept = []
    for place in range(max(1, len(order) // 10)):
        if 2 * place + 1 < len(order):
            labels[nodes == order[2 * place + 1]] = order[2 * place]
            kept.append(order[2 * place])
    return _renumbered(labels, list(tree.names), tree.parent.tolist(), kept)


def _renumbered(
    labels: Tensor, names: list[str], parents: list[int], planted: list[int]
) -> tuple[Tensor, Taxonomy, set[int]]:
    tree = Taxonomy(names, parents)
    place = torch.empty_like(tree.order)
    place[tree.order] = torch.arange(len(tree))
    return place[labels], tree, {int(place[node]) for node in planted}


if __name__ == "__main__":
    main()
