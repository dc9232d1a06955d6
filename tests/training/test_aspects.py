"""Training on tables whose samples have several labels, and with class-balanced batches."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from labeltree.errors import RunError
from labeltree.inference.load_run import load_run
from labeltree.inference.named_samples import open_other
from labeltree.sampling import ClassBalancedBatchSampler
from labeltree.taxonomy import Taxonomy
from labeltree.training.experiment import prepare
from labeltree.training.fit import train
from labeltree.training.objective import Objective
from labeltree.training.recipe import Recipe

pytestmark = pytest.mark.slow

ASPECTS = '["service","region"]'


@pytest.fixture(scope="module")
def table(image_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small image folder as a table: labels of the folder, a rated aspect, one of names."""
    images = sorted(image_folder.rglob("*.png"))
    ratings = [1 + number % 5 for number in range(len(images))]
    mood = ["negative/1", "negative/2", "neutral/3", "positive/4", "positive/5"]
    frame = pd.DataFrame(
        {
            "image": [str(image) for image in images],
            "label": [str(image.parent.relative_to(image_folder)) for image in images],
            "service": [None if number % 7 == 0 else mood[r - 1] for number, r in enumerate(ratings)],
            "region": ["eu/fr" if number % 3 else "us" for number in range(len(images))],
        }
    )
    path = tmp_path_factory.mktemp("table") / "hotels.csv"
    frame.to_csv(path, index=False)
    return path


def test_aspects_go_to_the_loss_that_takes_them(recipe_of: Callable[..., Recipe], table: Path) -> None:
    recipe = recipe_of("supcon+mlcl", data=str(table), table__aspect_columns=ASPECTS, coarsen=1)
    experiment = prepare(recipe)
    supcon, mlcl = (term.loss for term in experiment.module.objective.terms.values())
    assert mlcl.num_aspects == mlcl.num_heads == 2
    assert supcon.table.positive.shape[1] == 4 * 2 + 1  # one depth is left
    batch = experiment.batches.training.aspects
    assert batch is not None
    assert batch.shape == (len(experiment.batches.training), 2)
    features = torch.randn(len(batch), experiment.module.encoder.feature_dim)
    source = experiment.batches.training
    losses = experiment.module.objective(
        features, source.nodes, torch.arange(len(batch)), aspects=batch, ratings=source.ratings
    )
    heads = [head(features) for head in experiment.module.objective.terms["mlcl"].heads]
    assert losses["mlcl"] == mlcl(heads, batch, torch.arange(len(batch)))
    with pytest.raises(ValueError, match="objective 'mlcl' needs aspects, which this batch does not have"):
        experiment.module.objective(features, source.nodes, torch.arange(len(batch)))


def test_answers_are_those_of_the_labels(recipe_of: Callable[..., Recipe]) -> None:
    tree, stars = Taxonomy.from_paths(["a/b", "c"]), Taxonomy.from_paths(["1", "2"])
    features = torch.randn(3, 6)
    plain = Objective(recipe_of("mlcl", mlcl__ce=True), tree, 6)
    answers = plain.predict(features)
    assert answers is not None
    assert set(answers.tolist()) <= set(tree.leaves.tolist())
    of_aspects = Objective(recipe_of("mlcl", mlcl__ce=True), tree, 6, (stars,))
    assert of_aspects.predict(features) is None


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"mlcl__ce": True, "mlcl__global_head": True, "mlcl__depths": "[1,1]"},
        {"mlcl__weights": "[0.2,0.3]", "mlcl__temperatures": 0.2, "sampler": "class-balanced"},
    ],
)
def test_training_with_aspects(
    recipe_of: Callable[..., Recipe], table: Path, tmp_path: Path, settings: dict[str, Any]
) -> None:
    recipe = recipe_of("mlcl", data=str(table), table__aspect_columns=ASPECTS, epochs=1, **settings)
    train(recipe, tmp_path / "run")
    assert (tmp_path / "run" / "encoder.safetensors").is_file()
    history = pd.read_csv(tmp_path / "run" / "history.csv")
    assert np.isfinite(history.filter(like="loss").to_numpy(dtype=float)).any()


def test_class_balanced_batches_by_name(recipe_of: Callable[..., Recipe]) -> None:
    tree = Taxonomy.from_paths(["a", "b"])
    nodes = tree.encode(["a"] * 30 + ["b"] * 2)
    sampler = Objective(recipe_of("supcon", sampler="class-balanced"), tree, 6).sampler(nodes, 16, seed=0)
    assert isinstance(sampler, ClassBalancedBatchSampler)
    assert torch.bincount(nodes[torch.from_numpy(sampler.epoch_order(0).ravel())]).tolist() == [0, 16, 16]


def test_a_run_with_aspects_embeds_tables_without_and_notices_other_ones(
    recipe_of: Callable[..., Recipe], table: Path, tmp_path: Path
) -> None:
    frame = pd.read_csv(table)
    frame.to_csv(tmp_path / "own.csv", index=False)
    recipe = recipe_of("mlcl", data=str(tmp_path / "own.csv"), table__aspect_columns=ASPECTS, epochs=1)
    folder = train(recipe, tmp_path / "run", progress_bar=False)
    frame[["image", "label"]].to_csv(tmp_path / "plain.csv", index=False)
    assert len(open_other(load_run(folder.path), str(tmp_path / "plain.csv"))) == len(frame)
    frame["region"] = frame["region"].iloc[::-1].to_list()
    frame.to_csv(tmp_path / "own.csv", index=False)
    with pytest.raises(RunError, match="have changed since the run"):
        load_run(folder.path)


@pytest.mark.parametrize("columns", [None, '["region"]'])
def test_a_global_head_without_ratings_is_refused_before_training(
    recipe_of: Callable[..., Recipe], table: Path, columns: str | None
) -> None:
    aspects = {"table__aspect_columns": columns} if columns else {}
    recipe = recipe_of("mlcl", data=str(table), mlcl__global_head=True, mlcl__temperatures=0.1, **aspects)
    with pytest.raises(ValueError, match=r"objective 'mlcl' needs ratings, which the samples do not have"):
        prepare(recipe)
