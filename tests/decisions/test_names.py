"""Prototypes from names, and the evidence by which samples take over, against slow references."""

import math

import pytest
import torch

from labeltree.decisions.prototypes_from_names import (
    NameEvidence,
    name_prototypes,
    shrink_to_means,
    weigh_names,
)
from labeltree.errors import DataError


def drawn(classes: int = 40, dim: int = 50, tau: float = 0.5, sigma: float = 1.0) -> list[torch.Tensor]:
    """Names, samples and their labels: means lie τ around shifted names, samples σ around means."""
    draw = torch.Generator().manual_seed(3)
    names = torch.randn(classes, dim, generator=draw, dtype=torch.float64)
    counts = torch.randint(0, 12, (classes,), generator=draw)
    labels = torch.arange(classes).repeat_interleave(counts)
    means = names + 2 + tau * torch.randn(classes, dim, generator=draw, dtype=torch.float64)
    points = means[labels] + sigma * torch.randn(len(labels), dim, generator=draw, dtype=torch.float64)
    return [names, points, labels]


def slow_evidence(
    names: torch.Tensor, points: torch.Tensor, labels: torch.Tensor
) -> tuple[float, list[float]]:
    """m and the shift, one class at a time, each judged by the shift of the others."""
    classes = sorted(set(labels.tolist()))
    mean = {c: points[labels == c].mean(0) for c in classes}
    within = sum(float((x - mean[c]).square().sum()) for x, c in zip(points, labels.tolist(), strict=True))
    variance = within / (len(points) - len(classes))
    off = []
    for c in classes:
        others = torch.stack([mean[o] - names[o] for o in classes if o != c]).mean(0)
        distance = float((mean[c] - names[c] - others).square().sum())
        k = len(classes)
        off.append(distance * (k - 1) / k - variance / int((labels == c).sum()))
    shift = torch.stack([mean[c] - names[c] for c in classes]).mean(0)
    return variance / (sum(off) / len(off)), shift.tolist()


def test_evidence_agrees_with_a_slow_reference_and_with_what_was_drawn() -> None:
    names, points, labels = drawn()
    evidence = weigh_names(names, points, labels)
    weight, shift = slow_evidence(names, points, labels)
    assert evidence.weight == pytest.approx(weight, rel=1e-9)
    assert evidence.shift.tolist() == pytest.approx(shift, rel=1e-9)
    assert evidence.classes == len(set(labels.tolist())) < len(names)
    assert evidence.weight == pytest.approx(1 / 0.5**2, rel=0.15)  # σ²/τ²


def test_names_that_say_nothing_are_worth_less() -> None:
    names, points, labels = drawn()
    wrong = weigh_names(names.roll(1, 0), points, labels)
    assert wrong.weight < 0.2 * weigh_names(names, points, labels).weight


def test_the_weight_is_the_best_one() -> None:
    names, points, labels = drawn(classes=400)
    evidence = weigh_names(names, points, labels)
    means = names + 2
    draw = torch.Generator().manual_seed(5)
    true = means + 0.5 * torch.randn(means.shape, generator=draw, dtype=torch.float64)
    sums = true * 3 + math.sqrt(3) * torch.randn(means.shape, generator=draw, dtype=torch.float64)
    counts = torch.full((400,), 3)

    def error(weight: float) -> float:
        known = NameEvidence(weight, evidence.shift, evidence.classes)
        return float((shrink_to_means(names, sums, counts, known, unit=False) - true).square().mean())

    assert error(evidence.weight) < min(error(evidence.weight * 2), error(evidence.weight / 2), error(1e9))


def test_without_samples_the_name_answers_and_with_many_the_mean() -> None:
    evidence = NameEvidence(4.0, torch.tensor([1.0, 0.0]), 5)
    names, sums = torch.tensor([[0.0, 2.0], [0.0, 2.0]]), torch.tensor([[0.0, 0.0], [6.0, 0.0]])
    mixed = shrink_to_means(names, sums, torch.tensor([0, 2]), evidence, unit=False)
    assert mixed.tolist() == [[1.0, 2.0], [10 / 6, 8 / 6]]
    unit = shrink_to_means(names, sums, torch.tensor([0, 2]), evidence)
    assert torch.allclose(unit, torch.nn.functional.normalize(mixed, dim=1))
    sure = NameEvidence(math.inf, evidence.shift, 5)
    assert shrink_to_means(names, sums, torch.tensor([0, 2]), sure, unit=False).tolist() == [[1.0, 2.0]] * 2


def test_too_few_classes_say_nothing() -> None:
    names = torch.eye(3)
    with pytest.raises(DataError, match="three"):
        weigh_names(names, torch.randn(4, 3), torch.tensor([0, 0, 1, 1]))
    with pytest.raises(DataError, match="two samples"):
        weigh_names(names, torch.randn(3, 3), torch.tensor([0, 1, 2]))


def test_names_are_averaged_and_each_is_read_once() -> None:
    read: list[str] = []

    def embed(texts: list[str]) -> torch.Tensor:
        read.extend(texts)
        return torch.tensor([[float(len(text)), 1.0] for text in texts])

    made = name_prototypes([("a", "bcd"), ("bcd",)], embed)
    one, three = (torch.tensor([n, 1.0]).double() / math.hypot(n, 1) for n in (1.0, 3.0))
    both = (one + three) / 2
    assert torch.allclose(made, torch.stack([both / both.norm(), three]))
    assert read == ["a", "bcd"]
    assert name_prototypes([("a", "bcd")], embed, unit=False).tolist() == [[2.0, 1.0]]
