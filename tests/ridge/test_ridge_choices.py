"""What the folds of the ridge head choose, in worlds in which the right choice is known."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
import torch
from torch import Tensor

from labeltree.decisions import ClassNodes, fit_calibrator
from labeltree.ridge import fit_tree_ridge, fitting
from labeltree.taxonomy import Taxonomy
from sweeps import some_now

TREE = Taxonomy.from_paths([(f"branch {i // 4}", f"family {i // 2}", f"class {i}") for i in range(8)])
SPACE = {"tree": 0.5, "instance": 0.0, "similarity": "depth"}


def draw(n: int, noise: float, seed: int = 0, *, d: int = 12, tail: bool = False) -> tuple[Tensor, Tensor]:
    """Vectors around a centre for each class, and their labels."""
    centres = np.random.default_rng(seed).standard_normal((8, d))
    rng = np.random.default_rng([seed, n])
    shares = 1 / np.arange(1, 9) if tail else np.ones(8)
    classes = rng.choice(8, n, p=shares / shares.sum())
    vectors = centres[classes] + noise * rng.standard_normal((n, d))
    return torch.from_numpy(vectors), TREE.leaves[torch.from_numpy(classes)]


def log_loss(probabilities: Tensor, nodes: Tensor, classes: Tensor) -> float:
    right = probabilities[torch.arange(len(nodes)), torch.searchsorted(classes, nodes)]
    return float(-right.log().mean())


@pytest.mark.parametrize(("n", "d", "noise"), some_now([(60, 60, 2.0), (400, 12, 1.0)]))
def test_the_penalty_is_near_the_best_for_new_samples(n: int, d: int, noise: float) -> None:
    vectors, nodes = draw(n, noise, d=d)
    unseen, truth = draw(4000, noise, d=d)

    def loss(penalty: float | None) -> float:
        head, _ = fit_tree_ridge(vectors, nodes, TREE, penalty=penalty, **SPACE)
        return log_loss(head.probabilities(unseen), truth, head.classes)

    losses = [loss(penalty) for penalty in fitting.PENALTIES[::2]]
    assert loss(None) < min(losses) + 0.3 * (max(losses) - min(losses))
    assert max(losses) > min(losses) + 0.05, "penalties differ in this world"


def test_the_scale_follows_how_certain_answers_can_be() -> None:
    scales = {}
    for noise in (0.8, 1.5):
        vectors, nodes = draw(400, noise)
        head, folds = fit_tree_ridge(vectors, nodes, TREE, penalty=1.0, **SPACE)
        scales[noise] = head.scale
        columns = torch.searchsorted(head.classes, nodes[folds.rows])
        for other in (head.scale / 1.5, head.scale * 1.5):
            loss = torch.nn.functional.cross_entropy(other * folds.outputs, columns)
            assert loss > torch.nn.functional.cross_entropy(head.scale * folds.outputs, columns)
    assert scales[0.8] > 1.2 * scales[1.5]
    vectors, nodes = draw(60, 1000.0, d=60)
    head, _ = fit_tree_ridge(vectors, nodes, TREE, penalty=0.001, **SPACE)
    assert head.scale < 1, "outputs that vary and say nothing need a scale below 1"


@pytest.mark.parametrize(("tail", "noise"), some_now([(False, 1.5), (True, 1.5), (True, 3.0)], 2))
def test_answers_are_as_certain_as_they_are_right(tail: bool, noise: float) -> None:
    differences, losses = [], []
    for seed in range(4):
        vectors, nodes = draw(400, noise, seed, tail=tail)
        unseen, truth = draw(4000, noise, seed, tail=tail)
        head, folds = fit_tree_ridge(vectors, nodes, TREE, **SPACE)
        probabilities = head.probabilities(unseen)
        right = (head.predict(unseen) == truth).double().mean()
        differences.append(float(probabilities.max(1).values.mean() - right))
        by_scale = (head.scale * head.outputs(unseen)).softmax(1)
        losses.append(log_loss(by_scale, truth, head.classes) - log_loss(probabilities, truth, head.classes))
        of_folds = (folds.classes[folds.probabilities.argmax(1)] == nodes[folds.rows]).double().mean()
        assert abs(float(folds.probabilities.max(1).values.mean() - of_folds)) < 0.06
    assert abs(np.mean(differences)) < 0.03
    assert np.mean(losses) > 0.01, "slopes and offsets of the classes are worth something"


def test_probabilities_of_a_fold_are_calibrated_on_the_others() -> None:
    vectors, nodes = draw(120, 1.5, tail=True)
    head, folds = fit_tree_ridge(vectors, nodes, TREE, folds=4, penalty=1.0, **SPACE)
    classes, scores = ClassNodes(head.classes, TREE), head.scale * folds.outputs
    for fold in range(4):
        held = folds.folds == fold
        calibrator = fit_calibrator(scores[~held], folds.labels[~held], classes, "vector", quick=True)
        expected = calibrator(scores[held], classes).exp()
        torch.testing.assert_close(folds.probabilities[held], expected, rtol=0, atol=1e-9)


def test_slopes_that_other_folds_do_not_confirm_are_left_out() -> None:
    """Fifteen groups of four samples with a class each: too few to learn slopes from."""
    default = torch.tensor([1.0, 0.0], dtype=torch.float64)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        groups = torch.arange(60) // 4
        nodes = TREE.leaves[torch.from_numpy(rng.integers(0, 8, 15))][groups]
        shared = torch.from_numpy(rng.standard_normal((15, 12)))[groups]
        vectors = shared + 0.5 * torch.from_numpy(rng.standard_normal((60, 12)))
        head, folds = fit_tree_ridge(vectors, nodes, TREE, groups=groups, penalty=1.0, **SPACE)
        assert (head.calibration == default).all()
        by_scale = (head.scale * folds.outputs).softmax(1)
        torch.testing.assert_close(folds.probabilities, by_scale, rtol=0, atol=0)


def test_a_quick_fit_of_slopes_is_as_good_as_a_long_one() -> None:
    vectors, nodes = draw(300, 1.5, tail=True)
    head, folds = fit_tree_ridge(vectors, nodes, TREE, penalty=1.0, **SPACE)
    classes = ClassNodes(head.classes, TREE)
    for scale in (head.scale / 2, head.scale, 2 * head.scale):
        losses = [
            log_loss(
                fit_calibrator(scale * folds.outputs, nodes, classes, "vector", quick=quick)(
                    scale * folds.outputs, classes
                ).exp(),
                nodes,
                classes.nodes,
            )
            for quick in (True, False)
        ]
        assert losses[0] < losses[1] + 0.01


def test_groups_that_share_what_is_not_the_class_make_answers_uncertain() -> None:
    """Samples of a group are nearly copies: a head that has seen the group knows their class by heart."""
    rng = np.random.default_rng(0)
    groups = torch.from_numpy(np.repeat(np.arange(40), 6))
    nodes = TREE.leaves[torch.from_numpy(rng.integers(0, 8, 40))][groups]
    shared = torch.from_numpy(rng.standard_normal((40, 60)))[groups]
    vectors = shared + 0.1 * torch.from_numpy(rng.standard_normal((240, 60)))
    accuracy = {}
    for known in (None, groups):
        _, folds = fit_tree_ridge(vectors, nodes, TREE, groups=known, **SPACE)
        answers = folds.classes[folds.probabilities.argmax(1)]
        accuracy[known is None] = float((answers == nodes[folds.rows]).double().mean())
    assert accuracy[True] > 0.9
    assert accuracy[False] < 0.35


def test_outputs_of_two_penalties_are_held_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of n samples and c classes, n·c numbers for the best and the present penalty, not for all of them."""
    made: list[weakref.ref[Tensor]] = []
    original = fitting.HeldOutFolds.outputs

    def outputs(self: fitting.HeldOutFolds, penalty: float) -> Tensor:
        assert sum(each() is not None for each in made) <= 2
        made.append(weakref.ref(result := original(self, penalty)))
        return result

    monkeypatch.setattr(fitting.HeldOutFolds, "outputs", outputs)
    vectors, nodes = draw(60, 1.0)
    fit_tree_ridge(vectors, nodes, TREE, **SPACE)
    assert len(made) == len(fitting.PENALTIES)
