"""The parts of the explorer: its queue, its search for suspects, its box for words, what it keeps."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from explorer_inputs import make_collection, make_show, square

pytest.importorskip("fastapi")

from labeltree.errors import DataError
from labeltree.serving import ServiceSettings
from labeltree.serving.explorer import explorer_pictures, maps, open_explorer
from labeltree.serving.explorer.collection import Dials, Found
from labeltree.serving.explorer.corrections_file import CorrectionsFile, read_suspects
from labeltree.serving.explorer.explorer_app import _find_node
from labeltree.serving.explorer.explorer_pictures import Pictures
from labeltree.serving.explorer.maps import Maps, PlaneMap, _fit_to_square, _landmarks, compute_map
from labeltree.serving.explorer.node_facts import _find_confused, facts_of_node
from labeltree.serving.explorer.open_explorer import _folders_of, _name_of, _predictions
from labeltree.serving.explorer.review_decisions import Conflict, Decision, Review, Suspect
from labeltree.serving.explorer.show import Show
from labeltree.serving.explorer.suspect_search import SearchState, SuspectSearch, index_suspects
from labeltree.serving.explorer.word_search import WordSearch
from labeltree.taxonomy import Taxonomy

HEAD = "sample,label,suggested,decision\n"


# The files of the review


@pytest.mark.parametrize("above", ["", "exported on Monday\n\n"])
def test_problems_name_the_row_as_a_spreadsheet_numbers_it(tmp_path: Path, above: str) -> None:
    """Also below rows that are empty, and below lines above the names of the columns."""
    file, it = tmp_path / "corrections.csv", make_collection(tmp_path, each=2)
    first = above.count("\n") + 1
    file.write_text(f"{above}{HEAD}sample 001,,warm,yes\n\n\nsample 003,,nowhere,yes\n")
    (problem,) = CorrectionsFile(file, it).read().problems.values()
    assert problem.startswith(f"'corrections.csv', row {first + 4} (sample 'sample 003'): ")
    file.write_text(f"{HEAD}sample 001,,warm,yes\n\nsample 003,,warm,yes,more\n")
    with pytest.raises(DataError, match=r"row 4 of '.*' has more cells than there are columns"):
        CorrectionsFile(file, it)


def test_a_decision_is_one_row_and_others_of_its_sample_are_emptied(tmp_path: Path) -> None:
    it = make_collection(tmp_path, each=2)
    it.nodes[5] = 0
    file = tmp_path / "corrections.csv"
    file.write_text(
        "sample,label,suggested,decision,who\n"
        "sample 003,x,warm/red,keep,Ann\nsample 003,x,warm,keep,Bob\nsample 004,,cold,,Eve\n"
    )
    kept = CorrectionsFile(file, it)
    red = it.taxonomy.find("red")
    kept.write({"sample 003": Decision("accept", red), "sample 005": Decision("no label", -1)})
    assert file.read_text().splitlines() == [
        "sample,label,suggested,decision,who",
        "sample 003,warm/orange,warm/red,accept,Ann",
        "sample 003,x,warm,,Bob",
        "sample 004,,cold,,Eve",
        "sample 005,,,no label,",
    ]


def test_a_suggestion_stays_where_another_decision_is_written(tmp_path: Path) -> None:
    """And a decision that was taken back, or never made, is not one to build on."""
    it = make_collection(tmp_path, each=2)
    file = tmp_path / "corrections.csv"
    file.write_text(f"{HEAD}sample 003,,cold,\n")
    review = Review([Suspect(3, 1)], CorrectionsFile(file, it))
    assert review.decide("sample 003", None, "") is None
    keep = Decision("keep", int(it.nodes[3]))
    with pytest.raises(Conflict, match="somebody else has decided about this sample"):
        review.decide("sample 003", keep, str(keep).replace("keep", "remove"))
    assert review.decide("sample 003", keep, "") == keep
    assert file.read_text() == f"{HEAD}sample 003,warm/orange,cold,keep\n"
    assert review.decide("sample 003", keep, "whatever was seen") == keep, "asked twice"


def test_the_hardest_of_many_samples_are_looked_for_among_some(tmp_path: Path) -> None:
    small = make_collection(tmp_path, each=2)
    many = replace(
        small,
        ids=np.array([f"s{row}" for row in range(300)], object),
        nodes=np.resize(small.nodes[:7], 300),
        vectors=np.resize(small.vectors[:7], (300, small.vectors.shape[1])),
        predictions=None,
        splits=None,
        nearest=lambda queries, k, within: [Found(np.arange(k), np.zeros(k), np.zeros(k))] * len(queries),
    )
    facts = facts_of_node(many, 0)
    assert (facts.samples, facts.asked) == (300, 256)
    few = facts_of_node(small, 0)
    assert few.samples == few.asked == 8


def test_of_a_suspect_that_is_listed_twice_the_first_row_counts(tmp_path: Path) -> None:
    it, file = make_collection(tmp_path, each=2), tmp_path / "suspects.csv"
    file.write_text("sample,suggested,reason,score\nsample 003,red,why,0.5\nsample 003,blue,other,0.9\n")
    assert read_suspects(file, it) == [Suspect(3, it.taxonomy.find("red"), "why", 0.5)]
    file.write_text("sample,suggested\n")
    assert read_suspects(file, it) == []


def test_the_queue_is_of_a_node_and_goes_in_pages(tmp_path: Path) -> None:
    show = make_show(tmp_path, tmp_path / "corrections.csv")
    find = show.collection.taxonomy.find
    rows = [20, 3, 25, 0, 31, 12]  # 0 is called blue
    show.take_suspects([Suspect(row, find("red"), f"reason {row}", row / 100) for row in rows])
    show.review.decide("sample 025", Decision("keep", find("blue")), "")
    show.review.decide("sample 012", Decision("accept", find("cold")), "")

    def page(state: str, node: int, *part: Any) -> tuple[list[int], int, int, int]:
        found = show.review_page(state, node, *part)
        rows = [item.sample.row for item in found.items]
        return rows, found.total, found.decided, found.matching

    assert page("all", 0, 0, 20) == (rows, 6, 2, 6)
    assert page("all", 0, 1, 3) == ([3, 25, 0], 6, 2, 6)
    assert page("open", 0, 0, 2) == ([20, 3], 6, 2, 4)
    assert page("decided", 0, 0, 20) == ([25, 12], 6, 2, 2)
    assert page("open", find("cold"), 0, 20) == ([20, 0, 31], 4, 1, 3)
    assert page("open", find("red"), 0, 20) == ([3], 1, 0, 1)
    assert page("all", 0, 0, 20, 25) == ([0, 31, 12], 6, 2, 3)
    assert page("open", find("cold"), 0, 20, 3) == ([0, 31], 4, 1, 2), "after one of another node"
    (item,) = show.review_page("decided", find("orange"), 0, 20).items
    assert (item.action, item.decided_path, item.suggested_path) == ("accept", ["cold"], ["warm", "red"])
    assert (item.reason, item.score, item.seen) == ("reason 12", 0.12, f"accept {find('cold')}")
    info = show.info(None)
    assert (info.suspects, info.decided, info.corrections) == (6, 2, "corrections.csv")
    plain = show.review_item("sample 005")
    assert (plain.suggested, plain.reason, plain.score, plain.action, plain.seen) == (-1, "", None, None, "")
    assert 5 not in [each.row for each in plain.neighbours]
    assert len(plain.neighbours) == 6


def test_rows_say_suspect_prediction_and_split_in_a_byte_each(tmp_path: Path) -> None:
    show = make_show(tmp_path)
    it = show.collection
    splits = np.array(["val", "test", "train"], object)[np.arange(40) % 3]
    given = np.array(it.predictions)
    given[4] = -1
    found = make_show(tmp_path, splits=splits, predictions=given).rows()
    state, split = (np.frombuffer(found, np.uint8, 40, 160 + 40 * part) for part in (0, 1))
    assert split.tolist() == [row % 3 for row in range(40)]
    assert [int(state[row]) for row in (0, 1, 4, 7, 12, 13)] == [1, 2, 0, 6, 1, 6]
    every = np.frombuffer(make_show(tmp_path, splits=None).rows(), np.uint8, 40, 160)
    assert [int(every[row]) for row in (0, 1, 12, 13)] == [3, 2, 7, 6], "of all rows suspects are judged, too"
    without = make_show(tmp_path, splits=None, predictions=None).rows()
    assert np.frombuffer(without, np.uint8, 40, 200).tolist() == [255] * 40
    assert set(np.frombuffer(without, np.uint8, 40, 160)) == {0, 1}


def test_samples_like_one_keep_their_distances(tmp_path: Path) -> None:
    """The sample itself, which is nearest, is left out with its own."""
    show = make_show(tmp_path)
    near = show.collection.nearest(show.collection.vectors[5:6], 4, None)[0]
    assert near.rows[0] == 5
    found = show.like(5, 3, None).hits
    assert [hit.sample.row for hit in found] == near.rows[1:].tolist()
    assert [hit.distance for hit in found] == pytest.approx(near.distances[1:].tolist())
    assert [hit.similarity for hit in found] == pytest.approx(near.similarities[1:].tolist())


def test_thirty_samples_are_shown_by_their_neighbourhoods_and_a_map_is_begun_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = make_collection(tmp_path, each=2)
    for count, name in ((29, "PCA"), (30, "t-SNE")):
        assert Maps(replace(it, ids=np.arange(count)), None).default == name
    assert Maps(replace(it, geometry="poincare"), None).default == "disk"
    made, go = list[str](), threading.Event()

    def compute(collection: Any, name: str) -> PlaneMap:
        made.append(name)
        go.wait(60)
        return PlaneMap(np.zeros((8, 2), np.float32), name)

    monkeypatch.setattr(maps, "compute_map", compute)
    some = Maps(it, None)
    assert [some.start("t-SNE").state for _ in range(2)] == ["computing"] * 2
    go.set()
    while some.get("t-SNE") is None:
        time.sleep(0.001)
    assert some.start("t-SNE").state == "ready"
    assert made == ["t-SNE"]


# The search for suspects


def wait_for(search: SuspectSearch) -> SearchState:
    for thread in threading.enumerate():
        if thread.name == "suspects":
            thread.join(60)
    return search.state


def test_one_search_goes_on_at_a_time_and_tells_how_far_it_is() -> None:
    began, go, runs, taken = threading.Event(), threading.Event(), list[int](), list[Any]()

    def find(progress: Any) -> list[Suspect]:
        runs.append(1)
        progress("reading", 1, 4)
        began.set()
        assert go.wait(60)
        return [Suspect(3, -1)]

    search = SuspectSearch(find, taken.append)
    assert search.state == SearchState("absent")
    search.start()
    assert began.wait(60)
    assert search.state == SearchState("computing", "reading", 0.25)
    assert search.start() == SearchState("computing", "reading", 0.25)
    search._tell("counting", 9, 0)
    assert search.state == SearchState("computing", "counting", None)
    search._tell("counting", 9, 4)
    assert search.state.share == 1.0
    go.set()
    assert wait_for(search) == SearchState("ready")
    assert (runs, taken) == ([1], [[Suspect(3, -1)]])
    search.start()
    wait_for(search)
    assert len(runs) == 2


@pytest.mark.parametrize(
    ("error", "said"),
    [(DataError("too few labels"), "too few labels"), (KeyError("x"), "it failed; the log of the explorer")],
)
def test_a_search_that_fails_says_why(error: Exception, said: str) -> None:
    def find(progress: Any) -> list[Suspect]:
        raise error

    taken: list[Any] = []
    search = SuspectSearch(find, taken.append)
    search.start()
    state = wait_for(search)
    assert (state.state, state.problem.startswith(said), taken) == ("failed", True, [])


def test_suspects_of_an_index_are_rows_of_the_collection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = make_collection(tmp_path, each=2)
    module = "labeltree.serving.explorer.suspect_search"
    listed = [
        SimpleNamespace(sample=name, suggested=node, reason=f"of {name}", score=score)
        for name, node, score in (
            ("sample 003", "warm/red", 0.9),
            ("new", "warm", 0.8),
            ("sample 001", "", 0.7),
        )
    ]
    judged = SimpleNamespace(space="features")
    monkeypatch.setattr(f"{module}.open_judged", lambda where, progress: judged)
    monkeypatch.setattr(
        f"{module}.find_table_suspects", lambda judged, options: SimpleNamespace(found=listed)
    )
    (tmp_path / "run").mkdir()
    index: Any = SimpleNamespace(where=str(tmp_path), model=None)
    assert index_suspects(index, it, lambda *_: None) == [
        Suspect(3, it.taxonomy.find("red"), "of sample 003", 0.9), Suspect(1, -1, "of sample 001", 0.7),
    ]  # fmt: skip
    index.model = str(tmp_path / "run")
    monkeypatch.setattr(f"{module}.RunFolder", lambda place: SimpleNamespace(ridge=tmp_path))
    monkeypatch.setattr(type(tmp_path), "is_file", lambda self: True)
    assert len(index_suspects(index, it, lambda *_: None)) == 2
    judged.space = "embeddings"
    with pytest.raises(DataError, match="are solved from its labels"):
        index_suspects(index, it, lambda *_: None)


def test_decisions_are_kept_from_the_first_suspects_on(tmp_path: Path) -> None:
    show, opened = make_show(tmp_path), list[int]()

    def keep() -> CorrectionsFile:
        opened.append(1)
        return CorrectionsFile(tmp_path / "kept.csv", show.collection)

    show = Show(show.collection, show.pictures, show.maps, show.review, keep_decisions=keep)
    assert (len(opened), show.review.kept is not None) == (1, True), "two suspects are there"
    show.review.suspects, show.review.kept = [], None
    other = Show(show.collection, show.pictures, show.maps, show.review, keep_decisions=keep)
    assert (len(opened), other.review.kept) == (1, None)
    other.take_suspects([Suspect(3, -1)])
    other.take_suspects([Suspect(4, -1)])
    assert len(opened) == 2
    assert not other._sample(3).suspect
    assert other._sample(4).suspect


# Words and nodes


def test_names_that_begin_with_the_words_come_first_then_the_largest(tmp_path: Path) -> None:
    tree = Taxonomy.from_paths(
        ["kit", "cat", "a/kitten", "a/big kit", "b/Kíte", *(f"c/kit {n}" for n in range(6))]
    )
    ids = np.array(["kit 2", "my kit", "kit", *(f"kit a{n}" for n in range(9))], object)
    it: Any = SimpleNamespace(taxonomy=tree, ids=ids)
    counts = np.zeros(tree.num_nodes, np.int64)
    counts[[tree.find("kitten"), tree.find("b/Kíte"), tree.find("a/big kit")]] = [5, 9, 70]
    found = WordSearch(it).find(" KIT", counts)
    assert [match.path[-1] for match in found.nodes] == [
        "Kíte", "kitten", "kit", "kit 0", "kit 1", "kit 2", "kit 3", "kit 4",
    ]  # fmt: skip
    assert [match.samples for match in found.nodes[:3]] == [9, 5, 0]
    assert [match.id for match in found.samples] == [
        "kit",
        "kit 2",
        "my kit",
        *(f"kit a{n}" for n in range(5)),
    ]
    assert [match.path for match in WordSearch(it).find("a/kit", counts).nodes] == [["a", "kitten"]]
    few = WordSearch(it).find("big", counts)
    assert [(match.path, match.samples) for match in few.nodes] == [(["a", "big kit"], 70)]


def test_digits_are_the_number_of_a_node(tmp_path: Path) -> None:
    tree = Taxonomy.from_paths(["2", "a/x", "a/y"])
    it: Any = SimpleNamespace(taxonomy=tree)
    assert (_find_node(it, None), _find_node(it, "3"), _find_node(it, "a/y")) == (None, 3, tree.find("y"))
    assert _find_node(it, str(tree.num_nodes - 1)) == tree.num_nodes - 1
    for text in (str(tree.num_nodes), "-1"):
        with pytest.raises(Exception, match=f"there is no node {text}; nodes are 0 to 4"):
            _find_node(it, text)


def test_what_is_confused_is_counted_where_the_tree_branches_off() -> None:
    tree = Taxonomy.from_paths(["a/p/x", "a/p/y", "a/q/z", "b/w", *(f"c{n}" for n in range(9))])
    x, y, z, w = (tree.find(name) for name in "xyzw")
    answers = np.array([x, y, y, z, z, z, w, tree.find("p"), 0, -1, *(tree.find(f"c{n}") for n in range(9))])
    found = _find_confused(SimpleNamespace(taxonomy=tree), x, answers)  # type: ignore[arg-type]
    assert [(one.node, one.count) for one in found[:3]] == [(tree.find("q"), 3), (y, 2), (tree.find("b"), 1)]
    assert len(found) == 8
    above = _find_confused(SimpleNamespace(taxonomy=tree), tree.find("a"), answers)  # type: ignore[arg-type]
    assert above[0].node == tree.find("b")


def test_the_facts_of_a_node_are_of_its_own_samples(tmp_path: Path) -> None:
    it = make_collection(tmp_path)
    warm, red = it.taxonomy.find("warm"), it.taxonomy.find("red")
    it.nodes[3] = warm
    facts = facts_of_node(it, warm)
    assert (facts.samples, facts.here, facts.asked) == (19, 1, 19)
    assert len(facts.typical) == 12
    assert facts_of_node(it, red).here == 8
    given = np.full(40, -1)
    given[[1, 2, 10]] = it.taxonomy.find("blue"), red, red
    some = facts_of_node(replace(it, predictions=given, splits=None), warm)
    assert [(one.split, one.samples, one.judged, one.right) for one in some.splits] == [("all", 19, 3, 1)]
    assert [(one.node, one.count) for one in some.confused] == [(it.taxonomy.find("cold"), 1)]
    far = facts_of_node(replace(it, predictions=given, splits=None), it.taxonomy.find("cold"))
    assert far.confused_by == "neighbours", "none of its samples is judged"


def test_an_answer_below_the_label_is_right(tmp_path: Path) -> None:
    tree = Taxonomy.from_paths(["a/x", "a/y", "b/z"])
    a, x, y, z = (tree.find(name) for name in "axyz")
    it = replace(
        make_collection(tmp_path, each=1),
        taxonomy=tree,
        nodes=np.array([a, a, x, x, -1, 0, x]),
        predictions=np.array([y, z, x, a, x, x, y]),
    )
    assert it.right.tolist() == [True, False, True, False, False, True, False]
    rows = replace(it, splits=None).judged[0]
    assert rows.tolist() == [True, True, True, True, False, False, True]


def test_a_dial_that_is_not_given_stays_where_the_run_has_it(tmp_path: Path) -> None:
    asked: list[tuple[float, float]] = []

    def nearest(tree: float, instance: float) -> Any:
        asked.append((tree, instance))
        return lambda *_: [Found(np.array([0]), np.zeros(1), np.zeros(1))]

    it = replace(make_collection(tmp_path, each=1), dials=Dials(0.25, 0.75, nearest))
    assert it.nearest_by(None, None) is it.nearest
    it.nearest_by(0.0, None)
    it.nearest_by(None, 0.0)
    assert asked == [(0.0, 0.75), (0.25, 0.0)]


# What is kept


def test_pictures_are_kept_by_row_and_size_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for row in range(3):
        (tmp_path / f"{row}.png").write_bytes(square((80 * row, 10, 10)))
    pictures = Pictures(["0.png", "1.png", "2.png"], [tmp_path], ServiceSettings())
    small, large = pictures.get(0, 64), pictures.get(0, 160)
    assert len(small) != len(large)
    (tmp_path / "0.png").unlink()
    assert pictures.get(0, 64) is small
    assert pictures.get(0, 160) is large
    assert pictures._bytes == len(small) + len(large)
    pictures.get(0, 64)  # used last
    monkeypatch.setattr(explorer_pictures, "_KEPT", len(small) + len(large))
    other = pictures.get(1, 64)
    assert list(pictures._kept) == [(0, 64), (1, 64)], "the one that was used longest ago has gone"
    assert pictures._bytes == len(small) + len(other)
    monkeypatch.setattr(explorer_pictures, "_LARGEST_FILE", (tmp_path / "2.png").stat().st_size)
    assert pictures.get(2, 64)
    monkeypatch.setattr(explorer_pictures, "_LARGEST_FILE", (tmp_path / "2.png").stat().st_size - 1)
    with pytest.raises(DataError, match=r"the file has more than \d+ bytes"):
        pictures.get(2, 160)
    assert Pictures(["", "a.png"], [tmp_path], ServiceSettings()).any
    assert not Pictures(["", ""], [tmp_path], ServiceSettings()).any
    assert not Pictures(None, [tmp_path], ServiceSettings()).any


def test_a_map_replaces_that_of_an_earlier_version_alone(tmp_path: Path) -> None:
    it = make_collection(tmp_path / "data")
    points = np.linspace(-1, 1, 80, dtype=np.float32).reshape(40, 2)
    maps = Maps(it, tmp_path)
    maps.keep("UMAP", PlaneMap(points, "a note"))
    maps.keep("t-SNE", PlaneMap(points, "another"))
    newer = Maps(replace(it, version="2"), tmp_path)
    assert newer.get("UMAP") is None
    newer.keep("UMAP", PlaneMap(points, "newer"))
    assert len(list(tmp_path.glob("umap-*.npz"))) == len(list(tmp_path.glob("t-sne-*.npz"))) == 1
    again = Maps(replace(it, version="2"), tmp_path).get("UMAP")
    assert again is not None
    assert (again.note, again.points.tolist()) == ("newer", points.tolist())
    kept = Maps(it, tmp_path).get("t-SNE")
    assert kept is not None
    assert kept.note == "another"
    for wrong in (points[:39], points.astype(np.float64), np.full_like(points, np.nan)):
        maps.keep("t-SNE", PlaneMap(wrong, "damaged"))
        assert Maps(it, tmp_path).get("t-SNE") is None
    states = {one.name: one.state for one in Maps(it, None).states()}
    assert states == {"PCA": "ready", "t-SNE": "absent", "UMAP": "absent"}
    assert [Maps(make_collection(tmp_path, each=each), None).default for each in (7, 8)] == ["PCA", "t-SNE"]


def test_landmarks_are_spread_over_the_tree_and_the_map_fills_its_square(tmp_path: Path) -> None:
    it = make_collection(tmp_path)
    rows = _landmarks(it, 20)
    labels = np.bincount(it.nodes[rows] + 1, minlength=8)
    assert len(rows) == 20
    assert rows.tolist() == sorted(set(rows.tolist()))
    assert all(4 <= labels[node + 1] <= 6 for node in it.taxonomy.leaves.tolist())
    assert _landmarks(it, 100).tolist() == list(range(40))
    points = np.stack([np.linspace(10, 30, 1001), np.linspace(0, 1, 1001)], 1)
    points[0, 0] = -1000
    fitted = _fit_to_square(points)
    assert fitted[:, 0].min() == -1
    assert fitted[1:, 0].max() == pytest.approx(1 / 1.05, abs=0.02)
    assert np.abs(fitted[:, 1]).max() < 0.06, "distances are the same in both directions"
    assert compute_map(make_collection(tmp_path, each=2), "t-SNE").note.startswith("PCA; the two axes hold")


def test_answers_of_an_index_are_nodes_by_number_or_path() -> None:
    tree = Taxonomy.from_paths(["a/x", "a/y"])
    assert _predictions(None, tree) is None
    assert _predictions(["a/y", None, "a/gone", "a"], tree).tolist() == [3, -1, -1, 1]  # type: ignore[union-attr]
    assert _predictions([3, None, 4, -1, 0], tree).tolist() == [3, -1, -1, -1, 0]  # type: ignore[union-attr]


def test_an_index_is_called_by_its_folder_and_pictures_lie_in_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for where, name in (("/p/run/index", "run"), ("/p/photos", "photos"), ("s3://bucket/photos", "photos")):
        index: Any = SimpleNamespace(where=where)
        assert _name_of(index) == name
    (tmp_path / "table.csv").write_text("")

    later = tmp_path / "later"
    later.mkdir()
    added: list[str | None] = []

    def folders(data: Path | str) -> list[Path]:
        run: Any = SimpleNamespace(folder=SimpleNamespace(home=SimpleNamespace(path=tmp_path)))
        model = SimpleNamespace(recipe=SimpleNamespace(data=str(data)), run=run)
        engine: Any = SimpleNamespace(model=model)
        return _folders_of(engine)

    def extensions(path: Path) -> list[Any]:
        assert path == tmp_path
        return [SimpleNamespace(record={"data": data}) for data in added]

    monkeypatch.setattr(open_explorer, "extensions_of", extensions)

    assert _folders_of(None) == []
    assert folders(tmp_path) == folders(tmp_path / "table.csv") == [tmp_path]
    assert folders("cifar100") not in ([Path()], [tmp_path])
    added += [str(later), None]  # classes may be added by their names alone
    assert folders(tmp_path / "table.csv") == [tmp_path, later]


def test_a_file_outside_the_folders_is_not_drawn_as_another_sample(tmp_path: Path) -> None:
    """The number of a sample of an extension may be that of another one in the data of the run."""
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "owl.png").write_bytes(square((9, 9, 9)))
    paths = [str(tmp_path / "later" / "owl.png"), "test/7"]
    drawn = np.full((3, 80, 80), 200, np.uint8)
    pictures = Pictures(paths, [tmp_path / "run"], ServiceSettings(), lambda row: drawn)
    with pytest.raises(DataError, match="outside the folders of the data; name its folder by --images"):
        pictures.get(0, 64)
    assert pictures.get(1, 64)
    assert Pictures(paths, [tmp_path / "later"], ServiceSettings(), lambda row: drawn).get(0, 64)
