"""``labeltree index``: makes, changes and describes an index."""

from pathlib import Path

import numpy as np
import pytest
import torch

from labeltree.cli.main import main
from labeltree.index import Index, IndexRows
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/x", "a/y", "b/z"])


def run(*words: object) -> int:
    return main(["index", *(str(word) for word in words)])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    TREE.save(tmp_path / "tree.json")
    names = np.array([f"im {i}.png" for i in range(9)])
    np.savez(
        tmp_path / "theirs.npz",
        embeddings=rng.normal(size=(9, 4)).astype(np.float32),
        labels=np.array(["a/x", "a/y", ""] * 3),
        paths=names,
        split=np.array(["train", "val", "test"] * 3),
        camera=np.array(list("abcabcabc")),
    )
    return tmp_path / "theirs.npz"


def test_from_embeddings_to_changes(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where, tree = tmp_path / "theirs.index", tmp_path / "tree.json"
    assert run("--embeddings", table, "--taxonomy", tree) == 0
    printed = capsys.readouterr().out
    assert run(table, "--taxonomy", tree, "--out", tmp_path / "as-a-run-is-named") == 0
    assert capsys.readouterr().out.replace("as-a-run-is-named", "theirs.index") == printed
    assert "9, 6 with a label (test 3, train 3, val 3)" in printed
    assert "columns   path, split, camera\n" in printed, "and neither texts nor groups, which it has not"
    index = Index.open(where)
    assert index.search_id("im 0.png", where={"camera": "a"}).ids == sorted(
        ["im 3.png", "im 6.png"], key=lambda one: index.search_id("im 0.png").ids.index(one)
    )
    np.savez(
        tmp_path / "more.npz",
        embeddings=np.ones((2, 4), np.float32),
        labels=np.array(["b", "z"]),
        ids=np.array(["im 0.png", "new"]),
    )
    assert run(where, "--add", tmp_path / "more.npz") == 2
    assert "'im 0.png' is in the index already" in capsys.readouterr().err
    assert run(where, "--replace", tmp_path / "more.npz") == 0
    assert "1 sample replaced, 1 added" in capsys.readouterr().out
    assert run(where) == 0
    assert "(test 3, train 3, val 3, in none 1)" in capsys.readouterr().out
    assert run(where, "--delete", "new", "im 1.png") == 0
    assert "2 samples deleted" in capsys.readouterr().out
    assert run(where, "--delete", "new") == 2
    assert "'new' is not in the index" in capsys.readouterr().err
    Taxonomy.from_paths(["b/z", "a/x", "a/w"]).save(tmp_path / "new.yaml")
    assert run(where, "--move-to", tmp_path / "new.yaml") == 0
    assert "labels moved" in capsys.readouterr().out
    assert Index.open(where).taxonomy.candidates("a/y") == []
    assert run(where, "--compact") == 0
    assert run(where) == 0
    assert "8, 5 with a label (test 3, train 3, val 2)" in capsys.readouterr().out


def test_numbers_of_nodes_are_never_read_in_another_taxonomy(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where, file = tmp_path / "theirs.index", tmp_path / "more.parquet"
    assert run("--embeddings", table, "--taxonomy", tmp_path / "tree.json") == 0
    other = Taxonomy.from_paths(["a/w", "a/x", "a/y", "b/z"])  # with a class before the others
    nodes = torch.tensor([other.find("x"), other.find("z"), -1])
    names = np.array(["p", "q", "r"])
    EmbeddingTable(torch.ones(3, 4), nodes, paths=names, instances=torch.arange(3)).save(file, other)
    capsys.readouterr()
    assert run(where, "--add", file) == 2
    assert "were written with another taxonomy" in capsys.readouterr().err
    other.save(tmp_path / "more.taxonomy.json")
    assert run(where, "--add", file) == 0  # by path
    index = Index.open(where)
    label = dict(zip(index.rows(["id"])["id"].to_pylist(), index.labels().tolist(), strict=True))
    assert (label["p"], label["q"], label["r"]) == (TREE.find("x"), TREE.find("z"), -1)
    EmbeddingTable(torch.ones(1, 4), torch.tensor([other.find("w")]), paths=np.array(["s"])).save(file, other)
    capsys.readouterr()
    assert run(where, "--add", file) == 2
    said = capsys.readouterr().err
    assert "a/w" in said
    assert "--move-to FILE" in said
    assert run(where, "--move-to", tmp_path / "more.taxonomy.json") == 0
    assert run(where, "--add", file) == 0


def test_predictions_move_with_the_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = ["a/x", "a/y", "b/z", None]
    columns = {"prediction": answers}
    rows = IndexRows(list("pqrs"), np.eye(4), np.array([2, 3, 5, 3]), columns=columns)
    Index.create(tmp_path / "i", rows, taxonomy=TREE)
    Taxonomy.from_paths(["c/x", "b/z"]).save(tmp_path / "new.yaml")
    assert run(tmp_path / "i", "--move-to", tmp_path / "new.yaml") == 0
    assert "2 labels became coarser, those of 'a/y' (2)" in capsys.readouterr().out
    assert Index.open(tmp_path / "i").rows(["prediction"])["prediction"].to_pylist() == [
        "c/x",
        "c",
        "b/z",
        None,
    ]


def test_what_makes_no_sense_is_refused(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, message in (
        ((), "name a run or an index"),
        (("x", "--embeddings", table), "name a run or an index"),
        (("x", "--taxonomy", table), "--taxonomy is that of --embeddings"),
        (("x", "--mapping", table), "--move-to"),
        (("x", "--add", "a", "--compact"), "not allowed with"),
        (("x", "--add", "a", "--out", "b"), "--out is for making an index"),
        (("x", "--info"), "there is no index at"),
        (("x",), "no run at 'x'"),
        (("--embeddings", tmp_path / "gone.npz"), "no embeddings at"),
        (("--embeddings", table, "--taxonomy", tmp_path / "tree.json", "--out", tmp_path), "is not an index"),
    ):
        assert run(*words) == 2, words
        assert message in capsys.readouterr().err, words


def test_the_geometry_is_that_of_the_file(tmp_path: Path) -> None:
    TREE.save(tmp_path / "ball.taxonomy.json")
    points = torch.rand(5, 3) / 2
    EmbeddingTable(points, torch.tensor([1, 2, 3, 4, -1]), geometry="poincare", curvature=-0.5).save(
        tmp_path / "ball.npz"
    )
    assert run("--embeddings", tmp_path / "ball.npz", "--out", tmp_path / "b") == 0
    index = Index.open(tmp_path / "b")
    assert (index.geometry, index.settings.curvature) == ("poincare", -0.5)
    assert index.rows(["id"])["id"].to_pylist() == ["0", "1", "2", "3", "4"]


@pytest.mark.slow
def test_of_a_run(image_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    train = ["train", "--data", image_folder, "--objective", "hwc", "--geometry", "poincare", "--out", out]
    settings = ["--epochs=1", "--batch-size=10", "--image-size", 28, "--accelerator=cpu", "--quiet"]
    assert main([str(word) for word in train + settings]) == 0
    assert run(out) == 0
    printed = capsys.readouterr().out
    assert "60, all with a label" in printed
    assert str(out / "index") in printed
    assert run(out) == 2
    assert "already; overwrite it" in capsys.readouterr().err
    moved = tmp_path / "elsewhere"
    out.rename(moved)
    index = Index.open(moved)  # the run with its index
    assert index.geometry == "poincare"
    assert index.model == str(moved)
    file = index.rows(["path"])["path"][3].as_py()
    hits = index.search_images([file], k=2)[0]
    assert hits.rows["path"][0] == file
    assert hits.ids[0] in file
    assert index.rows(["instance"])["instance"].to_pylist() == list(range(60))
    assert run(moved, "--info") == 0
