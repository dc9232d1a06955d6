"""What training sees of the labels."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from labeltree.errors import TaxonomyError
from labeltree.inference.load_run import load_run
from labeltree.inference.run_embeddings import embed_source
from labeltree.taxonomy import Taxonomy
from labeltree.training.experiment import prepare
from labeltree.training.fit import train
from labeltree.training.recipe import Recipe
from labeltree.training.recipe_data import open_recipe_source
from labeltree.training.training_labels import training_labels

pytestmark = pytest.mark.slow

Recipes = Callable[..., Recipe]


def test_coarsened_labels_are_hidden_from_training_and_kept_for_validation(recipe_of: Recipes) -> None:
    recipe = recipe_of("supcon", coarsen=1)
    experiment = prepare(recipe)
    full, training = experiment.source, experiment.batches.training
    assert training.taxonomy.max_depth == 1 < full.taxonomy.max_depth
    assert experiment.batches.validation.taxonomy == full.taxonomy
    fine = full.of_split("train").nodes
    for coarse, node in zip(training.nodes.tolist(), fine.tolist(), strict=True):
        assert training.taxonomy.path(coarse) == full.taxonomy.path(node)[:1]
    back = experiment.labels.from_training[training.nodes]
    assert torch.equal(full.taxonomy.depth[back], torch.ones_like(back))
    assert torch.equal(full.taxonomy.lca(back, fine), back)


def test_coarsening_that_hides_nothing_is_an_error(recipe_of: Recipes) -> None:
    recipe = recipe_of("supcon", coarsen=9)
    with pytest.raises(ValueError, match="nothing would be hidden"):
        prepare(recipe)
    with pytest.raises(ValueError, match="give one of them"):
        recipe_of("supcon", coarsen=1, train_taxonomy="x.csv")


def test_terms_on_other_labels_do_not_add_up(recipe_of: Recipes) -> None:
    full = open_recipe_source(recipe_of("supcon")).taxonomy
    with pytest.raises(ValueError, match="'supfine' trains on the finest labels, and all terms"):
        training_labels(recipe_of("supfine+lam", coarsen=1), full)
    assert training_labels(recipe_of("supfine", coarsen=1), full).taxonomy == full


def test_labels_that_cannot_be_cut(recipe_of: Recipes) -> None:
    with pytest.raises(ValueError, match=r"inner_share is 0\.3, but no label of training could be cut"):
        prepare(recipe_of("supcon", coarsen=1, inner_share=0.3))


def test_namesakes_are_told_apart_by_their_paths(recipe_of: Recipes, tmp_path: Path) -> None:
    """Two leaves of one name are two classes: one node of the other taxonomy cannot stand for both."""
    full = Taxonomy.from_paths([("a", "other"), ("a", "x"), ("b", "other")])
    recipe = recipe_of("supcon", train_taxonomy=str(tmp_path / "tree.json"))
    full.save(tmp_path / "tree.json")
    assert training_labels(recipe, full).to_training.tolist() == list(range(full.num_nodes))
    Taxonomy.from_paths([("c", "other"), ("c", "x")]).save(tmp_path / "tree.json")
    with pytest.raises(TaxonomyError, match=r"certain: 2, such as 'a/other'"):
        training_labels(recipe, full)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_inner_labels_are_ancestors(recipe_of: Recipes, seed: int, share: float) -> None:
    recipe = recipe_of("supcon", inner_share=share, seed=seed)
    experiment = prepare(recipe)
    fine, seen = experiment.source.of_split("train").nodes, experiment.batches.training.nodes
    taxonomy = experiment.source.taxonomy
    changed = seen != fine
    able = int((taxonomy.depth[fine] >= 2).sum())
    assert int(changed.sum()) == min(round(share * len(fine)), able)
    assert torch.equal(taxonomy.lca(fine, seen), seen)
    assert int(taxonomy.depth[seen].min()) >= 1
    assert torch.equal(prepare(recipe).batches.training.nodes, seen)

    dropped = prepare(dataclasses.replace(recipe, inner="drop")).batches.training
    assert torch.equal(dropped.nodes, fine[~changed])


def test_a_coarsened_run_trains_and_is_evaluated_on_the_finest(recipe_of: Recipes, tmp_path: Path) -> None:
    recipe = recipe_of("supcon", coarsen=1)
    folder = train(recipe, tmp_path / "run", progress_bar=False)
    experiment = load_run(folder.path)
    table = embed_source(experiment.network, experiment.source)
    assert torch.equal(table.nodes, open_recipe_source(recipe).nodes)


def test_another_taxonomy_of_training(recipe_of: Recipes, tmp_path: Path) -> None:
    full = open_recipe_source(recipe_of("supcon")).taxonomy
    names = [full.names[node] for node in full.leaves.tolist()]
    other = Taxonomy.from_paths([(f"group{i % 2}", name) for i, name in enumerate(names)])
    other.save(tmp_path / "other.csv")
    recipe = recipe_of("hwc+lam", train_taxonomy=str(tmp_path / "other.csv"))
    labels = training_labels(recipe, full)
    assert [labels.taxonomy.names[n] for n in labels.to_training[full.leaves].tolist()] == names
    assert torch.equal(labels.from_training[labels.to_training[full.leaves]], full.leaves)
    train(recipe, tmp_path / "run", progress_bar=False)

    Taxonomy.from_paths([("x", name) for name in names[:-1]]).save(tmp_path / "small.csv")
    with pytest.raises(TaxonomyError, match="certain: 1, such as"):
        training_labels(recipe_of("supcon", train_taxonomy=str(tmp_path / "small.csv")), full)


def test_another_taxonomy_of_training_may_call_classes_by_ids(recipe_of: Recipes, tmp_path: Path) -> None:
    full = open_recipe_source(recipe_of("supcon")).taxonomy
    names = [full.names[node] for node in full.leaves.tolist()]
    ids = [f"N{i}" for i in range(len(names))]
    other = Taxonomy.from_paths([(f"group{i % 2}", each) for i, each in enumerate(ids)])
    name_of = dict(zip(ids, names, strict=True))
    other = other.with_aliases([[name_of[each]] if each in name_of else [] for each in other.names])
    other.save(tmp_path / "ids.json")
    labels = training_labels(recipe_of("supcon", train_taxonomy=str(tmp_path / "ids.json")), full)
    there = labels.to_training[full.leaves].tolist()
    assert [labels.taxonomy.names[node] for node in there] == ids


def test_two_names_of_one_class_are_no_two_leaves(recipe_of: Recipes, tmp_path: Path) -> None:
    """Labels that were read without the taxonomy are its names and ids side by side."""
    target = Taxonomy.from_paths(["a/x", "a/y"])
    target = target.with_aliases([["ID:1"] if name == "x" else [] for name in target.names])
    target.save(tmp_path / "tree.json")
    recipe = recipe_of("supcon", train_taxonomy=str(tmp_path / "tree.json"))
    flat = Taxonomy.from_paths(["x", "y", "ID:1"])
    with pytest.raises(TaxonomyError, match=r"'x' and 'ID:1' of the data are one node .* --taxonomy FILE"):
        training_labels(recipe, flat)
    assert training_labels(recipe, Taxonomy.from_paths(["ID:1", "y"])).taxonomy == target


@pytest.mark.parametrize("rule", ["odir", "yolo9000"])
def test_a_dag_is_projected_for_training(rule: str, recipe_of: Recipes, tmp_path: Path) -> None:
    """A leaf with two parents, of which the rule keeps one; by odir the branch with more samples."""
    full = Taxonomy.from_paths([("x", "dog"), ("x", "cat"), ("y", "rose")])
    edges = ["child,parent", "pet,thing", "wild,thing", "dog,pet", "dog,wild", "cat,wild", "rose,wild"]
    (tmp_path / "dag.csv").write_text("\n".join(edges) + "\n", "utf-8")
    recipe = recipe_of("supcon", train_taxonomy=str(tmp_path / "dag.csv"), projection=rule)
    nodes = full.encode(["dog", "cat", "cat", "rose"])
    labels = training_labels(recipe, full, nodes)
    dog = int(labels.to_training[full.find("dog")])
    assert labels.taxonomy.path(dog) == ("wild", "dog")
    assert torch.equal(labels.from_training[labels.to_training[full.leaves]], full.leaves)
