"""Compiled encoders: the runs of plain ones, up to rounding, in the same files."""

import warnings
from collections.abc import Callable
from pathlib import Path

import by_itself
import lightning as L
import pytest
import torch
from lightning.pytorch.callbacks import Callback

from labeltree.inference.load_run import load_run
from labeltree.inference.run_embeddings import embed_source
from labeltree.runs import RunFolder
from labeltree.training import module as training_module
from labeltree.training.experiment import prepare
from labeltree.training.fit import train
from labeltree.training.module import compile_encoders
from labeltree.training.recipe import Recipe
from sweeps import some_now

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traced and differentiated as always, but no machine code, which takes long to make."""
    torch.compiler.reset()
    monkeypatch.setattr(training_module, "COMPILER", "aot_eager")


QUICK = {"encoder": by_itself.NAME}  # traced in less time than one with batch normalisation


class Watch(Callback):
    """Counts the encoders that are compiled; stops after a step."""

    def __init__(self, stop: int | None = None) -> None:
        self.stop = stop
        self.compiled: list[str] = []

    def on_train_batch_end(self, trainer: L.Trainer, module: L.LightningModule, *_: object) -> None:
        self.compiled = [n for n, part in module.named_modules() if part._compiled_call_impl is not None]
        if trainer.global_step == self.stop:
            raise KeyError("stop")


def trained(recipe: Recipe, path: Path, watch: Watch) -> RunFolder:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*batch normalisation.*")
        return train(recipe, path, callbacks=[watch], progress_bar=False, every_n_steps=1)


def assert_alike(ours: RunFolder, theirs: RunFolder) -> None:
    weights = theirs.load_weights()
    found = ours.load_weights()
    assert found.keys() == weights.keys()
    for name, value in weights.items():
        torch.testing.assert_close(found[name], value, rtol=1e-3, atol=1e-4, msg=name)


@pytest.mark.parametrize(
    ("objective", "settings", "names"),
    [
        ("hwc+lam", {"ema": 0.9}, ["encoder"]),
        pytest.param(
            "maskcon",
            {"queue__size": 20, "encode_chunk": 5, **QUICK},
            ["encoder", "momentum.encoder"],
            marks=pytest.mark.long,
        ),
        pytest.param(
            "ce", {"adapter": 8, "precision": "bf16", **QUICK}, ["encoder.base"], marks=pytest.mark.long
        ),
    ],
)
@pytest.mark.long
def test_the_run_of_a_plain_encoder(
    objective: str,
    settings: dict[str, object],
    names: list[str],
    tmp_path: Path,
    recipe_of: Callable[..., Recipe],
) -> None:
    common = {"epochs": 1, "image_size": 16, "optimizer__name": "sgd", **settings}
    watch, plain = Watch(), Watch()
    compiled = trained(recipe_of(objective, compile="true", **common), tmp_path / "compiled", watch)
    assert watch.compiled == names
    assert_alike(compiled, trained(recipe_of(objective, **common), tmp_path / "plain", plain))
    assert plain.compiled == []
    ours, theirs = (
        torch.load(tmp_path / name / compiled.last_checkpoint.relative_to(compiled.path), weights_only=True)
        for name in ("compiled", "plain")
    )
    assert ours["state_dict"].keys() == theirs["state_dict"].keys()
    experiment = load_run(compiled.path)
    assert experiment.network.encoder._compiled_call_impl is None  # what is used once is not compiled
    assert embed_source(experiment.network, experiment.source).embeddings.isfinite().all()


@pytest.mark.parametrize("first", some_now(["true", "false"]))
def test_stopped_and_continued_the_other_way(
    first: str, tmp_path: Path, recipe_of: Callable[..., Recipe]
) -> None:
    common = {"epochs": 1, "image_size": 16, "optimizer__name": "sgd", **QUICK}
    with pytest.raises(KeyError, match="stop"):
        trained(recipe_of("supcon", compile=first, **common), tmp_path / "run", Watch(2))
    second = {"true": "false", "false": "true"}[first]
    folder = trained(recipe_of("supcon", compile=second, **common), tmp_path / "run", Watch())
    assert_alike(folder, trained(recipe_of("supcon", **common), tmp_path / "plain", Watch()))


def test_nothing_can_be_compiled(
    tmp_path: Path, recipe_of: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(graph: object, inputs: object) -> None:
        raise RuntimeError("No working C++ compiler found")

    monkeypatch.setattr(training_module, "COMPILER", broken)
    with pytest.raises(ValueError, match=r"can be compiled here: No working C.* or leave compile out"):
        train(recipe_of("supcon", compile="true"), tmp_path / "run", progress_bar=False)
    assert not RunFolder(tmp_path / "run").recipe.exists()


def test_known_features_need_no_encoder(recipe_of: Callable[..., Recipe]) -> None:
    module = prepare(recipe_of("ce", compile="true")).module
    module.reads_features = True
    with pytest.raises(
        ValueError, match="compile is True, which has no effect where features are computed once"
    ):
        compile_encoders(module, torch.device("cpu"))
