"""Retrieval without the samples of the query's own group, against loops that strike them off one by one."""

import math
from collections import Counter
from typing import Any

import pytest
import torch
from dag_loops import hierarchical_precision as dag_precision
from dag_loops import random_dag
from metric_loops import Tree, average_precision, hierarchical_precision, mean, ragged_tree, score
from torch import Tensor

from labeltree.geometry import Euclidean, get_geometry
from labeltree.metrics import functional
from labeltree.metrics.search import ranking
from labeltree.taxonomy import Taxonomy
from sweeps import long_unless, some_now

pytestmark = pytest.mark.slow

TAXONOMY = ragged_tree()
TREE = Tree(TAXONOMY)
NAN = math.nan

Rows = tuple[Tensor, Tensor, Tensor]


def sample(count: int, seed: int, *, grid: bool = False, groups: int = 9) -> Rows:
    """Points, labels (-1, inner nodes and the root among them) and groups (-1 among them)."""
    generator = torch.Generator().manual_seed(seed)
    points = 0.15 * torch.randn(count, 4, generator=generator, dtype=torch.float64)
    if grid:  # nearly all distances tie, and all are exact
        points = torch.randint(-1, 2, (count, 4), generator=generator).double()
    nodes = torch.randint(-1, TAXONOMY.num_nodes, (count,), generator=generator)
    own = torch.randint(-1, groups, (count,), generator=generator)
    return (
        points,
        nodes,
        torch.where(own < 0, -1, own + 2**24),
    )  # one apart, where float32 knows no odd number


def struck_rankings(geometry: str, queries: Rows, keys: Rows | None) -> list[list[int]]:
    """Database rows of each query, best first, ties in database order."""
    points, nodes, groups = (part.tolist() for part in (queries if keys is None else keys))
    found = []
    for i, (x, mine) in enumerate(zip(queries[0].tolist(), queries[2].tolist(), strict=True)):
        kept = [
            j
            for j in range(len(points))
            if nodes[j] >= 0 and not (keys is None and i == j) and not (mine >= 0 and groups[j] == mine)
        ]
        found.append(sorted(kept, key=lambda j, x=x: (-score(geometry, x, points[j]), j)))
    return found


def close(value: Tensor, expected: list[float] | float) -> None:
    reference = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(value, reference, rtol=1e-12, atol=1e-12, equal_nan=True)


def arguments(queries: Rows, keys: Rows | None, dtype: torch.dtype) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of the flat functions, and of those that need a taxonomy."""
    flat: dict[str, Any] = {
        "query_embeddings": queries[0].to(dtype),
        "query_nodes": queries[1],
        "query_groups": queries[2],
    }
    if keys is not None:
        flat |= {"key_embeddings": keys[0].to(dtype), "key_nodes": keys[1], "key_groups": keys[2]}
    return flat, flat | {"taxonomy": TAXONOMY}


@pytest.mark.parametrize("dtype", some_now([torch.float32, torch.float64]))
@pytest.mark.parametrize(
    ("geometry", "grid"), [("sphere", False), ("euclidean", False), ("euclidean", True), ("poincare", False)]
)
@pytest.mark.parametrize("leave_one_out", [True, False])
def test_equal_loops(leave_one_out: bool, geometry: str, grid: bool, dtype: torch.dtype) -> None:
    queries = sample(60, 0, grid=grid)
    keys = None if leave_one_out else sample(50, 1, grid=grid)
    flat, judged = arguments(queries, keys, dtype)
    options = {"geometry": get_geometry(geometry)}
    labels = queries[1].tolist()
    key_labels = (queries if keys is None else keys)[1].tolist()
    orders = struck_rankings(geometry, queries, keys)
    found = [[key_labels[j] for j in order] for order in orders]
    hits = [[other == label for other in row] for label, row in zip(labels, found, strict=True)]

    def each(value):  # type: ignore[no-untyped-def]
        return [NAN if node < 0 else value(node, row) for node, row in zip(labels, hits, strict=True)]

    recall = functional.recall_at_k(**flat, **options, ks=(1, 3, 500), reduction="none")
    for k, ours in recall.items():
        close(ours, each(lambda _, row, k=k: float(any(row[:k])) if any(row) else NAN))
    close(
        functional.map_at_r(**flat, **options, reduction="none"),
        each(lambda _, row: average_precision(row, sum(row))),
    )
    average = functional.mean_average_precision(**flat, **options, reduction="none")
    close(average, each(lambda _, row: average_precision(row)))
    assert 0 < int(average.isnan().sum()) < len(labels)

    precision = functional.hierarchical_precision_at_k(**judged, **options, ks=(1, 3, 500), reduction="none")
    curves = []
    for label, row in zip(labels, found, strict=True):
        length = range(1, min(100, len(row)) + 1)
        curves.append([NAN if label < 0 else hierarchical_precision(TREE, label, row, k) for k in length])
    for k, ours in precision.items():
        close(ours, [c[min(k, len(c)) - 1] if k < 100 else (1.0 if c[0] == c[0] else NAN) for c in curves])
    ahp: dict[str, Any] = {"k": 100, "reduction": "none", **options}
    close(functional.average_hierarchical_precision(**judged, **ahp), [sum(c) / len(c) for c in curves])
    close(
        functional.average_hierarchical_precision(**judged, **ahp, rule="trapezoid"),
        [(sum(c) - (c[0] + c[-1]) / 2) / len(c) for c in curves],
    )
    assert len({len(c) for c in curves}) > 3, "groups are of several sizes"

    together = functional.retrieval_metrics(**judged, **options, ks=(1, 3), ahp_k=100, depths=(1, 3))
    close(together["recall@3"], recall[3].nanmean().item())
    close(together["map"], average.nanmean().item())
    asked = [c for c, label in zip(curves, labels, strict=True) if label >= 0]
    padded = [c + [c[-1]] * (max(map(len, asked)) - len(c)) for c in asked]
    close(together["hp_curve"], [mean(column) for column in zip(*padded, strict=True)])
    assert together["queries_without_relevant"].item() == int((average.isnan() & (queries[1] >= 0)).sum())
    for depth in (1, 3):
        at = functional.map_at_r(**flat, **options, taxonomy=TAXONOMY, depth=depth)
        close(together[f"map@r/depth{depth}"], at.item())
        cut = [TREE.cut(node, depth) for node in labels]
        key_cut = [TREE.cut(node, depth) for node in key_labels]
        rows = [
            [key_cut[j] == mine for j in order if key_cut[j] is not None]
            for mine, order in zip(cut, orders, strict=True)
        ]
        expected = [
            NAN if mine is None else average_precision(row, sum(row))
            for mine, row in zip(cut, rows, strict=True)
        ]
        close(at, mean(expected))


@pytest.mark.parametrize("leave_one_out", [True, False])
def test_on_a_dag(leave_one_out: bool) -> None:
    dag = random_dag(3)
    generator = torch.Generator().manual_seed(5)

    def rows(count: int) -> Rows:
        nodes = torch.randint(1, dag.num_nodes, (count,), generator=generator)
        points = torch.randn(count, 3, generator=generator)
        return points.double(), nodes, torch.randint(-1, 5, (count,), generator=generator)

    queries, keys = rows(25), None if leave_one_out else rows(20)
    _, judged = arguments(queries, keys, torch.float64)
    judged["taxonomy"] = dag
    found = functional.hierarchical_precision_at_k(**judged, geometry=Euclidean(), ks=(4,), reduction="none")
    names = (queries if keys is None else keys)[1].tolist()
    orders = struck_rankings("euclidean", queries, keys)
    pairs = zip(queries[1].tolist(), orders, strict=True)
    close(found[4], [dag_precision(dag, query, [names[j] for j in order], 4) for query, order in pairs])


@pytest.mark.parametrize("groups", ["some large", "none", "one each"])
@pytest.mark.parametrize("classes", long_unless([3, 40], [40]))
@pytest.mark.parametrize("ahp_k", [5, 400])
@pytest.mark.parametrize("leave_one_out", [True, False])
def test_every_way_to_rank_gives_what_each_query_gets_by_itself(
    leave_one_out: bool, ahp_k: int, classes: int, groups: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tiles, placing, whole rows; neighbours are mostly of the query's own group."""
    monkeypatch.setattr(ranking, "_TILE", 100)
    taxonomy = Taxonomy.from_paths([("ab"[number % 2], f"class {number}") for number in range(classes)])
    generator = torch.Generator().manual_seed(classes)
    n = 420
    nodes = taxonomy.leaves[torch.randint(classes, (n,), generator=generator)]
    nodes[torch.rand(n, generator=generator) < 0.05] = -1
    of = torch.full((n,), -1)
    if groups == "some large":
        of = torch.randint(-1, 12, (n,), generator=generator)
        of[torch.rand(n, generator=generator) < 0.4] = 99
    elif groups == "one each":
        of = torch.arange(n)
    points = torch.randn(n, 6, generator=generator) + 3 * torch.randn(n, 6, generator=generator)[of]
    queries = (points, nodes, of)
    keys = None if leave_one_out else (points + 0.1, nodes.roll(1), of.roll(1))
    _, judged = arguments(queries, keys, torch.float32)
    judged["taxonomy"] = taxonomy
    options: dict[str, Any] = {"ks": (1, 4), "ahp_k": ahp_k, "depths": (1,), "reduction": "none"}
    ours = functional.retrieval_metrics(**judged, **options, geometry=Euclidean())
    database = queries if keys is None else keys
    for i in range(0, n, 37):
        if nodes[i] < 0:
            assert ours["hp@1"][i].isnan()
            continue
        there = (of[i] < 0) | (database[2] != of[i])
        if leave_one_out:
            there[i] = False
        alone = functional.retrieval_metrics(
            points[i : i + 1],
            nodes[i : i + 1],
            taxonomy,
            database[0][there],
            database[1][there],
            **options,
            geometry=Euclidean(),
        )
        for name, value in alone.items():
            if value.shape == (1,):
                close(ours[name][i], value.item())
    best = functional.recall_at_k(
        **{k: v for k, v in judged.items() if k != "taxonomy"},
        ks=(1, 4),
        geometry=Euclidean(),
        reduction="none",
    )
    close(best[1], ours["recall@1"].tolist())
    close(best[4], ours["recall@4"].tolist())


def test_groups_of_one_change_nothing() -> None:
    points, nodes, _ = sample(60, 2)
    for alone in (torch.arange(60), torch.full((60,), -1)):
        with_groups = functional.retrieval_metrics(points, nodes, TAXONOMY, query_groups=alone, ahp_k=20)
        without = functional.retrieval_metrics(points, nodes, TAXONOMY, ahp_k=20)
        for name, value in without.items():
            torch.testing.assert_close(with_groups[name], value, rtol=0, atol=0, equal_nan=True)


def test_the_same_patient_is_no_find() -> None:
    """Each sample lies beside one of its own patient; without those, three first hits are wrong."""
    nodes = torch.tensor([1, 1, 1, 1, 2, 2, 2, 2])
    patients = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])
    line = torch.tensor([0.0, 0.1, 10.0, 10.1, 20.0, 20.1, 40.0, 40.1])[:, None]
    options = {"ks": (1,), "geometry": Euclidean()}
    assert functional.recall_at_k(line, nodes, **options)[1].item() == 1.0
    assert functional.recall_at_k(line, nodes, query_groups=patients, **options)[1].item() == 5 / 8


def test_nothing_but_the_own_group_is_undefined() -> None:
    points, groups = torch.randn(6, 3), torch.zeros(6, dtype=torch.int64)
    found = functional.retrieval_metrics(points, torch.full((6,), 2), TAXONOMY, query_groups=groups)
    assert all(value.isnan().all() for value in found.values() if value.is_floating_point())
    assert found["queries_without_relevant"].item() == found["queries_without_similarity"].item() == 6


@pytest.mark.parametrize("weights", ["softmax", "distance", "uniform"])
def test_the_own_group_has_no_vote(weights: str) -> None:
    generator = torch.Generator().manual_seed(6)
    keys = torch.randint(0, 2, (40, 3), generator=generator).double()
    queries = torch.randint(0, 2, (30, 3), generator=generator).double()
    labels = torch.randint(-1, 4, (40,), generator=generator)
    groups = torch.randint(-1, 3, (40,), generator=generator)
    asking = torch.randint(-1, 4, (30,), generator=generator)
    options: dict[str, Any] = {"ks": (1, 5, 60), "weights": weights, "geometry": Euclidean()}
    ours = functional.nearest_neighbour_labels(
        queries, keys, labels, **options, query_groups=asking, key_groups=groups
    )
    for i in range(30):
        there = (groups != asking[i]) | (asking[i] < 0)
        alone = functional.nearest_neighbour_labels(queries[i : i + 1], keys[there], labels[there], **options)
        assert {k: int(v[i]) for k, v in ours.items()} == {k: int(v) for k, v in alone.items()}
    nobody = functional.nearest_neighbour_labels(
        queries[:2],
        keys[:3],
        torch.tensor([1, 1, 1]),
        query_groups=torch.tensor([5, 6]),
        key_groups=torch.full((3,), 5),
    )
    assert nobody[20].tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query_groups": torch.tensor([1.0, 2.0])}, "query_groups has dtype torch.float32"),
        ({"query_groups": torch.tensor([1])}, "query_groups has 1 rows, query_nodes 2"),
        ({"key_groups": torch.tensor([1])}, "only key_groups is given; expected query_groups alone"),
    ],
)
def test_bad_groups_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        functional.recall_at_k(torch.zeros(2, 3), torch.tensor([1, 2]), **change)
    keys = (torch.zeros(2, 3), torch.tensor([1, 2]))
    with pytest.raises(ValueError, match="only query_groups is given; expected query_groups and key_groups"):
        functional.map_at_r(*keys, *keys, query_groups=torch.tensor([1, 2]))


def test_large_groups_stay_linear_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of all samples are one group: what is left out is never held for all queries at once."""
    from labeltree.metrics.search.results_left_out import LeftOut

    most = Counter[str]()
    pairs = LeftOut.pairs

    def watched(self: LeftOut) -> Any:
        found = pairs(self)
        most["pairs"] = max(most["pairs"], len(found[0]))
        return found

    monkeypatch.setattr(LeftOut, "pairs", watched)
    n = 6000
    nodes = TAXONOMY.leaves[
        torch.randint(TAXONOMY.num_leaves, (n,), generator=torch.Generator().manual_seed(0))
    ]
    functional.retrieval_metrics(
        torch.randn(n, 4), nodes, TAXONOMY, query_groups=(torch.arange(n) - n // 2).clamp(min=0)
    )
    assert 0 < most["pairs"] <= 2**22 < n * n // 4
