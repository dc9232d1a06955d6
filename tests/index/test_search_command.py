"""Searches as people type them: queries of every kind, their places on the tree, and every form of output."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from labeltree.cli.main import main
from labeltree.errors import DataError
from labeltree.index import Hits, Index, IndexRows, queries
from labeltree.index.queries import Query, queries_in, run_queries
from labeltree.index.search_results import Answer, likely_label, place_of, results_text
from labeltree.options.search import HOW_FAR_OFF
from labeltree.report.pages.search_page import search_page
from labeltree.report.shown_samples.searches import search_legend
from labeltree.taxonomy import Taxonomy, TaxonomyMapping

TREE = Taxonomy.from_paths(["animal/mammal/dog", "animal/mammal/cat", "animal/bird", "plant/oak"])
ANIMAL, MAMMAL, DOG, CAT, BIRD, OAK = (
    int(TREE.find(name)) for name in ("animal", "mammal", "dog", "cat", "bird", "oak")
)
ANGLES = {"d1": 0, "d2": 5, "c1": 20, "c,2": 30, "b1": 60, "m1": 65, "o1": 90, "o2": 100, "?": 120}
LABELS = [DOG, DOG, CAT, CAT, BIRD, MAMMAL, OAK, OAK, -1]


def at(degrees: float) -> list[float]:
    return [float(np.cos(np.radians(degrees))), float(np.sin(np.radians(degrees)))]


@pytest.fixture
def index(tmp_path: Path) -> Index:
    Image.new("RGB", (8, 8), "red").save(tmp_path / "d1.png")
    rows = IndexRows(
        list(ANGLES),
        np.array([at(angle) for angle in ANGLES.values()]),
        np.array(LABELS),
        paths=[str(tmp_path / "d1.png"), *[""] * 8],
        splits=["train", "test"] * 4 + [""],
        texts=[f"<b>text of {name}</b>" for name in ANGLES],
    )
    return Index.create(tmp_path / "index", rows, taxonomy=TREE)


@pytest.mark.parametrize(
    ("label", "node", "steps", "sign", "words"),
    [
        (DOG, DOG, 0, "✓", "same label"),
        (MAMMAL, DOG, 0, "✓", "below mammal"),
        (DOG, CAT, 1, "1 ↑", "both are animal/mammal"),
        (DOG, BIRD, 2, "2 ↑", "both are animal"),
        (DOG, OAK, 3, "3 ↑", "only the root in common"),
        (DOG, MAMMAL, None, "?", "labelled more coarsely"),
        (DOG, -1, None, "?", "no label"),
        (-1, DOG, None, "?", "the query has no label"),
    ],
)
def test_places_on_the_tree(label: int, node: int, steps: int | None, sign: str, words: str) -> None:
    place = place_of(TREE, label, node)
    assert (place.steps, place.sign, place.words) == (steps, sign, words)


def hits(nodes: list[int]) -> Hits:
    n = len(nodes)
    return Hits([str(i) for i in range(n)], np.arange(n) / 10, -np.arange(n) / 10, np.array(nodes, int))


@pytest.mark.parametrize(
    ("nodes", "label"),
    [([], -1), ([-1, -1], -1), ([-1, CAT], CAT), ([DOG, CAT, CAT], DOG), ([DOG, CAT, CAT, CAT], CAT)],
)
def test_the_nearest_decides_unless_several_others_agree(nodes: list[int], label: int) -> None:
    assert likely_label(hits(nodes)) == label


def test_ids_and_nodes(index: Index) -> None:
    by_id, by_node = run_queries(index, [Query("id", "d1"), Query("node", "mammal")], k=3)
    assert (by_id.label, by_id.label_from, by_id.hits and by_id.hits.ids) == (
        DOG,
        "query",
        ["d2", "c1", "c,2"],
    )
    assert by_node.label == MAMMAL
    assert by_node.hits is not None
    assert by_node.hits.ids == ["c1", "c,2", "d2"]  # around the mean of 0, 5, 20, 30 and 65 degrees


def test_images_that_cannot_be_read_have_a_problem(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded = (np.array([at(1), at(95)], np.float32), {1: "it is broken"})
    monkeypatch.setattr(queries, "_embedded", lambda *_: embedded)
    asked = [Query("image", name) for name in ("a.jpg", "b.jpg", "c.jpg")]
    first, second, third = run_queries(index, asked, k=2)
    assert (first.label, first.label_from) == (DOG, "results")
    assert (second.hits, second.problem) == (None, "it is broken")
    assert third.hits is not None
    assert third.hits.ids == ["o1", "o2"]
    known = run_queries(index, asked, k=2, label="cat")[0]
    assert (known.label, known.label_from) == (CAT, "query")


def test_all_queries_are_answered_by_one_version(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if somebody changes the labels between two of them: the numbers of nodes are of one taxonomy."""
    new = Taxonomy.from_paths(["plant/oak", "animal/mammal/dog", "animal/mammal/cat", "animal/bird"])
    own = queries._own_labels

    def meanwhile(seen: Index, names: Sequence[str]) -> dict[str, int]:
        if (other := Index.open(index.where)).taxonomy != new:
            other.move(new, TaxonomyMapping.between(TREE, new)[0])
        return own(seen, names)

    monkeypatch.setattr(queries, "_own_labels", meanwhile)
    first, second = run_queries(index, [Query("id", "d1"), Query("node", "mammal")], k=3)
    assert first.label == DOG
    assert first.hits is not None
    assert first.hits.nodes[0] == DOG
    assert second.label == MAMMAL
    assert index.taxonomy == new


def test_an_unknown_id_has_a_problem(index: Index, capsys: pytest.CaptureFixture[str]) -> None:
    known, unknown = run_queries(index, [Query("id", "d1"), Query("id", "nobody")], k=1)
    assert known.hits is not None
    assert unknown.hits is None
    assert "there is no sample 'nobody'" in str(unknown.problem)
    assert main(["search", index.where, "--id", "nobody", "--id", "d1", "-k", "1"]) == 1
    said = capsys.readouterr()
    assert "d2" in said.out
    assert "no answer for 1 of 2 queries; its entry says why, the other is answered" in said.err
    assert main(["search", index.where, "--id", "nobody"]) == 2
    assert "no answer for the query; its entry says why\n" in capsys.readouterr().err


def test_another_version_of_the_taxonomy(index: Index) -> None:
    new = Taxonomy.from_paths(["beast/dog", "beast/cat", "animal/bird", "plant/oak"])
    by_id = run_queries(index, [Query("id", "d1")], k=9, taxonomy=new, within="beast")[0]
    assert by_id.hits is not None
    assert by_id.hits.ids == ["d2", "c1", "c,2", "m1"]
    assert [new.names[node] for node in by_id.hits.nodes] == ["dog", "cat", "cat", "beast"]
    assert new.names[by_id.label] == "dog"
    by_node = run_queries(index, [Query("node", "beast")], k=1, taxonomy=new, not_within="beast/cat")[0]
    assert by_node.hits is not None
    assert by_node.hits.ids == ["d2"]
    with pytest.raises(ValueError, match="diverse counts nodes of the index's own"):
        run_queries(index, [Query("id", "d1")], taxonomy=new, diverse=1)
    with pytest.raises(ValueError, match="name that, too"):
        run_queries(index, [Query("id", "d1")], mapping="changes.yaml")


def test_queries_in_folders_and_tables(tmp_path: Path) -> None:
    for name in ("b.png", "a.jpg", "notes.txt", "sub/c.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = [Path(query.value).name for query in queries_in(tmp_path)]
    assert found == ["a.jpg", "b.png", "c.png"]
    table = tmp_path / "queries.csv"
    table.write_text("node,id\nanimal,d1\nplant,d2\n")
    assert queries_in(table) == [Query("id", "d1"), Query("id", "d2")]
    table.write_text("path\na.jpg\n")
    assert queries_in(table) == [Query("image", str(tmp_path / "a.jpg"))]
    table.write_text("name\na\n")
    with pytest.raises(DataError, match=r"no column of queries: one of image, .*; it has name"):
        queries_in(table)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no images"):
        queries_in(tmp_path / "empty")


def test_forms_of_output(index: Index) -> None:
    answers = run_queries(index, [Query("id", "c1")], k=8)
    answers.append(Answer("=x.jpg", "image", None, problem="it is broken"))
    table = results_text(answers, TREE)
    assert "  1  " in table
    assert table.splitlines()[1].split() == ["distance", "off", "label", "id", "text", "split", "file"]
    assert "c,2  <b>text of c,2</b>  test" in table
    assert "1 ↑" in table
    assert "=x.jpg: no answer: it is broken" in table
    rows = list(csv.DictReader(io.StringIO(results_text(answers, TREE, "csv"))))
    assert [row["id"] for row in rows[:2]] == ["c,2", "d2"]
    assert rows[0]["steps_off"] == "0"
    assert rows[-1]["problem"] == "it is broken"
    document = json.loads(results_text(answers, TREE, "json", {"samples": 9}))
    assert document["about"] == {"samples": 9}
    assert document["queries"][0]["hits"][1]["meets_at"] == "animal/mammal"
    assert document["queries"][1]["hits"] == []


def test_the_command(index: Index, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = index.where
    assert main(["search", where, "--id", "d1", "-k", "2", "--where", "split=test"]) == 0
    said = capsys.readouterr().out
    assert "c,2" in said
    assert said.endswith("\ndistance: 1 − cosine\n")
    wall = tmp_path / "wall.html"
    assert main(["search", where, "--id", "d1", "--node", "plant", "-k", "3", "--out", str(wall)]) == 0
    assert "data:image/jpeg;base64," in wall.read_text("utf-8")
    assert f"Among {len(index)} samples, nearest first" in wall.read_text("utf-8")
    few = ["--where", "split=test", "--not-within", "plant"]
    assert main(["search", where, "--id", "d1", *few, "--out", str(wall)]) == 0
    count = index.count(where={"split": "test"}, not_within="plant")
    assert 0 < count < index.count(where={"split": "test"}) < len(index)
    said = f"Among {count} of {len(index)} samples (split=test; not at or below plant), nearest first"
    assert said in wall.read_text("utf-8")
    assert main(["search", where, "--node", "dog", "--diverse", "1", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["queries"][0]["hits"]
    assert [hit["label"].split("/")[0] for hit in found] == ["animal", "plant"]
    assert main(["duplicates", where, "--cosine", "0.99"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("leakage: 2 of the 4 samples of test (50.0 %)")
    assert main(["duplicates", where, "--cosine", "0.5", "--pairs", "1", "--format", "csv"]) == 0
    assert "pairs are listed, those across splits first; --pairs N lists more" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--node", "unicorn"], "unicorn"),
        (["--node", "dog", "--within", "unicorn"], "unicorn"),
        (["--text", "a dog"], "made from vectors alone"),
        (["--id", "d1", "--where", "colour=red"], "no column 'colour'"),
        (["--id", "d1", "-k", "0"], "k is 0"),
        ([], "name what to search for"),
        (["--id", "d1", "--mapping", "x"], "--taxonomy"),
        (["--id", "d1", "--format", "html"], "a page needs a file"),
    ],
)
def test_mistakes_are_one_sentence(
    index: Index, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["search", index.where, *words]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said


def test_a_place_without_an_index_says_how_to_make_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["search", str(tmp_path), "--id", "a"]) == 2
    assert "labeltree index" in capsys.readouterr().err


def test_how_far_off_is_a_height_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    """Bird is a sibling of mammal, and two steps off: the branch of both goes deeper beside it."""
    assert main(["search", "--help"]) == 0
    assert HOW_FAR_OFF in " ".join(capsys.readouterr().out.split())
    assert place_of(TREE, BIRD, MAMMAL).steps == int(TREE.height[ANIMAL]) == 2
    assert [words for _, _, words in search_legend(TREE)] == [
        "same class", "1 step off", "2 steps off", "3 steps off: only the root in common",
    ]  # fmt: skip


def test_weights_that_have_changed_are_refused(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "encoder.safetensors").write_bytes(b"old")
    rows = IndexRows(["a"], np.ones((1, 2)))
    index = Index.create(run / "index", rows, taxonomy=TREE, model=run)
    (run / "encoder.safetensors").write_bytes(b"new")
    with pytest.raises(DataError, match="are not those that made the vectors"):
        index.open_model()


def test_the_wall_escapes_names_and_shows_every_distance_on_the_tree(index: Index) -> None:
    answers = run_queries(index, [Query("id", "d1")], k=8)
    page = search_page(answers, TREE, title="<script>alert(1)</script>")
    assert "<script>" not in page
    assert "&lt;b&gt;text of d2&lt;/b&gt;" in page
    assert f"How far off: {HOW_FAR_OFF}." in page
    for words in ("1 step off ", "2 steps off ", "3 steps off: only the root in common "):
        assert words in page
    for near in range(5):
        assert f'id="near-{near}"' in page
        assert f'class="near-{near}"' in page
    shown = search_page(answers, TREE, pictures=lambda ids: {one: f"data:{one}" for one in ids})
    assert [int(rank) for rank in re.findall(r'alt="result (-?\d+): ', shown)] == list(range(1, 9))
    empty = search_page([Answer("x", "id", hits([]))], TREE)
    assert "Nothing was found" in empty


def test_a_wall_says_that_pictures_are_gone(
    index: Index, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on another machine, or after the folder of photos was moved."""
    wall = tmp_path / "wall.html"
    words = ["search", index.where, "--id", "d2", "-k", "3", "--out", str(wall)]
    assert main(words) == 0
    assert "no longer there" not in wall.read_text("utf-8") + capsys.readouterr().err
    (tmp_path / "d1.png").unlink()
    assert main(words) == 0
    said = f"1 image of 1 that were found, such as '{tmp_path}/d1.png', is no longer there: the page goes"
    assert f"note: {said}" in capsys.readouterr().err
    assert said in html.unescape(wall.read_text("utf-8"))
    assert main([*words[:-2], "--format", "csv"]) == 0
    assert capsys.readouterr().err == ""


def test_files_of_vectors_of_an_index_without_a_run(
    index: Index, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table of numbers is one of vectors, too; the width that is needed is said."""
    (tmp_path / "two.csv").write_text("f0,f1\n1,0\n0,1\n")
    np.save(tmp_path / "two.npy", np.eye(2, dtype=np.float32))
    for name, first in (("two.csv", "line 2"), ("two.npy", "row 1")):
        assert main(["search", index.where, str(tmp_path / name), "-k", "1", "--format", "csv"]) == 0
        rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        assert [row["id"] for row in rows] == ["d1", "o1"]
        assert rows[0]["query"] == first
    (tmp_path / "three.csv").write_text("f0,f1,f2\n1,0,2\n0,1,2\n")
    np.save(tmp_path / "three.npy", np.eye(3, dtype=np.float32))
    for name in ("three.csv", "three.npy"):
        assert main(["search", index.where, str(tmp_path / name)]) == 2
        said = capsys.readouterr().err
        assert name in said
        assert f"holds vectors of 3 numbers, and the index '{index.where}' vectors of 2; give" in said
        assert "or make an index of these: 'labeltree index FILE --out FOLDER'" in said


@pytest.mark.parametrize(
    "chosen", [{"within": "plant"}, {"not_within": "animal"}, {"where": {"split": "test"}}, {"diverse": 1}]
)
def test_what_was_searched_does_not_label_the_query(
    index: Index, monkeypatch: pytest.MonkeyPatch, chosen: dict[str, object]
) -> None:
    """A picture of a dog that is searched among plants is no plant: all samples of the index vote."""
    embedded = (np.array([at(19)], np.float32), {})
    monkeypatch.setattr(queries, "_embedded", lambda *_: embedded)
    (answer,) = run_queries(index, [Query("image", "a.jpg")], k=2, **chosen)  # type: ignore[arg-type]
    assert (answer.label, answer.label_from) == (CAT, "index")
    assert answer.hits is not None
    assert len(answer.hits) == 2
    assert "(likely, from the nearest of the whole index: ✓ = the same)" in results_text([answer], TREE)
    row = next(csv.DictReader(io.StringIO(results_text([answer], TREE, "csv"))))
    assert (row["query_label"], row["query_label_from"]) == ("animal/mammal/cat", "index")
    (known,) = run_queries(index, [Query("image", "a.jpg")], k=2, label="bird", **chosen)  # type: ignore[arg-type]
    assert (known.label, known.label_from) == (BIRD, "query")
    (whole,) = run_queries(index, [Query("image", "a.jpg")], k=2, where={})
    assert whole.label_from == "results"
