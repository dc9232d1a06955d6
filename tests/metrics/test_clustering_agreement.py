"""Normalised mutual information against entropies counted by hand."""

import math
from collections import Counter
from collections.abc import Callable

import pytest
import torch

from labeltree.metrics.functional import adjusted_mutual_information, normalized_mutual_information


def entropy(values: list[object]) -> float:
    return -sum(n / len(values) * math.log(n / len(values)) for n in Counter(values).values())


def test_against_entropies_with_missing_labels_left_out() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(-1, 4, (60,), generator=generator)
    clusters = (labels + torch.randint(0, 2, (60,), generator=generator)).clamp(min=0)
    known = [(a, b) for a, b in zip(labels.tolist(), clusters.tolist(), strict=True) if a >= 0]
    ours, theirs = entropy([a for a, _ in known]), entropy([b for _, b in known])
    shared = ours + theirs - entropy(known)
    averages = {
        "arithmetic": (ours + theirs) / 2,
        "geometric": math.sqrt(ours * theirs),
        "min": min(ours, theirs),
        "max": max(ours, theirs),
    }
    for average, divisor in averages.items():
        value = normalized_mutual_information(labels, clusters, average=average)
        assert value.item() == pytest.approx(shared / divisor)


def test_large_ids_and_nothing() -> None:
    labels = torch.tensor([2**24, 2**24 + 1, 2**24])
    assert normalized_mutual_information(labels, torch.tensor([0, 1, 0])).item() == 1.0
    nothing = torch.tensor([], dtype=torch.int64)
    assert normalized_mutual_information(nothing, nothing).isnan()
    assert normalized_mutual_information(torch.tensor([-1]), torch.tensor([0])).isnan()


@pytest.mark.parametrize("score", [normalized_mutual_information, adjusted_mutual_information])
def test_one_label_or_a_label_a_sample_agree_with_nothing(score: Callable[..., torch.Tensor]) -> None:
    """Scikit-learn gives 1 or 0 there, whatever the clusters."""
    clusters = torch.tensor([0, 0, 1, 1])
    for labels in ([3, 3, 3, 3], [3, 5, 8, 9], [-1, 3, 3, -1], [-1, 3, 5, -1], [7, -1, -1, -1]):
        assert score(torch.tensor(labels), clusters).isnan()
        assert score(torch.tensor(labels), torch.tensor(labels).clamp(min=0)).isnan()
    assert score(torch.tensor([3, 3, 5, 8]), clusters).isfinite()
    assert score(torch.tensor([3, 3, 5, 5]), clusters).item() == 1.0


def test_bad_arguments_are_named() -> None:
    ids = torch.tensor([0, 1])
    with pytest.raises(ValueError, match="average is 'mean'; expected one of 'arithmetic'"):
        normalized_mutual_information(ids, ids, average="mean")
    with pytest.raises(ValueError, match="labels has 2 rows, clusters 1"):
        normalized_mutual_information(ids, ids[:1])
