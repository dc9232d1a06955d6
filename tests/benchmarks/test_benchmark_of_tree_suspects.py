"""What the benchmark of the suspects of a tree plants, and its tables."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest
import torch

from labeltree.taxonomy import Taxonomy


def tree_of(parents: int, children: int) -> Taxonomy:
    return Taxonomy.from_paths(
        [f"{p}/leaf {p * children + c}" for p in range(parents) for c in range(children)]
    )


def test_strangers_keep_the_sizes_and_replace_all_children() -> None:
    script = importlib.import_module("tree_suspects")
    tree = tree_of(11, 4)
    nodes = tree.leaves.repeat_interleave(2)
    labels, changed, marked = script.strangers(nodes, tree, 0)
    assert len(marked) == 1
    assert (
        torch.bincount(changed.parent[1:]).sort().values.tolist()
        == torch.bincount(tree.parent[1:]).sort().values.tolist()
    )
    (parent,) = marked
    before = {
        tree.names[v]
        for v in (tree.parent == tree.find(changed.names[parent].split(" #")[0])).nonzero()[:, 0]
    }
    after = {changed.names[v].split(" #")[0] for v in (changed.parent == parent).nonzero()[:, 0]}
    assert not before & after
    assert [changed.names[v].split(" #")[0] for v in labels.tolist()] == [
        tree.names[v] for v in nodes.tolist()
    ]


def test_halves_and_joined_leaves() -> None:
    script = importlib.import_module("tree_suspects")
    tree = tree_of(5, 4)
    nodes = tree.leaves.repeat_interleave(12)
    labels, changed, marked = script.halve(nodes, tree, 0)
    assert (len(changed), len(marked)) == (len(tree) + 2, 4)
    assert {changed.names[v].removesuffix(" (twin)") for v in marked} < set(tree.names)
    labels, changed, marked = script.join(nodes, tree, 0)
    assert sorted(torch.bincount(labels)[list(marked)].tolist()) == [24, 24]


def test_tables_of_cells_that_were_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = importlib.import_module("tree_suspects")
    entry = {"tested": 20, "planted": 2, "first": 1, "listed": [4, 1], "significant": [0, 0], "seconds": 1.0}
    nothing = "20 leaves, 4 parents, in clusters"
    cells = [(nothing, "move", 0), ("emoji", "a tenth moved", 0), ("emoji", "a tenth moved", 1)]
    monkeypatch.setattr(script, "CELLS", tmp_path / "cells.jsonl")
    script.CELLS.write_text("".join(json.dumps({"cell": cell, **entry}) + "\n" for cell in cells))
    alarms, mistakes = script.tables().tables
    assert alarms.rows == [[f"{nothing}: move", 1, 20.0, "0.200", "0.0000", 0]]
    found = ["0.50 ± 0.00", "0.25 ± 0.00", "0.50 ± 0.00", 4.0, "–", "0.00 ± 0.00", 0.0]
    assert mistakes.rows == [["emoji: a tenth moved (move)", 2, 2.0, 20.0, *found]]
