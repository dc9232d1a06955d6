"""The k-NN classifier against a loop over sorted lists, and AMI against its definition."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import pytest
import torch

from labeltree.geometry import Euclidean, Geometry, PoincareBall, Sphere
from labeltree.metrics.functional import adjusted_mutual_information, nearest_neighbour_labels

pytestmark = pytest.mark.slow


def slow_answer(
    similarity: list[float], distances: list[float], labels: list[int], k: int, weights: str
) -> int:
    """The label of a query, from its similarity to each key and its distance."""
    known = [i for i in range(len(labels)) if labels[i] >= 0]
    near = sorted(known, key=lambda i: (-similarity[i], i))[:k]
    distance = [distances[i] for i in near]
    votes: dict[int, float] = defaultdict(float)
    for i, d in zip(near, distance, strict=True):
        if weights == "uniform":
            votes[labels[i]] += 1
        elif weights == "softmax":
            votes[labels[i]] += math.exp((similarity[i] - similarity[near[0]]) / 0.2)
        elif min(distance) == 0:
            votes[labels[i]] += d == 0
        else:
            votes[labels[i]] += 1 / d
    return min(votes, key=lambda label: (-votes[label], label))


@pytest.mark.parametrize("space", [Sphere(), Euclidean(), PoincareBall()], ids=lambda space: space.name)
def test_equals_a_loop(space: Geometry) -> None:
    generator = torch.Generator().manual_seed(3)
    points = 0.25 * torch.randn(70, 4, generator=generator, dtype=torch.float64)
    points = points.clamp(-0.45, 0.45) if space.name == "poincare" else points
    queries, keys = points[:25], points[25:]
    labels = torch.randint(-1, 5, (45,), generator=generator) * 2**25
    labels[labels < 0] = -1
    similarity = [space.similarity(query, keys).tolist() for query in queries]
    distance = [space.distance(query, keys).tolist() for query in queries]
    for weights in ("softmax", "distance", "uniform"):
        found = nearest_neighbour_labels(
            queries, keys, labels, ks=(7, 1, 100), weights=weights, temperature=0.2, geometry=space
        )
        for k, answers in found.items():
            expected = [
                slow_answer(*near, labels.tolist(), k, weights)
                for near in zip(similarity, distance, strict=True)
            ]
            assert answers.tolist() == expected, (weights, k)


def test_ties_go_to_the_earlier_item_and_the_smaller_label() -> None:
    keys = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    labels = torch.tensor([9, 4, 4, 1])
    query = torch.tensor([[1.0, 0.0]])
    found = nearest_neighbour_labels(
        query, keys, labels, ks=(1, 2, 3), weights="uniform", geometry=Euclidean()
    )
    assert [int(found[k]) for k in (1, 2, 3)] == [9, 4, 4]
    coincident = nearest_neighbour_labels(
        query, keys, labels, ks=(4,), weights="distance", geometry=Euclidean()
    )
    assert int(coincident[4]) == 4  # the one at a distance has no voice


def test_bad_arguments_are_named() -> None:
    keys, labels = torch.eye(2), torch.tensor([0, 1])
    for arguments, message in (
        ({"ks": (0,)}, "an entry of ks is 0"),
        ({"weights": "rank"}, "weights is 'rank'"),
        ({"temperature": 0.0}, "temperature is 0.0"),
    ):
        with pytest.raises(ValueError, match=message):
            nearest_neighbour_labels(keys, keys, labels, **arguments)
    with pytest.raises(ValueError, match="holds no label but -1"):
        nearest_neighbour_labels(keys, keys, torch.tensor([-1, -1]))


def test_ami_equals_its_definition() -> None:
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(-1, 3, (40,), generator=generator)
    clusters = torch.randint(0, 4, (40,), generator=generator)
    known = [(a, b) for a, b in zip(labels.tolist(), clusters.tolist(), strict=True) if a >= 0]
    n = len(known)
    rows, columns = Counter(a for a, _ in known), Counter(b for _, b in known)

    def entropy(counts: Counter[int]) -> float:
        return -sum(c / n * math.log(c / n) for c in counts.values())

    shared = sum(c / n * math.log(n * c / (rows[a] * columns[b])) for (a, b), c in Counter(known).items())
    expected = sum(  # Vinh et al. 2010, Eq. 24a
        m / n * math.log(n * m / (a * b)) * math.comb(b, m) * math.comb(n - b, a - m) / math.comb(n, a)
        for a in rows.values()
        for b in columns.values()
        for m in range(max(1, a + b - n), min(a, b) + 1)
    )
    definition = (shared - expected) / ((entropy(rows) + entropy(columns)) / 2 - expected)
    assert adjusted_mutual_information(labels, clusters).item() == pytest.approx(definition, abs=1e-12)
    assert adjusted_mutual_information(torch.tensor([-1]), torch.tensor([0])).isnan()
