"""Embeddings, an index of them, and a run give the same samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from labeltree.curation.reading import read_labelled
from labeltree.errors import LabeltreeError
from labeltree.index import Index, IndexRows
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])


def test_an_index_and_its_embeddings_are_the_same_samples(tmp_path: Path) -> None:
    vectors = torch.nn.functional.normalize(torch.randn(6, 4, generator=torch.Generator().manual_seed(0)))
    nodes = TREE.encode(["dog", "cat", None, "oak", "animal", "dog"])
    table = EmbeddingTable(
        vectors,
        nodes,
        paths=np.asarray([f"ü {i}.png" for i in range(6)]),
        groups=torch.tensor([3, 3, -1, 4, 4, -1]),
        split=np.asarray(["train"] * 5 + ["test"]),
    )
    table.save(tmp_path / "theirs.npz")
    TREE.save(tmp_path / "tree.json")
    Index.create(tmp_path / "index", IndexRows.from_table(table), taxonomy=TREE)
    first = read_labelled(tmp_path / "theirs.npz", taxonomy=tmp_path / "tree.json")
    second = read_labelled(tmp_path / "index")
    assert first.ids == second.ids == [f"ü {i}.png" for i in range(6)]
    assert torch.equal(first.nodes, second.nodes)
    assert torch.allclose(first.points, second.points)
    assert first.geometry == second.geometry
    assert first.taxonomy == second.taxonomy
    assert second.split is not None
    assert second.split.tolist() == ["train"] * 5 + ["test"]
    assert second.groups is not None
    assert len(second.groups.unique()) == 4  # two groups, and two samples alone
    assert first.paths == second.paths


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(LabeltreeError):
        read_labelled(tmp_path / "nothing")
    EmbeddingTable(torch.eye(2), torch.tensor([1, 2])).save(tmp_path / "theirs.npz")
    with pytest.raises(LabeltreeError, match="name it with --taxonomy"):
        read_labelled(tmp_path / "theirs.npz")
