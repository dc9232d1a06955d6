"""Runs on images and texts: from a table in which either may be missing to search both ways."""

import csv
import functools
import json

import numpy as np
import pytest
import torch
from PIL import Image

import labeltree as lt
from labeltree.cli.main import main
from labeltree.errors import DataError
from labeltree.inference.load_run import load_run
from labeltree.inference.run_embeddings import embed_source, with_modality
from labeltree.losses import ImageTextLoss
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.training import module
from labeltree.training.fit import train
from labeltree.training.read_recipes import parser_of
from labeltree.training.recipe import Recipe
from sweeps import some_now

pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning"), pytest.mark.usefixtures("few_words")]

COLOURS = {"cherry": (200, 20, 30), "plum": (90, 20, 120), "leek": (40, 160, 60), "kale": (20, 80, 40)}
PATHS = {"cherry": "fruit", "plum": "fruit", "leek": "vegetable", "kale": "vegetable"}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """64 rows: every eighth has no image, every eighth no text, one neither, one a broken image."""
    folder = tmp_path_factory.mktemp("shop")
    generator = np.random.default_rng(0)
    with (folder / "items.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "text", "depth1", "depth2"])
        for number in range(64):
            name = list(COLOURS)[number % 4]
            noise = generator.integers(-15, 15, (16, 16, 3))
            pixels = np.clip(np.array(COLOURS[name]) + noise, 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{number}.png")
            photo = "" if number % 8 == 3 else f"{number}.png"
            text = "" if number % 8 == 6 else f"fresh {name} number {number}"
            if number == 40:
                photo = text = ""
            writer.writerow([photo, text, PATHS[name], name])
    (folder / "41.png").write_text("no image")
    return folder / "items.csv"


def recipe_of(table, **settings) -> Recipe:
    base = {
        "data": str(table), "encoder": "small-conv+small-text", "epochs": 2, "batch_size": 16,
        "accelerator": "cpu", "image_size": 16, "monitor": "image_text_recall_at_1",
    }  # fmt: skip
    objective = settings.get("objective", "hwc+image-text")
    return parser_of(objective).recipe(settings={**base, "objective": objective, **settings})


@pytest.fixture(scope="module")
def run(table, tmp_path_factory):
    return train(recipe_of(table), tmp_path_factory.mktemp("runs") / "run", progress_bar=False)


def test_a_row_may_lack_its_image_or_its_text(run):
    found = load_run(run.path)
    source = found.source
    assert len(source) == 63  # the row with neither is left out
    present = source.present(source.rows)
    assert present.any(1).all()
    assert int((~present[:, 0]).sum()) == 9  # eight without an image, one whose image is broken
    assert int((~present[:, 1]).sum()) == 8
    table = embed_source(found.network, source)
    assert torch.equal(table.image_embeddings.isnan().any(1), ~present[:, 0])
    assert torch.equal(table.text_embeddings.isnan().any(1), ~present[:, 1])
    alone = ~present[:, 1]
    torch.testing.assert_close(table.embeddings[alone], table.image_embeddings[alone])
    texts = with_modality(source, "text")
    assert len(texts) == 55
    only_texts = embed_source(found.network, texts, modality="text")
    torch.testing.assert_close(only_texts.embeddings, table.text_embeddings[present[:, 1]])
    with pytest.raises(DataError, match="8 of 63 samples have no text"):
        embed_source(found.network, source, modality="text")


def test_the_model_embeds_images_texts_and_both(run, table):
    model = lt.load(run.path)
    file = table.parent / "0.png"
    pixels = np.asarray(Image.open(file))
    text = model.embed(texts=["plum"]).embeddings
    image = model.embed(file).embeddings
    both = model.embed([file], texts=["plum"])
    torch.testing.assert_close(both.image_embeddings, image)
    torch.testing.assert_close(both.text_embeddings, text)
    mixed = model.embed([None, pixels], texts=["plum", None]).embeddings
    torch.testing.assert_close(mixed, torch.cat([text, image]), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model.embed([file], texts=["plum"], modality="text").embeddings, text)
    _, batch = model.embed_batch([pixels, "plum", (pixels, "plum")])
    torch.testing.assert_close(batch, torch.cat([image, text, both.embeddings]), rtol=1e-4, atol=1e-5)
    assert len(model.embed(data=table)) == 63
    with pytest.raises(ValueError, match="1 images and 2 texts"):
        model.embed([file], texts=["a", "b"])
    with pytest.raises(DataError, match="neither an image nor a text"):
        model.embed([None], texts=[None])
    with pytest.raises(DataError, match="sample 0 has neither"):
        model.embed_batch([(None, " ")])


def test_predict_takes_either(run, table):
    model = lt.load(run.path)
    broken = table.parent / "41.png"
    found = model.predict([table.parent / "0.png", None, broken], texts=[None, "kale", "kale"], coverage=0.5)
    assert list(found.skipped) == [2]
    file = str(table.parent / "0.png")
    assert main(["predict", str(run.path), file, "--text", "fresh cherry", "--coverage", "0.5"]) == 0
    assert main(["predict", str(run.path), file, "--text", "a", "--text", "b", "--coverage", "0.5"]) == 2


def test_evaluation_searches_both_ways_by_depth(run, capsys):
    main(["evaluate", str(run.path), "--protocols", "image-text"])
    assert "recall@1, image_to_text" in capsys.readouterr().out
    metrics = json.loads(RunFolder(run.path).metrics.read_text("utf-8"))
    own = next(iter(metrics["methods"].values()))["protocols"]["image-text"]
    assert 0 <= own["scores"]["text_to_image.own@10"] <= 1
    assert len(own["by_depth"]["image_to_text.recall@1"]) == 2


def test_names_of_every_depth_are_texts(table, tmp_path, monkeypatch):
    read, given = [], []
    forward, store = ImageTextLoss.forward, module.TokenStore

    @functools.wraps(forward)
    def watched(self, *rows, **named):
        given.append(named)
        return forward(self, *rows, **named)

    monkeypatch.setattr(ImageTextLoss, "forward", watched)
    monkeypatch.setattr(module, "TokenStore", lambda *texts: read.append(texts) or store(*texts))
    settings = {"image-text": {"depths": "separate"}, "monitor": "map_at_r", "epochs": 1}
    run = train(recipe_of(table, objective="image-text", **settings), tmp_path / "run", progress_bar=False)
    tree = RunFolder(run.path).load_taxonomy()
    assert [len(store(*texts)) for texts in read] == [len(tree)]
    assert given
    for batch in given:
        images, names = batch["image_nodes"], batch["text_nodes"]
        assert set(names.tolist()) == set(tree.ancestors[images, 1:].flatten().tolist()) - {-1}
        assert not set(batch["text_instances"].tolist()) & set(batch["image_instances"].tolist())
    main(["evaluate", str(run.path), "--protocols", "image-text"])


def test_embed_writes_one_modality(run, table, tmp_path):
    for modality, count in (("image", 54), ("text", 55), ("both", 63)):
        out = tmp_path / f"{modality}.parquet"
        main(["embed", str(run.path), "--modality", modality, "--out", str(out)])
        found = EmbeddingTable.load(out, load_run(run.path, own_data=False).taxonomy)
        assert len(found) == count
        assert (found.text_embeddings is not None) == (modality == "both")


def test_what_the_run_cannot_do_is_said(run, tmp_path, capsys):
    for command in (
        ["export", str(run.path), "--out", str(tmp_path / "model")],
        ["embed", str(run.path), "--data", str(tmp_path), "--out", f"{tmp_path / 'bulk'}/"],
    ):
        assert main(command) == 2
        assert "images and texts" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encoder": "small-conv", "monitor": "map_at_r"}, "'image-text' compares images with texts"),
        ({"adapter": 8}, "adapter"),
        ({"objective": "hwc", "encoder": "small-conv", "modality_dropout": 0.1}, "modality_dropout"),
    ],
)
def test_settings_that_do_not_fit(table, tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        train(recipe_of(table, **settings), tmp_path / "run", progress_bar=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", some_now([{}, {"trainable": "head", "views": "identity"}, {"encode_chunk": 5}])
)
def test_a_stopped_run_ends_with_the_same_weights(run, table, tmp_path, settings, monkeypatch):
    from lightning.pytorch.callbacks import Callback

    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "cache"))

    class Stop(Callback):
        def on_train_batch_end(self, trainer, *_):
            if trainer.global_step == 3:
                raise RuntimeError("the power went out")

    recipe = recipe_of(table, **settings)
    whole = train(recipe, tmp_path / "whole", progress_bar=False) if settings else run
    with pytest.raises(RuntimeError, match="power"):
        train(recipe, tmp_path / "parts", callbacks=[Stop()], progress_bar=False, every_n_steps=2)
    parts = train(recipe, tmp_path / "parts", progress_bar=False)
    for name, value in whole.load_weights().items():
        assert torch.equal(value, parts.load_weights()[name]), name


@pytest.mark.slow
@pytest.mark.parametrize("objective", some_now(["maskcon+image-text", "image-text", "ce+image-text", "hwc"]))
def test_other_objectives(table, tmp_path, objective):
    settings = {"coarsen": 1, "queue": {"size": 16}} if "maskcon" in objective else {}
    run = train(recipe_of(table, objective=objective, **settings), tmp_path / "run", progress_bar=False)
    assert lt.load(run.path).embed(texts=["plum"]).embeddings.isfinite().all()
