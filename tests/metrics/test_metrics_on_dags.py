"""Metrics on DAGs: loops over all paths, trees seen as DAGs, and what is not defined."""

from __future__ import annotations

import math

import pytest
import torch
from dag_loops import depth, f1, hierarchical_precision, lca_height, path_length, random_dag
from torch import Tensor

from labeltree import metrics as modular
from labeltree.geometry import Sphere
from labeltree.metrics import functional
from labeltree.metrics.functional import class_prototypes, nodes_at_depth, parent_violations
from labeltree.taxonomy import Taxonomy, TaxonomyDAG, TaxonomyError

pytestmark = pytest.mark.slow

SEEDS = [0, 1, 2, 3]


def random_nodes(dag: TaxonomyDAG, count: int, seed: int, low: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(low, len(dag), (count,), generator=generator)


@pytest.mark.parametrize("seed", SEEDS)
def test_predicted_nodes_against_loops(seed: int) -> None:
    dag = random_dag(seed)
    predicted, target = random_nodes(dag, 60, seed, 0), random_nodes(dag, 60, seed + 100, -1)
    found = {
        "f1": functional.hierarchical_f1(predicted, target, dag, undecided="negative", reduction="none"),
        "f1 with root": functional.hierarchical_f1(
            predicted, target, dag, True, undecided="negative", reduction="none"
        ),
        "accuracy": functional.tree_accuracy(predicted, target, dag, undecided="negative", reduction="none"),
        "severity": functional.mistake_severity(
            predicted, target, dag, undecided="negative", reduction="none"
        ),
    }
    longest = max(depth(dag, node) for node in range(len(dag)))
    for i, (guess, truth) in enumerate(zip(predicted.tolist(), target.tolist(), strict=True)):
        if truth <= 0:
            assert all(math.isnan(values[i]) for values in found.values())
            continue
        assert found["f1"][i] == pytest.approx(f1(dag, guess, truth, False))
        assert found["f1 with root"][i] == pytest.approx(f1(dag, guess, truth, True))
        assert found["accuracy"][i] == pytest.approx(1 - path_length(dag, guess, truth) / (2 * longest))
        severity = math.nan if guess == truth else lca_height(dag, guess, truth)
        assert found["severity"][i] == pytest.approx(severity, nan_ok=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_prediction_below_its_label_is_right(seed: int) -> None:
    dag = random_dag(seed)
    for label in range(1, len(dag)):
        below = dag.descendants(label)
        target = torch.full_like(below, label)
        assert functional.hierarchical_f1(below, target, dag) == 1
        assert functional.tree_accuracy(below, target, dag) == 1
        assert functional.mistake_severity(below, target, dag).isnan()


@pytest.mark.parametrize("seed", SEEDS)
def test_hierarchical_precision_against_loops(seed: int) -> None:
    dag = random_dag(seed)
    nodes = random_nodes(dag, 14, seed, 0)
    points = torch.nn.functional.normalize(
        torch.randn(14, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)), dim=1
    )
    found = functional.hierarchical_precision_at_k(points, nodes, dag, ks=(1, 3, 20), reduction="none")
    ahp = functional.average_hierarchical_precision(points, nodes, dag, k=5, reduction="none")
    everything = functional.retrieval_metrics(points, nodes, dag, ks=(1, 3), ahp_k=5)
    for query in range(14):
        others = [i for i in range(14) if i != query]
        others.sort(key=lambda i: (-float(points[query] @ points[i]), i))
        ranked = nodes[others].tolist()
        for k in (1, 3, 20):
            slow = hierarchical_precision(dag, int(nodes[query]), ranked, min(k, 13))
            assert float(found[k][query]) == pytest.approx(slow, nan_ok=True), (query, k)
        mean = sum(hierarchical_precision(dag, int(nodes[query]), ranked, k) for k in range(1, 6)) / 5
        assert float(ahp[query]) == pytest.approx(mean, nan_ok=True)
    assert everything["hp@3"] == pytest.approx(float(found[3].nanmean()))
    assert everything["ahp@5"] == pytest.approx(float(ahp.nanmean()))


def test_a_tree_gives_the_same_as_a_dag() -> None:
    tree = Taxonomy.from_paths(["a/b/c", "a/b/d", "a/e", "f/g/h/i", "f/j"])
    dag = TaxonomyDAG.from_tree(tree)
    generator = torch.Generator().manual_seed(0)
    predicted = torch.randint(0, len(tree), (80,), generator=generator)
    target = torch.randint(-1, len(tree), (80,), generator=generator)
    points = torch.randn(80, 4, generator=generator)
    for undecided in ("ignore", "negative"):
        ours = functional.classification_metrics(predicted, target, tree, undecided=undecided)  # type: ignore[arg-type]
        theirs = functional.classification_metrics(predicted, target, dag, undecided=undecided)  # type: ignore[arg-type]
        assert set(theirs) == {name for name in ours if "/depth" not in name}
        for name, value in theirs.items():
            assert torch.equal(value, ours[name]), name
    ours = functional.retrieval_metrics(points, target, tree, ks=(1, 5), ahp_k=20)
    theirs = functional.retrieval_metrics(points, target, dag, ks=(1, 5), ahp_k=20)
    assert all(torch.equal(theirs[name], ours[name]) for name in ours)
    assert torch.equal(
        functional.pair_violations(points, target, tree), functional.pair_violations(points, target, dag)
    )


def test_classes_take_dags() -> None:
    dag = random_dag(0)
    predicted, target = random_nodes(dag, 30, 0, 0), random_nodes(dag, 30, 1, -1)
    points = torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
    for name in ("HierarchicalF1", "TreeAccuracy", "MistakeSeverity"):
        metric = getattr(modular, name)(dag)
        metric.update(predicted[:10], target[:10])
        metric.update(predicted[10:], target[10:])
        function = {
            "HierarchicalF1": functional.hierarchical_f1,
            "TreeAccuracy": functional.tree_accuracy,
            "MistakeSeverity": functional.mistake_severity,
        }[name]
        assert metric.compute() == pytest.approx(float(function(predicted, target, dag)))
    metric = modular.AverageHierarchicalPrecision(dag, k=5)
    metric.update(points, target)
    assert metric.compute() == functional.average_hierarchical_precision(points, target, dag, k=5)


def test_what_is_not_defined_on_a_dag_says_so() -> None:
    dag = random_dag(0)
    nodes, points = dag.leaves, torch.randn(dag.num_leaves, 3)
    with pytest.raises(TaxonomyError, match=r"accuracies by depth need a tree: .* project the DAG"):
        functional.accuracy_by_depth(nodes, nodes, dag)
    with pytest.raises(TaxonomyError, match="accuracies by depth need a tree"):
        modular.AccuracyByDepth(dag)
    with pytest.raises(TaxonomyError, match="labels at one depth need a tree"):
        nodes_at_depth(nodes, dag, 1)
    with pytest.raises(TaxonomyError, match="labels at one depth need a tree"):
        functional.recall_at_k(points, nodes, taxonomy=dag, depth=1)
    with pytest.raises(TaxonomyError, match="prototypes of inner nodes need a tree"):
        class_prototypes(points, nodes, dag, Sphere())  # type: ignore[arg-type]
    with pytest.raises(TaxonomyError, match="parent violations need a tree"):
        parent_violations(points, nodes, dag, torch.zeros(len(dag), 3))  # type: ignore[arg-type]
