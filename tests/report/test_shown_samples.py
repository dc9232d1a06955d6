"""Samples on a page: their names, labels, distances and pictures are those of the samples."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from io import BytesIO
from math import nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from labeltree.decisions.evidence_for_answers import Neighbour, Step
from labeltree.evaluation import read
from labeltree.index.hits import Hits
from labeltree.index.search_results import Answer
from labeltree.report.charts.bar_charts import DotRow, Line, difference_chart, line_chart
from labeltree.report.charts.dial_curve import DialPoint, dial_figure
from labeltree.report.charts.figures import _mean, curve_chart, curve_figure, depth_chart, depth_figure
from labeltree.report.charts.grid_charts import cell_chart
from labeltree.report.charts.interval_chart import IntervalDot, IntervalRow, interval_chart
from labeltree.report.charts.map_projection import principal_axes
from labeltree.report.charts.node_names import NodeNames
from labeltree.report.charts.training_curves import history_groups, trained_with
from labeltree.report.charts.tree_colours import nearness_colour
from labeltree.report.pages.search_page import _wall
from labeltree.report.shown_samples import sample_pictures
from labeltree.report.shown_samples.encode_pictures import ShownSamples, picture, shorten
from labeltree.report.shown_samples.explanations import (
    Explained,
    Explanation,
    choose_explained,
    explanation_rows,
)
from labeltree.report.shown_samples.sample_pictures import SamplePictures
from labeltree.report.shown_samples.searches import Search, choose_searches, search_legend, search_rows
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/x", "a/y", "b/z"])
A, B = (int(TREE.find(name)) for name in "ab")
X, Y, Z = (int(TREE.find(name)) for name in "xyz")
NAMES = NodeNames(TREE)


def plain(text: str) -> str:
    return text.replace("\u202f", " ").replace("\u2009", " ")


def test_the_page_finds_the_samples_worth_explaining() -> None:
    """Wrong ones by severity, then certainty; coarse ones by certainty; right ones that are typical."""
    labels = torch.tensor([X, X, X, X, Y, Z, Y, Z, Y, Z])
    likely = torch.tensor([Y, Z, Y, Z, X, Z, Y, Z, Y, Z])
    answers = torch.tensor([Y, Z, Y, Z, X, Z, A, B, 0, Z])
    certain = torch.tensor([0.9, 0.5, 0.8, 0.6, 0.7, 0.99, 0.4, 0.5, 0.9, 0.8])
    assert choose_explained(labels, likely, answers, certain, TREE) == [
        (3, "wrong"), (0, "wrong"), (4, "wrong"), (7, "coarse"), (6, "coarse"), (8, "right"), (5, "right"),
    ]  # fmt: skip


def test_an_explanation_says_answer_label_and_neighbours() -> None:
    table = EmbeddingTable(
        torch.eye(5),
        torch.tensor([X, X, Y, Z, Z]),
        instances=torch.tensor([50, 51, 52, 53, 54]),
        paths=np.array(["/data/p/0.png", "", "", "", ""]),
    )
    training = torch.tensor([4, 2, 1])
    nearer, farther = Neighbour(X, 0.25, None, 2), Neighbour(Z, 0.5, None, 0)
    steps = [Step(A, 0.75, True, nearer, farther), Step(X, 0.625, False, None, Neighbour(Y, 0.3, None, 1))]
    samples = [
        Explained(0, "wrong", Y, Z, 0.625, steps),
        Explained(1, "coarse", A, X, 0.5, []),
        Explained(3, "coarse", 0, Z, 0.5, []),
        Explained(2, "right", Y, Y, 0.9, []),
    ]
    shown = ShownSamples(table, None, lambda ids: [f"text {each}" for each in ids.tolist()])
    found = explanation_rows(Explanation(samples, training, True), shown, TREE, NAMES)
    assert [plain(row.heading) for row in found] == [
        "x, answered y, most probable z (62 %)",
        "x, answered a, most probable x (50 %)",
        "z, answered nothing finer than the whole tree, most probable z (50 %)",
        "y, answered y",
    ]
    assert [row.verdict for row in found] == [
        "most probable class wrong, 2 steps off", "answered coarsely", "answered coarsely", "right",
    ]  # fmt: skip
    assert [(row.name, row.text) for row in found[:2]] == [("p/0.png", "text 50"), ("sample 51", "text 51")]
    first, second = found[0].steps
    assert (first.name, first.path, plain(first.probability), first.taken) == ("a", "a", "75.0 %", True)
    assert second.path == "a › x"
    assert first.speaks_for is not None
    assert first.speaks_against is not None
    ours, theirs = first.speaks_for, first.speaks_against
    assert (ours.label, ours.path, ours.distance, ours.name, ours.text, ours.nearer) == (
        "x", "a › x", "0.250", "sample 51", "text 51", True,
    )  # fmt: skip
    assert (theirs.label, theirs.name, theirs.nearer) == ("z", "sample 54", False)
    assert second.speaks_for is None
    assert second.speaks_against is not None
    assert second.speaks_against.nearer, "there is none on the other side"
    assert explanation_rows(None, shown, TREE, NAMES) == []
    alike = [Explained(2, "right", Y, Y, 0.9, [Step(A, 0.75, True, nearer, replace(farther, distance=0.25))])]
    (step,) = explanation_rows(Explanation(alike, training, True), shown, TREE, NAMES)[0].steps
    assert step.speaks_for is not None
    assert step.speaks_against is not None
    assert not step.speaks_for.nearer, "both are as near"
    assert not step.speaks_against.nearer


def test_long_texts_end_at_a_word() -> None:
    assert shorten("one \n two") == "one two"
    assert shorten("x" * 160) == "x" * 160
    assert shorten("word " * 40) == "word " * 31 + "word …"


def test_a_wall_says_how_many_results_have_the_label() -> None:
    hits = Hits(
        ["p", "q", "r", "s"],
        np.array([0.1, 0.25, 0.5, 0.75]),
        np.zeros(4),
        np.array([X, Y, -1, Z]),
        {"text": ["a text", None, None, None]},
    )
    pictures = {"p": "data:p", "me": "data:me"}
    wall = _wall(Answer("me", "id", hits, X, "query"), TREE, NAMES, pictures, {})
    assert wall.summary == "1 of 4 results with the same label"
    assert (wall.source, wall.label) == ("data:me", "a › x")
    assert [(card.id, card.name, card.near, card.kind, card.rank) for card in wall.cards] == [
        ("p", "x", 0, "own", 1),
        ("q", "y", 1, "near", 2),
        ("r", "no label", 3, "unknown", 3),
        ("s", "z", 2, "far", 4),
    ]
    assert [card.distance for card in wall.cards] == ["0.1000", "0.2500", "0.5000", "0.7500"]
    assert [(card.source, card.text) for card in wall.cards[:2]] == [("data:p", "a text"), (None, None)]
    assert _wall(Answer("me", "id", hits), TREE, NAMES, {}, {}).summary == "4 results"
    image = _wall(Answer("me", "image", hits), TREE, NAMES, pictures, {"me": "data:file"})
    assert image.source == "data:file"
    assert _wall(Answer("me", "text", hits), TREE, NAMES, pictures, {}).source is None


def test_a_legend_goes_from_the_same_class_to_the_root() -> None:
    assert [(plain(sign), words) for _, sign, words in search_legend(TREE)] == [
        ("✓", "same class"), ("1 ↑", "1 step off"), ("2 ↑", "2 steps off: only the root in common"),
    ]  # fmt: skip
    deep = Taxonomy.from_paths(["a/b/c/d/e", "f"])
    assert [words for _, _, words in search_legend(deep)] == [
        "same class", "1 step off", "", "", "", "5 steps off: only the root in common",
    ]  # fmt: skip


def test_pictures_come_from_files_and_else_from_the_data_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.png").write_bytes(b"")
    monkeypatch.setattr(sample_pictures, "file_picture", lambda path: f"file {Path(path).name}")
    monkeypatch.setattr(sample_pictures, "picture", lambda image: f"image {int(image)}")

    class Source:
        store = object()
        instances = torch.tensor([70, 71, 72])

        def __len__(self) -> int:
            return 3

        def paths(self, places: torch.Tensor) -> list[str]:
            return [f"p/{place}.png" for place in places.tolist()]

        def load(self, places: list[int]) -> torch.Tensor:
            return torch.tensor([100, 101, 102])[places]

    monkeypatch.setattr(
        "labeltree.inference.load_run.load_run", lambda model: SimpleNamespace(source=Source())
    )
    paths = {"one": str(tmp_path / "a.png"), "two": "p/2.png", "71": None, "gone": "p/9.png"}

    class Rows:
        def __init__(self, name: str) -> None:
            self.name = name

        def to_pylist(self) -> list[str | None]:
            return [each if self.name == "id" else paths[each] for each in reversed(paths)]

    index: Any = SimpleNamespace(
        model="run", rows=lambda columns, chosen: {name: Rows(name) for name in columns}
    )
    assert SamplePictures(index)(list(paths)) == {"one": "file a.png", "two": "image 102", "71": "image 101"}
    monkeypatch.setattr(sample_pictures, "MOST", 1)
    assert SamplePictures(index)(list(paths)) == {"one": "file a.png"}
    index.model = None
    monkeypatch.setattr(sample_pictures, "MOST", 9)
    assert list(SamplePictures(index)(list(paths))) == ["one"]


# Charts


def test_training_is_told_from_the_first_epoch_to_the_last() -> None:
    rows = [
        {"epoch": 4, "lr": 0.5, "val_recall_at_1": nan, "step": 1, "train_ce": 2.0},
        {"epoch": 5, "lr": 0.25, "val_recall_at_1": 0.5, "step": 2, "train_ce": 2.0},
        {"epoch": 6, "lr": 0.125, "val_recall_at_1": 0.625, "step": 3, "train_ce": 2.0},
        {"epoch": 7, "lr": 0.25, "val_embeddings_parent_violations": 0.5, "step": 4, "train_ce": 2.0},
    ]
    found = history_groups(rows)
    charts = {chart["name"]: chart for _, several in found for chart in several}
    assert [len(several) for _, several in found] == [1, 1], "what does not change is left out"
    assert (charts["Learning rate"]["start"], charts["Learning rate"]["end"]) == ("0.5", "0.25")
    (search,) = (chart for chart in charts.values() if chart["term"].endswith(", features"))
    assert (search["start"], search["end"]) == ("50.0%", "62.5%")
    assert "over 4 epochs: from 50.0% to 62.5%" in str(search["chart"])
    assert ">5</text>" in str(search["chart"]), "people count from one"
    assert ">8</text>" in str(search["chart"])


def test_a_continuation_lists_what_changed() -> None:
    entries = [
        {"began": "monday", "torch": "2.1", "samples": "abc", "gone": 1},
        {"began": "tuesday", "step": 1234, "torch": "2.2", "samples": "abc"},
        {"step": 2000, "torch": "2.2", "samples": "abc"},
    ]
    assert trained_with(entries) == [
        ("From the start, monday", [("torch", "2.1"), ("fingerprint of the samples", "abc"), ("gone", "1")]),
        ("Continued after 1,234 steps, tuesday", [("torch", "2.2"), ("gone", "no longer recorded")]),
        ("Continued after 2,000 steps, with the same versions", []),
    ]


def test_several_runs_are_averaged_as_far_as_all_reach() -> None:
    assert _mean([[0.25, 0.5, 0.75], [0.75, 1.0]]) == [0.5, 0.75]
    assert _mean([]) == []

    def run(depths: list[float], **curves: list[float]) -> Any:
        main = SimpleNamespace(
            name="mine",
            by_depth={"probe": depths, "own": [0.1]},
            depth_intervals={"probe": [(0.11, 0.99)] * 2},
            hp_curve=curves,
        )
        return SimpleNamespace(main=main, name="mine", methods={"mine": main})

    one, two = run([0.5, 0.25], features=[0.5, 0.6], embeddings=[0.7]), run([0.7, 0.35], features=[0.7])
    single, several = str(depth_chart({"m": [one]}, ["m"])), str(depth_chart({"m": [one, two]}, ["m"]))
    assert "50.0%" in single
    assert "60.0%" in several
    assert "30.0%" in several
    assert ("whisker" in single, "whisker" in several) == (True, False)
    assert "60.0%" in str(curve_chart({"m": [one, two]}, ["m"]))
    assert curve_chart({}, ["m"]) is None
    both = str(curve_figure(one))
    assert "mine, features" in both
    assert "mine, embeddings" in both


def test_the_dial_is_told_at_its_ends_and_where_it_stands() -> None:
    points = [DialPoint(0.0, 0.61, 0.51), DialPoint(0.25, 0.62, 0.53), DialPoint(1.0, 0.55, 0.58)]
    figure = dial_figure(points, 0.25)
    assert [(tree, plain(a), plain(b), here) for tree, a, b, here in figure["rows"]] == [
        ("0", "61.0 %", "51.0 %", False), ("0.25", "62.0 %", "53.0 %", True),
        ("1", "55.0 %", "58.0 %", False),
    ]  # fmt: skip
    assert figure["chosen"] == "0.25"
    said = "from 61.0 % and 51.0 % at 0 to 55.0 % and 58.0 % at 1; chosen: 62.0 % and 53.0 % at 0.25"
    assert said in plain(str(figure["chart"]))
    assert "tree 0.25, chosen" in str(figure["chart"])


@pytest.mark.parametrize(("larger", "best"), [(True, "0.5000"), (False, "0.1000"), (None, None)])
def test_the_best_number_of_a_grid_has_a_frame(larger: bool | None, best: str | None) -> None:
    drawn = str(
        cell_chart(
            [[0.1, 0.2, None], [0.5, 0.3, 0.4]], ["p", "q"], list("xyz"),
            title="t", x_label="x", y_label="y", larger_is_better=larger,
        )
    )  # fmt: skip
    cells = [part.partition("<rect")[0] for part in drawn.split("<rect")[1:]]
    assert [cell.split(">best<")[0].count(best) for cell in cells if ">best<" in cell] == [1] * bool(best)
    assert drawn.count("stroke:var(--ink)") == bool(best)


def test_differences_stand_with_their_intervals() -> None:
    rows = [
        IntervalRow("a heading"),
        IntervalRow("mine", [IntervalDot(0.05, 0.01, 0.09), IntervalDot(-0.25, filled=False, style=1)]),
        IntervalRow("theirs", [IntervalDot(nan)]),
    ]
    drawn = str(interval_chart(rows, title="t"))
    assert "<title>mine: +0.050 [+0.010, +0.090]</title>" in drawn
    assert "<title>mine: -0.250</title>" in drawn
    assert drawn.count("whisker") == 1
    assert 'class="dot m1 open"' in drawn
    assert "theirs: " not in drawn


def test_classes_with_few_samples_are_not_searched_for_and_one_search_in_three_fails() -> None:
    nodes = torch.tensor([X] * 2 + [Y] * 9 + [Z] * 9)
    points = torch.nn.functional.one_hot(nodes, 6).float()
    points[2] = points[11]  # a y among the z
    table = EmbeddingTable(points, nodes, geometry="euclidean")
    found = choose_searches(read(table, "embeddings"), nodes, torch.arange(20), TREE, count=2)
    assert [int(nodes[search.query]) for search in found] == [Y, Z]
    assert [search.failure for search in found] == [True, False]
    assert found[0].query == 2
    (row,) = search_rows(
        [Search(2, torch.tensor([3, 0, 11]), torch.zeros(3), 8)], ShownSamples(table), TREE, NAMES
    )
    assert [card.colour for card in row.results] == [nearness_colour(share) for share in (0, 0.5, 1)]
    assert [card.words for card in row.results] == [
        "same class", "meets the query at a", "meets the query at the whole tree",
    ]  # fmt: skip


def test_small_pictures_lose_nothing() -> None:
    assert [picture(torch.zeros(1, side, 8, dtype=torch.uint8))[:15] for side in (64, 65)] == [
        "data:image/png;", "data:image/jpeg",
    ]  # fmt: skip


@pytest.mark.parametrize(("largest", "size"), [(64, (48, 64)), (160, (120, 160)), (500, (300, 400))])
def test_no_side_of_a_picture_is_longer_than_was_asked(largest: int, size: tuple[int, int]) -> None:
    drawn = picture(torch.zeros(3, 400, 300, dtype=torch.uint8), largest)
    assert Image.open(BytesIO(base64.b64decode(drawn.partition(",")[2]))).size == size


def test_lines_are_named_where_they_end() -> None:
    lines = [Line("falls", [0.9, 0.5, 0.1], 0), Line("rises", [0.1, 0.5, 0.9, nan], 1)]
    wide, narrow = (
        str(line_chart(lines, title="t", x_label="x", y_label="y", narrow=each)) for each in (False, True)
    )
    at = {name: float(y) for y, name in re.findall(r'y="([\d.]+)"[^>]*>(falls|rises)<', wide)}
    assert at["falls"] > at["rises"] + 100, "farther down"
    assert re.findall(r"(falls|rises) <b>([\d.]+%)", narrow) == [("falls", "10.0%"), ("rises", "90.0%")]
    rows = [DotRow("a", "", [0.1], texts=["x"], sure=[sure]) for sure in (True, False)]
    open_marks = [str(difference_chart([row], ["m"], baseline="b", title="t")) for row in rows]
    assert ["m1 open" in drawn for drawn in open_marks] == [False, True]


def test_the_chart_by_depth_has_the_intervals_of_the_classifier_that_answers() -> None:
    method = SimpleNamespace(
        name="mine",
        representations={"features": SimpleNamespace(source="features")},
        answer_by_depth=[0.9, 0.8],
        by_depth={"lda": [0.9, 0.8]},
        depth_intervals={"lda": [(0.85, 0.95), (0.7, 0.88)]},
        classifier=SimpleNamespace(name="lda"),
    )
    result: Any = SimpleNamespace(main=method, methods={"mine": method})
    figure = depth_figure(result, TREE, TREE.leaves)
    drawn = str(figure["chart"])
    assert drawn.count("whisker") == 4, "two, for wide and narrow screens"
    assert "Depth 1, the coarsest" in drawn
    assert "Depth 2, the exact class" in drawn
    assert [(name, by, [plain(each) for each in cells]) for name, by, cells in figure["rows"]] == [
        ("mine", "lda", ["90.0 %", "80.0 %"])
    ]
    assert figure["depths"] == [1, 2]


def test_the_axes_of_a_map_point_the_same_way_everywhere() -> None:
    for seed in range(9):
        vectors = np.random.default_rng(seed).normal(size=(7, 4))
        for sign in (1, -1):
            axes, values = principal_axes(sign * vectors)
            assert (axes.sum(1) >= 0).all()
            assert values.tolist() == sorted(values.tolist(), reverse=True)
    flat, _ = principal_axes(np.array([[2.0], [-2.0]]))
    assert flat.tolist() == [[1.0], [0.0]]
