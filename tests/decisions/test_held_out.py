"""What judges a calibration or keeps a promise was not used to fit it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from decision_cases import ragged
from torch import Tensor

from labeltree.decisions import ClassNodes, calibration_check, fit_calibrator, fit_rule
from labeltree.decisions.calibrators import smoothed_temperature
from labeltree.decisions.conformal import share_of_groups


@pytest.mark.parametrize("grouped", [False, True])
def test_no_sample_judges_the_calibrator_that_it_fitted(
    monkeypatch: pytest.MonkeyPatch, grouped: bool
) -> None:
    tree = ragged()
    classes = ClassNodes(tree.leaves, tree)
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(90, len(classes), generator=generator)
    labels = classes.nodes[torch.randint(len(classes), (90,), generator=generator)]
    groups = torch.arange(90) // 3 if grouped else None
    group_of = {tuple(row): number // 3 if grouped else number for number, row in enumerate(scores.tolist())}
    judged = []

    def fit(given: Tensor, *rest: object) -> Callable[[Tensor, ClassNodes], Tensor]:
        fitted, learned = fit_calibrator(given, *rest), {group_of[tuple(row)] for row in given.tolist()}  # type: ignore[arg-type]

        def apply(some: Tensor, classes: ClassNodes) -> Tensor:
            mine = [group_of[tuple(row)] for row in some.tolist()]
            assert not learned & set(mine)
            judged.extend(mine)
            return fitted(some, classes)

        return apply

    monkeypatch.setattr(calibration_check, "fit_calibrator", fit)
    assert (
        calibration_check.check_calibration(scores, labels, classes, "temperature", groups=groups).samples
        == 90
    )
    assert sorted(judged) == [number // 3 if grouped else number for number in range(90)]


@pytest.mark.parametrize("count", [24, 120])
def test_no_group_judges_what_it_fitted_in_a_rule(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Of few samples a temperature is tried, of more a calibration: both on other patients."""
    tree = ragged()
    classes = ClassNodes(tree.leaves, tree)
    generator = torch.Generator().manual_seed(1)
    scores = 9 * torch.randn(count, len(classes), generator=generator)
    labels = classes.nodes[torch.randint(len(classes), (count,), generator=generator)]
    groups = torch.arange(count) // 3
    group_of = {int(row.argmax()) + round(float(row.double().softmax(0).max()), 9): int(group)
                for row, group in zip(scores, groups, strict=True)}  # fmt: skip
    assert len(group_of) == count
    fitted: list[list[int]] = []

    def watched(plain: Callable[..., Any]) -> Callable[..., Any]:
        def fit(given: Tensor, *rest: object) -> Any:
            p = given.double().softmax(1)
            fitted.append([group_of[int(row.argmax()) + round(float(row.max()), 9)] for row in p])
            return plain(given, *rest)

        return fit

    for name in ("fit_calibrator", "smoothed_temperature"):
        monkeypatch.setattr(calibration_check, name, watched(getattr(calibration_check, name)))
    fit_rule(scores, labels, classes, groups=groups, share=0.5)
    assert len(fitted) >= 5
    for part in fitted:
        assert {part.count(group) for group in part} == {3}, "whole groups"


def test_what_is_set_aside_is_drawn_by_the_seed() -> None:
    rows, groups = torch.ones(120, dtype=torch.bool), torch.arange(120) // 4
    drawn = [share_of_groups(rows, groups, 0.4, seed) for seed in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    for each in drawn:
        assert int(each.sum()) == 48
        assert bool((each.view(30, 4) == each.view(30, 4)[:, :1]).all()), "whole groups"


def test_a_fold_is_softened_by_what_the_others_support() -> None:
    """Each fold has the log-probabilities of its scores, which are too sure, over the others' temperature."""
    tree = ragged()
    classes = ClassNodes(tree.leaves, tree)
    generator = torch.Generator().manual_seed(1)
    scores = 20 * torch.randn(12, len(classes), generator=generator).double()
    labels = classes.nodes[torch.randint(len(classes), (12,), generator=generator)]
    fold = torch.arange(12) % 3
    found = calibration_check._calibrate_others(scores, labels, classes, fold, None)
    for number in range(3):
        others = fold != number
        warmth = smoothed_temperature(torch.log_softmax(scores, 1)[others], labels[others], classes)
        assert warmth > 2
        expected = torch.log_softmax(scores[~others] / warmth, 1)
        assert torch.allclose(found[~others], expected, atol=1e-6)
