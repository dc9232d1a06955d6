"""CV+ beside heads that are fitted anew without each fold, and beside its definition, read literally."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from test_tree_ridge import TREE, Case
from torch import Tensor

from labeltree.decisions import ClassNodes
from labeltree.decisions.answers import find_paths, holds_truth
from labeltree.errors import DataError
from labeltree.ridge import CvPlus, TreeRidge, cv_plus, fit_cv_plus, fit_tree_ridge
from labeltree.ridge.fitting import single_labels
from labeltree.ridge.moments import clean_labels
from labeltree.sklearn import TaxonomyClassifier
from labeltree.taxonomy import Taxonomy
from sweeps import long_unless, some_now

SPACE = {"tree": 0.0, "instance": 0.0, "similarity": "depth"}


def path_score(probabilities: Tensor, classes: Tensor, label: int, taxonomy: Taxonomy) -> float:
    """The probability of the first node on the path that is neither the label nor above it."""
    paths = find_paths(probabilities[None], ClassNodes(classes, taxonomy))
    line = {*taxonomy.ancestors_of(label), label}
    for node, probability in zip(paths.nodes[0].tolist(), paths.probabilities[0].tolist(), strict=True):
        if node >= 0 and node not in line:
            return probability
    return 0.0


@pytest.mark.parametrize("seed", some_now(range(40), 2))
@pytest.mark.parametrize("several", [False, True])
def test_sets_are_those_of_the_definition_with_heads_fitted_anew(seed: int, several: bool) -> None:
    rng, case = np.random.default_rng(seed), Case.draw(seed, several=several)
    case.vectors += 2 * torch.from_numpy(
        rng.standard_normal(case.vectors.shape)
    )  # of no error, no scale is best
    asked = torch.from_numpy(rng.standard_normal((7, case.vectors.shape[1])))
    folds, coverage = 2 + seed % 4, (0.5, 0.75, 0.8)[seed % 3]
    head, _ = fit_tree_ridge(case.vectors, case.nodes, TREE, groups=case.groups, penalty=1.0, **SPACE)
    ours = fit_cv_plus(case.vectors, case.nodes, head, groups=case.groups, folds=folds, seed=seed)

    labels, rows = clean_labels(case.vectors, case.nodes)
    single = single_labels(labels, TREE)
    judged = ClassNodes(head.classes, TREE).judges(single)
    codes = cv_plus.group_codes(None if case.groups is None else case.groups[rows], len(rows))
    fold = cv_plus._deal(codes, judged, folds, seed)
    below = torch.zeros(len(asked), len(ours.labels), dtype=torch.float64)
    units = 0
    for number in range(folds):
        rest = rows[fold != number]
        groups = None if case.groups is None else case.groups[rest]
        anew, _ = fit_tree_ridge(
            case.vectors[rest], case.nodes[rest], TREE,
            groups=groups, folds=folds, seed=seed + 1 + number, slopes=False, **SPACE,
        )  # fmt: skip
        other = ours.heads[number]
        torch.testing.assert_close(other.outputs(asked), anew.outputs(asked), rtol=0, atol=1e-8)
        assert other.penalty == anew.penalty
        assert other.scale == pytest.approx(anew.scale, rel=0.02), "it is searched to a hundredth"
        assert other.calibration.tolist() == [[1.0, 0.0]] * TREE.num_nodes
        held = ((fold == number) & judged).nonzero()[:, 0]
        by_fold = other.probabilities(case.vectors[rows[held]])
        of_asked = other.probabilities(asked)
        units += len(codes[held].unique())
        scores = torch.tensor(
            [
                [path_score(each, other.classes, label, TREE) for label in ours.labels.tolist()]
                for each in of_asked
            ],
            dtype=torch.float64,
        )
        for place, row in enumerate(held.tolist()):
            own = path_score(by_fold[place], other.classes, int(single[row]), TREE)
            weight = 1 / int((codes[held] == codes[row]).sum())
            below += weight * (own < scores)
    assert ours.num_units == units
    assert units % folds == 0
    wanted = float(Fraction(str(coverage)) * (units + 1))
    sets = below < wanted - 1e-9
    assert ours.label_sets(asked, coverage).tolist() == sets.tolist()
    for answer, possible in zip(ours.answer(asked, coverage).tolist(), sets, strict=True):
        inside = ours.labels[possible].tolist()
        covering = [node for node in range(TREE.num_nodes) if all(node in line(each) for each in inside)]
        assert answer == (max(covering, key=lambda node: int(TREE.depth[node])) if inside else 0)


def line(node: int) -> list[int]:
    return [*TREE.ancestors_of(node), node]


def test_a_group_is_in_one_fold_and_counts_once() -> None:
    codes = torch.tensor([0, 0, 0, 1, 2, 2, 3, 4, 5, 6])
    judged = torch.tensor([1, 1, 0, 1, 1, 0, 1, 1, 0, 1]).bool()
    fold = cv_plus._deal(codes, judged, 4, 0)
    assert fold[8] == -1, "group 5 has no sample labelled at a class"
    assert len(fold[:3].unique()) == len(fold[4:6].unique()) == 1
    assert sorted(fold[fold >= 0].unique().tolist()) == [0, 1, 2, 3]
    dealt = [int(fold[codes == code][0]) for code in (0, 1, 2, 3, 4, 6)]
    assert sorted(dealt) == [-1, -1, 0, 1, 2, 3], "folds are equal; what is left over is seen by all heads"


def world(n: int, seed: int, groups: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((len(TREE.leaves), 6))
    which = rng.integers(0, len(TREE.leaves), n // groups).repeat(groups)
    vectors = centres[which] + 1.2 * rng.standard_normal((len(which), 6))
    return torch.from_numpy(vectors), TREE.leaves[torch.from_numpy(which)], torch.arange(len(which)) // groups


@pytest.mark.parametrize("size", long_unless([1, 3], [3]))
def test_coverage_is_about_what_is_asked_for(size: int) -> None:
    new, truth, _ = world(1000, 1000)
    covered, inside, depths = [], [], []
    for seed in range(2):
        vectors, nodes, groups = world(100 * size, seed, size)
        head, _ = fit_tree_ridge(vectors, nodes, TREE, groups=groups, penalty=1.0, **SPACE)
        cv = fit_cv_plus(vectors, nodes, head, groups=groups, penalty=1.0, seed=seed)
        answers, sets = cv.answer(new, 0.8), cv.label_sets(new, 0.8)
        held = holds_truth(answers, truth, TREE)
        covered.append(float(held.double().mean()))
        in_set = sets[torch.arange(len(new)), torch.searchsorted(cv.labels, truth)]
        assert not bool((in_set & ~held).any())
        inside.append(float(in_set.double().mean()))
        depths.append(float(TREE.depth[answers].double().mean()))
    assert 0.72 < np.mean(inside) <= np.mean(covered) < 0.92
    assert np.mean(depths) > 0.5
    assert cv.guaranteed_coverage(0.8) < np.mean(covered)


def test_labels_that_no_head_knows_are_possible() -> None:
    """Each class has one sample: no head knows the class of the samples that it has not seen."""
    flat = Taxonomy.from_paths([(f"class {number}",) for number in range(30)])
    rng = np.random.default_rng(0)
    vectors, nodes = torch.from_numpy(rng.standard_normal((20, 5))), flat.leaves[:20]
    head, _ = fit_tree_ridge(vectors, nodes, flat, penalty=1.0, **SPACE)
    cv = fit_cv_plus(vectors, nodes, head, penalty=1.0)
    sets = cv.label_sets(torch.from_numpy(rng.standard_normal((50, 5))), 0.8)
    assert bool(sets[:, 20:].all(1).any()), "a class without samples is possible for some"
    assert bool((cv.answer(vectors, 0.8) == 0).any())


def test_what_is_guaranteed() -> None:
    def bound(n: int, folds: int, coverage: float) -> float:
        steps = [cv_plus.threshold_steps(torch.rand(n // folds, dtype=torch.float64)) for _ in range(folds)]
        return CvPlus((None,) * folds, tuple(steps), TREE.leaves, TREE).guaranteed_coverage(coverage)

    assert bound(40, 10, 0.9) == pytest.approx(1 - 0.2 - 0.75 / 11)
    assert bound(300, 5, 0.9) == pytest.approx(1 - 0.2 - 2 * 0.8 / 61)
    assert bound(20, 20, 0.9) == pytest.approx(0.8), "the jackknife+"
    assert bound(40, 5, 0.4) == 0


def test_too_few_samples_and_classes_are_said() -> None:
    vectors, nodes, _ = world(60, 0)
    head, _ = fit_tree_ridge(vectors, nodes, TREE, penalty=1.0, **SPACE)
    cv = fit_cv_plus(vectors, nodes, head, penalty=1.0)
    with pytest.raises(
        DataError, match=r"coverage 0.99 needs at least 99 .* there are 60.* of 0.93 \(up to 0.98"
    ):
        cv.answer(vectors, 0.99)
    with pytest.raises(ValueError, match="coverage is 1"):
        cv.answer(vectors, 1.0)
    for name, value in (("folds", 1), ("seed", -1), ("penalty", 0.0)):
        with pytest.raises(ValueError, match=f"{name} is {value}"):
            fit_cv_plus(vectors, nodes, head, **{name: value})
    one_group = torch.zeros(len(nodes), dtype=torch.int64)
    with pytest.raises(DataError, match="at least two groups"):
        fit_cv_plus(vectors, nodes, head, groups=one_group)
    rare = torch.where(torch.arange(60) == 0, TREE.leaves[0], TREE.leaves[1])
    head = TreeRidge.of(cv_plus.Moments.of(vectors, rare), TREE, penalty=1.0, scale=1.0)
    with pytest.raises(
        DataError, match=r"without fold . of 5: the ridge head needs samples of at least two classes"
    ):
        fit_cv_plus(vectors, rare, head)


def test_heads_are_kept_when_asked_for() -> None:
    vectors, nodes, groups = world(60, 0, 2)
    X, y = vectors.numpy(), nodes.numpy()
    plain = TaxonomyClassifier(TREE, penalty=1.0, tree=0.0, instance=0.0)
    assert plain.fit(X, y, groups=groups.numpy()).cv_plus_ is None
    model = TaxonomyClassifier(TREE, penalty=1.0, tree=0.0, instance=0.0, guarantee=True)
    model.fit(X, y, groups=groups.numpy())
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
    assert model.cv_plus_.num_units == 30
    assert sum(head.moments.products.numel() for head in model.cv_plus_.heads) == 0
    answers = model.predict_nodes(X, coverage=0.8)
    assert answers.tolist() == model.cv_plus_.answer(vectors, 0.8).tolist()
    assert [one or "" for one in model.predict(X, coverage=0.8)] == [
        TREE.path_name(int(node)) if node else "" for node in answers
    ]
    with pytest.raises(ValueError, match=r"needs at least 99 .* there are 30"):
        model.predict(X, coverage=0.99)
