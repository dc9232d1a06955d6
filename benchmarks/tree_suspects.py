"""Suspects of the tree: false alarms where there is nothing to find, and planted mistakes that are found.

    labeltree train --data emoji --objective simclr --epochs 6 --batch_size 256 --out runs/simclr
    labeltree embed runs/simclr --out simclr.npz
    python benchmarks/tree_suspects.py --emoji simclr.npz      all cells, some minutes on one core; resumable
    python benchmarks/tree_suspects.py --emoji simclr.npz --table     tables of the cells measured so far

Nothing to find: random vectors for the leaves of random trees with unequal parents, and emoji whose subgroups
are dealt to the groups at random. Planted: moved nodes (`labeltree.taxonomy.wrong_trees.perturb`), parents
all of whose children are strangers (each tenth parent), halves of one leaf (each tenth leaf, cut at random),
and two leaves under one name (pairs at random, a tenth of the leaves keeps its name). Emoji are embedded by
SimCLR, which sees no label; of Fashion-MNIST 128 principal components of the pixels are taken; branches that
lie apart are made up. Units are samples.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kept import Results, Row, Table, write
from labeltree.cache import data_home
from labeltree.curation.tree_suspects import Kind, find_tree_suspects
from labeltree.data import open_source
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.wrong_trees import perturb

CELLS = data_home() / "benchmarks" / "tree_suspects.jsonl"
SHAPES = {
    "20 leaves, 4 parents": (20, 4),
    "95 leaves, 9 parents": (95, 9),
    "300 leaves, 60 parents": (300, 60),
}
LAWS = ("in all directions", "in few directions", "in clusters", "parents spread unequally")
DRAWS, SEEDS = 20, 3
KINDS: dict[str, Kind] = {
    "a tenth moved": "move",
    "a fifth moved": "move",
    "parents of strangers": "dissolve",
    "halves of a leaf": "merge",
    "two leaves as one": "split",
}
Data = tuple[Tensor, Tensor, Taxonomy]
Planted = tuple[Tensor, Taxonomy, set[int]]


def cells() -> list[tuple[str, str, int]]:
    """Data, what is planted, and the seed of every cell, the cheap ones first."""
    nothing = [f"{shape}, {law}" for shape in SHAPES for law in LAWS]
    found = [(name, kind, seed) for name in nothing for kind in ("move", "dissolve") for seed in range(DRAWS)]
    found += [
        ("emoji, subgroups dealt", kind, seed) for kind in ("move", "dissolve") for seed in range(DRAWS)
    ]
    for data in ("branches apart", "fashion-mnist", "emoji, subgroups"):
        # Fashion-MNIST has one parent of three or more with enough nodes beside it.
        plants = [what for what in KINDS if data != "fashion-mnist" or what != "parents of strangers"]
        found += [(data, what, seed) for what in plants for seed in range(SEEDS)]
    moves = ("a tenth moved", "a fifth moved", "parents of strangers")
    return found + [("emoji", what, seed) for what in moves for seed in range(SEEDS)]


def random_data(name: str, seed: int) -> Data:
    """Ten samples for each leaf of a tree at random; the leaves lie anywhere, whatever their parents."""
    shape, law = next((shape, law) for shape in SHAPES for law in LAWS if name == f"{shape}, {law}")
    leaves, parents = SHAPES[shape]
    draw = np.random.default_rng(seed)
    shares = draw.dirichlet(np.full(parents, 0.7))
    place = np.concatenate([np.arange(parents), draw.choice(parents, leaves - parents, p=shares)])
    width = 64
    means = draw.standard_normal((leaves, width))
    if law == "in few directions":
        means /= np.arange(1, width + 1)
    elif law == "in clusters":
        means += 2 * draw.standard_normal((leaves // 8, width))[draw.integers(leaves // 8, size=leaves)]
    elif law == "parents spread unequally":
        means *= np.exp(0.7 * draw.standard_normal(parents))[place][:, None]
    tree = Taxonomy.from_paths([f"{parent}/leaf {leaf}" for leaf, parent in enumerate(place)])
    nodes = tree.encode([f"leaf {leaf}" for leaf in range(leaves)]).repeat_interleave(10)
    scale = 0.3 * float(np.sqrt(np.square(means).mean()))
    points = np.repeat(means, 10, 0) + scale * draw.standard_normal((10 * leaves, width))
    return torch.from_numpy(points).float(), nodes, tree


def branches_apart() -> Data:
    """Twelve parents of eight leaves with thirty samples; leaves spread 0.4 times as far as parents."""
    draw = np.random.default_rng(0)
    centres, offsets = draw.standard_normal((12, 1, 16)), 0.4 * draw.standard_normal((12, 8, 16))
    means = (centres + offsets).reshape(96, 16)
    tree = Taxonomy.from_paths([f"{leaf // 8}/leaf {leaf}" for leaf in range(96)])
    nodes = tree.encode([f"leaf {leaf}" for leaf in range(96)]).repeat_interleave(30)
    points = np.repeat(means, 30, 0) + 0.2 * draw.standard_normal((96 * 30, 16))
    return torch.from_numpy(points).float(), nodes, tree


def read(name: str, emoji: Path) -> Data:
    """Vectors, labels, and the part of the tree that occurs."""
    if name == "branches apart":
        return branches_apart()
    if name == "fashion-mnist":
        from suspects import pixels, samples

        source = samples(name)
        return pixels(source)[0], source.nodes, source.taxonomy
    tree = open_source("emoji").taxonomy
    table = EmbeddingTable.load(emoji, tree)
    vectors = table.features if table.features is not None else table.embeddings
    nodes = table.nodes
    if "subgroups" in name:
        tree, to = tree.cut(2)
        nodes = torch.where(nodes >= 0, to[nodes.clamp(min=0)], -1)
    known = nodes > 0
    present = torch.unique(tree.ancestors[nodes[known]])
    tree, to = tree.subgraph(present[present >= 0])
    return vectors[known], to[nodes[known]], tree


def planted(what: str, data: Data, seed: int) -> Planted:
    """Labels, a tree, and the nodes that are wrong in it."""
    _, nodes, tree = data
    if what in ("a tenth moved", "a fifth moved"):
        wrong, to = perturb(tree, 0.1 if what == "a tenth moved" else 0.2, seed)
        back = torch.empty_like(to)
        back[to] = torch.arange(len(to))
        children = torch.bincount(wrong.parent[1:], minlength=len(wrong))
        moved = {v for v in range(1, len(wrong)) if int(to[tree.parent[back[v]]]) != int(wrong.parent[v])}
        return to[nodes], wrong, {v for v in moved if int(children[wrong.parent[v]]) > 1}
    return {"parents of strangers": strangers, "halves of a leaf": halve, "two leaves as one": join}[what](
        nodes, tree, seed
    )


def strangers(nodes: Tensor, tree: Taxonomy, seed: int) -> Planted:
    """Each tenth parent of three or more gets the places of as many random nodes that are not its own."""
    draw = np.random.default_rng(seed)
    parents = tree.parent.tolist()
    of = defaultdict(list)
    for node in range(1, len(tree)):
        if int(tree.depth[node]) > 1:
            of[parents[node]].append(node)
    large = [parent for parent, some in of.items() if len(some) >= 3]
    chosen = draw.permutation(large)[: max(1, len(large) // 10)].tolist()
    for parent in chosen:
        depth = int(tree.depth[parent])
        others = [
            v for p, some in of.items() if p not in chosen and int(tree.depth[p]) == depth for v in some
        ]
        partners = draw.permutation(others)[: len(of[parent])].tolist()
        for own, other in zip(of[parent], partners, strict=False):
            parents[own], parents[other] = parents[other], parents[own]
    names = [f"{name} #{node}" if node else name for node, name in enumerate(tree.names)]
    return _renumbered(nodes, names, parents, chosen)


def halve(nodes: Tensor, tree: Taxonomy, seed: int) -> Planted:
    """Each tenth leaf as two leaves with samples at random."""
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


def join(nodes: Tensor, tree: Taxonomy, seed: int) -> Planted:
    """Pairs of leaves as one, a tenth of the leaves (at least one pair)."""
    generator = torch.Generator().manual_seed(seed)
    leaves = tree.leaves[torch.bincount(nodes, minlength=len(tree))[tree.leaves] >= 12]
    order = leaves[torch.randperm(len(leaves), generator=generator)].tolist()
    labels = nodes.clone()
    kept = []
    for place in range(max(1, len(order) // 10)):
        labels[nodes == order[2 * place + 1]] = order[2 * place]
        kept.append(order[2 * place])
    return _renumbered(labels, list(tree.names), tree.parent.tolist(), kept)


def _renumbered(labels: Tensor, names: list[str], parents: list[int], marked: list[int]) -> Planted:
    tree = Taxonomy(names, parents)
    place = torch.empty_like(tree.order)
    place[tree.order] = torch.arange(len(tree))
    return place[labels], tree, {int(place[node]) for node in marked}


def measure_cell(name: str, what: str, seed: int, data: Data) -> dict[str, Any]:
    """What is found where nothing is planted, or how much of what is."""
    vectors, nodes, tree = data
    kind: Kind = KINDS.get(what) or what  # type: ignore[assignment]
    wrong: set[int] = set()
    if what in KINDS:
        nodes, tree, wrong = planted(what, data, seed)
    elif name.endswith("dealt"):
        parents = tree.parent.clone()
        places = (tree.depth == 2).nonzero()[:, 0]
        generator = torch.Generator().manual_seed(seed)
        parents[places] = parents[places[torch.randperm(len(places), generator=generator)]]
        nodes, tree, _ = _renumbered(nodes, list(tree.names), parents.tolist(), [])
    found = find_tree_suspects(vectors, nodes, tree, kinds=(kind,), seed=seed)
    stems = [label.removesuffix(" (twin)") for label in tree.names]
    hits = [
        one.node in wrong and (kind != "merge" or stems[one.node] == stems[one.other]) for one in found.found
    ]
    sure = [hit for hit, one in zip(hits, found.found, strict=True) if one.significant]
    number = len(wrong) // 2 if kind == "merge" else len(wrong)
    return {
        "tested": found.tested[kind],
        "planted": number,
        "first": sum(hits[:number]),
        "listed": [len(hits), sum(hits)],
        "significant": [len(sure), sum(sure)],
    }


def known() -> dict[tuple[Any, ...], dict[str, Any]]:
    """The cells that are measured."""
    lines = CELLS.read_text("utf-8").splitlines() if CELLS.is_file() else []
    return {tuple(entry["cell"]): entry for entry in map(json.loads, lines)}


def run(emoji: Path) -> None:
    """Measure the cells that are missing."""
    CELLS.parent.mkdir(parents=True, exist_ok=True)
    done = known()
    kept: dict[str, Data] = {}
    for cell in cells():
        if cell in done:
            continue
        name, what, seed = cell
        start = time.perf_counter()
        if "parents" in name:
            data = random_data(name, seed)
        else:
            data = kept[name] = kept.get(name) or read(name, emoji)
        entry = {"cell": list(cell), **measure_cell(name, what, seed, data)}
        entry["seconds"] = round(time.perf_counter() - start, 1)
        with CELLS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        print(json.dumps(entry), flush=True)


def tables() -> Results:
    """The tables of all measured cells."""
    done = known()
    entries: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for cell in cells():
        if cell in done:
            entries[cell[:2]].append(done[cell])
    nothing: list[Row] = []
    mistakes: list[Row] = []
    for (name, what), some in entries.items():
        tested = sum(entry["tested"] for entry in some)
        if what in KINDS:
            mistakes.append(
                [
                    f"{name}: {what} ({KINDS[what]})",
                    len(some),
                    round(float(np.mean([entry["planted"] for entry in some])), 1),
                    round(float(np.mean([entry["tested"] for entry in some])), 1),
                    _spread([entry["first"] / max(entry["planted"], 1) for entry in some]),
                    *(
                        text
                        for key in ("listed", "significant")
                        for text in (
                            _spread([entry[key][1] / entry[key][0] for entry in some if entry[key][0]]),
                            _spread([entry[key][1] / max(entry["planted"], 1) for entry in some]),
                            round(float(np.mean([entry[key][0] for entry in some])), 1),
                        )
                    ),
                ]
            )
        else:
            alarms = sum(entry["significant"][0] for entry in some)
            listed = f"{sum(entry['listed'][0] for entry in some) / max(tested, 1):.3f}"
            nothing.append(
                [
                    f"{name}: {what}",
                    len(some),
                    round(tested / len(some), 1),
                    listed if what == "move" else "–",
                    f"{alarms / max(tested, 1):.4f}",
                    sum(entry["significant"][0] > 0 for entry in some),
                ]
            )
    columns = ["data: what is planted (kind)", "seeds", "planted", "tested", "found at the number planted"]
    columns += [
        f"{way}: {what}" for way in ("listed", "significant") for what in ("precision", "recall", "number")
    ]
    return Results(
        [
            Table(
                "False alarms where there is nothing to find",
                ["data: kind", "draws", "tested", "listed, share", "significant, share", "draws with any"],
                nothing,
            ),
            Table("Planted mistakes", columns, mistakes),
        ],
        notes=[
            "Significant: p of at most 0.05 after correction for many nodes, so at most about one draw in "
            "twenty should have any. Listed: p of at most 0.05 before correction (move). Random children are "
            "rightly listed as no more alike than random ones, so that share is left out (dissolve).",
            "Mean ± standard deviation over the seeds of planting; precision over the seeds with anything "
            "found, – where there was none. Found at the number planted: the share of the planted among as "
            "many as were planted, the first of the list. What the tree has by itself counts as found "
            "wrongly, so precision is a lower bound.",
        ],
        seconds=sum(entry["seconds"] for entry in done.values()),
    )


def _spread(values: list[float]) -> str:
    if not values:
        return "–"
    return f"{np.mean(values):.2f}" + (f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--emoji", type=Path, required=True, help="embeddings of emoji, see above")
    parser.add_argument("--table", action="store_true", help="only write the tables")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if not chosen.table:
        run(chosen.emoji)
    write(tables(), "tree_suspects", "full", {"emoji": chosen.emoji.name})
