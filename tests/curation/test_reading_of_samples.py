"""Embeddings, an index of them, and a run give the same samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import labeltree as lt
from labeltree.data.corrections import sample_contents
from labeltree.errors import LabeltreeError
from labeltree.index import Index, IndexRows
from labeltree.index.opened_tables import open_table, read_once
from labeltree.runs import EmbeddingTable, RunFolder, SampleRecord
from labeltree.taxonomy import Taxonomy, TaxonomyMapping

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
    first = open_table(tmp_path / "theirs.npz", taxonomy=tmp_path / "tree.json")
    second = open_table(tmp_path / "index")
    assert first.names == second.names == [f"ü {i}.png" for i in range(6)]
    assert torch.equal(first.nodes, second.nodes)
    assert torch.allclose(first.embeddings, second.embeddings)
    assert first.geometry == second.geometry
    assert first.taxonomy == second.taxonomy
    assert second.split is not None
    assert second.split.tolist() == ["train"] * 5 + ["test"]
    assert second.groups is not None
    assert len(second.groups.unique()) == 4  # two groups, and two samples alone
    assert np.array_equal(first.paths, second.paths)


@pytest.mark.parametrize("function", [lt.suspects, lt.label_next])
def test_a_taxonomy_is_refused_beside_an_index_which_has_its_own(
    function: Callable[..., Any], tmp_path: Path
) -> None:
    nodes = TREE.encode(["dog", "cat", "oak"]).numpy()
    Index.create(tmp_path / "index", IndexRows(list("abc"), np.eye(3), nodes), taxonomy=TREE)
    TREE.save(tmp_path / "tree.json")
    for place in (tmp_path / "index", tmp_path / "none"):
        with pytest.raises(ValueError, match="a run and an index have their own"):
            function(place, taxonomy=tmp_path / "tree.json")


def test_an_index_that_others_change_is_read_at_one_version(tmp_path: Path) -> None:
    new = Taxonomy.from_paths([("plant", "oak"), ("animal", "dog"), ("animal", "cat")])
    nodes = TREE.encode(["dog", "cat", "oak", "dog"])
    vectors = np.eye(4, dtype=np.float32)
    Index.create(tmp_path / "index", IndexRows(list("abcd"), vectors, nodes.numpy()), taxonomy=TREE)
    index, other = Index.open(tmp_path / "index"), Index.open(tmp_path / "index")
    rows = Index.rows

    def meanwhile(self: Index, *args: object, **options: object) -> object:
        if other.taxonomy != new:
            other.move(new, TaxonomyMapping.between(TREE, new)[0])
            other.delete(["a"])
        return rows(self, *args, **options)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Index, "rows", meanwhile)
        read = read_once(index, ["id", "node"])
    assert read.rows["id"].to_pylist() == list("abcd")
    assert read.vectors.shape == (4, 4)
    assert read.taxonomy.decode(torch.tensor(read.rows["node"].to_pylist())) == TREE.decode(nodes)
    assert read_once(index, ["id"]).rows["id"].to_pylist() == list("bcd")


def test_contents_of_an_index_are_those_its_run_has_recorded(tmp_path: Path) -> None:
    """Only of samples that are named by their rows, and only if the run knows all of them."""
    nodes = TREE.encode(["dog", "cat", "oak"])
    digests = np.arange(48, dtype=np.uint8).reshape(3, 16)

    def index_of(ids: list[str], name: str) -> Path:
        rows = IndexRows(ids, np.eye(3, dtype=np.float32), nodes.numpy())
        Index.create(tmp_path / name, rows, taxonomy=TREE, model=tmp_path / "run")
        return tmp_path / name

    where = index_of(["row 1", "b.png", "c.png #7"], "index")
    assert open_table(where).contents is None
    SampleRecord(
        instances=np.array([0, 3, 7]),
        nodes=nodes.numpy(),
        split=np.asarray(["train"] * 3),
        names=["row 1", "b.png", "c.png"],
        digests=digests,
        given_split=np.asarray([""] * 3),
        modalities=("image",),
    ).save(RunFolder(tmp_path / "run").samples)
    wanted = sample_contents(["row 1", "b.png", "c.png #7"], digests)
    contents = open_table(where).contents
    assert contents is not None
    assert contents.tolist() == wanted
    assert [bool(one) for one in wanted] == [True, False, True]
    assert open_table(index_of(["row 1", "b.png", "row 9"], "other")).contents is None
    RunFolder(tmp_path / "run").samples.write_bytes(b"damaged")
    assert open_table(where).contents is None


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(LabeltreeError):
        open_table(tmp_path / "nothing")
    EmbeddingTable(torch.eye(2), torch.tensor([1, 2])).save(tmp_path / "theirs.npz")
    with pytest.raises(LabeltreeError, match="--taxonomy FILE says what its numbers of nodes mean"):
        open_table(tmp_path / "theirs.npz")
