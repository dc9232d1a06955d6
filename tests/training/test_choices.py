"""What is kept of a run, and what it refuses to be evaluated on."""

import dataclasses
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import labeltree
from labeltree.cli.main import main
from labeltree.errors import RunError, TaxonomyError
from labeltree.inference.load_run import load_run
from labeltree.inference.named_samples import open_other
from labeltree.inference.run_embeddings import embed_source
from labeltree.metrics.functional import hierarchical_f1
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.taxonomy import Taxonomy
from labeltree.training.callbacks.checkpoints import best_row
from labeltree.training.fit import train
from labeltree.training.recipe import Recipe
from sweeps import some_now

pytestmark = pytest.mark.slow


def test_best_row() -> None:
    rows = [{"epoch": e, "v": v} for e, v in enumerate([0.1, 0.5, 0.5, 0.2])]
    assert best_row(rows, "v")["epoch"] == 1  # of equal ones the earliest
    assert best_row(
        [{"epoch": 0, "v": math.nan}, {"epoch": 1, "v": 0.3}, {"epoch": 2, "v": math.nan}], "v"
    ) == {
        "epoch": 1,
        "v": 0.3,
    }
    assert best_row([{"epoch": 0, "v": math.nan}, {"epoch": 1}], "v")["epoch"] == 1
    for values, best in (([0.5] * 3, 2), ([0.5, 0.5, 0.4], 1), ([0.5, 0.5, 0.6, 0.6], 2)):
        rows = [{"epoch": epoch, "v": value} for epoch, value in enumerate(values)]
        assert best_row(rows, "v")["epoch"] == best, "what has never changed says nothing"
        kept = [at for at in range(len(rows)) if best_row(rows[: at + 1], "v") is rows[at]][-1]
        assert kept == best, "what was saved after its epoch is the best in the end"


@pytest.mark.parametrize(("objective", "coarse"), [("ce", False), ("ce", True), ("label-embedding", False)])
def test_answers_choose_the_epoch_where_training_changes_nothing_else(
    objective: str, coarse: bool, tmp_path: Path
) -> None:
    """Of a frozen encoder without a projection head, embeddings are the same after every epoch."""
    draw = np.random.default_rng(0)
    labels = draw.integers(6, size=240)
    names = np.array([f"{'ab'[k // 3]}/{k}" for k in range(6)])[labels]
    vectors = np.eye(6)[labels] + 0.4 * draw.normal(size=(240, 6))
    np.savez(tmp_path / "v.npz", vectors=vectors, label=names)
    folder = labeltree.train(
        tmp_path / "v.npz", objective, epochs=6, batch_size=16, optimizer={"lr": 0.02}, val=0.3,
        out=tmp_path / "run", progress_bar=False, **({"coarsen": 1} if coarse else {}),
    )  # fmt: skip
    history = folder.read_history()
    assert len({row["val_embeddings_map_at_r"] for row in history}) == 1
    own = [row["val_own_hierarchical_f1"] for row in history]
    best = int(np.argmax(own))
    assert own[best] > own[0]
    run = load_run(folder.path)
    held = run.source.of_split("val")
    with torch.no_grad():
        predicted = run.network.objective.predict(run.network.encoder(held.vectors.load(held.rows)))
    answers = run.network.from_training[predicted]
    kept = float(hierarchical_f1(answers, held.nodes, held.taxonomy))
    assert kept == pytest.approx(own[best], abs=1e-6)


def test_an_undefined_monitor_keeps_the_newest_epoch(
    tmp_path: Path, recipe_of: Callable[..., Recipe]
) -> None:
    recipe = recipe_of("supcon", epochs=3, limit=12, val=0.1, patience=5)
    folder = train(recipe, tmp_path, progress_bar=False)
    history = folder.read_history()
    assert len(history) == 3
    assert all(math.isnan(row["val_map_at_r"]) for row in history)
    assert torch.load(folder.best_checkpoint, weights_only=True)["epoch"] == 2


@pytest.mark.parametrize("geometry", some_now(["sphere", "poincare"]))
def test_bf16(geometry: str, tmp_path: Path, recipe_of: Callable[..., Recipe]) -> None:
    recipe = recipe_of("hwc+lam", precision="bf16", geometry=geometry, epochs=1)
    folder = train(recipe, tmp_path, progress_bar=False)
    (row,) = folder.read_history()
    exact = train(dataclasses.replace(recipe, precision="32"), tmp_path / "exact", progress_bar=False)
    assert row["train_loss"] == pytest.approx(exact.read_history()[0]["train_loss"], rel=0.05)


def test_samples_that_changed_are_not_evaluated(
    tmp_path: Path, image_folder: Path, recipe_of: Callable[..., Recipe]
) -> None:
    """One image less would draw the splits anew: images that were trained on would be tested on."""
    data = tmp_path / "photos"
    shutil.copytree(image_folder, data)
    train(
        dataclasses.replace(recipe_of("supcon", epochs=1), data=str(data)),
        tmp_path / "run",
        progress_bar=False,
    )
    load_run(tmp_path / "run")
    min(data.rglob("*.png")).unlink()
    with pytest.raises(RunError, match="have changed since the run"):
        load_run(tmp_path / "run")


def test_other_samples_are_labelled_in_the_taxonomy_of_the_run(
    tmp_path: Path, image_folder: Path, recipe_of: Callable[..., Recipe]
) -> None:
    train(recipe_of("supcon", epochs=1), tmp_path / "run", progress_bar=False)
    experiment = load_run(tmp_path / "run")
    animals = open_other(experiment, str(image_folder / "animal"))
    names = {experiment.source.taxonomy.path_name(int(node)) for node in animals.nodes}
    assert names == {"animal/dog/poodle", "animal/dog/beagle", "animal/cat/tabby"}
    strange = tmp_path / "strange" / "unicorn"
    shutil.copytree(image_folder / "plant" / "rose", strange)
    with pytest.raises(TaxonomyError, match=r"unicorn.*--unlabelled"):
        open_other(experiment, str(strange.parent))
    for folder in (strange.parent, strange):  # nested, and flat
        table = embed_source(experiment.network, open_other(experiment, str(folder), unlabelled=True))
        assert table.nodes.tolist() == [-1] * 12


def test_other_samples_with_labels_of_their_own_are_transferred_to(
    tmp_path: Path, image_folder: Path, recipe_of: Callable[..., Recipe]
) -> None:
    train(recipe_of("supcon", epochs=1), tmp_path / "run", progress_bar=False)
    for leaf in ("rose", "fern"):
        shutil.copytree(image_folder / "plant" / leaf, tmp_path / "wild" / "green" / f"wild {leaf}")
    table, tree = tmp_path / "wild.npz", tmp_path / "wild.taxonomy.json"
    words = [
        "embed",
        str(tmp_path / "run"),
        "--data",
        str(tmp_path / "wild"),
        "--own_labels",
        "--out",
        str(table),
    ]
    assert main(words) == 0
    taxonomy = Taxonomy.from_file(tree)
    nodes = EmbeddingTable.load(table, taxonomy).nodes
    assert sorted({taxonomy.path_name(int(node)) for node in nodes}) == ["green/wild fern", "green/wild rose"]
    words = ["evaluate", str(tmp_path / "run"), "--protocols", "transfer"]
    assert main([*words, "--option", f"transfer.table={table}", "--option", f"transfer.taxonomy={tree}"]) == 0
    assert main(["embed", str(tmp_path / "run"), "--own-labels"]) == 2


def test_other_samples_do_not_overwrite_a_baseline(
    tmp_path: Path, image_folder: Path, recipe_of: Callable[..., Recipe]
) -> None:
    train(recipe_of("supcon", epochs=1), tmp_path / "run", progress_bar=False)
    shutil.copytree(image_folder / "plant", tmp_path / "pixels")
    assert main(["embed", str(tmp_path / "run"), "--data", str(tmp_path / "pixels")]) == 0
    folder = RunFolder(tmp_path / "run")
    assert not folder.embeddings("pixels").exists()
    assert len(EmbeddingTable.load(folder.embeddings("of-pixels"))) == 24


def test_start_weights_are_not_needed_afterwards(
    tmp_path: Path, image_folder: Path, recipe_of: Callable[..., Recipe]
) -> None:
    from labeltree.models import build_encoder, save_weights

    save_weights(build_encoder("small-conv", channels=3, image_size=28), tmp_path / "start.safetensors")
    recipe = recipe_of("supcon", epochs=1, weights=tmp_path / "start.safetensors")
    train(recipe, tmp_path / "run", progress_bar=False)
    (tmp_path / "start.safetensors").unlink()
    assert len(embed_source(load_run(tmp_path / "run").network, load_run(tmp_path / "run").source)) == 60


def test_a_first_step_that_fails_leaves_no_run(tmp_path: Path, recipe_of: Callable[..., Recipe]) -> None:
    """Whoever corrects a setting gives the same folder again."""
    bad = recipe_of("mlcl", epochs=1, mlcl__global_head="true")
    with pytest.raises(ValueError, match="needs ratings"):
        train(bad, tmp_path / "run", progress_bar=False)
    assert not RunFolder(tmp_path / "run").recipe.exists()
    train(recipe_of("mlcl", epochs=1), tmp_path / "run", progress_bar=False)


def test_a_taxonomy_of_training_that_changed(tmp_path: Path, recipe_of: Callable[..., Recipe]) -> None:
    """Training on, a classifier's columns would be other classes; a finished run has its own."""
    leaves = ["poodle", "beagle", "tabby", "rose", "fern"]
    file = tmp_path / "other.json"
    Taxonomy.from_paths([("x", leaf) for leaf in leaves]).save(file)
    recipe = recipe_of("ce", epochs=1, train_taxonomy=str(file))
    folder = train(recipe, tmp_path / "run", progress_bar=False)
    load_run(folder.path)
    Taxonomy.from_paths([("x", leaf) for leaf in reversed(leaves)]).save(file)
    own = load_run(folder.path).network.objective.class_scores(torch.zeros(1, 96))
    assert own is not None
    names = [Taxonomy.from_file(folder.training_taxonomy).path_name(int(node)) for node in own[0]]
    assert names == [f"x/{leaf}" for leaf in leaves]
    folder.encoder.unlink()
    with pytest.raises(RunError, match=r"taxonomy of training .* has changed"):
        train(recipe, folder.path, progress_bar=False)
    assert folder.recipe.is_file()


def test_an_accelerator_that_is_not_there(
    tmp_path: Path, recipe_of: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(ValueError, match="accelerator 'gpu' with devices 1 is not available here"):
        train(recipe_of("supcon", accelerator="gpu"), tmp_path / "run", progress_bar=False)
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_0_throughout_is_not_passed_over(
    tmp_path: Path, recipe_of: Callable[..., Recipe]
) -> None:
    with pytest.warns(UserWarning, match="exactly 0 in the whole first epoch"):
        train(recipe_of("simclr", epochs=1, num_views=1), tmp_path / "run", progress_bar=False)
