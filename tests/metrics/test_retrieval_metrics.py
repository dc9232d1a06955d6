"""Recall@k, MAP@R, mAP, HP@k and AHP against plain loops, on every kind of label."""

import math
from functools import cache

import pytest
import torch
from metric_loops import (
    Tree,
    average_precision,
    hierarchical_precision,
    mean,
    ragged_tree,
    rankings,
)
from sklearn.metrics import average_precision_score
from torch import Tensor

from labeltree.geometry import Euclidean, Sphere, get_geometry
from labeltree.metrics import functional
from labeltree.taxonomy import Taxonomy
from sweeps import some_now

pytestmark = pytest.mark.slow

TAXONOMY = ragged_tree()
TREE = Tree(TAXONOMY)
KS = (1, 2, 5, 1000)


def sample(count: int, seed: int, lowest: int = -1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    points = 0.15 * torch.randn(count, 4, generator=generator, dtype=torch.float64)
    return points, torch.randint(lowest, TAXONOMY.num_nodes, (count,), generator=generator)


QUERIES, DATABASE = sample(70, 0), sample(50, 1)


def close(value: Tensor, expected: list[float] | float) -> None:
    reference = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(value, reference, rtol=1e-12, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("dtype", some_now([torch.float32, torch.float64]))
@pytest.mark.parametrize("geometry", ["sphere", "euclidean", "poincare"])
@pytest.mark.parametrize("leave_one_out", [True, False])
@pytest.mark.parametrize("depth", [None, 1, 3])
def test_flat_relevance(depth: int | None, leave_one_out: bool, geometry: str, dtype: torch.dtype) -> None:
    points, nodes = QUERIES
    keys, key_nodes = (None, None) if leave_one_out else DATABASE
    labels = [node if node >= 0 else None for node in nodes.tolist()]
    key_labels = labels if key_nodes is None else [node if node >= 0 else None for node in key_nodes.tolist()]
    if depth is not None:
        labels = [TREE.cut(node, depth) for node in nodes.tolist()]
        key_labels = labels if key_nodes is None else [TREE.cut(node, depth) for node in key_nodes.tolist()]
    orders = rankings(geometry, points, labels, keys, key_labels)
    hits = [[key_labels[j] == label for j in order] for label, order in zip(labels, orders, strict=True)]

    def each(score):  # type: ignore[no-untyped-def]
        return [math.nan if label is None else score(row) for label, row in zip(labels, hits, strict=True)]

    database = () if keys is None else (keys.to(dtype), key_nodes)
    options = {"geometry": get_geometry(geometry), "taxonomy": TAXONOMY, "depth": depth}
    arguments = (points.to(dtype), nodes, *database)
    recall = functional.recall_at_k(*arguments, ks=KS, **options, reduction="none")
    recall_mean = functional.recall_at_k(*arguments, ks=KS, **options)
    for k in KS:
        expected = each(lambda row, k=k: float(any(row[:k])) if any(row) else math.nan)
        close(recall[k], expected)
        close(recall_mean[k], mean(expected))
    for function, reach in ((functional.mean_average_precision, False), (functional.map_at_r, True)):
        expected = each(lambda row, reach=reach: average_precision(row, sum(row) if reach else None))
        close(function(*arguments, **options, reduction="none"), expected)
        close(function(*arguments, **options), mean(expected))
        assert any(math.isnan(value) for value in expected)
        assert len({round(value, 9) for value in expected if not math.isnan(value)}) > 3


@pytest.mark.parametrize("dtype", some_now([torch.float32, torch.float64]))
@pytest.mark.parametrize("geometry", ["sphere", "euclidean", "poincare"])
@pytest.mark.parametrize("leave_one_out", [True, False])
def test_hierarchical_precision(leave_one_out: bool, geometry: str, dtype: torch.dtype) -> None:
    points, nodes = QUERIES
    keys, key_nodes = (None, None) if leave_one_out else DATABASE
    labels = [node if node >= 0 else None for node in nodes.tolist()]
    key_labels = labels if key_nodes is None else [node if node >= 0 else None for node in key_nodes.tolist()]
    orders = rankings(geometry, points, labels, keys, key_labels)
    found = [[key_labels[j] for j in order] for order in orders]

    @cache
    def each(k: int) -> list[float]:
        return [
            math.nan if label is None else hierarchical_precision(TREE, label, row, k)
            for label, row in zip(labels, found, strict=True)
        ]

    database = () if keys is None else (keys.to(dtype), key_nodes)
    arguments = (points.to(dtype), nodes, TAXONOMY, *database)
    options = {"geometry": get_geometry(geometry)}
    ours = functional.hierarchical_precision_at_k(*arguments, ks=KS, **options, reduction="none")
    for k in KS:
        expected = each(k)
        close(ours[k], expected)
        close(functional.hierarchical_precision_at_k(*arguments, ks=(k,), **options)[k], mean(expected))
    assert sum(math.isnan(value) for value in each(1)) > labels.count(None), "a query at the root is left out"

    for length in (1, 12, 1000):
        reach = min(length, len(orders[0]))
        curve = [each(k) for k in range(1, reach + 1)]
        average = [sum(column) / reach for column in zip(*curve, strict=True)]
        trapezoid = [
            (sum(column) - (column[0] + column[-1]) / 2) / reach for column in zip(*curve, strict=True)
        ]
        for rule, expected in (("mean", average), ("trapezoid", trapezoid)):
            choice = {"k": length, "rule": rule, **options}
            ahp = functional.average_hierarchical_precision
            close(ahp(*arguments, **choice, reduction="none"), expected)
            close(ahp(*arguments, **choice), mean(expected))
        one_pass = functional.retrieval_metrics(*arguments, ahp_k=length, ks=(), **options)
        close(one_pass["hp_curve"], [mean(values) for values in curve])


@pytest.mark.parametrize("leave_one_out", [True, False])
def test_one_pass_gives_what_the_functions_give(leave_one_out: bool) -> None:
    database = () if leave_one_out else DATABASE
    geometry = Euclidean()
    metrics = functional.retrieval_metrics(
        *QUERIES, TAXONOMY, *database, ks=(1, 3), ahp_k=20, depths=(1, 2, 3, 4), geometry=geometry
    )
    arguments = (*QUERIES, *database)
    for depth in (None, 1, 2, 3, 4):
        suffix = "" if depth is None else f"/depth{depth}"
        options = {"geometry": geometry, "taxonomy": TAXONOMY, "depth": depth}
        for k, value in functional.recall_at_k(*arguments, ks=(1, 3), **options).items():
            close(metrics[f"recall@{k}{suffix}"], value.item())
        close(metrics[f"map@r{suffix}"], functional.map_at_r(*arguments, **options).item())
        each = functional.mean_average_precision(*arguments, **options, reduction="none")
        close(metrics[f"map{suffix}"], each.nanmean().item())
        recall = functional.recall_at_k(*arguments, ks=(1,), **options, reduction="none")[1]
        labels = QUERIES[1] if depth is None else functional.nodes_at_depth(QUERIES[1], TAXONOMY, depth)
        assert metrics[f"queries{suffix}"].item() == (labels >= 0).sum()
        assert torch.equal(each.isnan(), recall.isnan())
        without = metrics[f"queries_without_relevant{suffix}"].item()
        assert without == (each.isnan() & (labels >= 0)).sum()
    arguments = (*QUERIES, TAXONOMY, *database)
    hp = functional.hierarchical_precision_at_k(*arguments, ks=(1, 3), geometry=geometry)
    close(metrics["hp@1"], hp[1].item())
    close(metrics["hp@3"], hp[3].item())
    for rule, name in (("mean", "ahp@20"), ("trapezoid", "ahp@20/trapezoid")):
        ahp = functional.average_hierarchical_precision(*arguments, k=20, rule=rule, geometry=geometry)
        close(metrics[name], ahp.item())
    each = functional.average_hierarchical_precision(*arguments, geometry=geometry, reduction="none")
    missing = int((QUERIES[1] < 0).sum())
    assert metrics["queries_missing_label"].item() == missing
    assert metrics["queries_without_similarity"].item() == each.isnan().sum() - missing > 0
    expected = int((QUERIES[1] if leave_one_out else DATABASE[1]).ge(0).sum())
    assert metrics["database"].item() == expected


def test_average_precision_is_scikit_learns() -> None:
    points, nodes = sample(40, 2, lowest=0)
    keys, key_nodes = sample(60, 3, lowest=0)
    ours = functional.mean_average_precision(points, nodes, keys, key_nodes, reduction="none")
    similarity = Sphere().pairwise_similarity(points, keys)
    for row, node in enumerate(nodes.tolist()):
        relevant = (key_nodes == node).numpy()
        if relevant.any():
            expected = average_precision_score(relevant, similarity[row].numpy())
            assert ours[row].item() == pytest.approx(expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_perfect_ranking_of_negative_scores_is_perfect(dtype: torch.dtype) -> None:
    taxonomy = Taxonomy.from_paths([("a", "b"), ("a", "c"), ("d", "e"), ("d", "f")])
    nodes = taxonomy.leaves.repeat_interleave(3)
    line = torch.tensor(
        [0.0, 1.0, 2.0, 10.0, 11.0, 12.0, 100.0, 101.0, 102.0, 110.0, 111.0, 112.0], dtype=dtype
    )
    metrics = functional.retrieval_metrics(
        line[:, None], nodes, taxonomy, ks=(1, 2), ahp_k=11, geometry=Euclidean()
    )
    for name in ("recall@1", "map@r", "map", "hp@1", "hp@2", "ahp@11"):
        assert metrics[name].item() == 1.0, name
    assert metrics["ahp@11/trapezoid"].item() == pytest.approx(10 / 11)


def test_ties_decide_in_database_order() -> None:
    keys, nodes = torch.zeros(3, 2), torch.tensor([5, 6, 6])
    query = torch.zeros(1, 2)
    for node, expected in ((5, 1.0), (6, (1 / 2 + 2 / 3) / 2)):
        value = functional.mean_average_precision(
            query, torch.tensor([node]), keys, nodes, geometry=Euclidean()
        )
        assert value.item() == pytest.approx(expected)


def test_ids_above_2_to_the_24th_stay_apart() -> None:
    """Equal in float32, so that a metric which holds ids in it would find everything relevant."""
    nodes = torch.tensor([2**24, 2**24 + 1, 2**40, 2**40 + 1])
    points = torch.eye(4)
    assert functional.recall_at_k(points, nodes, points, nodes.roll(1), ks=(1,))[1].item() == 0.0
    assert functional.mean_average_precision(points, nodes, points, nodes).item() == 1.0


def test_one_class_and_one_sample() -> None:
    taxonomy = Taxonomy.from_paths([("only",)])
    several = functional.retrieval_metrics(torch.randn(5, 3), torch.ones(5, dtype=torch.int64), taxonomy)
    assert {several[name].item() for name in ("recall@1", "map@r", "map", "hp@5", "ahp@250")} == {1.0}
    single = functional.retrieval_metrics(torch.randn(1, 3), torch.ones(1, dtype=torch.int64), taxonomy)
    assert single["recall@1"].isnan()
    assert single["map"].isnan()
    assert single["map@r"].isnan()
    assert single["hp@1"].isnan()
    assert single["queries_without_relevant"].item() == 1
    assert single["queries_without_similarity"].item() == 1
    assert single["hp_curve"].shape == (0,)


@pytest.mark.parametrize("nodes", [[], [-1, -1, -1]])
def test_no_query_gives_nan(nodes: list[int]) -> None:
    labels = torch.tensor(nodes, dtype=torch.int64)
    metrics = functional.retrieval_metrics(torch.randn(len(nodes), 3), labels, TAXONOMY, depths=(1,))
    assert all(value.isnan().all() for value in metrics.values() if value.is_floating_point())
    assert metrics["queries_missing_label"].item() == len(nodes)
    assert functional.map_at_r(torch.randn(len(nodes), 3), labels).isnan()


def test_an_empty_database() -> None:
    arguments = (torch.randn(2, 3), torch.tensor([1, 2]))
    nothing = (torch.empty(0, 3), torch.empty(0, dtype=torch.int64))
    assert functional.recall_at_k(*arguments, *nothing)[1].isnan()
    assert functional.mean_average_precision(*arguments, *nothing).isnan()
    assert functional.average_hierarchical_precision(*arguments, TAXONOMY, *nothing).isnan()


def test_half_precision_is_ranked_in_float32() -> None:
    points, nodes = sample(40, 4, lowest=0)
    half = points.half()
    expected = functional.mean_average_precision(half.float(), nodes)
    assert functional.mean_average_precision(half, nodes) == expected


def test_gradients_are_not_kept() -> None:
    points = torch.randn(6, 3, requires_grad=True)
    assert not functional.map_at_r(points, torch.tensor([1, 1, 2, 2, 3, 3])).requires_grad


def test_labels_are_cut_to_a_depth() -> None:
    nodes = torch.arange(-1, TAXONOMY.num_nodes)
    for depth in range(1, 5):
        expected = [TREE.cut(node, depth) for node in nodes.tolist()]
        found = functional.nodes_at_depth(nodes, TAXONOMY, depth).tolist()
        assert found == [-1 if node is None else node for node in expected]
    with pytest.raises(ValueError, match="depth is 5; expected a depth of the taxonomy, 1 to 4"):
        functional.nodes_at_depth(nodes, TAXONOMY, 5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query_embeddings": torch.zeros(2)}, r"query_embeddings has shape \(2,\)"),
        (
            {"query_embeddings": torch.zeros(2, 3, dtype=torch.int64)},
            "query_embeddings has .* dtype torch.int64",
        ),
        ({"query_embeddings": torch.tensor([[0.0], [torch.nan]])}, "query_embeddings holds NaN .* in row 1"),
        ({"query_nodes": torch.tensor([1.0, 2.0])}, "query_nodes has dtype torch.float32; expected integers"),
        ({"query_nodes": torch.tensor([1])}, "query_embeddings has 2 rows, query_nodes 1"),
        ({"key_nodes": torch.tensor([1])}, "only key_nodes is given"),
        ({"key_embeddings": torch.zeros(1, 3)}, "only key_embeddings is given"),
        (
            {"key_embeddings": torch.zeros(1, 4), "key_nodes": torch.tensor([1])},
            "key_embeddings has dimension 4 and query_embeddings 3",
        ),
        ({"ks": (0,)}, "an entry of ks is 0; expected an integer of at least 1"),
        ({"depth": 1}, "depth is given without taxonomy"),
        ({"reduction": "sum"}, "reduction is 'sum'"),
    ],
)
def test_bad_arguments_are_named(change: dict[str, object], message: str) -> None:
    arguments = {"query_embeddings": torch.zeros(2, 3), "query_nodes": torch.tensor([1, 2]), **change}
    with pytest.raises(ValueError, match=message):
        functional.recall_at_k(**arguments)  # type: ignore[arg-type]


def test_bad_hierarchical_arguments_are_named() -> None:
    arguments = (torch.zeros(2, 3), torch.tensor([1, 99]), TAXONOMY)
    with pytest.raises(ValueError, match="query_nodes holds 99 in row 1; expected nodes of the taxonomy"):
        functional.hierarchical_precision_at_k(*arguments)
    arguments = (torch.zeros(2, 3), torch.tensor([1, 2]), TAXONOMY)
    with pytest.raises(ValueError, match="rule is 'median'; expected 'mean' or 'trapezoid'"):
        functional.average_hierarchical_precision(*arguments, rule="median")
    with pytest.raises(ValueError, match="k is 0"):
        functional.average_hierarchical_precision(*arguments, k=0)
