"""The tables of a report hold the numbers of the result: in their places, with their names and counts."""

from __future__ import annotations

from math import nan
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from labeltree.evaluation import ProtocolResult, read, tree_errors
from labeltree.evaluation.error_tree import Confusion, NodeErrors, TreeErrors
from labeltree.evaluation.outcomes import Outcomes
from labeltree.report.charts.node_names import NodeNames
from labeltree.report.charts.tree_colours import TreeColours
from labeltree.report.cross_validation import _nodes as nodes_of_folds
from labeltree.report.cross_validation import _numbers
from labeltree.report.shown_samples.encode_pictures import picture
from labeltree.report.tables.confusions import confusion_rows, example_pictures, wrong_pairs
from labeltree.report.tables.error_tree_rows import ErrorTree, json_in_page, tree_data
from labeltree.report.tables.node_table import node_table
from labeltree.report.tables.protocol_tables import attribute_tables, protocol_blocks, tells_coverage
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TWO = Taxonomy.from_paths(["a/x", "a/y"])


def texts(table: Any) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


# Protocols


def test_a_protocol_has_its_main_numbers_and_folds_the_rest() -> None:
    ours = ProtocolResult(
        "Judged twice",
        scores={"aa": 0.1234, "bb": 1234.6, "cc": nan, "dd": 0.5, "ee": 0.6, "ff": 0.7, "gg": 0.8},
        by_depth={"hh": [0.1, 0.2, 0.3]},
        curves={"ii": [number / 40 for number in range(23)], "jj": [0.9, 0.8]},
        axes={"ii": [number / 2 for number in range(23)]},
        counts={"some_cases": 1234, "open: positive": 5, "others": 6},
        notes=["first", "second"],
        intervals={"aa": (0.1, 0.2), "dd": (0.0, 1.0), "ee": (nan, nan)},
        depth_intervals={"hh": [(0.05, 0.15), (nan, nan), (0.25, 0.35)]},
    )
    theirs = ProtocolResult(
        "", scores={"aa": 0.4, "hh2": 0.9}, by_depth={"hh": [0.7]}, notes=["second", "third", "third"]
    )
    methods = {
        "mine": SimpleNamespace(protocols={"one_more": ours}),
        "theirs": SimpleNamespace(protocols={"one_more": theirs}),
        "without": SimpleNamespace(protocols={}),
    }
    (block,) = protocol_blocks(SimpleNamespace(methods=methods))  # type: ignore[arg-type]
    assert (block.name, block.title, block.nodes) == ("one_more", "Judged twice", None)
    assert block.counts == "some cases 1,234, others 6"
    assert block.notes == ["first", "second", "theirs: third"]
    (main,) = block.tables
    assert (main.first, main.columns) == ("Measure", ["mine", "theirs"])
    assert main.rows == [
        ("aa", ["0.123 (0.100 – 0.200)", "0.400"]),
        ("bb", ["1,235", "–"]),
        ("cc", ["–", "–"]),
        ("dd", ["0.500 (too few to tell)", "–"]),
        ("ee", ["0.600", "–"]),
        ("ff", ["0.700", "–"]),
    ]
    further, depths, curve, points = block.folded
    assert (further.title, [name for name, _ in further.rows]) == ("Further measures", ["gg", "hh2"])
    assert (depths.title, depths.columns) == ("By depth", ["Depth 1", "Depth 2", "Depth 3"])
    assert depths.rows == [
        ("hh · mine", ["0.100 (0.050 – 0.150)", "0.200", "0.300 (0.250 – 0.350)"]),
        ("hh · theirs", ["0.700", "–", "–"]),
    ]
    assert curve.title == "ii"
    assert curve.columns == ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"]
    assert curve.rows == [("ii · mine", [f"{number / 20:.3f}" for number in range(12)])]
    assert (points.columns, points.rows) == (["1", "2"], [("jj · mine", ["0.900", "0.800"])])


def test_curves_along_one_axis_are_one_table() -> None:
    found = ProtocolResult("t", curves={"aa": [0.1, 0.2], "bb": [0.3, 0.4]}, axes={"bb": [5.0, 7.5]})
    found.axes["aa"] = [5.0, 7.5]
    methods = {"mine": SimpleNamespace(protocols={"p": found})}
    (block,) = protocol_blocks(SimpleNamespace(methods=methods))  # type: ignore[arg-type]
    assert block.tables == []
    (table,) = block.folded
    assert (table.title, table.columns) == ("Curves along the same axis", ["5", "7.5"])
    assert table.rows == [("aa", ["0.100", "0.200"]), ("bb", ["0.300", "0.400"])]


def test_each_attribute_has_a_table_of_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"site = Graz": ["1"], "year = 2020 = new": ["2"], "site = Wien": ["3"]}
    module = "labeltree.report.tables.protocol_tables.attribute_rows"
    monkeypatch.setattr(module, lambda result: (["coverage at 0.9", "samples"], rows))
    parts = [SimpleNamespace(attribute=name) for name in ("site", "year", "site")]
    site, year = attribute_tables(SimpleNamespace(main=SimpleNamespace(by_attribute=parts)))  # type: ignore[arg-type]
    assert (site.first, site.rows) == ("site", [("Graz", ["1"]), ("Wien", ["3"])])
    assert (year.first, year.rows) == ("year", [("2020 = new", ["2"])])
    assert tells_coverage(site)
    site.columns[:] = ["samples"]
    assert not tells_coverage(site)


def test_of_many_nodes_those_with_most_cases_are_rows_and_thirty_are_seen() -> None:
    counts = {f"g{n % 3}/x{n:03d}": float((n * 7) % 520 + 1) for n in range(520)}  # 1 to 520, each once
    by_node = {
        "r.positives": {"/": 999.0, "empty": 0.0} | counts,
        "r.negatives": dict.fromkeys(counts, 1000.0),
        "r.decision_sensitivity": dict.fromkeys(counts, 0.5),
        "r.decision_specificity": dict.fromkeys(counts, 0.61),
        "r.decision_ppv": dict.fromkeys(counts, 0.72),
        "r.decision_npv": dict.fromkeys(counts, nan),
        "r.point_sensitivity": dict.fromkeys(counts, 0.83),
        "r.auroc": dict.fromkeys(counts, 0.876),
        "s.decision_sensitivity": dict.fromkeys(counts, 0.1),
    }
    most = next(path for path, count in counts.items() if count == 520)
    by_node["r.negatives"][most] = 19.0
    ends = {
        "r.decision_sensitivity": {most: (0.4, 0.612)},
        "r.auroc": {most: (0.8, 0.91)},
        "r.decision_ppv": {most: (0.0, 1.0)},
    }
    table = node_table(SimpleNamespace(by_node=by_node, node_intervals=ends))  # type: ignore[arg-type]
    assert table is not None
    assert [row.path for row in table.rows] == [path for path, count in counts.items() if count > 20]
    assert {row.path for row in table.rows if row.first} == {path for path in counts if counts[path] > 490}
    assert table.hidden == 470
    assert table.rates == ["Sensitivity", "Specificity", "PPV", "NPV"]
    (row,) = (row for row in table.rows if row.few)
    assert (row.path, row.name, row.depth, row.cases) == (most, most[3:], 1, "520")
    assert [(cell.text, cell.interval, cell.key) for cell in (row.auroc, *row.decided)] == [
        ("0.88", "0.80–0.91", "0.876"),
        ("50.0", "40.0–61.2", "0.5"),
        ("61.0", "", "0.61"),
        ("72.0", "too few to tell", "0.72"),
        ("–", "", ""),
    ]
    assert [cell.text for cell in row.pointed] == ["83.0", "–", "–", "–"]
    assert table.note == (
        "† Fewer than 20 positive or negative cases: the numbers are uncertain. – Not defined: there is "
        "nothing to divide by. 20 nodes with fewer cases are in metrics.json."
    )


# Confusions


def test_a_confusion_shows_those_that_were_confused_the_nearest_first() -> None:
    x, y = TWO.encode(["x", "y"]).tolist()
    points = torch.tensor([5.0, 0.1, 3.0, 1.0, 0.0, 0.4, 2.0])[:, None]  # the mean of y is 0.8
    nodes = torch.tensor([x, x, x, x, y, y, y])
    ids = torch.tensor([16, 15, 14, 13, 12, 11, 10])
    table = EmbeddingTable(points, nodes, instances=ids, geometry="euclidean")
    pair = Confusion("a/x", "a/y", "a", x, y, int(TWO.find("a")), 3, 0.75, 1)
    errors = TreeErrors(7, 3, [0, 3], [], [pair])
    order = [3, 0, 6, 1, 5, 2, 4]
    answers = np.array([y, x, y, y, y, y, y])  # of the rows; all but the second are y
    outcomes = Outcomes(
        ids.numpy()[order], nodes.numpy()[order], TWO, {}, predicted={"probe": answers[order]}
    )

    def images(instances: torch.Tensor) -> torch.Tensor:
        return instances[:, None, None, None].expand(-1, 1, 4, 4).to(torch.uint8)

    def drawn(rows: list[int]) -> list[str]:
        return [picture(image, 64) for image in images(ids[rows])]

    chosen: tuple[Any, ...] = (read(table, "embeddings"), torch.arange(7), nodes, ids, images)
    few = {"of_true": 2, "of_predicted": 2}
    (known,) = example_pictures(errors, *chosen, outcomes, **few).values()
    assert known.true == drawn([3, 2])
    assert known.predicted == drawn([5, 4])
    (three,) = example_pictures(errors, *chosen, outcomes, of_true=3, of_predicted=1).values()
    assert (three.true, three.predicted) == (drawn([3, 2, 0]), drawn([5]))
    (guessed,) = example_pictures(errors, *chosen, None, **few).values()
    assert guessed.true == drawn([3, 1])
    other = example_pictures(errors, *chosen, outcomes, classifier="own", **few)
    assert other[x, y] == guessed, "nothing is known of the answers of that classifier"
    (row,) = confusion_rows(errors, TWO, NodeNames(TWO), {(x, y): known})
    assert (row.true, row.true_path, row.predicted, row.predicted_path) == ("x", "a › x", "y", "a › y")
    assert (row.lca, row.count, row.share, row.steps, row.most) == ("a", 3, 0.75, 1, 2)
    assert row.example == known
    assert len(confusion_rows(TreeErrors(7, 3, [], [], [pair] * 20), TWO, NodeNames(TWO))) == 12


def test_pairs_are_those_of_the_classifier_that_is_asked_for() -> None:
    x, y = TWO.encode(["x", "y"]).tolist()
    a = int(TWO.find("a"))
    nodes = np.array([x, x, x, y, y, a])
    predicted = {"own": np.array([y, y, x, x, -1, y]), "lda": np.array([x, x, x, y, y, a])}
    right = {("embeddings", "own_top1"): np.array([0.0, 0.0, 1.0, 0.0, 0.0, nan])}
    outcomes = Outcomes(np.arange(6), nodes, TWO, right, predicted=predicted)
    errors = TreeErrors(0, 0, [], [], [])
    assert wrong_pairs(errors, outcomes, "own") == [(a, y, 1), (x, y, 2), (y, x, 1)]
    assert wrong_pairs(errors, outcomes, "own", only_mistakes=True) == [(x, y, 2), (y, x, 1)]
    assert wrong_pairs(errors, outcomes, "lda") == []
    assert wrong_pairs(errors, outcomes, "probe") == []


# The tree of errors


def test_what_is_not_drawn_of_a_tree_is_summed_up() -> None:
    tree = Taxonomy.from_paths([*(f"a/a{number}" for number in range(8)), "b/b0", "b/b1"])
    leaf = {name: int(tree.find(name)) for name in tree.names[1:]}
    target, said = [leaf["b0"]] * 5, [leaf["b0"]] * 5
    for number in range(8):  # 10 + number samples, of which number are wrong: every other class in its branch
        target += [leaf[f"a{number}"]] * (10 + number)
        wrong = leaf["b1"] if number % 2 else leaf["a0"]
        said += [wrong] * number + [leaf[f"a{number}"]] * 10
    errors = tree_errors(torch.tensor(said), torch.tensor(target), tree)
    colours, names = TreeColours(tree, torch.tensor(target)), NodeNames(tree)
    taken = {leaf["a7"]: (leaf["b1"], 7)}
    rows = ErrorTree(errors, tree, colours, names, taken, limit=10).rows()
    assert [row.name for row in rows] == [
        "All classes (exact)", "a", "a3", "a4", "a5", "a6", "a7",
        "and 3 more, with 11\u202f% of the mistakes", "b",
    ]  # fmt: skip
    rest, folded = rows[7], rows[8]
    assert (rest.samples, rest.severity, rest.depth, rest.guides) == (33, "1.3", 2, ("line", "elbow"))
    assert [(fate.steps, round(33 * fate.share)) for fate in rest.fates] == [(0, 30), (1, 2), (2, 1)]
    assert (folded.folded, folded.severity, folded.here) == ("1 class inside", "–", "")
    assert (rows[6].taken, rows[5].taken, rows[6].here) == ("b1", "", "")
    assert (rows[1].samples, rows[1].here, rows[1].severity) == (108, "43\u202f%", "1.6")
    whole = ErrorTree(errors, tree, colours, names, taken, limit=3).rows()
    assert whole[1].folded == "8 classes inside, 100\u202f% of the mistakes"


def test_the_script_of_the_tree_is_given_the_numbers_of_every_node() -> None:
    tree = Taxonomy.from_paths(["a/x", "a/y", "b/z"])
    x, y, z = tree.encode(["x", "y", "z"]).tolist()
    target = torch.tensor([x] * 4 + [y] * 3 + [z] * 2)
    said = torch.tensor([x, y, y, z, y, y, z, z, z])
    errors = tree_errors(said, target, tree)
    data = tree_data(
        errors, tree, TreeColours(tree, target), NodeNames(tree), {x: (y, 2), y: (z, 1)}, "images"
    )
    assert (data["samples_word"], data["few"]) == ("images", 20)
    assert data["names"] == ["All classes (exact)", "a", "x", "y", "b", "z"]
    assert (data["depths"], data["heights"]) == ([0, 1, 2, 2, 1, 2], [2, 1, 0, 0, 1, 0])
    assert data["samples"] == [9, 7, 4, 3, 2, 2]
    assert (data["wrong"], data["here"]) == ([4, 4, 3, 1, 0, 0], [2, 2, 0, 0, 0, 0])
    assert data["parted"] == [[], [2], [1, 2], [1], [], []]
    assert data["taken"] == [0, 0, ["y", 2], ["z", 1], 0, 0]
    assert data["branch"] == [-1, 0, 0, 0, 1, 1]
    assert (len(data["colours"]), len(data["ramp"])) == (2, 3)
    assert json_in_page({"a": "</script>&\u2028"}) == '{"a":"\\u003c/script\\u003e\\u0026\\u2028"}'


# Cross-validation


def test_folds_have_a_row_for_every_tested_node() -> None:
    errors = TreeErrors(
        50, 12, [], [
            NodeErrors(0, "/", 0, 50, 12, 3, []),
            NodeErrors(1, "a", 1, 1200, 300, 5, [30]),
            NodeErrors(2, "a/x", 2, 40, 10, 0, [3, 1]),
            NodeErrors(3, "b", 1, 0, 0, 0, [0]),
        ], [],
    )  # fmt: skip
    plain: Any = SimpleNamespace(main=SimpleNamespace(protocols={}, errors=errors))
    assert texts(nodes_of_folds(plain)) == [
        ["/", "50", "100.0%", "76.0%"],
        ["a", "1,200", "97.5%", "75.0%"],
        ["a/x", "40", "90.0%", "75.0%"],
    ]
    rates = {"sensitivity": 0.81, "specificity": 0.92, "ppv": 0.73, "npv": nan}
    scores = ProtocolResult(
        "",
        by_node={"positives": {"a": 12.0}, "negatives": {"a": 34.0}, "auroc": {"a": 0.95}}
        | {f"answer_{name}": {"a": value} for name, value in rates.items()},
        node_intervals={"answer_specificity": {"a": (0.9, 0.94)}},
    )
    judged: Any = SimpleNamespace(main=SimpleNamespace(protocols={"node-scores": scores}, errors=errors))
    assert nodes_of_folds(judged).header[:3] == ["node", "positive", "negative"]
    assert texts(nodes_of_folds(judged)) == [
        ["a", "12", "34", "0.810", "0.920 [0.900, 0.940]", "0.730", "–", "0.950"]
    ]


def test_folds_are_beside_all_samples_by_depth_and_by_representation() -> None:
    def method(top1: float, depths: list[float], found: dict[str, float]) -> SimpleNamespace:
        scores = {"features": {"recall_at_1": found["features"]}, "embeddings": {"ahp": found["embeddings"]}}
        return SimpleNamespace(
            answer_score=lambda metric: top1 if metric == "top1" else top1 / 2,
            answer_interval=lambda metric: (0.1, 0.2) if metric == "top1" else (nan, nan),
            answer_by_depth=depths,
            depth_intervals={"lda": [(0.3, 0.4)], "probe": [(0.8, 0.9)]},
            classifier=SimpleNamespace(name="lda"),
            scores=scores,
            score=lambda metric, role: scores.get(role, {}).get(metric, nan),
            interval=lambda metric, role: (0.5, 0.6) if role == "features" else (nan, nan),
        )

    pooled: Any = SimpleNamespace(main=method(0.62, [0.7, 0.64], {"features": 0.55, "embeddings": 0.45}))
    folds: list[Any] = [
        SimpleNamespace(main=method(0.6, [0.8], {"features": 0.5, "embeddings": 0.4})),
        SimpleNamespace(main=method(0.64, [0.6, 0.62], {"features": 0.6, "embeddings": 0.5})),
    ]
    table = _numbers(pooled, folds)
    assert table.header == ["", "all samples", "mean ± sd of the folds", "fold 1", "fold 2"]
    assert texts(table) == [
        ["top-1 accuracy", "0.620 [0.100, 0.200]", "0.620 ± 0.028", "0.600", "0.640"],
        ["hierarchical F1", "0.310", "0.310 ± 0.014", "0.300", "0.320"],
        ["accuracy at depth 1", "0.700 [0.300, 0.400]", "0.700 ± 0.141", "0.800", "0.600"],
        ["accuracy at depth 2", "0.640", "–", "–", "0.620"],
        ["recall@1, features", "0.550 [0.500, 0.600]", "0.550 ± 0.071", "0.500", "0.600"],
        ["AHP", "0.450", "0.450 ± 0.071", "0.400", "0.500"],
    ]
