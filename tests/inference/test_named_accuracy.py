"""How well classes would be found by their names alone: each class in turn, without its samples."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize

from labeltree.decisions.prototypes_from_names import NamedClasses, weigh_names
from labeltree.inference.by_name.named_classes import named_accuracy, worth_text
from labeltree.runs import EmbeddingTable


def drawn(seed: int, classes: int, each: int, noise: float, centres: torch.Tensor) -> EmbeddingTable:
    draw = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat_interleave(each)
    points = centres[labels] + noise * torch.randn(len(labels), centres.shape[1], generator=draw)
    return EmbeddingTable(points, labels + 3)


@pytest.mark.parametrize("unit", [False, True])
def test_each_class_is_found_by_a_name_that_its_samples_have_not_moved(unit: bool) -> None:
    """As if the class had no samples: the shift of its name is that of the other classes."""
    draw = torch.Generator().manual_seed(0)
    centres = torch.randn(5, 4, generator=draw)
    names = (centres - 1.5 + 0.4 * torch.randn(5, 4, generator=draw)).double()
    learned, held = drawn(1, 5, 4, 0.5, centres), drawn(2, 5, 30, 0.9, centres)
    points = normalize(learned.embeddings.double(), dim=1) if unit else learned.embeddings.double()
    known = NamedClasses(torch.arange(5) + 3, names, weigh_names(names, points, learned.nodes - 3), unit)

    by_name = by_samples = 0
    for point, node in zip(held.embeddings.double(), held.nodes.tolist(), strict=True):
        own = node - 3
        means = torch.stack([points[learned.nodes == c + 3].mean(0) for c in range(5)])
        others = [c for c in range(5) if c != own]
        alone = names[own] + torch.stack([means[c] - names[c] for c in others]).mean(0)
        places = torch.stack([alone if c == own else means[c] for c in range(5)])
        if unit:
            point, means, places = (normalize(each, dim=-1) for each in (point, means, places))
        by_name += int((places - point).norm(dim=1).argmin()) == own
        by_samples += int((means - point).norm(dim=1).argmin()) == own

    accuracy = named_accuracy(known, learned, held)
    assert accuracy is not None
    assert 0.3 < accuracy.by_name < 1 > accuracy.by_samples
    assert (accuracy.by_name, accuracy.by_samples) == pytest.approx((by_name / 150, by_samples / 150))
    assert f"{accuracy.by_name:.1%} of 150 held-out samples" in worth_text(known, accuracy)


def test_held_out_samples_of_other_classes_are_no_question() -> None:
    centres = torch.eye(4)
    learned = drawn(0, 4, 3, 0.1, centres)
    names = centres.double()
    known = NamedClasses(
        torch.arange(4) + 3, names, weigh_names(names, learned.embeddings, learned.nodes - 3), unit=False
    )
    assert named_accuracy(known, learned, EmbeddingTable(torch.eye(4), torch.arange(4) + 40)) is None
