"""Training towards vectors of classes: dimensions, weights, two stages, where word vectors come from."""

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from labeltree.cli.commands.train_command import run
from labeltree.errors import DataError
from labeltree.inference.load_run import load_run
from labeltree.inference.run_embeddings import embed_source
from labeltree.models import build_encoder
from labeltree.runs import RunFolder
from labeltree.taxonomy import Taxonomy
from labeltree.training.fit import train
from labeltree.training.objective import Objective
from labeltree.training.recipe import Recipe
from labeltree.training.registry import get_objective

pytestmark = pytest.mark.slow

WORDS = ["animal", "dog", "poodle", "beagle", "cat", "tabby", "plant", "rose", "fern"]
TREE = Taxonomy.from_paths(
    ["animal/dog/poodle", "animal/dog/beagle", "animal/cat/tabby", "plant/rose", "plant/fern"]
)


def write_glove(folder: Path) -> Path:
    generator = np.random.default_rng(0)
    path = folder / "glove-50d" / "vectors.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    words = np.array([word.encode() for word in WORDS])
    np.savez(path, words=words, vectors=generator.standard_normal((len(WORDS), 50)).astype(np.float32))
    return path


@pytest.fixture
def glove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "cache"))
    return write_glove(tmp_path / "cache")


def test_the_embedding_is_as_wide_as_the_classes_or_as_asked(recipe_of: Callable[..., Recipe]) -> None:
    for settings, width in (({}, 5), ({"head__dim": 2}, 2), ({"head__dim": 7}, 7)):
        objective = Objective(recipe_of("corr", **settings), TREE, 16)
        assert objective.dim == width
        assert objective.geometry.name == "sphere"
        assert objective.num_views == 1  # nothing is compared
        assert objective.sampler_name == "random"


def test_a_classifier_beside_it_weighs_a_tenth(recipe_of: Callable[..., Recipe]) -> None:
    objective = Objective(recipe_of("corr+cls"), TREE, 16)
    nodes = TREE.leaves.repeat(4)
    losses = objective(torch.randn(20, 16), nodes, torch.arange(20))
    torch.testing.assert_close(losses["loss"], losses["corr"] + 0.1 * losses["cls"])


def test_corr_learns_the_places_of_the_classes(tmp_path: Path, recipe_of: Callable[..., Recipe]) -> None:
    settings = {"epochs": 12, "head__layers": 1, "optimizer__lr": 0.01, "views": "identity"}
    folder = train(recipe_of("corr", **settings), tmp_path, progress_bar=False)
    history = folder.read_history()
    assert history[-1]["train_corr"] < 0.5 * history[0]["train_corr"]
    experiment = load_run(folder.path)
    last = folder.load_checkpoint(folder.last_checkpoint)["state_dict"]  # the best is one of many equals
    for name in ("encoder", "objective"):
        weights = {k.removeprefix(f"{name}."): v for k, v in last.items() if k.startswith(f"{name}.")}
        getattr(experiment.network, name).load_state_dict(weights)
    table = embed_source(experiment.network, experiment.source.of_split("train"))
    places = experiment.source.taxonomy.node_embeddings()[table.nodes]
    assert (table.embeddings * places).sum(1).mean() > 0.8
    answers = experiment.network.objective.terms["corr"].loss.predict(table.embeddings)
    assert (answers == table.nodes).double().mean() > 0.8


def test_devise_in_two_stages(tmp_path: Path, glove: Path, recipe_of: Callable[..., Recipe]) -> None:
    first = train(recipe_of("ce", epochs=1), tmp_path / "classifier", progress_bar=False)
    recipe = recipe_of(
        "devise", weights=str(first.encoder), trainable="head", head__layers=1, optimizer__lr=0.01, epochs=4
    )
    second = train(recipe, tmp_path / "devise", progress_bar=False)
    history = second.read_history()
    assert history[-1]["train_devise"] < history[0]["train_devise"]
    before, after = first.load_weights(), second.load_weights()
    encoder = [name for name in before if name.startswith("encoder.")]
    assert encoder
    assert all(torch.equal(before[name], after[name]) for name in encoder)  # its statistics, too
    (weight,) = (v for k, v in after.items() if k.startswith("objective.head") and v.ndim == 2)
    features = build_encoder("small-conv", channels=3, image_size=28).feature_dim
    assert weight.shape == (50, features)  # one linear map onto the words
    experiment = load_run(second.path)
    assert experiment.network.objective.geometry.name == "euclidean"
    assert experiment.network.objective.predict(torch.randn(3, features)).shape == (3,)
    assert RunFolder(first.path).encoder == first.encoder


def test_word_vectors_are_found_in_the_cache_or_named(
    tmp_path: Path, glove: Path, recipe_of: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    build = get_objective("devise").loss
    named = tmp_path / "vectors.txt"
    named.write_text("\n".join(f"{word} {number} 1 2" for number, word in enumerate(WORDS)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # all have a vector
        assert build(TREE).dim == 50
        assert Objective(recipe_of("devise", devise__vectors=str(named)), TREE, 16).dim == 3
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "none"))
    with pytest.raises(
        DataError, match=r"there are no word vectors .* 'labeltree data get glove-50d' fetches"
    ):
        Objective(recipe_of("devise"), TREE, 16)
    assert Objective(recipe_of("devise", devise__vectors=str(named)), TREE, 16).dim == 3
    with pytest.raises(ValueError, match=r"dim is 16, but the word vectors of .* have 3"):
        Objective(recipe_of("devise", devise__vectors=str(named), head__dim=16), TREE, 16)


def test_a_named_file_is_found_from_any_folder(
    tmp_path: Path, image_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vectors.txt").write_text("\n".join(f"{word} {n} 1 2" for n, word in enumerate(WORDS)))
    (tmp_path / "one").write_text("a file with the name of a choice")
    monkeypatch.chdir(tmp_path)
    arguments = ["--data", str(image_folder), "--objective", "devise", "--devise.vectors", "vectors.txt"]
    arguments += ["--devise.negatives", "one", "--epochs", "1", "--batch-size", "9", "--val", "0.2"]
    run([*arguments, "--accelerator", "cpu", "--out", "run", "--quiet"])
    monkeypatch.chdir(image_folder)
    experiment = load_run(tmp_path / "run")
    assert experiment.recipe.options["devise"]["vectors"] == str(tmp_path / "vectors.txt")
    assert experiment.recipe.options["devise"]["negatives"] == "one"
