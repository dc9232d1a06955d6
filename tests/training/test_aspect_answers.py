"""An objective that learns aspects answers for each of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from labeltree.taxonomy import Taxonomy
from labeltree.training.objective import Objective
from labeltree.training.recipe import Recipe

pytestmark = pytest.mark.slow

TREE = Taxonomy.from_paths(["a/b", "c"])
STARS = Taxonomy.from_paths(["bad/1", "good/4", "good/5"])
PLACE = Taxonomy.from_paths(["eu", "us"])


def test_answers_are_those_of_the_linear_classifiers(recipe_of: Callable[..., Recipe]) -> None:
    objective = Objective(recipe_of("supcon+mlcl", mlcl__ce=True), TREE, 6, (STARS, PLACE))
    features = torch.randn(5, 6)
    answers = objective.predict_aspects(features)
    assert answers is not None
    assert answers.dtype == torch.int64
    assert answers.shape == (5, 2)
    assert torch.equal(answers, objective.terms["mlcl"].loss.classify(features))  # type: ignore[union-attr]
    assert set(answers[:, 0].tolist()) <= set(STARS.leaves.tolist())
    assert set(answers[:, 1].tolist()) <= set(PLACE.leaves.tolist())
    assert objective.predict(features) is None


def test_compared_at_depth_1_it_answers_there(recipe_of: Callable[..., Recipe]) -> None:
    objective = Objective(recipe_of("mlcl", mlcl__ce=True, mlcl__depths="[1,1]"), TREE, 6, (STARS, PLACE))
    answers = objective.predict_aspects(torch.randn(20, 6))
    assert answers is not None
    assert bool((STARS.depth[answers[:, 0]] == 1).all())


def test_without_aspects_or_classifiers_there_is_no_answer(recipe_of: Callable[..., Recipe]) -> None:
    features = torch.randn(3, 6)
    assert Objective(recipe_of("mlcl", mlcl__ce=True), TREE, 6).predict_aspects(features) is None
    assert Objective(recipe_of("mlcl"), TREE, 6, (STARS,)).predict_aspects(features) is None
    one = Objective(recipe_of("mlcl", mlcl__ce=True), TREE, 6, (STARS,))
    assert one.predict(features) is None
    assert one.predict_aspects(features).shape == (3, 1)  # type: ignore[union-attr]
