"""The parts of the page: which rows the tree has, which queries are shown, which colours nodes get."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from math import nan
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from html_page import overlaps, text_boxes
from report_inputs import SMALL, large_ragged_tree, random_table

from labeltree.evaluation import ProtocolResult, evaluate, read, tree_errors
from labeltree.report.charts.bar_charts import (
    DotRow,
    Line,
    _spread,
    difference_chart,
    dot_chart,
    line_chart,
)
from labeltree.report.charts.figures import _hp_chart, depth_figure
from labeltree.report.charts.grid_charts import Band, band_chart, cell_chart
from labeltree.report.charts.map_projection import Plane, draw_plane, project
from labeltree.report.charts.node_names import NodeNames
from labeltree.report.charts.tree_colours import BRANCH_LIMIT, TreeColours, nearness_colour, oklch
from labeltree.report.cross_validation import _numbers
from labeltree.report.pages.document import Heading, Text, prose, to_html
from labeltree.report.pages.number_tiles import tiles
from labeltree.report.shown_samples.encode_pictures import picture
from labeltree.report.shown_samples.searches import (
    Search,
    _badness,
    _pick,
    _search,
    choose_searches,
    search_rows,
)
from labeltree.report.tables.error_tree_rows import ErrorRow, ErrorTree
from labeltree.report.tables.protocol_tables import _nodes, protocol_blocks
from labeltree.taxonomy import Taxonomy


def rows_of(
    taxonomy: Taxonomy, predicted: torch.Tensor, target: torch.Tensor, limit: int = 44
) -> list[ErrorRow]:
    errors = tree_errors(predicted, target, taxonomy)
    return ErrorTree(errors, taxonomy, TreeColours(taxonomy, target), NodeNames(taxonomy), limit=limit).rows()


def test_a_small_tree_is_drawn_whole_with_the_errors_where_they_were_made() -> None:
    taxonomy = Taxonomy.from_paths(SMALL)
    shirt, pullover, dress, boot = taxonomy.encode(["shirt", "pullover", "dress", "boot"]).tolist()
    target = taxonomy.leaves.repeat(4)
    predicted = target.clone()
    predicted[target == shirt] = torch.tensor([pullover, pullover, dress, shirt])
    predicted[(target == dress).nonzero()[0]] = boot
    rows = {row.name: row for row in rows_of(taxonomy, predicted, target)}

    assert len(rows) == taxonomy.num_nodes
    assert rows["tops"].here == "50\u202f%"
    assert rows["apparel"].here == rows["All classes (exact)"].here == "25\u202f%"
    assert rows["closed"].here == "–"
    assert rows["shirt"].here == ""
    assert [(fate.steps, fate.share) for fate in rows["shirt"].fates] == [(0, 0.25), (1, 0.5), (2, 0.25)]
    assert [(fate.steps, fate.share) for fate in rows["tops"].fates] == [(0, 7 / 8), (2, 1 / 8)]
    assert [(f.steps, round(24 * f.share)) for f in rows["All classes (exact)"].fates] == [
        (0, 20),
        (1, 2),
        (2, 1),
        (3, 1),
    ]
    assert (
        rows["shirt"].spoken
        == "25.0\u202f% inside, 50.0\u202f% wrong by 1 step, 25.0\u202f% wrong by 2 steps"
    )
    assert rows["shirt"].inside == 0.25
    assert rows["tops"].inside == 7 / 8, "of a branch, the share of answers that stayed in it"
    assert rows["shirt"].few
    assert not rows["All classes (exact)"].few, "24 samples"
    assert rows["tops"].bubble > rows["apparel"].bubble > rows["shirt"].bubble
    assert rows["dress"].guides == ("line", "elbow")
    assert rows["pullover"].guides == ("line", "line", "elbow")
    assert rows["sneaker"].guides == ("none", "none", "elbow")


def test_a_large_tree_accounts_for_every_sample() -> None:
    taxonomy = large_ragged_tree()
    generator = torch.Generator().manual_seed(0)
    target = taxonomy.leaves.repeat(3)
    other = taxonomy.leaves[torch.randint(len(taxonomy.leaves), (len(target),), generator=generator)]
    wrong = target < 60
    rows = rows_of(taxonomy, torch.where(wrong, other, target), target, limit=30)

    assert 10 < len(rows) <= 31
    branches = [row for row in rows if row.depth == 1]
    assert sum(row.samples for row in branches) == len(target)
    deeper = [row for row in rows if row.depth > 1]
    assert deeper, "the branches with mistakes are unfolded"
    assert all(row.guides.count("tee") + row.guides.count("elbow") == 1 for row in rows[1:])
    for above, below in pairwise(rows):
        assert len(below.guides) <= len(above.guides) + 1


def test_without_samples_there_is_no_tree() -> None:
    taxonomy = Taxonomy.from_paths(SMALL)
    assert rows_of(taxonomy, taxonomy.leaves[:0], taxonomy.leaves[:0]) == []


def test_searches_are_spread_over_the_tree_and_own_up_to_failures() -> None:
    taxonomy = large_ragged_tree(leaves=60)
    table = random_table(taxonomy, 12, noise=0.9)
    rows = torch.arange(0, len(table), 2)
    searches = choose_searches(read(table, "features"), table.nodes, rows, taxonomy)

    assert len(searches) == 10
    classes = [int(table.nodes[search.query]) for search in searches]
    assert classes == sorted(classes)
    assert len(set(classes)) == 10
    assert max(classes) - min(classes) > 0.8 * taxonomy.num_nodes
    assert 1 <= sum(search.failure for search in searches) <= 3
    features = torch.nn.functional.normalize(table.features.double(), dim=1)
    for search in searches:
        assert search.query in rows
        similarity = features[rows] @ features[search.query]
        similarity[rows == search.query] = -2
        expected = rows[similarity.argsort(descending=True)[:8]]
        assert search.results.tolist() == expected.tolist()
        assert search.alike_exist == int((table.nodes[rows] == table.nodes[search.query]).sum()) - 1
    failures = [float(s.dissimilarity.mean()) for s in searches if s.failure]
    typical = [float(s.dissimilarity.mean()) for s in searches if not s.failure]
    assert min(failures) > sum(typical) / len(typical)


def test_a_search_that_finds_all_that_are_alike_is_no_failure() -> None:
    """Two samples a class: seven of eight results are of another class in any case."""
    taxonomy = large_ragged_tree(leaves=30)
    table = random_table(taxonomy, 2)
    points = torch.eye(taxonomy.num_nodes)[table.nodes]
    rows = torch.arange(len(table))
    perfect = replace(table, embeddings=points, features=None)
    searches = choose_searches(read(perfect, "embeddings"), table.nodes, rows, taxonomy)
    assert len(searches) == 10
    assert not any(search.failure for search in searches)
    lost = searches[4].query
    points[lost] = -1.0
    spoilt = replace(table, embeddings=points, features=None)
    searches = choose_searches(read(spoilt, "embeddings"), table.nodes, rows, taxonomy)
    failing = [search for search in searches if search.failure]
    assert [int(table.nodes[search.query]) for search in failing] == [int(table.nodes[lost])]
    assert (failing[0].dissimilarity > 0).all()


def test_searches_leave_out_the_own_group() -> None:
    """A query's own patient is neither among its results nor counted among what there is to find."""
    taxonomy = Taxonomy.from_paths(SMALL)
    table = random_table(taxonomy, 12)
    person = torch.arange(len(table)) // 5
    person[::7] = -1  # of no group: found by everybody
    looks = torch.randn(len(table), 6, generator=torch.Generator().manual_seed(0))[person.clamp(min=0)]
    table = replace(table, embeddings=looks + 0.01 * torch.arange(6), features=None)
    reading, rows = read(table, "embeddings"), torch.arange(len(table))

    def own(groups: torch.Tensor | None) -> list[bool]:
        searches = choose_searches(reading, table.nodes, rows, taxonomy, groups=groups)
        assert searches
        for search in searches:
            same = (person == person[search.query]) & (person[search.query] >= 0)
            out = (rows == search.query) | (same if groups is not None else torch.zeros_like(same))
            alike = (table.nodes == table.nodes[search.query]) & ~out
            assert search.alike_exist == int(alike.sum())
        return [bool((person[s.results] == person[s.query]).any()) for s in searches if person[s.query] >= 0]

    assert not any(own(person))
    assert all(own(None))


def test_the_first_group_is_one_and_searches_without_alike_samples_are_bad() -> None:
    taxonomy = Taxonomy.from_paths(SMALL)
    table = replace(random_table(taxonomy, 1), features=None)
    reading, rows = read(table, "embeddings"), torch.arange(6)
    groups = torch.tensor([0, 0, 0, 1, -1, -1])
    (first,) = _search(reading, table.nodes, rows, rows[:1], taxonomy, 8, groups)
    assert sorted(first.results.tolist()) == [3, 4, 5]
    (alone,) = _search(reading, table.nodes, rows, rows[4:5], taxonomy, 8, groups)
    assert sorted(alone.results.tolist()) == [0, 1, 2, 3, 5]
    assert alone.alike_exist == 0
    assert _badness(alone) == pytest.approx(float(alone.dissimilarity.mean()))
    assert _badness(alone) > 0


def test_few_classes_give_several_queries_each() -> None:
    taxonomy = Taxonomy.from_paths(SMALL)
    table = random_table(taxonomy, 12)
    searches = choose_searches(read(table, "features"), table.nodes, torch.arange(len(table)), taxonomy)
    queries = [search.query for search in searches]
    assert len(set(queries)) == len(queries) == 10
    assert set(table.nodes[queries].tolist()) == set(taxonomy.leaves.tolist())


def test_tiny_tables_give_what_there_is() -> None:
    taxonomy = Taxonomy.from_paths(SMALL)
    table = random_table(taxonomy, 1)
    reading = read(table, "features")
    assert choose_searches(reading, table.nodes, torch.tensor([0]), taxonomy) == []
    (first, second) = choose_searches(reading, table.nodes, torch.tensor([0, 1]), taxonomy)
    assert first.results.tolist() == [1]
    assert second.results.tolist() == [0]


def test_branches_have_hues_and_their_nodes_shades() -> None:
    taxonomy = Taxonomy.from_paths([("root group", *path) for path in SMALL])
    colours = TreeColours(taxonomy, taxonomy.leaves)
    assert [branch.name for branch in colours.branches] == ["apparel", "footwear"]
    leaves = [colours.colour(node) for node in taxonomy.leaves.tolist()]
    assert len(set(leaves)) == len(leaves)
    assert colours.shape(int(taxonomy.leaves[0])) != colours.shape(int(taxonomy.leaves[-1]))


def test_branches_beyond_the_limit_share_a_grey() -> None:
    taxonomy = large_ragged_tree(branches=BRANCH_LIMIT + 3)
    nodes = torch.cat([taxonomy.leaves, taxonomy.leaves[:100]])
    colours = TreeColours(taxonomy, nodes)
    assert len(colours.branches) == BRANCH_LIMIT
    assert colours.others == 3
    without = [node for node in taxonomy.children(0) if colours.branch_of(node) is None]
    assert len({colours.colour(node) for node in without}) == 1
    assert colours.branch_of(1) is not None, "the branch with most samples has a hue"


def test_colours_can_be_shown() -> None:
    assert oklch(1, 0, 0) == "#ffffff"
    assert oklch(0, 0, 0) == "#000000"
    for hue in range(0, 360, 30):
        assert re.fullmatch("#[0-9a-f]{6}", oklch(0.7, 0.4, hue))
    red, _, blue = (int(nearness_colour(1.0)[i : i + 2], 16) for i in (1, 3, 5))
    assert red > 1.5 * blue
    red, _, blue = (int(nearness_colour(0.0)[i : i + 2], 16) for i in (1, 3, 5))
    assert blue > 1.5 * red


def test_names_that_several_nodes_share_get_their_parent() -> None:
    taxonomy = Taxonomy.from_paths([("a", "other"), ("b", "other"), ("b", "own")])
    names = NodeNames(taxonomy)
    assert [names.short(node) for node in taxonomy.leaves.tolist()] == ["a › other", "b › other", "own"]
    assert names.short(0) == "the whole tree"


def test_a_long_name_of_a_row_takes_two_lines() -> None:
    name = "Exact class right, by the chosen classifier of each run"
    for narrow in (False, True):
        lines = re.findall(
            r'class="rowname"[^>]*>([^<]*)<',
            dot_chart([DotRow(name, "", [0.5])], ["a"], title="t", narrow=narrow),
        )
        assert len(lines) == 2
        assert " ".join(lines) == name


def test_a_chart_without_values_says_so() -> None:
    assert "not defined" in line_chart([Line("a", [float("nan")], 0)], title="t", x_label="x", y_label="y")
    assert "not defined" in line_chart([], title="t", x_label="x", y_label="y")
    one = line_chart([Line("only", [0.5], 0)], title="t", x_label="x", y_label="y")
    assert "50.0%" in one


def test_the_principal_plane_keeps_the_largest_variance() -> None:
    taxonomy = Taxonomy.from_paths(SMALL)
    table = random_table(taxonomy, 20)
    reading = read(table, "embeddings")
    plane = project(reading, torch.arange(len(table)), table.nodes, method="PCA")
    centred = torch.nn.functional.normalize(table.embeddings, dim=1).double()
    centred = centred - centred.mean(0)
    variances = torch.linalg.eigvalsh(centred.T @ centred).flip(0)
    assert (plane.points**2).sum(0) == pytest.approx(variances[:2].numpy(), rel=1e-6)
    share = 100 * float(variances[:2].sum() / variances.sum())
    assert f"{share:.0f} %" in plane.method


def test_pictures() -> None:
    small = picture(torch.zeros(1, 28, 28, dtype=torch.uint8))
    assert small.startswith("data:image/png;base64,")
    large = torch.randint(0, 256, (3, 400, 300), dtype=torch.uint8)
    assert picture(large).startswith("data:image/jpeg;base64,")
    assert len(picture(large)) < 30_000
    with pytest.raises(ValueError, match=r"uint8 of shape.*float32"):
        picture(torch.zeros(3, 8, 8))


def test_points_of_numbers_are_no_points_between_names() -> None:
    taxonomy = Taxonomy.from_paths(SMALL)
    result = evaluate(random_table(taxonomy, 8), taxonomy)
    asked = ProtocolResult(
        "Decisions", {"coverage_at_0.8": 0.79, "features.recall_at_1": 0.5, "depth_at_0.95": 2}
    )
    methods = {key: replace(method, protocols={"decisions": asked}) for key, method in result.methods.items()}
    (found,) = protocol_blocks(replace(result, methods=methods))
    names = [name for name, _ in found.tables[0].rows]
    assert names == ["coverage at 0.8", "recall@1, features", "depth of the answers at 0.95"]


@pytest.mark.parametrize(
    "places", [[0.0] * 5, [50.0, 52.0, 99.0, 100.0, 100.0], [100.0, 0.0, 60.0, 1.0, 2.0]]
)
def test_end_labels_keep_their_distance_and_stay_inside(places: list[float]) -> None:
    moved = _spread(places, 17.0, 0.0, 100.0)
    order = sorted(range(5), key=lambda i: (places[i], i))
    assert sorted(range(5), key=lambda i: moved[i]) == order
    assert all(b - a >= 17 - 1e-9 for a, b in pairwise(moved[i] for i in order))
    assert min(moved) >= -1e-9
    assert max(moved) <= 100 + 1e-9


@pytest.mark.parametrize(
    "title", ["short", "the hierarchical F1 of ten seeds by the weight of the tree in the loss"]
)
def test_no_texts_of_a_chart_of_numbers_lie_on_one_another(title: str) -> None:
    places, steps = [f"0.{x}" for x in range(5)], [0.1 * x for x in range(5)]
    names = ["a method whose name takes " + "more words " * 6, "another"]
    bands = [Band(name, [(mean, 0.05) for mean in steps]) for name in names]
    drawings = [
        band_chart(bands, places, title=title, x_label="weight"),
        cell_chart([steps] * 3, ["a", "b", "c"], places, title=title, x_label="weight", y_label="n"),
    ]
    for drawing in map(str, drawings):
        width, height = map(float, re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawing)[0])
        boxes = text_boxes(drawing, 13)
        assert len(boxes) > 8
        heading = [float(y) for y in re.findall(r'<text x="0" y="([\d.]+)"', drawing)]
        cells = [float(y) for y in re.findall(r'<rect [^>]*?y="([\d.]+)"', drawing)]
        assert all(y > max(heading) for y in cells)
        assert overlaps(boxes) == []
        for left, top, right, bottom in boxes.values():
            assert left >= 0
            assert top >= 0
            assert right <= width
            assert bottom <= height


def test_the_label_of_the_columns_stands_in_their_middle() -> None:
    drawn = str(cell_chart([[0.1, 0.2, 0.3]], ["a"], ["x", "y", "z"], title="t", x_label="side", y_label="n"))
    at = {text: float(x) for x, text in re.findall(r'<text x="([\d.]+)"[^>]*>(\w+)<', drawn)}
    assert at["side"] == at["y"] == pytest.approx((at["x"] + at["z"]) / 2, abs=0.01)


def _ticks(chart: object, pattern: str) -> list[tuple[float, str]]:
    marks = re.findall(rf'<text x="([\d.]+)"[^>]*>({pattern})<', str(chart))
    return sorted((float(place), text) for place, text in marks)


@pytest.mark.parametrize(
    ("least", "first", "step"),
    [
        (0.02, 0, 20),
        (0.14, 0, 20),
        (0.33, 20, 20),
        (0.55, 50, 10),
        (0.82, 70, 10),
        (0.97, 90, 5),
        (np.nan, 0, 20),
    ],
)
def test_an_axis_of_shares_goes_in_even_steps_to_all(least: float, first: int, step: int) -> None:
    ticks = _ticks(dot_chart([DotRow("a", "", [least])], ["x"], title="t"), r"\d+%")
    assert [text for _, text in ticks] == [f"{share}%" for share in range(first, 101, step)]
    gaps = np.diff([place for place, _ in ticks])
    np.testing.assert_allclose(gaps, gaps[0], atol=0.02)


@pytest.mark.parametrize(("reach", "step"), [(0.004, 0.1), (0.07, 2), (0.3, 10), (0.8, 20)])
def test_an_axis_of_differences_goes_as_far_to_either_side(reach: float, step: float) -> None:
    row = DotRow("a", "", [reach], texts=["more"], sure=[True])
    ticks = _ticks(difference_chart([row], ["x"], baseline="b", title="t"), r"0|[+−][\d.]+")
    texts = [text for _, text in ticks]
    middle = len(texts) // 2
    assert texts[middle : middle + 2] == ["0", f"+{step:g}"]
    assert texts[:middle] == [f"−{text[1:]}" for text in texts[:middle:-1]]
    assert 100 * reach <= float(texts[-1]) < 100 * reach + step


@pytest.mark.parametrize("wide", [True, False])
def test_a_map_fills_the_page_up_to_its_margins(wide: bool) -> None:
    taxonomy = Taxonomy.from_paths(["a/x", "a/y"])
    nodes = taxonomy.leaves[:1].repeat(20)
    points = np.random.default_rng(0).uniform(size=(20, 2)) * ([9.0, 1.0] if wide else [1.0, 9.0])
    drawn = str(
        draw_plane(
            Plane(points, nodes, "PCA"), taxonomy, TreeColours(taxonomy, nodes), NodeNames(taxonomy), "map"
        )
    )
    starts = np.array(re.findall(r'd="M([\d.]+) ([\d.]+)a', drawn), float)
    circles = starts + np.array([3.6, 0.0])
    assert len(circles) == 20
    ends = np.stack([circles.min(0), circles.max(0)])
    np.testing.assert_allclose(ends.sum(0), [860, 620], atol=0.1, err_msg="in the middle")
    tight, free = (0, 1) if wide else (1, 0)
    assert ends[0, tight] == pytest.approx(26, abs=0.1)
    assert ends[0, free] > 26
    scale = np.ptp(circles, axis=0) / np.ptp(points, axis=0)
    assert scale[0] == pytest.approx(scale[1], rel=0.01), "distances are the same in both directions"


def test_of_many_nodes_the_lowest_are_shown_in_the_order_of_the_tree() -> None:
    paths = [f"class {number:03d}" for number in range(120)]
    scores = {path: (number * 7 % 120) / 120 for number, path in enumerate(paths)}
    (table,) = _nodes({"a run": ProtocolResult("", by_node={"top1": scores})})
    lowest = sorted(paths, key=lambda path: scores[path])[:100]
    assert [path for path, _ in table.rows] == [path for path in paths if path in lowest]
    assert table.title == "a run: the 100 lowest of 120 branches and classes"
    (table,) = _nodes({"a run": ProtocolResult("", by_node={"top1": dict(list(scores.items())[:100])})})
    assert [path for path, _ in table.rows] == paths[:100]


def test_a_search_says_how_many_it_finds_of_those_that_there_are() -> None:
    taxonomy = Taxonomy.from_paths(["a/x", "a/y"])
    x, y = taxonomy.encode(["x", "y"]).tolist()
    nodes = torch.tensor([x, x, x, y, y])
    samples = SimpleNamespace(table=SimpleNamespace(nodes=nodes), draw=lambda rows: ({}, {}))
    searches = [
        Search(0, torch.tensor([1, 3]), torch.zeros(2), alike_exist=5),
        Search(0, torch.tensor([1, 3, 4]), torch.zeros(3), alike_exist=2),
    ]
    found = search_rows(searches, samples, taxonomy, NodeNames(taxonomy))  # type: ignore[arg-type]
    assert [row.alike for row in found] == ["1 of 2 alike", "finds 1 of the 2 alike"]


def test_picked_searches_are_spread_over_the_sorted_ones() -> None:
    ranked = [Search(query, torch.zeros(1), torch.zeros(1), 1) for query in range(10)]
    assert [search.query for search in _pick(ranked, 3, failing=False)] == [2, 4, 7]
    failing = _pick(ranked, 3, failing=True)
    assert [(search.query, search.failure) for search in failing] == [(2, False), (6, False), (9, True)]
    assert [search.query for search in _pick(ranked[:3], 3, failing=False)] == [0, 1, 2]
    assert [search.query for search in _pick(ranked[:1], 3, failing=False)] == [0]
    assert [search.query for search in _pick(ranked[:1], 3, failing=True)] == [0]


def test_links_to_other_hosts_are_text() -> None:
    html = prose("[A page](https://example.org/a), [another](//example.org) and [ours](ridge-head.md#a).")
    assert re.findall('href="(.*?)"', html) == ["ridge-head.md#a"]
    assert "A page, another and" in html


def test_a_number_of_one_fold_has_no_spread() -> None:
    def method(value: float) -> SimpleNamespace:
        return SimpleNamespace(
            answer_score=lambda metric: value,
            answer_interval=lambda metric: (nan, nan),
            answer_by_depth=[],
            depth_intervals={},
            classifier=SimpleNamespace(name="probe"),
            scores={},
            score=lambda metric, role: nan,
        )

    folds = [SimpleNamespace(main=method(value)) for value in (0.5, nan)]
    table = _numbers(SimpleNamespace(main=method(0.5)), folds)  # type: ignore[arg-type]
    assert [cell.text for cell in table.rows[0]] == ["top-1 accuracy", "0.500", "–", "0.500", "–"]
    folds = [SimpleNamespace(main=method(value)) for value in (0.5, 0.7, nan)]
    table = _numbers(SimpleNamespace(main=method(0.6)), folds)  # type: ignore[arg-type]
    assert table.rows[0][2].text == "0.600 ± 0.141"


def test_the_rows_of_the_chart_by_depth_say_groups_and_in_the_last_classes() -> None:
    taxonomy = Taxonomy.from_paths(["a/x", "a/y", "b/z"])
    method = SimpleNamespace(
        representations={"features": SimpleNamespace(source="features")},
        answer_by_depth=[0.9, 0.8],
        by_depth={},
        depth_intervals={},
        classifier=SimpleNamespace(name="probe"),
    )
    result = SimpleNamespace(main=method, methods={"a run": method})
    drawn = str(depth_figure(result, taxonomy, taxonomy.leaves)["chart"])  # type: ignore[arg-type]
    assert "2 groups: a, b" in drawn
    assert "3 classes: x, y, z" in drawn


def test_every_method_is_searched_in_its_own_space() -> None:
    def method(name: str, space: str, found: dict[str, float]) -> SimpleNamespace:
        return SimpleNamespace(
            name=name,
            answer_score=lambda metric: 0.5,
            answer_interval=lambda metric: (nan, nan),
            answer_by_depth=[0.5],
            classifier=SimpleNamespace(name="probe", space=SimpleNamespace(name=space, sentence="why so")),
            score=lambda metric, role="embeddings": found.get(f"{role} {metric}", nan),
            interval=lambda metric, role="embeddings": (nan, nan),
        )

    main = method("mine", "posterior", {"posterior recall_at_1": 0.8, "embeddings recall_at_1": 0.7})
    other = method("theirs", "embeddings", {"posterior recall_at_1": 0.2, "embeddings recall_at_1": 0.6})
    result: Any = SimpleNamespace(name="mine", main=main, methods={"mine": main, "theirs": other}, counts={})
    (tile,) = (tile for tile in tiles(result) if "in a search" in tile.title)
    assert (tile.number, tile.others) == ("80.0\u202f%", [("theirs", "60.0\u202f%")])
    assert tile.note == "why so"


def test_the_curve_of_hierarchical_precision_is_drawn_for_both_screens() -> None:
    wide, narrow = str(_hp_chart([Line("a", [0.2, 0.4, 0.6], 0)])).split('<div class="on-narrow">')
    widths = [float(re.findall(r'viewBox="0 0 ([\d.]+)', part)[0]) for part in (wide, narrow)]
    assert widths[1] < widths[0]


def test_a_page_has_its_heading_once() -> None:
    page = to_html([Heading("A study"), Text("One sentence.")])
    assert len(re.findall("<h[1-6][^>]*>A study<", page)) == 1
    assert "One sentence." in page


def test_samples_of_one_inner_node_are_no_step_apart() -> None:
    taxonomy = Taxonomy.from_paths(["a/x", "a/y", "b"])
    inner, leaf, other = taxonomy.encode(["a", "a/x", "b"]).tolist()
    samples = SimpleNamespace(
        table=SimpleNamespace(nodes=torch.tensor([inner, inner, leaf, other])), draw=lambda rows: ({}, {})
    )
    search = Search(0, torch.tensor([1, 2, 3]), torch.zeros(3), alike_exist=1)
    (row,) = search_rows([search], samples, taxonomy, NodeNames(taxonomy))  # type: ignore[arg-type]
    assert [card.steps for card in row.results] == [0, 1, 2]
    assert [card.sign for card in row.results] == ["✓", "1\u2009↑", "2\u2009↑"]
