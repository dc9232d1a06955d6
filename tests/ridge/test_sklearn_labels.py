"""`TaxonomyClassifier` with labels that are coarse, missing, several or wrong, with groups and settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_sklearn import TREE, samples

from labeltree.sklearn import TaxonomyClassifier

SPACE = {"tree": 0.5, "instance": 0.0, "penalty": 1.0}


def is_held(answers: np.ndarray, truth: np.ndarray) -> float:
    held = [one == "" or f"{path}/".startswith(f"{one}/") for one, path in zip(answers, truth, strict=True)]
    return float(np.mean(held))


def coarse(paths: np.ndarray, share: float) -> np.ndarray:
    labels = paths.astype(object)
    which = np.random.default_rng(5).random(len(paths)) < share
    labels[which] = [path.split("/")[0] for path in paths[which]]
    return labels


@pytest.mark.parametrize("grouped", [False, True])
def test_coarse_labels_set_no_bar(grouped: bool) -> None:
    X, paths = samples(400, 1.5)
    unseen, truth = samples(3000, 1.5, seed=1)
    groups = np.arange(400) if grouped else None
    model = TaxonomyClassifier(TREE, **SPACE).fit(X, coarse(paths, 0.3), groups=groups)
    assert 0.86 < is_held(model.predict(unseen, coverage=0.9), truth) < 0.96
    few = TaxonomyClassifier(TREE, **SPACE).fit(
        X[:60], coarse(paths[:60], 0.7), groups=None if groups is None else groups[:60]
    )
    with pytest.raises(ValueError, match="labelled at a class"):
        few.predict(unseen, coverage=0.98)


def test_score_takes_what_fit_takes() -> None:
    X, paths = samples(200, 0.3)
    model = TaxonomyClassifier(TREE, **SPACE).fit(X, paths)
    answers = model.predict(X)
    names = np.array([path.split("/")[-1] for path in answers])
    nodes = [TREE.find(path) for path in answers]
    assert model.score(X, answers) == model.score(X, names) == model.score(X, nodes) == 1.0
    assert model.score(X, coarse(answers, 1.0)) == 1.0, "an answer below a coarse label is right"
    several = [[path, "f" if path.startswith("a") else "a"] for path in answers]
    assert model.score(X, several) == 1.0
    wrong = [path if row % 4 else ("f/g" if path != "f/g" else "f/h") for row, path in enumerate(answers)]
    assert model.score(X, wrong) == 0.75
    missing = [None if row % 4 == 0 else path for row, path in enumerate(wrong)]
    assert model.score(X, missing) == 1.0
    weights = np.where(np.arange(200) % 4, 1.0, 3.0)
    assert model.score(X, wrong, sample_weight=weights) == 0.5
    with pytest.raises(ValueError, match="no sample has a label"):
        model.score(X, [None] * 200)
    with pytest.raises(ValueError, match="nowhere"):
        model.score(X, ["nowhere"] * 200)


def test_without_a_taxonomy_a_new_label_is_answered_wrongly() -> None:
    X, paths = samples(60, 0.1)
    model = TaxonomyClassifier(**SPACE).fit(X, paths)
    answers = model.predict(X)
    assert model.score(X[:2], [answers[0], "new/one"]) == 0.5


def test_several_labels_are_lists() -> None:
    X, paths = samples(120, 0.3)
    lists: list[Any] = [[path] for path in paths]
    by_list = TaxonomyClassifier(TREE, **SPACE).fit(X, lists)
    alone = TaxonomyClassifier(TREE, **SPACE).fit(X, paths)
    np.testing.assert_allclose(by_list.predict_proba(X), alone.predict_proba(X))
    lists[0], lists[1], lists[2] = ["a/e", "f/g"], [], {paths[2], paths[2].split("/")[0]}
    model = TaxonomyClassifier(TREE, **SPACE).fit(X, lists)
    seen = model.fold_outputs_
    assert 1 not in seen.rows.tolist()
    assert seen.labels[0] == -1, "a sample with two classes judges no answer"
    assert TREE.path_name(int(seen.labels[2])) == paths[2], "a label above another says nothing further"
    assert len(model._scores) == 118
    with pytest.raises(ValueError, match="list of lists"):
        TaxonomyClassifier(TREE).fit(X, np.stack([paths, paths], 1))


def test_nodes_are_integers_also_as_floats() -> None:
    X, paths = samples(120, 0.3)
    nodes = np.array([TREE.find(path) for path in paths])
    as_floats = nodes.astype(float)
    expected = TaxonomyClassifier(TREE, **SPACE).fit(X, nodes)
    assert expected.classes_.dtype.kind == "i"
    by_float = TaxonomyClassifier(TREE, **SPACE).fit(X, as_floats)
    np.testing.assert_allclose(by_float.predict_proba(X), expected.predict_proba(X))
    as_floats[3] = np.nan
    model = TaxonomyClassifier(TREE, **SPACE).fit(X, as_floats)
    assert len(model.fold_outputs_.rows) == 119
    assert model.classes_.tolist() == expected.classes_.tolist()
    alone = TaxonomyClassifier(**SPACE).fit(X, as_floats)
    assert alone.classes_.tolist() == sorted(set(nodes.tolist()))
    assert alone.score(X, nodes) > 0.9
    objects = np.array([np.int64(node) for node in nodes], dtype=object)
    by_object = TaxonomyClassifier(TREE, **SPACE).fit(X, objects)
    np.testing.assert_allclose(by_object.predict_proba(X), expected.predict_proba(X))
    mixed = [node if row % 2 else paths[row] for row, node in enumerate(nodes.tolist())]
    by_both = TaxonomyClassifier(TREE, **SPACE).fit(X, mixed)
    assert set(by_both.classes_) == set(paths)
    np.testing.assert_allclose(by_both.predict_proba(X), expected.predict_proba(X))
    for wrong in (99, -5):
        nodes[7] = wrong
        with pytest.raises(ValueError, match=f"label {wrong} is not a node"):
            TaxonomyClassifier(TREE).fit(X, nodes)
    with pytest.raises(ValueError, match="continuous"):
        TaxonomyClassifier(TREE).fit(X, nodes + 0.5)


@pytest.mark.parametrize("unknown", [-1, np.nan, None])
def test_a_sample_of_no_known_group_is_a_group_by_itself(unknown: Any) -> None:
    X, paths = samples(90, 0.3)
    groups: list[Any] = [int(row) // 30 for row in range(90)]
    groups[40:] = [unknown] * 50
    model = TaxonomyClassifier(TREE, **SPACE).fit(X, paths, groups=groups)
    folds = model.fold_outputs_.folds.numpy()
    assert len(set(folds[:30])) == len(set(folds[30:40])) == 1
    assert len(set(folds[40:])) > 2
    assert len(set(model._groups[model._groups >= 0].tolist())) == 2


def test_groups_are_one_for_each_sample() -> None:
    X, paths = samples(40, 0.3)
    for wrong in (np.arange(39), [], np.zeros((40, 2))):
        with pytest.raises(ValueError, match="groups"):
            TaxonomyClassifier(TREE).fit(X, paths, groups=wrong)


def test_folds_are_counted_over_groups_with_labels() -> None:
    X, paths = samples(60, 0.3)
    labels = paths.astype(object)
    groups = np.arange(60) // 10
    labels[30:] = None
    model = TaxonomyClassifier(TREE, **SPACE).fit(X, labels, groups=groups)
    assert model.fold_outputs_.folds.unique().tolist() == [-1, 0, 1, 2]
    labels[10:] = None
    with pytest.raises(ValueError, match="cannot make 2 folds"):
        TaxonomyClassifier(TREE, **SPACE).fit(X, labels, groups=groups)


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ("penalty", [0.0, -1.0, np.nan, np.inf, "1", True]),
        ("tree", [-0.1, 1.1, np.nan, "1"]),
        ("instance", [-0.1, np.nan, np.inf, "1"]),
        ("folds", [1, 0, -3, 2.5, np.nan, "5", None, True]),
    ],
)
def test_settings_out_of_range_are_named(setting: str, values: list[Any]) -> None:
    X, paths = samples(40, 0.3)
    for value in values:
        with pytest.raises(ValueError, match=f"{setting} is .*must be"):
            TaxonomyClassifier(TREE, **{setting: value}).fit(X, paths)


def test_random_states_of_scikit_learn() -> None:
    X, paths = samples(60, 0.3)
    with pytest.raises(ValueError, match="random_state is -1; it must be"):
        TaxonomyClassifier(TREE, random_state=-1).fit(X, paths)
    with pytest.raises(ValueError, match="taxonomy is 5; it must be"):
        TaxonomyClassifier(5).fit(X, paths)  # type: ignore[arg-type]
    for state in (3, None, np.random.RandomState(0)):
        assert TaxonomyClassifier(TREE, random_state=state, **SPACE).fit(X, paths).score(X, paths) > 0.9
