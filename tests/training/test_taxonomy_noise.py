"""A taxonomy with mistakes: training sees it, everything that judges sees the true one."""

from collections.abc import Callable

import pytest
import torch

from labeltree.runs import RunFolder
from labeltree.taxonomy import Taxonomy
from labeltree.training.experiment import prepare
from labeltree.training.fit import train
from labeltree.training.recipe import Recipe
from labeltree.training.training_labels import training_labels

pytestmark = pytest.mark.slow

Recipes = Callable[..., Recipe]


def test_training_sees_the_wrong_tree_alone(recipe_of: Recipes, tmp_path) -> None:
    recipe = recipe_of("himulcon", taxonomy_noise=0.5, seed=3)
    experiment = prepare(recipe)
    true, wrong = experiment.source.taxonomy, experiment.labels.taxonomy
    assert wrong != true
    assert experiment.batches.training.taxonomy == wrong
    assert experiment.batches.validation.taxonomy == true
    fine = experiment.source.of_split("train").nodes
    seen = experiment.batches.training.nodes
    assert [wrong.names[i] for i in seen.tolist()] == [true.names[i] for i in fine.tolist()]
    assert torch.equal(experiment.labels.from_training[seen], fine)
    folder = train(recipe, tmp_path / "run", progress_bar=False)
    assert Taxonomy.from_file(RunFolder(folder.path).training_taxonomy) == wrong
    assert folder.load_taxonomy() == true


def test_a_coarsened_tree_gets_mistakes_after_it_was_cut(recipe_of: Recipes) -> None:
    full = Taxonomy.from_paths([(a, a + b, a + b + c) for a in "xyz" for b in "12" for c in "45"])
    labels = training_labels(recipe_of("supcon", coarsen=2, taxonomy_noise=0.7), full)
    assert labels.taxonomy.max_depth == 2
    for node in full.leaves.tolist():
        above = full.names[int(full.parent[node])]
        assert labels.taxonomy.names[int(labels.to_training[node])] == above
        assert full.names[int(labels.from_training[labels.to_training[node]])] == above
    assert labels.taxonomy != full.cut(2)[0]
    with pytest.raises(ValueError, match=r"taxonomy_noise is 1\.2; it must be a share"):
        recipe_of("supcon", taxonomy_noise=1.2)
