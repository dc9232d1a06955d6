"""Where the labels of new samples lie in the tree of a run."""

from types import SimpleNamespace
from typing import Any

import torch

from labeltree.inference.extend import _moved, _placed
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy


def test_every_label_that_occurs_has_a_place_and_the_root_has_none() -> None:
    known = Taxonomy.from_paths([("a", "b"), ("c",)])
    theirs = Taxonomy.from_paths([("c",), ("a", "b"), ("a", "new")])
    nodes = torch.tensor([0, -1, *(theirs.find(path) for path in ("a/new", "c", "c", "a/b"))])
    source: Any = SimpleNamespace(nodes=nodes, taxonomy=theirs)
    options: Any = SimpleNamespace(place="path", under=None, retire=())
    before: Any = SimpleNamespace(run=SimpleNamespace(taxonomy=known))
    placed = _placed(source, EmbeddingTable(torch.zeros(6, 2), nodes), before, options)
    assert {each.path for each in placed} == {("a", "new"), ("a", "b"), ("c",)}
    grown = Taxonomy.from_paths([("a", "b"), ("c",), ("a", "new")])
    moved = [grown.path_name(node) if node > 0 else None for node in _moved(source, placed, grown).tolist()]
    assert moved == [None, None, "a/new", "c", "c", "a/b"]
