"""Discriminants with shrinkage: as scikit-learn's where it has them, and for more dimensions than samples."""

import numpy as np
import pytest
import torch
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from labeltree.decisions.classifiers import (
    PrototypeScores,
    classifier_from,
    classifiers_of_features,
    classify,
    fit_classifiers,
    fit_lda,
)
from labeltree.decisions.lda import fit_discriminants, shrinkage
from labeltree.errors import DataError
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy


def drawn(n: int, d: int, classes: int = 4, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Correlated vectors around class means, in classes of unequal sizes."""
    draw = np.random.default_rng(seed)
    labels = np.sort(draw.integers(0, classes, n) * draw.integers(0, 2, n))
    mixed = draw.normal(size=(d, d)) / np.sqrt(d)
    points = draw.normal(size=(classes, d))[labels] + draw.normal(size=(n, d)) @ mixed
    return torch.from_numpy(points), torch.from_numpy(labels)


@pytest.mark.parametrize(("n", "d"), [(200, 5), (40, 39), (30, 80), (12, 300)])
def test_the_shrinkage_of_ledoit_and_wolf(n: int, d: int) -> None:
    points, _ = drawn(n, d)
    centred = points - points.mean(0)
    expected = ledoit_wolf_shrinkage(centred.numpy(), assume_centered=True)
    assert shrinkage(centred) == pytest.approx(expected, abs=1e-10)
    assert shrinkage(torch.zeros(4, 3).double()) == 0


@pytest.mark.parametrize(("n", "d"), [(200, 5), (60, 30), (30, 80)])
def test_discriminants_are_those_of_the_shrunk_covariance(n: int, d: int) -> None:
    points, labels = drawn(n, d)
    classes, weight, bias = fit_discriminants(points, labels)
    means = torch.stack([points[labels == one].mean(0) for one in classes])
    within = points - means[torch.searchsorted(classes, labels)]
    share = shrinkage(within)
    covariance = within.T @ within / n
    covariance = (1 - share) * covariance + share * covariance.trace() / d * torch.eye(d).double()
    solved = torch.linalg.solve(covariance, means.T)
    torch.testing.assert_close(weight, solved, rtol=1e-7, atol=1e-9)
    counts = torch.bincount(labels)[classes]
    torch.testing.assert_close(bias, (counts / n).log() - 0.5 * (means.T * solved).sum(0))


def test_without_shrinkage_it_is_the_classical_one() -> None:
    points, labels = drawn(5000, 4)
    classes, weight, bias = fit_discriminants(points, labels)
    theirs = LinearDiscriminantAnalysis(solver="lsqr").fit(points.numpy(), labels.numpy())
    ours = classes[(points @ weight + bias).argmax(1)].numpy()
    assert (ours == theirs.predict(points.numpy())).mean() > 0.99


def test_one_sample_a_class_and_constant_columns() -> None:
    points = torch.eye(3, 6).double()
    classes, weight, bias = fit_discriminants(points, torch.tensor([7, 2, 5]))
    assert classes.tolist() == [2, 5, 7]
    assert torch.equal(classes[(points @ weight + bias).argmax(1)], torch.tensor([7, 2, 5]))
    same, labels = torch.ones(6, 3).double(), torch.tensor([0, 0, 0, 1, 1, 1])
    assert all(torch.isfinite(part).all() for part in fit_discriminants(same, labels)[1:])


TREE = Taxonomy.from_paths([("a", "w"), ("a", "x"), ("b", "y"), ("b", "z")])


def table(features: bool = True) -> EmbeddingTable:
    points, _ = drawn(120, 6)
    nodes = TREE.leaves[torch.arange(120) % 4]
    told = torch.nn.functional.one_hot(nodes, len(TREE))[:, :6] * 3 + points
    return EmbeddingTable(
        points[:, :3].float(), nodes, features=told.float() if features else None, geometry="euclidean"
    )


def test_a_table_without_labels_is_refused() -> None:
    with pytest.raises(DataError, match="no training sample has a label"):
        fit_lda(table(), torch.full((120,), -1))


def test_class_means_have_a_scale_by_which_they_are_probable() -> None:
    given = table()
    fitted = fit_classifiers(given, TREE, learned=torch.arange(60), held=torch.arange(60, 120)).fitted
    means = fitted["feature-means"]
    assert isinstance(means, PrototypeScores)
    assert means.of_features
    right = given.rows(torch.arange(60, 120))
    sure = means(right).softmax(1).amax(1).mean()
    share = (classify(means, right) == right.nodes).double().mean()
    assert abs(float(sure - share)) < 0.1
    kept = classifier_from(means.tensors(), "euclidean", -1.0, of_features=True)
    assert torch.equal(kept(right), means(right))
    earlier = {name: value for name, value in means.tensors().items() if name != "scale"}
    assert classifier_from(earlier, "euclidean", -1.0).scale == 1.0
    with pytest.raises(DataError, match="the scale of a classifier's class means"):
        classifier_from(earlier | {"scale": torch.zeros(1).double()}, "euclidean", -1.0)


def test_the_features_alone_have_the_same_classifiers() -> None:
    given, held = table(), torch.arange(60, 120)
    known = fit_classifiers(given, TREE, learned=torch.arange(60), held=held)
    alone = EmbeddingTable(given.features, given.nodes, features=given.features, geometry="sphere")
    expected = fit_classifiers(alone, TREE, learned=torch.arange(60), held=held)
    found = classifiers_of_features(known)
    assert found.chosen == expected.chosen
    for kind, each in expected.fitted.items():
        torch.testing.assert_close(found.fitted[kind](alone), each(alone))
    without = fit_classifiers(table(False), TREE, learned=torch.arange(60), held=held)
    assert "feature-means" not in without.fitted
    with pytest.raises(ValueError, match="no class means of the features"):
        classifiers_of_features(without)
