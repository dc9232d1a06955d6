"""Training with `encode_chunk`: a run of the whole batch where samples are by themselves; and it resumes."""

import warnings
from collections.abc import Callable
from pathlib import Path

import lightning as L
import pytest
import torch
from lightning.pytorch.callbacks import Callback
from torch import nn

from labeltree.inference.load_run import load_run
from labeltree.inference.run_embeddings import embed_source
from labeltree.models import Encoder, register_encoder
from labeltree.runs import RunFolder
from labeltree.training.fit import train
from labeltree.training.module import RepresentationModule
from labeltree.training.read_recipes import parser_of
from labeltree.training.recipe import Recipe
from sweeps import some_now

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_words")]


class Plain(Encoder):
    """Layer normalisation and dropout; remembers how many samples it was given at once."""

    most = 0

    def __init__(self, channels: int, dropout: float) -> None:
        super().__init__("test-chunks", 16)
        self.body = nn.Sequential(
            nn.Conv2d(channels, 16, 7, stride=7), nn.GELU(), nn.Flatten(), nn.LayerNorm(256),
            nn.Dropout(dropout), nn.Linear(256, 16),
        )  # fmt: skip

    @property
    def stages(self) -> list[nn.Module]:
        return [self.body]

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        Plain.most = max(Plain.most, len(images))
        features: torch.Tensor = self.body(images.to(next(self.parameters()).dtype))
        return features


@register_encoder("test-chunks", summary="every sample by itself")
def plain_encoder(channels: int, image_size: int) -> Encoder:
    return Plain(channels, 0.0)


@register_encoder("test-chunks-dropout", summary="the same with dropout")
def dropout_encoder(channels: int, image_size: int) -> Encoder:
    return Plain(channels, 0.5)


def trained(
    recipe: Recipe, path: Path, *callbacks: Callback, every_n_steps: int | None = 1
) -> tuple[dict[str, torch.Tensor], RunFolder]:
    Plain.most = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", message=".*(exists and is not empty|does not have many workers).*")
        folder = train(
            recipe, path, callbacks=list(callbacks), progress_bar=False, every_n_steps=every_n_steps
        )
    return folder.load_weights(), folder


class InFloat64(Callback):
    """Trains in float64: a wrong gradient then differs by far more than rounding does on any processor."""

    def on_fit_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        assert isinstance(module, RepresentationModule)
        module.double()
        if module.objective.head is not None:  # validation gives it features in float32
            module.objective.head.register_forward_pre_hook(lambda _, given: tuple(x.double() for x in given))


class FirstGradient(Callback):
    """Keeps the gradient of the first step."""

    def __init__(self) -> None:
        self.value: torch.Tensor | None = None

    def on_before_optimizer_step(self, trainer: L.Trainer, module: L.LightningModule, *_: object) -> None:
        if self.value is None:
            parts = [p.grad.flatten() for p in module.parameters() if p.grad is not None]
            self.value = torch.cat(parts).clone()


def assert_alike(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    """Of two runs in float64; in float32 they come to differ tenfold more with every step."""
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=1e-9, atol=1e-9, msg=name)


@pytest.mark.parametrize(
    ("objective", "settings"),
    some_now(
        [
            ("hwc+lam", {"ema": 0.9, "ema_evaluate": "true"}),
            ("maskcon", {"queue__size": 20}),
            ("ce", {"adapter": 8}),
        ],
        2,
    ),
)
def test_the_run_of_the_whole_batch(
    objective: str, settings: dict[str, object], tmp_path: Path, recipe_of: Callable[..., Recipe]
) -> None:
    sgd = {"encoder": "test-chunks", "epochs": 1, "optimizer__name": "sgd", "optimizer__lr": 0.1, **settings}
    whole, _ = trained(recipe_of(objective, **sgd), tmp_path / "whole", InFloat64())
    assert Plain.most >= 9
    chunked, folder = trained(recipe_of(objective, encode_chunk=4, **sgd), tmp_path / "chunked", InFloat64())
    assert Plain.most == 4  # of validation, too
    assert torch.float64 in {value.dtype for value in whole.values()}
    assert_alike(chunked, whole)
    experiment = load_run(folder.path)
    assert len(embed_source(experiment.network, experiment.source)) == 60
    assert Plain.most == 4  # of the evaluation as well


@pytest.mark.parametrize(("precision", "tolerance"), some_now([("32", 1e-4), ("bf16", 5e-2)]))
def test_the_gradient_of_the_whole_batch(
    precision: str, tolerance: float, tmp_path: Path, recipe_of: Callable[..., Recipe]
) -> None:
    """Of the first step: later ones begin from weights that rounding has parted."""
    found = {}
    for chunk in (18, 4):
        gradient = FirstGradient()
        recipe = recipe_of(
            "hwc+lam", encoder="test-chunks", epochs=1, precision=precision, encode_chunk=chunk
        )
        trained(recipe, tmp_path / f"by-{chunk}", gradient)
        assert Plain.most == chunk
        assert gradient.value is not None
        found[chunk] = gradient.value
    assert float((found[4] - found[18]).norm() / found[18].norm()) < tolerance


def test_texts(tmp_path: Path, recipe_of: Callable[..., Recipe]) -> None:
    words = ["bark", "bone", "tail", "purr", "whisker", "paw", "acorn", "leaf", "root"]
    rows = [
        f"{' '.join(words[i % 9 : i % 9 + 1 + i % 3])},{'ab'[i % 2]},{'abc'[i % 3]}{i % 2}" for i in range(60)
    ]
    (tmp_path / "texts.csv").write_text("\n".join(["text,depth1,depth2", *rows]))
    whole, chunked = (
        parser_of("supcon").recipe(
            settings={"data": str(tmp_path / "texts.csv"), "objective": "supcon", "encoder": "small-text"}
            | {"views": "word-deletion", "dropout": 0.0, "epochs": 1, "batch_size": 12, "accelerator": "cpu"}
            | {"optimizer": {"name": "sgd", "lr": 0.1}, "encode_chunk": chunk}
        )
        for chunk in (None, 5)
    )
    ours, theirs = (
        trained(recipe, tmp_path / name, InFloat64(), every_n_steps=None)[0]
        for name, recipe in {"chunked": chunked, "whole": whole}.items()
    )
    assert_alike(ours, theirs)


class StopAfter(Callback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_end(self, trainer: L.Trainer, *_: object) -> None:
        if trainer.global_step == self.step:
            raise KeyError("stop")


@pytest.mark.parametrize("objective", some_now(["maskcon", "hwc+lam"]))
def test_stopped_and_continued(objective: str, tmp_path: Path, recipe_of: Callable[..., Recipe]) -> None:
    recipe = recipe_of(objective, encoder="test-chunks-dropout", encode_chunk=4, ema=0.9, epochs=1)
    undisturbed, _ = trained(recipe, tmp_path / "undisturbed")
    with pytest.raises(KeyError, match="stop"):
        trained(recipe, tmp_path / "stopped", StopAfter(2))
    continued, _ = trained(recipe, tmp_path / "stopped")
    assert all(torch.equal(continued[name], value) for name, value in undisturbed.items())


def test_batch_normalisation_is_told_of(tmp_path: Path, recipe_of: Callable[..., Recipe]) -> None:
    recipe = recipe_of("supcon", encode_chunk=6, epochs=1)
    with pytest.warns(UserWarning, match="with encode_chunk 6 it normalises each chunk by itself.* 18 views"):
        folder = train(recipe, tmp_path / "run", progress_bar=False)
    state = torch.load(folder.last_checkpoint, weights_only=True)
    counts = [v for name, v in state["state_dict"].items() if name.startswith("encoder") and "num_" in name]
    assert counts
    assert all(int(count) == 3 * state["global_step"] for count in counts)  # once a chunk


def test_nothing_is_told_where_it_makes_no_difference(
    tmp_path: Path, recipe_of: Callable[..., Recipe]
) -> None:
    trained(recipe_of("supcon", encode_chunk=18, epochs=1), tmp_path / "whole")
    trained(recipe_of("ce", encode_chunk=4, epochs=1, trainable="head"), tmp_path / "frozen")
    known = recipe_of("ce", encode_chunk=4, epochs=1, trainable="head", views="identity")
    trained(known, tmp_path / "known")


def test_a_chunk_of_nothing(recipe_of: Callable[..., Recipe]) -> None:
    with pytest.raises(ValueError, match="encode_chunk is 0; it must be 1 or more"):
        recipe_of("supcon", encode_chunk=0)
