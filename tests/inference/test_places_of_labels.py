"""Where the labels of new samples lie in the tree of a run."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from labeltree.errors import TaxonomyError
from labeltree.inference.extend import _moved, _placed
from labeltree.inference.place_classes import path_in_tree
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy


def test_every_label_that_occurs_has_a_place_and_the_root_has_none() -> None:
    known = Taxonomy.from_paths([("a", "b"), ("c",)])
    theirs = Taxonomy.from_paths([("c",), ("a", "b"), ("a", "new")])
    nodes = torch.tensor([0, -1, *(theirs.find(path) for path in ("a/new", "c", "c", "a/b"))])
    source: Any = SimpleNamespace(nodes=nodes, taxonomy=theirs)
    options: Any = SimpleNamespace(place="path", under=None, retire=(), mapping=None)
    before: Any = SimpleNamespace(run=SimpleNamespace(taxonomy=known))
    placed = _placed(source, EmbeddingTable(torch.zeros(6, 2), nodes), before, options)
    assert {each.path for each in placed} == {("a", "new"), ("a", "b"), ("c",)}
    grown = Taxonomy.from_paths([("a", "b"), ("c",), ("a", "new")])
    moved = [grown.path_name(node) if node > 0 else None for node in _moved(source, placed, grown).tolist()]
    assert moved == [None, None, "a/new", "c", "c", "a/b"]


@pytest.mark.parametrize(
    ("label", "under", "path"),
    [
        (("Animal", "DOG"), None, ("animal", "dog")),
        ((" dog ",), None, ("animal", "dog")),
        (("Animal", "newt"), None, ("animal", "newt")),
        (("dog",), None, ("animal", "dog")),
        (("Crow",), None, ("Crow",)),  # two nodes are called so
        (("DOG",), "animal", ("animal", "dog")),
        (("Newt",), "animal", ("animal", "Newt")),
    ],
)
def test_spellings_of_known_classes_are_no_new_ones(label: Any, under: str | None, path: Any) -> None:
    known = Taxonomy.from_paths(["animal/dog", "animal/crow", "tool/crow"])
    assert path_in_tree(label, known, under).path == path


def test_labels_of_an_older_version_are_read_by_its_mapping(tmp_path: Path) -> None:
    """As `predict --labelled` does: a renamed class is known, and what is new to both goes where it says."""
    known = Taxonomy.from_paths(["animal/hound", "plant/fern", "plant/moss"])
    file = tmp_path / "changes.yaml"
    file.write_text(
        "labeltree mapping: 1\nchanges:\n- {rename: animal/dog, to: animal/hound}\n"
        "- {split: plant/green, to: [plant/fern, plant/moss]}\n- {remove: tool}\n"
    )
    theirs = Taxonomy.from_paths(["animal/dog", "animal/newt", "plant/green"])
    options: Any = SimpleNamespace(place="path", under=None, retire=(), mapping=str(file))
    before: Any = SimpleNamespace(run=SimpleNamespace(taxonomy=known))

    def paths(tree: Taxonomy) -> list[Any]:
        nodes = tree.leaves
        source: Any = SimpleNamespace(nodes=nodes, taxonomy=tree)
        table = EmbeddingTable(torch.zeros(len(nodes), 2), nodes)
        return [each.path for each in _placed(source, table, before, options)]

    assert paths(theirs) == [("animal", "hound"), ("animal", "newt"), ("plant",)]
    with pytest.raises(TaxonomyError, match="'tool' is removed or split, and nothing but the root"):
        paths(Taxonomy.from_paths(["tool"]))
