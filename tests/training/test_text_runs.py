"""Runs on texts: from a table to an evaluation, resumed bit for bit, with a frozen encoder and without."""

import csv
import math

import pytest
import torch

from labeltree.cli.main import main
from labeltree.data import Source
from labeltree.errors import DataError
from labeltree.inference.load_run import load_run
from labeltree.inference.named_samples import open_other
from labeltree.inference.run_embeddings import raw_table, run_tables
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.taxonomy import Taxonomy
from labeltree.training.fit import train
from labeltree.training.read_recipes import parser_of
from labeltree.training.recipe import Recipe
from sweeps import long_unless, some_now

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_words")]

WORDS = {
    "dog": "bark bone leash puppy tail paw hound",
    "cat": "purr whisker claw kitten tail paw mouse",
    "oak": "acorn bark leaf forest root wood trunk",
    "fern": "frond spore leaf forest moist shade green",
}
PATHS = {"dog": "animal", "cat": "animal", "oak": "plant", "fern": "plant"}


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "cache"))
    generator = torch.Generator().manual_seed(0)
    path = tmp_path / "texts.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "depth1", "depth2"])
        for number in range(160):
            leaf = list(WORDS)[number % 4]
            words = WORDS[leaf].split()
            chosen = torch.randint(len(words), (6,), generator=generator).tolist()
            writer.writerow([" ".join(words[c] for c in chosen), PATHS[leaf], leaf])
    return path


def recipe_of(table, **settings) -> Recipe:
    base = {"data": str(table), "encoder": "small-text", "epochs": 3, "batch_size": 32, "accelerator": "cpu"}
    objective = settings.get("objective", "hwc+lam")
    return parser_of(objective).recipe(settings={**base, "objective": objective, **settings})


@pytest.mark.parametrize(
    ("objective", "views"),
    [("hwc+lam", "dropout"), ("hwc+lam", "word-deletion"), ("ce", "identity"), ("maskcon", "word-deletion")],
)
def test_training_lowers_the_loss(table, tmp_path, objective, views):
    settings = {"coarsen": 1} if objective == "maskcon" else {}
    settings |= {"queue": {"size": 32}} if objective == "maskcon" else {}
    recipe = recipe_of(table, objective=objective, views=views, **settings)
    history = train(recipe, tmp_path / "run", progress_bar=False).read_history()
    assert all(math.isfinite(row["train_loss"]) for row in history)
    assert history[-1]["val_recall_at_1"] >= 0.5
    if objective != "maskcon":  # its target moves
        assert history[-1]["train_loss"] < history[0]["train_loss"]


def test_evaluation_has_words_beside_it(table, tmp_path, capsys):
    train(recipe_of(table), tmp_path / "run", progress_bar=False)
    assert main(["evaluate", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    assert "raw words" in printed
    assert "untrained encoder" in printed
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "raw words" in page
    experiment, tables = run_tables(tmp_path / "run")
    again = experiment.source
    assert len(tables["trained"]) == len(again) == 160
    assert tables["raw"].features.shape[1] <= 256
    # Other texts, in the run's own taxonomy.
    assert len(open_other(experiment, str(table))) == 160


@pytest.mark.parametrize("adapter", some_now([None, 16]))
@pytest.mark.parametrize("objective", ["supcon", "ce"])
def test_known_features_change_nothing(table, tmp_path, objective, adapter, monkeypatch):
    settings = {"trainable": "head", "views": "identity", "num_views": 1, "adapter": adapter}
    recipe = recipe_of(table, objective=objective, **settings)
    quick = train(recipe, tmp_path / "quick", progress_bar=False)
    monkeypatch.setattr("labeltree.training.fit.use_precomputed_features", lambda *_: None)
    slow = train(recipe, tmp_path / "slow", progress_bar=False)
    mine, theirs = quick.load_weights(), slow.load_weights()
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        torch.testing.assert_close(value, theirs[name], rtol=1e-4, atol=1e-6)
    monkeypatch.undo()
    ours = torch.load(quick.last_checkpoint, weights_only=True)["state_dict"]
    base = "encoder.base." if adapter else "encoder."
    assert not [key for key in ours if key.startswith(base)]


@pytest.mark.parametrize("frozen", long_unless([False, True], [True]))
def test_a_stopped_run_ends_with_the_same_weights(table, tmp_path, frozen):
    from lightning.pytorch.callbacks import Callback

    class Stop(Callback):
        def on_train_batch_end(self, trainer, *_):
            if trainer.global_step == 5:
                raise RuntimeError("the power went out")

    settings = (
        {"trainable": "head", "views": "identity", "adapter": 8} if frozen else {"views": "word-deletion"}
    )
    recipe = recipe_of(table, **settings)
    whole = train(recipe, tmp_path / "whole", progress_bar=False)
    with pytest.raises(RuntimeError, match="power"):
        train(recipe, tmp_path / "parts", callbacks=[Stop()], progress_bar=False, every_n_steps=2)
    parts = train(recipe, tmp_path / "parts", progress_bar=False)
    assert RunFolder(tmp_path / "parts").encoder.is_file()
    for name, value in whole.load_weights().items():
        assert torch.equal(value, parts.load_weights()[name]), name
    assert len(load_run(tmp_path / "parts").source) == 160


def test_a_run_without_images_cannot_read_an_image_table(table, tmp_path):
    with pytest.raises(
        ValueError, match=r"encoder 'small-conv' reads images, but the samples of .* are texts"
    ):
        train(recipe_of(table, encoder="small-conv"), tmp_path / "run", progress_bar=False)
    assert not (tmp_path / "run" / "recipe.yaml").exists()


def test_the_encoder_before_training_has_no_adapter(table, tmp_path):
    settings = {"trainable": "head", "adapter": 16, "epochs": 1}
    folder = train(recipe_of(table, **settings), tmp_path / "run", progress_bar=False)
    _, tables = run_tables(folder.path)
    assert tables["trained"].features.shape[1] == 16
    assert tables["untrained"].features.shape[1] == 128


@pytest.mark.parametrize(
    "rows",
    some_now(
        [
            "text\nbark bone\n",
            "text,label\nbark bone,horse\n",
            "text,depth1,depth2\nbark bone,animal,horse\n",
            "text,label\nbark bone,\n",
        ],
        2,
    ),
)
def test_texts_without_labels_of_the_run(table, tmp_path, rows, capsys):
    folder = train(recipe_of(table, epochs=1), tmp_path / "run", progress_bar=False).path
    other = tmp_path / "other.csv"
    other.write_text(rows)
    words = ["embed", str(folder), "--data", str(other), "--out", str(tmp_path / "other.npz")]
    assert main([*words, "--unlabelled"]) == 0
    assert EmbeddingTable.load(tmp_path / "other.npz").nodes.tolist() == [-1]
    if "horse" in rows:
        assert main(words) == 2
        assert "takes them without labels (--unlabelled)" in capsys.readouterr().err


def test_images_are_nothing_to_a_text_encoder(table, tmp_path, image_folder):
    folder = train(recipe_of(table, epochs=1), tmp_path / "run", progress_bar=False).path
    with pytest.raises(DataError, match=r"'small-text' reads texts, but the samples of .* are images"):
        open_other(load_run(folder), str(image_folder), unlabelled=True)


def test_raw_words_of_few_texts_and_of_signs():
    tree = Taxonomy.from_paths(["a", "b"])
    words = [f"word{n % 7} word{n % 5} of{n}" for n in range(40)]
    signs = ["♠ ♠ ♥", "♣", "♥ ♥", "♠ ♣", "no"] * 8

    def table_of(texts, training):
        nodes, rows = tree.leaves[torch.arange(40) % 2], torch.arange(40)
        source = Source("made", tree, nodes, rows, store=None, rows=rows, texts=texts)
        return raw_table(
            source.with_split(["train"] * training + ["test"] * (40 - training)), "text"
        ).features

    for texts, training in ((words, 1), (words, 3), (words, 39), (signs, 2), (signs, 4)):
        features = table_of(texts, training)
        assert len(features) == 40
        assert bool(features.isfinite().all())
    alike = torch.nn.functional.normalize(table_of(signs, 4))
    torch.testing.assert_close(alike[0], alike[5])
    assert float(alike[0] @ alike[1]) < 0.9
