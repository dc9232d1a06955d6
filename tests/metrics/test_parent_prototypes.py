"""Prototypes of nodes and violations against them, compared with loops over samples and parents."""

import math

import pytest
import torch
from metric_loops import Tree, mean, ragged_tree, score
from torch import Tensor

from labeltree.geometry import Euclidean, Geometry, PoincareBall, Sphere
from labeltree.metrics import functional
from labeltree.taxonomy import Taxonomy

TAXONOMY = ragged_tree()
TREE = Tree(TAXONOMY)
GEOMETRIES = [Sphere(), Euclidean(), PoincareBall(curvature=-1.0)]


def sample(count: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    points = 0.15 * torch.randn(count, 4, generator=generator, dtype=torch.float64)
    return points, torch.randint(-1, TAXONOMY.num_nodes, (count,), generator=generator)


TRAIN, TEST = sample(60, 0), sample(80, 1)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_prototypes_are_means_of_all_samples_below(geometry: Geometry) -> None:
    points, nodes = TRAIN
    prototypes = functional.class_prototypes(points, nodes, TAXONOMY, geometry)
    assert prototypes.shape == (TAXONOMY.num_nodes, 4)
    for node in TREE.nodes:
        rows = [i for i, label in enumerate(nodes.tolist()) if node in TREE.line(label)]
        if geometry == Sphere():
            units = points[rows] / points[rows].norm(dim=1, keepdim=True)
            expected = units.mean(dim=0) / units.mean(dim=0).norm()
        else:
            expected = points[rows].mean(dim=0) if geometry == Euclidean() else geometry.mean(points[rows])
        torch.testing.assert_close(prototypes[node], expected)


def test_nodes_without_a_sample_have_no_prototype() -> None:
    node = TAXONOMY.find("poodle")
    prototypes = functional.class_prototypes(torch.ones(2, 3), torch.tensor([node, -1]), TAXONOMY)
    known = (~prototypes.isnan().any(dim=1)).nonzero()[:, 0].tolist()
    assert known == TREE.line(node)
    nothing = functional.class_prototypes(torch.ones(0, 3), torch.tensor([], dtype=torch.int64), TAXONOMY)
    assert nothing.isnan().all()


def slow_violations(name: str, points: Tensor, nodes: Tensor, prototypes: Tensor) -> list[float]:
    results = []
    for z, node in zip(points.tolist(), nodes.tolist(), strict=True):
        parent = TREE.parent[node] if node > 0 else -1
        rivals = [
            p
            for p in TREE.nodes
            if p not in TREE.leaves
            and TREE.depth(p) == TREE.depth(parent)
            and p != parent
            and not prototypes[p].isnan().any()
        ]
        if parent <= 0 or not rivals or prototypes[parent].isnan().any():
            results.append(math.nan)
            continue
        own = score(name, z, prototypes[parent].tolist())
        results.append(float(any(score(name, z, prototypes[p].tolist()) >= own for p in rivals)))
    return results


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_violations(geometry: Geometry) -> None:
    prototypes = functional.class_prototypes(*TRAIN, TAXONOMY, geometry)
    prototypes[TAXONOMY.find("cat")] = torch.nan
    expected = slow_violations(geometry.name, *TEST, prototypes)
    assert {0.0, 1.0} <= set(expected)
    each = functional.parent_violations(*TEST, TAXONOMY, prototypes, geometry=geometry, reduction="none")
    torch.testing.assert_close(each, torch.tensor(expected, dtype=torch.float64), equal_nan=True)
    rate = functional.parent_violations(*TEST, TAXONOMY, prototypes, geometry=geometry)
    assert rate.item() == pytest.approx(mean(expected))
    order = functional.parent_order_accuracy(*TEST, TAXONOMY, prototypes, geometry=geometry)
    assert order.item() == pytest.approx(1 - mean(expected))

    metrics = functional.parent_metrics(*TEST, TAXONOMY, prototypes, geometry=geometry)
    torch.testing.assert_close(metrics["parent_violations"], rate)
    torch.testing.assert_close(metrics["parent_order_accuracy"], order)
    labels = TEST[1].tolist()
    counts = {
        "samples": sum(not math.isnan(value) for value in expected),
        "samples_missing_label": labels.count(-1),
        "samples_root_parent": sum(node >= 0 and TREE.parent[node] <= 0 for node in labels),
    }
    counts["samples_without_prototype"] = len(labels) - sum(counts.values())
    assert min(counts.values()) > 0
    assert {name: metrics[name].item() for name in counts} == counts


def test_prototypes_from_training_samples() -> None:
    for geometry in GEOMETRIES:
        prototypes = functional.class_prototypes(*TRAIN, TAXONOMY, geometry)
        given = functional.parent_violations(*TEST, TAXONOMY, prototypes, geometry=geometry)
        taken = functional.parent_violations(*TEST, TAXONOMY, train=TRAIN, geometry=geometry)
        assert given == taken


def test_distances_by_name() -> None:
    prototypes = torch.randn(TAXONOMY.num_nodes, 4, dtype=torch.float64).clamp(-0.4, 0.4)
    for name, slow in (
        ("unit", "sphere"),
        ("cosine", "sphere"),
        ("raw", "euclidean"),
        ("poincare", "poincare"),
    ):
        each = functional.parent_violations(*TEST, TAXONOMY, prototypes, distance=name, reduction="none")
        expected = slow_violations(slow, *TEST, prototypes)
        torch.testing.assert_close(each, torch.tensor(expected, dtype=torch.float64), equal_nan=True)
    with pytest.raises(ValueError, match="distance is 'manhattan'; expected None, 'unit', 'raw'"):
        functional.parent_violations(*TEST, TAXONOMY, prototypes, distance="manhattan")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_collapsed_embeddings_violate_everywhere(geometry: Geometry, dtype: torch.dtype) -> None:
    """All distances tie, whatever the rounding of the means."""
    taxonomy = Taxonomy.from_paths([(a, a + b) for a in "pqr" for b in "xyz"])
    nodes = taxonomy.leaves.repeat(11)[:97]
    for point in 0.2 * torch.randn(20, 3, generator=torch.Generator().manual_seed(0), dtype=dtype):
        points = point.expand(97, 3)
        rate = functional.parent_violations(points, nodes, taxonomy, train=(points, nodes), geometry=geometry)
        assert rate.item() == 1.0


def test_a_leaf_beside_the_parents_is_no_rival() -> None:
    taxonomy = Taxonomy.from_paths([("a", "b"), ("a", "c"), ("leaf",), ("d", "e")])
    train = torch.tensor([[0.0], [0.0], [1.0], [9.0]]), taxonomy.encode(["b", "c", "leaf", "e"])
    rate = functional.parent_violations(
        torch.tensor([[1.0]]), taxonomy.encode(["b"]), taxonomy, train=train, geometry=Euclidean()
    )
    assert rate.item() == 0.0


@pytest.mark.parametrize("labels", [[], [None], ["stone"], ["oak"]])
def test_nothing_to_compare_is_nan(labels: list[str | None]) -> None:
    nodes = TAXONOMY.encode(labels)
    points = torch.ones(len(labels), 4)
    train = torch.ones(1, 4), TAXONOMY.encode(["poodle"])
    assert functional.parent_violations(points, nodes, TAXONOMY, train=train).isnan()
    assert functional.parent_order_accuracy(points, nodes, TAXONOMY, train=train).isnan()
    assert functional.parent_metrics(points, nodes, TAXONOMY, train=train)["samples"].item() == 0


def test_bad_arguments_are_named() -> None:
    prototypes = torch.zeros(TAXONOMY.num_nodes, 4)
    for arguments, message in (
        ({}, "prototypes and train are None"),
        ({"prototypes": prototypes, "train": TRAIN}, "prototypes and train are both given"),
        ({"prototypes": prototypes[1:]}, r"prototypes have shape \(17, 4\); expected \(18, d\)"),
        ({"prototypes": prototypes[:, 1:]}, "prototypes have dimension 3 and embeddings 4"),
    ):
        with pytest.raises(ValueError, match=message):
            functional.parent_violations(*TEST, TAXONOMY, **arguments)
