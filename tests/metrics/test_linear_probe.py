"""The linear probe against scikit-learn's optimum, and its certificate."""

import pickle
import warnings

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from labeltree.metrics import LinearProbe
from labeltree.metrics import probe as probe_module

pytestmark = pytest.mark.slow


def clusters(
    count: int, dimension: int, classes: int, seed: int, spread: float = 1.5
) -> tuple[Tensor, Tensor]:
    """Overlapping clusters of very different sizes, on axes of very different scales, off the origin."""
    generator = torch.Generator().manual_seed(seed)
    share = 1.0 / torch.arange(1, classes + 1)
    targets = torch.multinomial(share, count, replacement=True, generator=generator)
    targets[:classes] = torch.arange(classes)
    centres = torch.randn(classes, dimension, generator=generator, dtype=torch.float64)
    points = centres[targets] + spread * torch.randn(
        count, dimension, generator=generator, dtype=torch.float64
    )
    scale = torch.logspace(-1, 1, dimension, dtype=torch.float64)
    return points * scale + 3.0, targets


def objective(weight: Tensor, bias: Tensor, x: Tensor, y: Tensor, C: float, balanced: bool = True) -> float:
    """Scikit-learn's, evaluated row by row."""
    sizes = torch.bincount(y).double()
    total = 0.5 / C * (2.0 if len(sizes) == 2 else 1.0) * float((weight**2).sum())
    for row, target in zip(x @ weight + bias, y.tolist(), strict=True):
        importance = len(y) / (len(sizes) * sizes[target]) if balanced else 1.0
        total += float(importance * (torch.logsumexp(row, 0) - row[target]))
    return total


def reference(x: Tensor, y: Tensor, **options: object) -> tuple[Tensor, Tensor, LogisticRegression]:
    """Weights (d, c) and intercepts (c,) of scikit-learn's Newton solver, run to its limit."""
    model = LogisticRegression(solver="newton-cg", tol=1e-7, max_iter=300, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it cannot always reach so small a gradient
        model.fit(x.numpy(), y.numpy())
    weight, bias = torch.from_numpy(model.coef_.T), torch.from_numpy(model.intercept_)
    if weight.shape[1] == 1:
        weight, bias = torch.cat([-weight, weight], 1) / 2, torch.cat([-bias, bias]) / 2
    return weight, bias, model


@pytest.mark.parametrize("classes", [2, 3, 30])
@pytest.mark.parametrize("C", [1.0, 0.01])
def test_optimum_is_scikit_learns(classes: int, C: float) -> None:
    x, y = clusters(500, 10, classes, seed=classes)
    weight, bias, model = reference(x, y, C=C, class_weight="balanced")
    best = objective(weight, bias, x, y, C)
    assert LinearProbe(C).fit(x, y).objective == pytest.approx(best, rel=1e-5)
    probe = LinearProbe(C, tolerance=1e-7).fit(x, y)
    assert probe.converged
    assert objective(probe.weight, probe.bias, x, y, C) == pytest.approx(probe.objective, rel=1e-9)
    assert probe.objective == pytest.approx(best, rel=1e-7)
    test = clusters(2000, 10, classes, seed=99)[0]
    agreement = np.mean(model.predict(test.numpy()) == probe.predict(test).numpy())
    assert agreement > 0.999
    torch.testing.assert_close(
        probe.predict_proba(test), torch.from_numpy(model.predict_proba(test.numpy())), atol=1e-3, rtol=0
    )


def test_without_balancing() -> None:
    x, y = clusters(300, 5, 4, seed=1)
    weight, bias, _ = reference(x, y)
    probe = LinearProbe(balanced=False).fit(x, y)
    best = objective(weight, bias, x, y, 1.0, balanced=False)
    assert probe.objective == pytest.approx(best, rel=1e-5)
    assert probe.objective != pytest.approx(LinearProbe().fit(x, y).objective, rel=1e-2)


def test_large_problems_are_finished_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = clusters(600, 20, 12, seed=2)
    exact = LinearProbe().fit(x, y)
    monkeypatch.setattr(probe_module, "_SMALL", 0)
    mixed = LinearProbe().fit(x.float(), y)
    assert mixed.converged
    assert mixed.weight.dtype == torch.float64
    assert mixed.objective == pytest.approx(exact.objective, rel=1e-5)


@pytest.mark.parametrize("limit", [0, 2048])
def test_more_dimensions_than_samples(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_module, "_LARGEST_ROTATION", limit)
    x, y = clusters(40, 300, 3, seed=3)
    weight, bias, _ = reference(x, y, class_weight="balanced")
    probe = LinearProbe().fit(x, y)
    assert probe.converged
    assert probe.objective == pytest.approx(objective(weight, bias, x, y, 1.0), rel=1e-5)
    assert probe.weight.shape == (300, 3)


def test_the_gap_bounds_the_distance_to_the_minimum() -> None:
    x, y = clusters(400, 8, 10, seed=4)
    best = LinearProbe(tolerance=1e-10).fit(x, y)
    for tolerance in (1e-1, 1e-2, 1e-4):
        probe = LinearProbe(tolerance=tolerance).fit(x, y)
        assert probe.gap <= tolerance
        assert 0 <= probe.objective / best.objective - 1 <= 1.01 * probe.gap


def test_a_constant_column_and_a_duplicate_change_nothing() -> None:
    x, y = clusters(200, 5, 4, seed=5)
    probe = LinearProbe().fit(x, y)
    padded = LinearProbe().fit(torch.cat([x, torch.full((200, 1), 7.0)], dim=1), y)
    assert padded.objective == pytest.approx(probe.objective, rel=1e-9)
    assert padded.weight[-1].abs().max() < 1e-9


def test_ids_are_kept_and_missing_labels_left_out() -> None:
    x, y = clusters(200, 5, 4, seed=6)
    ids = torch.tensor([2**24 + 1, 5, 2**24, 0])
    probe = LinearProbe().fit(x, ids[y])
    assert probe.classes.tolist() == sorted(ids.tolist())
    assert set(probe.predict(x).tolist()) == set(ids.tolist())
    missing = torch.cat([ids[y], torch.full((50,), -1)])
    again = LinearProbe().fit(torch.cat([x, 100 * torch.randn(50, 5)]), missing)
    torch.testing.assert_close(again.weight, probe.weight)


def test_one_class_is_always_predicted() -> None:
    probe = LinearProbe().fit(torch.randn(4, 3), torch.full((4,), 9))
    assert probe.converged
    assert probe.predict(torch.randn(2, 3)).tolist() == [9, 9]
    assert probe.predict_proba(torch.randn(2, 3)).tolist() == [[1.0], [1.0]]


def test_nothing_to_predict() -> None:
    probe = LinearProbe().fit(*clusters(30, 3, 2, seed=7))
    assert probe.predict(torch.empty(0, 3)).shape == (0,)
    assert probe.predict_proba(torch.empty(0, 3)).shape == (0, 2)


def test_equal_features_of_different_classes() -> None:
    probe = LinearProbe().fit(torch.ones(6, 2), torch.tensor([0, 0, 0, 0, 1, 1]))
    torch.testing.assert_close(probe.predict_proba(torch.ones(1, 2)), torch.full((1, 2), 0.5).double())


def test_a_warning_says_what_was_missed() -> None:
    x, y = clusters(300, 8, 6, seed=8)
    with pytest.warns(UserWarning, match=r"LinearProbe stopped after 2 steps .* raise max_iterations"):
        probe = LinearProbe(max_iterations=2).fit(x, y)
    assert not probe.converged
    assert probe.gap > probe.tolerance


def test_pickle() -> None:
    x, y = clusters(100, 4, 3, seed=9)
    probe = LinearProbe().fit(x, y)
    assert pickle.loads(pickle.dumps(probe)).predict(x).equal(probe.predict(x))


def test_bad_arguments_are_named() -> None:
    x, y = clusters(20, 4, 3, seed=10)
    for options, message in (
        ({"C": 0.0}, "C is 0.0; expected a number above 0"),
        ({"tolerance": -1.0}, "tolerance is -1.0"),
        ({"max_iterations": 0}, "max_iterations is 0"),
    ):
        with pytest.raises(ValueError, match=message):
            LinearProbe(**options)
    with pytest.raises(ValueError, match="classes holds no class but -1"):
        LinearProbe().fit(x, torch.full_like(y, -1))
    with pytest.raises(ValueError, match="features holds NaN or infinity in row 2"):
        LinearProbe().fit(x.index_fill(0, torch.tensor(2), torch.nan), y)
    with pytest.raises(ValueError, match="features has 20 rows, classes 19"):
        LinearProbe().fit(x, y[1:])
    with pytest.raises(RuntimeError, match="not fitted"):
        LinearProbe().predict(x)
    with pytest.raises(ValueError, match="features has dimension 3; expected 4, as in fit"):
        LinearProbe().fit(x, y).predict(x[:, 1:])


def test_constant_features_give_the_shares_of_the_classes() -> None:
    classes = torch.tensor([3] * 6 + [7] * 2 + [9] * 4)
    probe = LinearProbe(balanced=False).fit(torch.ones(12, 4), classes)
    assert not probe.weight.any()
    torch.testing.assert_close(
        probe.bias.softmax(0), torch.tensor([6, 2, 4], dtype=torch.float64) / 12, rtol=1e-3, atol=1e-3
    )
