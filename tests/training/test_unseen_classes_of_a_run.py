"""A run that hides classes: nothing of training sees them, and its evaluation knows them by itself."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import labeltree as lt
from labeltree.cli.main import main
from labeltree.errors import DataError, RunError
from labeltree.inference.load_run import load_run
from labeltree.inference.run_embeddings import kept_table, run_tables
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.split_names import UNSEEN
from labeltree.training.experiment import prepare
from labeltree.training.fit import train
from labeltree.training.read_recipes import read_recipe
from labeltree.training.recipe import Recipe, TableRecipe
from labeltree.training.recipe_data import open_recipe_source

pytestmark = pytest.mark.slow

HIDDEN = {"tabby", "fern"}


def run(*words: object) -> int:
    return main([str(word) for word in words])


@pytest.fixture(scope="module")
def trained(image_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "photos"
    code = run(
        "train", "--data", image_folder, "--objective", "ce", "--out", out,
        "--unseen-classes", "[cat, plant/fern]",
        "--epochs=1", "--batch-size=9", "--image-size", 28, "--accelerator=cpu", "--quiet", "--test=0.3",
    )  # fmt: skip
    assert code == 0
    return out


def test_the_evaluation_knows_them_without_options(trained: Path) -> None:
    folder = RunFolder(trained)
    assert read_recipe(folder.recipe).unseen_classes == ["cat", "plant/fern"]
    lt.evaluate(trained, protocols=["seen-unseen"], resamples=0)
    metrics = json.loads(folder.metrics.read_text())
    found = metrics["methods"]["ce"]["protocols"]["seen-unseen"]
    assert (
        "Unseen are 2 tested classes, hidden from training: 'animal/cat/tabby' and 'plant/fern'."
        in (found["notes"])
    )
    assert (found["counts"]["seen classes"], found["counts"]["unseen classes"]) == (3, 2)
    table = EmbeddingTable.load(folder.embeddings())
    hidden = int((table.split == UNSEEN).sum())
    assert found["counts"]["unseen samples that the probe learned from"] == hidden > 10
    assert {"seen.features.top1", "unseen.features.nmi", "unseen.embeddings.recall_at_1"} <= set(
        found["scores"]
    )
    assert any("hidden from training" in note for note in metrics["notes"])
    baseline = metrics["methods"]["raw pixels"]["protocols"]["seen-unseen"]
    assert baseline["counts"] == found["counts"]


def test_a_table_belongs_to_the_weights_whatever_the_times_of_files(trained: Path) -> None:
    run_tables(trained, ["trained"])
    run, file = load_run(trained), RunFolder(trained).embeddings()
    table = EmbeddingTable.load(file)
    assert table.encoder_digest == run.weights_digest
    os.utime(file, (1, 1))  # as after a copy
    assert kept_table(run) is not None
    replace(table, encoder_digest="0" * 64).save(file)
    assert kept_table(run) is None
    replace(table, encoder_digest="").save(file)  # of an older version
    assert kept_table(run) is not None
    os.utime(file, (1, 1))
    assert kept_table(run) is None
    table.save(file)


def test_the_standard_classifiers_learn_from_seen_classes_alone(trained: Path) -> None:
    experiment, tables = run_tables(trained, ["trained"])
    table, taxonomy = tables["trained"], experiment.source.taxonomy
    for split in ("train", "val", UNSEEN):
        names = {taxonomy.names[n] for n in table.select(split).nodes.tolist()}
        assert names <= HIDDEN if split == UNSEEN else not names & HIDDEN
    assert len({*table.select("test").nodes.tolist()}) == 5
    assert table.predictions is not None
    assert not {taxonomy.names[n] for n in table.predictions.tolist()} & HIDDEN


def test_a_run_goes_on_with_the_classes_that_it_began_with(trained: Path) -> None:
    recipe = read_recipe(RunFolder(trained).recipe)
    assert train(recipe, trained, progress_bar=False).encoder.is_file()
    other = Recipe(**{**{f: getattr(recipe, f) for f in recipe.__dataclass_fields__}, "unseen_classes": 1})
    with pytest.raises(RunError, match="unseen_classes is"):
        train(other, trained, progress_bar=False)


@pytest.mark.parametrize(
    ("objective", "settings"),
    [
        ("supcon", {}),
        ("ce", {"sampler": "class-balanced"}),
        ("maskcon", {"coarsen": 1, "queue__size": 20}),
        ("hwc+lam", {"geometry": "poincare"}),
        ("corr+cls", {"inner_share": 0.2}),
        ("himulcone", {"taxonomy_noise": 0.5, "label_noise": 0.5}),
    ],
)
def test_no_batch_and_no_validation_sample_is_of_them(
    recipe_of: Callable[..., Recipe], objective: str, settings: dict[str, object]
) -> None:
    recipe = recipe_of(objective, unseen_classes="[tabby, fern]", epochs=1, **settings)
    experiment = prepare(recipe)
    source = experiment.source
    hidden = torch.isin(source.nodes, source.taxonomy.encode(sorted(HIDDEN)))
    away = set(source.instances[hidden].tolist())
    assert len(away) == 24
    batches = [*experiment.batches.train_dataloader(), *experiment.batches.val_dataloader()]
    seen = {i for batch in batches for i in batch["instances"].tolist()}
    assert len(seen) > 10
    assert not seen & away


def test_a_taxonomy_of_training_and_folds(recipe_of: Callable[..., Recipe], tmp_path: Path) -> None:
    tree = tmp_path / "other.txt"
    tree.write_text(
        "\n".join(["pet/poodle", "pet/tabby", "wild/beagle", "green/rose", "green/fern"]), "utf-8"
    )
    settings = {"train_taxonomy": tree, "fold": "2/3", "unseen_classes": "tabby"}
    experiment = prepare(recipe_of("supcon", **settings))
    assert not {"tabby"} & {
        experiment.source.taxonomy.names[n] for n in experiment.source.of_split("train").nodes.tolist()
    }
    assert "tabby" in experiment.labels.taxonomy.names


def test_texts_and_wrong_settings(tmp_path: Path) -> None:
    rows = [f"note {i},{'ab'[i % 2]}/{'xyz'[i % 3]},p{i % 20}" for i in range(120)]
    path = tmp_path / "notes.csv"
    path.write_text("\n".join(["text,label,patient", *rows]), "utf-8")
    columns = TableRecipe(text_column="text", label_columns=["label"], group_column="patient")

    def opened(**settings: object) -> np.ndarray:
        source = open_recipe_source(Recipe(data=str(path), table=columns, **settings))  # type: ignore[arg-type]
        return np.asarray(source.split)

    assert (opened(unseen_classes=2) == UNSEEN).sum() > 20
    assert (opened(unseen_classes=1, unseen_depth=1) == UNSEEN).sum() > 30
    with pytest.raises(DataError, match="only 4 can be hidden"):
        opened(unseen_classes=0.9)
    with pytest.raises(
        ValueError, match=r"unseen_classes is 1.5; it must be a whole number of 1 or more, a share"
    ):
        opened(unseen_classes=1.5)
    with pytest.raises(ValueError, match="unseen_depth is 1, which has no effect unless unseen_classes is"):
        opened(unseen_classes=["a"], unseen_depth=1)
