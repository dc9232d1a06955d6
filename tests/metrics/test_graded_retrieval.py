"""H-AP, ASI, NDCG and AP at each depth against plain loops, on every kind of label."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from metric_loops import Tree, average_precision, mean, ragged_tree, rankings
from torch import Tensor

from labeltree.geometry import Euclidean
from labeltree.metrics import functional
from labeltree.taxonomy import Taxonomy, TaxonomyDAG

TAXONOMY = ragged_tree()
TREE = Tree(TAXONOMY)
L = TREE.max_depth
WEIGHTS = (0.5, 0.0, 2.0, 1.0)


def shared(query: int, result: int) -> int:
    """The depth that two labels share; a leaf continues itself to the last depth."""
    same_leaf = query == result and query in TREE.leaves
    return L if same_leaf else TREE.depth(TREE.lca(query, result))


def h_ap(depths: Sequence[int], relevance: Callable[[Sequence[int], int], float]) -> float:
    """By its definition, from the depths that the results share with the query."""
    rel = [relevance(depths, depth) if depth else 0.0 for depth in depths]
    if not any(rel):
        return math.nan
    ranks = [rel[k] + sum(min(rel[j], rel[k]) for j in range(k)) for k in range(len(rel))]
    return sum(ranks[k] / (k + 1) for k in range(len(rel)) if rel[k]) / sum(rel)


def pop(alpha: float) -> Callable[[Sequence[int], int], float]:
    return lambda depths, depth: (depth / L) ** alpha / sum(other == depth for other in depths)


def weighted(weights: Sequence[float]) -> Callable[[Sequence[int], int], float]:
    def relevance(depths: Sequence[int], depth: int) -> float:
        return sum(weights[p - 1] / sum(other >= p for other in depths) for p in range(1, depth + 1))

    return relevance


def asi(depths: Sequence[int]) -> float:
    reach, best = sum(depth > 0 for depth in depths), sorted(depths, reverse=True)
    if not reach:
        return math.nan
    common = [
        sum(min(depths[:k].count(v), best[:k].count(v)) for v in range(L + 1)) for k in range(1, reach + 1)
    ]
    return sum(count / k for k, count in enumerate(common, start=1)) / reach


def ndcg(depths: Sequence[int]) -> float:
    def gain(results: Sequence[int]) -> float:
        return sum((2**depth - 1) / math.log2(1 + k) for k, depth in enumerate(results, start=1))

    best = gain(sorted(depths, reverse=True))
    return gain(depths) / best if best else math.nan


def at_depth(labels: Sequence[int], depths: Sequence[int], depth: int) -> float:
    """AP of the results at exactly this depth, without finer ones, and without labels that end above it."""
    kept = [
        found == depth
        for found, label in zip(depths, labels, strict=True)
        if found <= depth and TREE.cut(label, depth) is not None
    ]
    return average_precision(kept)


def sample(count: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    points = 0.15 * torch.randn(count, 4, generator=generator, dtype=torch.float64)
    return points, torch.randint(-1, TAXONOMY.num_nodes, (count,), generator=generator)


QUERIES, DATABASE = sample(45, 0), sample(35, 1)


def close(value: Tensor, expected: Sequence[float] | float) -> None:
    reference = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(value, reference, rtol=1e-12, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("leave_one_out", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_graded_retrieval(dtype: torch.dtype, leave_one_out: bool) -> None:
    points, nodes = QUERIES
    keys, key_nodes = (None, None) if leave_one_out else DATABASE
    labels = [node if node >= 0 else None for node in nodes.tolist()]
    others = labels if key_nodes is None else [node if node >= 0 else None for node in key_nodes.tolist()]
    results = [[others[j] for j in order] for order in rankings("euclidean", points, labels, keys, others)]

    def each(score):  # type: ignore[no-untyped-def]
        return [
            math.nan if label is None else score(row, [shared(label, other) for other in row])
            for label, row in zip(labels, results, strict=True)
        ]

    database = () if keys is None else (keys.to(dtype), key_nodes)
    arguments = (points.to(dtype), nodes, TAXONOMY, *database)
    how = {"geometry": Euclidean()}
    everything = functional.retrieval_metrics(*arguments, graded=True, **how)
    none = functional.retrieval_metrics(*arguments, graded=True, reduction="none", **how)
    plain = functional.retrieval_metrics(*arguments, **how)
    for name, value in plain.items():
        torch.testing.assert_close(everything[name], value, rtol=1e-12, atol=0, equal_nan=True)
    expected = {
        "h_ap": each(lambda row, depths: h_ap(depths, pop(1.0))),
        "h_ap/map": each(lambda row, depths: h_ap(depths, weighted((1, 1, 1, 1)))),
        "asi": each(lambda row, depths: asi(depths)),
        "ndcg": each(lambda row, depths: ndcg(depths)),
    }
    for depth in range(1, L + 1):
        expected[f"ap/depth{depth}"] = each(lambda row, depths, d=depth: at_depth(row, depths, d))
    for name, values in expected.items():
        close(none[name], values)
        close(everything[name], mean(values))
        assert any(math.isnan(value) for value in values)
        assert len({round(value, 9) for value in values if not math.isnan(value)}) > 3
    assert everything["queries_without_relatives"] == sum(map(math.isnan, expected["asi"])) - labels.count(
        None
    )

    close(functional.h_ap(*arguments, **how), mean(expected["h_ap"]))
    close(functional.h_ap(*arguments, relevance="map", reduction="none", **how), expected["h_ap/map"])
    for alpha in (0.0, 0.3, 3.0):  # the order of the relevances changes with it
        close(
            functional.h_ap(*arguments, alpha=alpha, reduction="none", **how),
            each(lambda row, depths, a=alpha: h_ap(depths, pop(a))),
        )
    found = functional.h_ap(*arguments, relevance="map", weights=WEIGHTS, reduction="none", **how)
    close(found, each(lambda row, depths: h_ap(depths, weighted(WEIGHTS))))
    close(functional.average_set_intersection(*arguments, reduction="none", **how), expected["asi"])
    close(functional.ndcg(*arguments, **how), mean(expected["ndcg"]))
    for depth, value in functional.average_precision_at_depths(*arguments, **how).items():
        close(value, mean(expected[f"ap/depth{depth}"]))


def test_some_of_the_queries() -> None:
    chosen = torch.arange(len(QUERIES[1])) % 3 == 0
    how = {"reduction": "none", "depths": (1,)}
    every = functional.retrieval_metrics(*QUERIES, TAXONOMY, graded=True, **how)
    some = functional.retrieval_metrics(*QUERIES, TAXONOMY, graded=chosen, **how)
    for name, values in every.items():
        if name.startswith(("h_ap", "asi", "ndcg", "ap/")):
            values = values.where(chosen, torch.nan)
        elif name == "queries_without_relatives":
            values = (every["asi"].isnan() & chosen & (QUERIES[1] >= 0)).sum()
        torch.testing.assert_close(some[name], values, equal_nan=True)
    with pytest.raises(ValueError, match="graded has 3 rows, query_nodes 45"):
        functional.retrieval_metrics(*QUERIES, TAXONOMY, graded=chosen[:3])


def test_groups_are_left_out() -> None:
    """As if each query searched a database without its group."""
    points, nodes = QUERIES
    groups = torch.arange(len(nodes)) // 4 - 1
    found = functional.retrieval_metrics(
        points, nodes, TAXONOMY, graded=True, query_groups=groups, reduction="none"
    )
    for i in range(0, len(nodes), 3):
        others = torch.ones(len(nodes), dtype=torch.bool)
        others[i] = False
        if groups[i] >= 0:
            others &= groups != groups[i]
        single = functional.retrieval_metrics(
            points[i : i + 1], nodes[i : i + 1], TAXONOMY, points[others], nodes[others], graded=True
        )
        for name in ("h_ap", "h_ap/map", "asi", "ndcg", *(f"ap/depth{at}" for at in range(1, L + 1))):
            close(found[name][i], single[name].item())


def test_h_ap_of_the_relevance_map_is_the_mean_of_the_depths() -> None:
    """On leaves at one depth the mAPs at each depth are those of `mean_average_precision`."""
    taxonomy = Taxonomy.from_paths([(a, f"{a}{b}") for a in "xyz" for b in "pqr"])
    generator = torch.Generator().manual_seed(3)
    nodes = taxonomy.leaves.repeat(4)
    points = torch.randn(len(nodes), 3, generator=generator)
    found = functional.h_ap(points, nodes, taxonomy, relevance="map", weights=(1, 3))
    maps = [functional.mean_average_precision(points, nodes, taxonomy=taxonomy, depth=at) for at in (1, 2)]
    close(found, float(maps[0] / 4 + 3 * maps[1] / 4))


def test_the_best_ranking_has_one_and_flat_classes_have_mean_average_precision() -> None:
    taxonomy = Taxonomy.from_paths([("a", "b"), ("a", "c"), ("d", "e"), ("d", "f")])
    nodes = taxonomy.leaves.repeat_interleave(3)
    line = torch.tensor([0.0, 1.0, 2.0, 10, 11, 12, 100, 101, 102, 110, 111, 112])[:, None]
    best = functional.retrieval_metrics(line, nodes, taxonomy, graded=True, geometry=Euclidean())
    for name in ("h_ap", "h_ap/map", "asi", "ndcg", "ap/depth1", "ap/depth2"):
        assert best[name].item() == 1.0, name

    flat = Taxonomy.from_paths([("a",), ("b",), ("c",)])
    points, classes = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 3 + 1
    found = functional.retrieval_metrics(points, classes, flat, graded=True)
    for name in ("h_ap", "h_ap/map", "ap/depth1"):
        close(found[name], found["map"].item())


def test_on_a_dag_the_depth_is_that_of_its_lca() -> None:
    dag = TaxonomyDAG.from_edges([("a", "r"), ("b", "r"), ("x", "a"), ("x", "b"), ("y", "a"), ("z", "b")])
    nodes = dag.encode(["x", "y", "z", "x", "y"])
    points = torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
    found = functional.ndcg(points, nodes, dag, reduction="none")
    order = torch.cdist(*[torch.nn.functional.normalize(points)] * 2).argsort(dim=1)[:, 1:]
    for query, results in enumerate(order.tolist()):
        both = [(int(nodes[query]), int(nodes[j])) for j in results]
        depths = [dag.max_depth if u == v else int(dag.lca_depth(u, v)) for u, v in both]
        assert found[query].item() == pytest.approx(ndcg(depths))


@pytest.mark.parametrize("nodes", [[], [-1, -1], [1], [0, 0]])
def test_nothing_to_find_is_undefined(nodes: list[int]) -> None:
    labels = torch.tensor(nodes, dtype=torch.int64)
    points = torch.randn(len(nodes), 3)
    found = functional.retrieval_metrics(points, labels, TAXONOMY, graded=True)
    for name in ("h_ap", "h_ap/map", "asi", "ndcg", *(f"ap/depth{at}" for at in range(1, L + 1))):
        assert found[name].isnan(), name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"relevance": "linear"}, "relevance is 'linear'; expected 'pop' or 'map'"),
        ({"alpha": -1.0}, "alpha is -1.0; expected a number of at least 0"),
        ({"alpha": math.nan}, "alpha is nan"),
        ({"weights": (1, 2)}, r"weights is \(1, 2\); expected 4 numbers of at least 0, one for each depth"),
        ({"weights": (0, 0, 0, 0)}, "not all of them 0"),
        ({"weights": (1, 1, 1, -1)}, "at least 0"),
    ],
)
def test_bad_settings_of_h_ap(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        functional.h_ap(*QUERIES, TAXONOMY, **options)
