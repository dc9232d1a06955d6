"""Runs of encoders from folders: trained, carried away without the folder, resumed, and with LoRA."""

import csv
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import labeltree as lt
from forked import run_forked
from labeltree.data.images.decode import decode
from labeltree.errors import LabeltreeError
from labeltree.models import build_encoder, usual_images
from labeltree.runs import RunFolder
from labeltree.training.fit import train
from labeltree.training.read_recipes import parser_of, with_absolute_paths
from labeltree.training.recipe import Recipe
from sweeps import long_unless
from tiny_checkpoints import MEAN, SIZE, STD, write_open_clip, write_timm, write_transformers
from tiny_transformer import write_tiny_transformer

pytestmark = pytest.mark.slow

WRITERS: dict[str, Callable[[Path], object]] = {
    "transformers": write_transformers,
    "open_clip": write_open_clip,
    "timm": write_timm,
}
NOTES = {"dog": ("animal", "bark dogs dog"), "cat": ("animal", "a small small"), "oak": ("plant", "e5 : a .")}


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    rows = [
        [" ".join(np.random.default_rng(n).permutation(words.split())), branch, leaf]
        for n in range(12)
        for leaf, (branch, words) in NOTES.items()
    ]
    with (tmp_path / "notes.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["text", "depth1", "depth2"], *rows])
    return tmp_path / "notes.csv"


@pytest.fixture
def recipe_of(tmp_path: Path) -> Callable[..., Recipe]:
    """A recipe of a second or two with the checkpoint in ``tmp_path / "model"``."""

    def make(data: Path, library: str, objective: str = "supcon", **settings: Any) -> Recipe:
        chosen = {
            "data": str(data),
            "objective": objective,
            "encoder": f"{library}:{tmp_path / 'model'}",
            "epochs": 1,
            "batch_size": 12,
            "val": 0.2,
            "accelerator": "cpu",
            **settings,
        }
        return with_absolute_paths(parser_of(objective).recipe(settings=chosen))

    return make


def embedded(run: RunFolder, *, images: Path | None = None) -> torch.Tensor:
    model = lt.load(run.path)
    if images is None:
        return model.embed(texts=["a dog", "small dogs bark"]).embeddings
    return model.embed(sorted(images.rglob("*.png"))[:6]).embeddings


@pytest.mark.parametrize("trainable", long_unless(["head", "last:1", "lora"], ["last:1", "lora"]))
@pytest.mark.parametrize("library", list(WRITERS))
def test_a_run_is_carried_away_without_the_folder(
    library: str,
    trainable: str,
    recipe_of: Callable[..., Recipe],
    image_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    WRITERS[library](tmp_path / "model")
    run = train(recipe_of(image_folder, library, trainable=trainable), tmp_path / "run", progress_bar=False)
    before = embedded(run, images=image_folder)
    if trainable == "head":
        encoder = build_encoder(f"{library}:{tmp_path / 'model'}", image_size=SIZE).eval()
        files = sorted(image_folder.rglob("*.png"))[:6]
        how = usual_images(f"{library}:{tmp_path / 'model'}").preprocessing
        pixels = torch.stack([torch.from_numpy(decode(file, SIZE, 3, preprocessing=how)) for file in files])
        mean, std = (torch.tensor(values)[:, None, None] for values in (MEAN, STD))
        with torch.no_grad():
            expected = encoder((pixels / 255 - mean) / std)
        found = lt.load(run.path).embed(files).features
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    start = build_encoder(f"{library}:{tmp_path / 'model'}", image_size=SIZE, weights=run.encoder)
    merged = lt.load(run.path).network.encoder.state_dict()
    assert all(torch.equal(value, merged[key]) for key, value in start.state_dict().items())
    shutil.rmtree(tmp_path / "model")
    carried = RunFolder(shutil.move(run.path, tmp_path / "elsewhere"))
    monkeypatch.setitem(sys.modules, "peft", None)
    assert torch.equal(embedded(carried, images=image_folder), before)
    assert not [key for key in carried.load_weights() if "lora_" in key]


@pytest.mark.parametrize("trainable", long_unless(["last:1", "lora"], ["lora"]))
def test_a_run_on_texts(
    trainable: str,
    recipe_of: Callable[..., Recipe],
    texts: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_tiny_transformer(tmp_path / "model")
    run = train(recipe_of(texts, "text", trainable=trainable), tmp_path / "run", progress_bar=False)
    before = embedded(run)
    assert (run.encoder_config / "tokenizer.json").is_file()
    shutil.rmtree(tmp_path / "model")
    carried = RunFolder(shutil.move(run.path, tmp_path / "elsewhere"))
    monkeypatch.setitem(sys.modules, "peft", None)
    assert torch.equal(embedded(carried), before)
    shutil.rmtree(carried.encoder_config)  # as in a run of an earlier version
    with pytest.raises(
        LabeltreeError, match=r"encoder 'text:.*model': there is no folder '.*'; name the folder of a model"
    ):
        embedded(carried)


def test_a_run_from_the_weights_of_another_reads_the_same_pixels(
    recipe_of: Callable[..., Recipe], image_folder: Path, tmp_path: Path
) -> None:
    write_open_clip(tmp_path / "model")
    first = train(
        recipe_of(image_folder, "open_clip", trainable="lora"), tmp_path / "first", progress_bar=False
    )
    recipe = recipe_of(image_folder, "open_clip", trainable="head", weights=str(first.encoder))
    (tmp_path / "model" / "open_clip_model.safetensors").unlink()
    second = train(recipe, tmp_path / "second", progress_bar=False)
    files = sorted(image_folder.rglob("*.png"))[:4]
    ours, theirs = (lt.load(run.path).embed(files).features for run in (second, first))
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_the_packaged_text_encoder_is_not_needed_any_more(
    recipe_of: Callable[..., Recipe], texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "cache"))
    write_tiny_transformer(tmp_path / "cache" / "minilm" / "weights")
    recipe = recipe_of(texts, "text", encoder="minilm", trainable="head")
    run = train(recipe, tmp_path / "run", progress_bar=False)
    before = embedded(run)
    shutil.rmtree(tmp_path / "cache")
    assert torch.equal(embedded(run), before)


def test_evaluation_does_without_the_weights_that_training_started_from(
    recipe_of: Callable[..., Recipe], image_folder: Path, tmp_path: Path
) -> None:
    write_open_clip(tmp_path / "model")
    run = train(recipe_of(image_folder, "open_clip", "ce"), tmp_path / "run", progress_bar=False)
    shutil.rmtree(tmp_path / "model")
    with pytest.warns(UserWarning, match="left out: the encoder before training; .*there is no folder"):
        evaluated = lt.evaluate(run.path)
    assert evaluated is not None
    metrics = json.loads((run.path / "metrics.json").read_text("utf-8"))
    assert "pretrained encoder" not in metrics["methods"]


def test_encoders_that_their_names_suffice_for_keep_nothing(
    recipe_of: Callable[..., Recipe], image_folder: Path, tmp_path: Path
) -> None:
    run = train(recipe_of(image_folder, "timm", encoder="small-conv"), tmp_path / "run", progress_bar=False)
    assert not run.encoder_config.exists()


def test_images_are_read_as_the_checkpoint_expects(
    recipe_of: Callable[..., Recipe], tmp_path: Path, write_image: Callable[..., Path]
) -> None:
    for n in range(24):
        write_image(tmp_path / "grey" / "ab"[n % 2] / f"{n}.png", n, size=(40, 40), mode="L")
    write_transformers(tmp_path / "model")
    recipe = recipe_of(tmp_path / "grey", "transformers", "ce", trainable="head", pooling="mean")
    run = train(recipe, tmp_path / "run", progress_bar=False)
    model = lt.load(run.path)
    assert model.network.image_shape == (3, SIZE, SIZE)
    assert json.loads((run.encoder_config / "encoder.json").read_text())["pooling"] == "mean"
    other = train(
        recipe_of(tmp_path / "grey", "transformers", "ce", trainable="head", image_size=42),
        tmp_path / "other",
        progress_bar=False,
    )
    assert lt.load(other.path).network.image_shape == (3, 42, 42)


@pytest.mark.parametrize(
    ("objective", "settings"),
    [
        pytest.param("supcon", {"ema": 0.5, "ema_evaluate": True, "adapter": 8}, marks=pytest.mark.long),
        ("maskcon", {"coarsen": 1, "queue": {"size": 24}}),
        ("hwc+lam", {"encode_chunk": 5, "lora": {"rank": 2, "dropout": 0.1}, "precision": "bf16"}),
    ],
)
@pytest.mark.long
def test_a_stopped_lora_run_ends_with_the_same_weights(
    objective: str,
    settings: dict[str, Any],
    recipe_of: Callable[..., Recipe],
    image_folder: Path,
    tmp_path: Path,
) -> None:
    from lightning.pytorch.callbacks import Callback

    class Stop(Callback):
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if trainer.global_step == 5:
                raise RuntimeError("the power went out")

    start = write_transformers(tmp_path / "model").state_dict()
    recipe = recipe_of(image_folder, "transformers", objective, trainable="lora", epochs=2, **settings)
    whole = train(recipe, tmp_path / "whole", progress_bar=False)
    with pytest.raises(RuntimeError, match="power"):
        train(recipe, tmp_path / "parts", callbacks=[Stop()], progress_bar=False, every_n_steps=2)
    parts = train(recipe, tmp_path / "parts", progress_bar=False)
    mine, theirs = whole.load_weights(), parts.load_weights()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(value, theirs[key]) for key, value in mine.items())
    prefix = "encoder.base.net." if "adapter" in settings else "encoder.net."
    moved = {key for key, value in start.items() if not torch.equal(mine[prefix + key], value)}
    linear = {key for key in start if key.startswith(("layers", "pooler"))}
    assert moved == {key for key in linear if key.endswith("weight") and start[key].ndim == 2}


def test_settings_of_lora_without_lora_are_refused(
    recipe_of: Callable[..., Recipe], image_folder: Path
) -> None:
    with pytest.raises(ValueError, match=r"lora\.rank is 4, which has no effect while trainable is 'auto'"):
        recipe_of(image_folder, "timm", lora={"rank": 4})
    with pytest.raises(ValueError, match=r"lora\.rank is 0; it must be 1 or more"):
        recipe_of(image_folder, "timm", trainable="lora", lora={"rank": 0})


def test_a_pooling_without_transformers_is_refused(
    recipe_of: Callable[..., Recipe], image_folder: Path, tmp_path: Path
) -> None:
    write_timm(tmp_path / "model")
    with pytest.raises(ValueError, match=r"pooling is cls, which has no effect for encoder 'timm:"):
        train(recipe_of(image_folder, "timm", pooling="cls"), tmp_path / "run", progress_bar=False)
    assert not (tmp_path / "run" / "recipe.yaml").exists()


def test_a_run_that_cannot_begin_leaves_nothing(
    recipe_of: Callable[..., Recipe], image_folder: Path, tmp_path: Path
) -> None:
    from lightning.pytorch.callbacks import Callback

    class Stop(Callback):
        def on_train_batch_start(self, *_: Any) -> None:
            raise RuntimeError("the power went out")

    write_timm(tmp_path / "model")
    leftover = RunFolder(tmp_path / "run").encoder_config
    leftover.mkdir(parents=True)
    (leftover / "old").touch()
    with pytest.raises(RuntimeError, match="power"):
        train(recipe_of(image_folder, "timm"), tmp_path / "run", callbacks=[Stop()], progress_bar=False)
    assert not RunFolder(tmp_path / "run").encoder_config.exists()


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: pytest.fail("nothing may be asked"))


@pytest.mark.long
@pytest.mark.parametrize("library", list(WRITERS))
def test_compiled_lora_is_the_run_of_the_plain_encoder(
    library: str,
    recipe_of: Callable[..., Recipe],
    image_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.compiler.reset()
    monkeypatch.setattr("labeltree.training.module.COMPILER", "aot_eager")
    WRITERS[library](tmp_path / "model")
    settings = {"trainable": "lora", "optimizer": {"name": "sgd", "lr": 0.1}}
    plain = train(recipe_of(image_folder, library, **settings), tmp_path / "plain", progress_bar=False)
    compiled = train(
        recipe_of(image_folder, library, compile=True, **settings), tmp_path / "compiled", progress_bar=False
    )
    expected, found = plain.load_weights(), compiled.load_weights()
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        torch.testing.assert_close(
            found[key], value, rtol=1e-3, atol=1e-4, msg=lambda text, key=key: f"{key}: {text}"
        )


def test_two_ranks_train_lora_as_one(
    recipe_of: Callable[..., Recipe], image_folder: Path, tmp_path: Path
) -> None:
    write_transformers(tmp_path / "model", "vit")
    settings = {  # without batch normalisation in the head
        "trainable": "lora",
        "sampler": "random",
        "head": {"dim": 8, "layers": 1},
        "optimizer": {"name": "sgd", "lr": 0.01},
    }
    one = train(
        recipe_of(image_folder, "transformers", "hwc+lam", **settings), tmp_path / "one", progress_bar=False
    )
    recipe_of(image_folder, "transformers", "hwc+lam", devices=2, **settings).save(tmp_path / "recipe.yaml")
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, torch; torch.set_num_threads(1)\n"
        "from labeltree.training.fit import train\n"
        "from labeltree.training.read_recipes import read_recipe\n"
        "train(read_recipe(sys.argv[1]), sys.argv[2], progress_bar=False)\n"
    )
    # The first rank is forked; Lightning really starts the second, by the script that it finds in `sys.argv`.
    code = (
        f"import runpy, sys; sys.argv[0] = {str(script)!r}; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    done = run_forked(code, [f"{tmp_path}/recipe.yaml", f"{tmp_path}/two"])
    assert done.returncode == 0, done.stderr
    expected, found = one.load_weights(), RunFolder(tmp_path / "two").load_weights()
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        torch.testing.assert_close(
            found[key], value, rtol=1e-3, atol=1e-4, msg=lambda text, key=key: f"{key}: {text}"
        )
