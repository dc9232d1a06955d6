"""`TaxonomyClassifier` as scikit-learn's own checks and its users see it."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from labeltree.sklearn import TaxonomyClassifier
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([("a", "b", "c"), ("a", "b", "d"), ("a", "e"), ("f", "g"), ("f", "h")])


@parametrize_with_checks([TaxonomyClassifier(folds=3)])
def test_checks_of_scikit_learn(estimator: BaseEstimator, check: Any) -> None:
    check(estimator)


@pytest.mark.long
@parametrize_with_checks([TaxonomyClassifier(folds=3, guarantee=True)])
def test_checks_of_scikit_learn_with_a_guarantee(estimator: BaseEstimator, check: Any) -> None:
    check(estimator)


def samples(n: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((len(TREE.leaves), 12))
    which = rng.integers(0, len(centres), n)
    paths = np.array([TREE.path_name(int(node)) for node in TREE.leaves])
    return centres[which] + noise * rng.standard_normal((n, 12)), paths[which]


def test_paths_names_and_nodes_are_labels() -> None:
    X, paths = samples(80, 0.3)
    by_path = TaxonomyClassifier(TREE).fit(X, paths)
    by_name = TaxonomyClassifier(TREE).fit(X, [path.split("/")[-1] for path in paths])
    by_node = TaxonomyClassifier(TREE).fit(X, [TREE.find(path) for path in paths])
    alone = TaxonomyClassifier().fit(X, paths)
    assert sorted(by_path.classes_) == sorted(set(paths)) == sorted(alone.classes_)
    assert alone.taxonomy_.max_depth == 3
    np.testing.assert_allclose(by_path.predict_proba(X), by_name.predict_proba(X))
    np.testing.assert_array_equal(by_path.predict_nodes(X), by_node.predict(X))
    assert (by_path.predict(X) == paths).mean() > 0.9


@pytest.mark.parametrize("names", [["t", "x", "s", "a", "m"], ["a", "b", "c", "d", "e"]])
def test_scores_of_probabilities_have_the_columns_that_scikit_learn_takes(names: list[str]) -> None:
    """In the order of `classes_`, which is sorted, whatever order the taxonomy has."""
    tree = Taxonomy.from_paths([("z", names[0]), ("z", names[1]), *[("y", name) for name in names[2:]]])
    X, paths = samples(150, 0.4)
    y = np.array(names)[np.unique(paths, return_inverse=True)[1]]
    model = TaxonomyClassifier(tree).fit(X, y)
    assert model.classes_.tolist() == sorted(names)
    np.testing.assert_array_equal(model.classes_[model.predict_proba(X).argmax(1)], model.predict(X))
    np.testing.assert_array_equal(model.classes_[model.decision_function(X).argmax(1)], model.predict(X))
    nodes = [tree.path_name(int(node)).split("/")[-1] for node in model.predict_nodes(X)]
    np.testing.assert_array_equal(nodes, model.predict(X))
    assert cross_val_score(TaxonomyClassifier(tree), X, y, cv=3, scoring="neg_log_loss").min() > -0.3
    assert cross_val_score(TaxonomyClassifier(tree), X, y, cv=3, scoring="roc_auc_ovr").min() > 0.98
    two = np.isin(y, names[:2])
    binary = TaxonomyClassifier(tree).fit(X[two], y[two])
    np.testing.assert_array_equal(
        binary.classes_[(binary.decision_function(X[two]) > 0).astype(int)], binary.predict(X[two])
    )


def test_labels_that_scikit_learn_has_numbered_are_no_nodes() -> None:
    X, paths = samples(60, 0.4)
    with pytest.raises(ValueError, match=r"label 0 is the root.*fit each fold or model yourself"):
        cross_val_predict(TaxonomyClassifier(TREE), X, paths, cv=2, method="predict_proba")
    alone = cross_val_predict(TaxonomyClassifier(), X, paths, cv=2, method="predict_proba")
    assert (np.unique(paths)[alone.argmax(1)] == paths).mean() > 0.9


def test_what_folds_say_has_the_rows_of_the_samples_and_the_columns_of_the_classes() -> None:
    X, paths = samples(120, 0.3)
    names = np.array([f"{'zyx'[int(node) % 3]}{path}" for node, path in enumerate(np.unique(paths))])
    tree = Taxonomy.from_paths([(name,) for name in names])
    labels = names[np.unique(paths, return_inverse=True)[1]].astype(object)
    known = np.ones(len(X), dtype=bool)
    known[[3, 50]] = False
    truth = labels[known].astype(str)
    labels[~known] = None
    model = TaxonomyClassifier(tree).fit(X, labels)
    assert model.head_.classes.tolist() != [tree.find(name) for name in model.classes_]
    seen = model.fold_outputs_
    for values in (seen.probabilities, seen.outputs):
        assert values.shape == (len(X), len(model.classes_))
        assert values[~known].isnan().all()
        assert (model.classes_[values.numpy()[known].argmax(1)] == truth).mean() > 0.9
    assert seen.classes.tolist() == [tree.find(name) for name in model.classes_]
    assert seen.labels.tolist() == [-1 if label is None else tree.find(label) for label in labels]
    assert (seen.folds[~known] == -1).all()
    assert (seen.folds[known] >= 0).all()
    assert seen.rows.tolist() == np.flatnonzero(known).tolist()
    chosen = seen.probabilities[known, np.searchsorted(model.classes_, truth)]
    assert seen.log_loss == pytest.approx(float(-chosen.log().mean()))


def test_missing_and_coarse_labels() -> None:
    X, paths = samples(120, 0.3)
    labels = paths.astype(object)
    labels[:5] = None
    labels[5:15] = [path.rpartition("/")[0] or path for path in paths[5:15]]
    model = TaxonomyClassifier(TREE).fit(X, labels)
    assert len(model.fold_outputs_.rows) == 115
    assert set(model.classes_) == set(paths)


def test_answers_as_specific_as_is_certain() -> None:
    X, paths = samples(400, 1.5)
    model = TaxonomyClassifier(TREE).fit(X, paths)
    unseen, truth = samples(2000, 1.5, seed=1)
    shares = {}
    for coverage in (0.6, 0.9):
        answers = model.predict(unseen, coverage=coverage)
        shares[coverage] = np.mean(
            [f"{path}/".startswith(f"{one}/") or one == "" for one, path in zip(answers, truth, strict=True)]
        )
        assert shares[coverage] > coverage - 0.06
    assert shares[0.9] < 0.96, "answers are as fine as was asked for; the root would always be right"
    assert set(model.predict(unseen, coverage=0.9)) - set(paths) - {""}, "some answers are inner nodes"
    with pytest.raises(ValueError, match="samples"):
        TaxonomyClassifier(TREE).fit(X[:20], paths[:20]).predict(unseen, coverage=0.99)


def test_groups_are_judged_by_a_head_that_has_not_seen_them() -> None:
    X, paths = samples(90, 0.3)
    groups = np.arange(90) // 3
    model = TaxonomyClassifier(TREE).fit(X, paths, groups=groups)
    folds = model.fold_outputs_.folds.numpy()
    assert all(len(set(folds[groups == group])) == 1 for group in set(groups))


def test_pipeline_search_scores_clone_and_pickle() -> None:
    X, paths = samples(100, 0.5)
    pipeline = make_pipeline(StandardScaler(), TaxonomyClassifier(TREE, folds=3))
    assert cross_val_score(pipeline, X, paths, cv=3).mean() > 0.8
    search = GridSearchCV(TaxonomyClassifier(TREE, folds=3), {"tree": [0.0, 0.5]}, cv=2).fit(X, paths)
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.transform(X), search.best_estimator_.transform(X))
    assert clone(pipeline).fit(X, paths).score(X, paths) > 0.8


def test_what_is_wrong_is_said() -> None:
    X, paths = samples(40, 0.5)
    with pytest.raises(ValueError, match="nowhere"):
        TaxonomyClassifier(TREE).fit(X, ["nowhere"] * 40)
    with pytest.raises(ValueError, match="two classes"):
        TaxonomyClassifier(TREE).fit(X, [paths[0]] * 40)
    with pytest.raises(ValueError, match="tree is 3"):
        TaxonomyClassifier(TREE, tree=3.0).fit(X, paths)
