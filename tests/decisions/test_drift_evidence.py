"""Evidence of drift that may be read after every sample."""

import numpy as np
import pytest
import torch

from labeltree.decisions.drift import DriftRule, Seen
from labeltree.decisions.drift_evidence import DriftEvidence
from labeltree.decisions.novelty import Reference
from labeltree.geometry import Euclidean
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["cat", "dog"])


def seen(
    rng: np.random.Generator, count: int, shift: float = 0.0, certain: float = 2.0, place: float = 0.0
) -> Seen:
    distance, certainty = np.exp(rng.normal(shift, 1, count)), rng.beta(certain, 1, count)
    points = rng.normal(size=(count, 3))
    points[:, 0] += place
    return Seen(torch.from_numpy(distance), torch.from_numpy(certainty), torch.from_numpy(points))


def evidence_beside(held: Seen, seed: int = 0) -> DriftEvidence:
    points = torch.randn(50, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return DriftEvidence(DriftRule(held, Reference(points, TREE.leaves[[0] * 50], Euclidean()), seed))


@pytest.mark.parametrize("held", [5, 60])
@pytest.mark.long
def test_of_services_without_drift_at_most_5_in_100_ever_alarm(held: int) -> None:
    found = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        evidence = evidence_beside(seen(rng, held), seed)
        evidence.add(seen(rng, 150))
        found.append(evidence.value)
    assert sum(value >= 20 for value in found) <= 8  # more than that in 1 of 200 trials, at a rate of 5 %
    assert sum(value >= 2 for value in found) <= 40


@pytest.mark.parametrize("change", [{"shift": 1.0}, {"shift": -1.0}, {"certain": 0.7}, {"place": -1.0}])
def test_drift_is_found(change: dict[str, float]) -> None:
    rng = np.random.default_rng(0)
    evidence = evidence_beside(seen(rng, 300))
    evidence.add(seen(rng, 100))
    assert not evidence.alarms()
    assert "like the held-out samples" in evidence.sentence()
    evidence.add(seen(rng, 300, **change))
    assert evidence.alarms()
    before = evidence.value
    evidence.add(seen(rng, 2000))  # what has been found stays so
    assert evidence.value == before
    assert evidence.count == 2400
    assert "the 2,400 samples since the start are not all like" in evidence.sentence()


def test_equal_scores_are_no_evidence() -> None:
    same = Seen(torch.ones(400), torch.ones(400), torch.zeros(400, 3).double())
    evidence = evidence_beside(same)
    evidence.add(same)
    assert evidence.value < 20


def test_it_does_not_overflow() -> None:
    rng = np.random.default_rng(0)
    evidence = evidence_beside(seen(rng, 5000))
    evidence.add(Seen(torch.full((3000,), 1e9), torch.zeros(3000), torch.full((3000, 3), 9.0).double()))
    assert evidence.value == 1e9
    evidence.add(Seen(torch.full((2,), torch.inf), torch.zeros(2), torch.zeros(2, 3).double()))
    assert evidence.count == 3002


def test_parts_are_as_good_as_the_whole() -> None:
    samples = seen(np.random.default_rng(1), 90)
    whole, parts = (evidence_beside(seen(np.random.default_rng(2), 40), 3) for _ in range(2))
    whole.add(samples)
    for start in range(0, 90, 30):
        part = slice(start, start + 30)
        assert samples.embeddings is not None
        parts.add(Seen(samples.distance[part], samples.certainty[part], samples.embeddings[part]))
    assert whole.value == parts.value
