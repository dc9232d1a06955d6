"""Training that diverges stops before anything of it is saved, and goes on with a smaller rate."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import lightning as L
import pytest
import torch
from lightning.pytorch.callbacks import Callback

from labeltree.cli.main import main
from labeltree.errors import OtherSettingsError
from labeltree.runs import ModelDescription, RunFolder
from labeltree.training.callbacks import checkpoints
from labeltree.training.callbacks.divergence import DivergenceWatch, TrainingDiverged
from labeltree.training.fit import train
from labeltree.training.read_recipes import read_recipe
from labeltree.training.recipe import Recipe
from sweeps import some_now

pytestmark = pytest.mark.slow


class Poison(Callback):
    """At one step, counted from 1, a weight or a gradient becomes what it should not be."""

    def __init__(self, step: int, what: str, value: float = math.nan) -> None:
        self.step, self.what, self.value = step, what, value

    def _poison(self, trainer: L.Trainer, module: L.LightningModule, what: str) -> None:
        if what != self.what or trainer.global_step + 1 != self.step:
            return
        weight = next(module.encoder.parameters())
        (weight.data if what == "loss" else weight.grad)[(0,) * weight.dim()] = self.value

    def on_train_batch_start(self, trainer, module, *_):
        self._poison(trainer, module, "loss")

    def on_before_optimizer_step(self, trainer, module, _):
        self._poison(trainer, module, "gradient")


class Rates(Callback):
    """The learning rates of every step."""

    def __init__(self) -> None:
        self.rates: dict[int, list[float]] = {}

    def on_before_optimizer_step(self, trainer, module, optimizer):
        self.rates[trainer.global_step + 1] = [group["lr"] for group in optimizer.param_groups]


def all_finite(folder: RunFolder) -> bool:
    found = []

    def look(value: object) -> None:
        if isinstance(value, torch.Tensor):
            found.append(bool(value.isfinite().all()))
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            look(inner)

    for path in (folder.last_checkpoint, folder.best_checkpoint):
        if path.is_file():
            look(torch.load(path, weights_only=True))
    return bool(found) and all(found)


SMALL = {"ema": 0.5, "image_size": 16}
CALMER = {**SMALL, "optimizer__lr": 0.001, "optimizer__clip_norm": 1.0}


@pytest.fixture(scope="module")
def calm_rates(
    recipe_of: Callable[..., Recipe], tmp_path_factory: pytest.TempPathFactory
) -> dict[int, list[float]]:
    """The learning rates of a run that has not diverged."""
    fresh = Rates()
    train(
        recipe_of("hwc+lam", **CALMER),
        tmp_path_factory.mktemp("fresh"),
        callbacks=[fresh],
        progress_bar=False,
    )
    return fresh.rates


# 4 steps an epoch, 2 epochs; the loss is read after every 3rd step, at saves and at the epoch's end.
@pytest.mark.parametrize(
    ("what", "value", "step", "kept"),
    some_now(
        [
            ("loss", math.nan, 3, 2),
            ("loss", math.nan, 4, 2),  # the last of an epoch, before its validation
            ("gradient", math.nan, 4, 2),
            ("gradient", math.inf, 6, 4),
            ("gradient", math.nan, 8, 6),
        ],
        now=3,
    ),
)
def test_stops_saves_nothing_of_it_and_goes_on(
    what: str,
    value: float,
    step: int,
    kept: int,
    calm_rates: dict[int, list[float]],
    tmp_path: Path,
    recipe_of: Callable[..., Recipe],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checkpoints, "_TOGETHER", 3)
    recipe = recipe_of("hwc+lam", optimizer__lr=0.004, **SMALL)
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(TrainingDiverged) as caught:
        train(recipe, folder.path, callbacks=[Poison(step, what, value)], progress_bar=False, every_n_steps=2)
    said = str(caught.value)
    assert f"diverged at step {step}, epoch {1 + (step - 1) // 4}: the {what} is not finite" in said
    assert "last finite state is kept" in said
    assert "--optimizer.lr 0.0004 (it was 0.004)" in said
    assert torch.load(folder.last_checkpoint, weights_only=True)["global_step"] == kept
    assert all_finite(folder)
    assert not folder.encoder.is_file()

    with pytest.raises(OtherSettingsError, match="epochs is 2, not 3"):
        train(recipe_of("hwc+lam", optimizer__lr=0.004, epochs=3, **SMALL), folder.path, progress_bar=False)
    calmer = recipe_of("hwc+lam", **CALMER)
    rates = Rates()
    with pytest.warns(UserWarning, match=f"diverged at step {step} and continues .*lr is 0.001, not 0.004"):
        train(calmer, folder.path, callbacks=[rates], progress_bar=False)
    assert all_finite(folder)
    assert folder.encoder.is_file()
    assert read_recipe(folder.recipe).optimizer.lr == 0.001
    described = ModelDescription.load(folder.description).settings["optimizer"]
    assert (described["lr"], described["clip_norm"]) == (0.001, 1.0)
    (entry,) = json.loads(folder.diverged.read_text())["diverged"]
    assert entry["step"] == step
    assert "optimizer.lr is 0.001, not 0.004" in entry["went_on_with"]
    assert rates.rates == {at: calm_rates[at] for at in range(kept + 1, 9)}


class Overflow(Callback):
    """Before validation, weights become so large that what they make of samples is not finite."""

    def on_validation_start(self, trainer, module):
        for weight in module.encoder.parameters():
            weight.data.fill_(1e38)


def test_weights_that_are_finite_and_overflow(tmp_path: Path, recipe_of: Callable[..., Recipe]) -> None:
    what = "step 4, epoch 1: the embedding of a validation sample is not finite; nothing was saved before it"
    with pytest.raises(TrainingDiverged, match=what):
        train(recipe_of(), tmp_path / "run", callbacks=[Overflow()], progress_bar=False)
    assert not (tmp_path / "run" / "encoder.safetensors").exists()


def test_before_anything_is_saved(tmp_path: Path, recipe_of: Callable[..., Recipe]) -> None:
    recipe = recipe_of()
    with pytest.raises(TrainingDiverged, match=r"step 1, epoch 1: the loss .*nothing was saved before it"):
        train(recipe, tmp_path / "run", callbacks=[Poison(1, "loss")], progress_bar=False)
    folder = train(recipe_of(optimizer__lr=1e-4), tmp_path / "run", progress_bar=False)
    assert folder.encoder.is_file()


def test_a_run_that_has_not_diverged_keeps_its_rate(tmp_path: Path, recipe_of: Callable[..., Recipe]) -> None:
    train(recipe_of(epochs=1), tmp_path, progress_bar=False)
    with pytest.raises(OtherSettingsError, match="lr"):
        train(recipe_of(epochs=1, optimizer__lr=1e-4), tmp_path, progress_bar=False)


def test_the_command_says_it_in_a_sentence(
    tmp_path: Path, image_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = f"--data {image_folder} --objective supcon --image-size 28 --batch-size 9 --accelerator cpu"
    rate = "--optimizer.name sgd --optimizer.lr 1e6 --optimizer.momentum 0.9999 --optimizer.schedule constant"
    command = f"train {arguments} {rate} --optimizer.weight_decay 100 --epochs 3 --quiet --out {tmp_path}/run"
    assert main(command.split()) == 2
    error = capsys.readouterr().err
    assert "labeltree: diverged at step" in error
    assert "try --optimizer.lr 100000" in error
    assert "Traceback" not in error


def test_steps_that_a_scaler_leaves_out_are_in_order(
    recipe_of: Callable[..., Recipe], tmp_path: Path
) -> None:
    """With float16 an infinite gradient lowers the scale; a loss that is not finite is a divergence still."""
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], 0.1)
    weight.grad = torch.tensor([math.inf, 1.0])
    watch = DivergenceWatch(RunFolder(tmp_path), recipe_of())
    trainer = SimpleNamespace(
        precision_plugin=SimpleNamespace(scaler=object()), global_step=7, current_epoch=0, world_size=1
    )
    module = torch.nn.Linear(1, 1)
    watch.see_gradient(trainer, optimizer)
    watch.see_step(trainer, torch.tensor(1.5))
    watch.check(trainer, module, weights=True)
    watch.see_step(trainer, torch.tensor(math.inf))
    with pytest.raises(TrainingDiverged, match="step 7, epoch 1: the loss"):
        watch.check(trainer, module)
    trainer.precision_plugin.scaler = None
    watch.see_gradient(trainer, optimizer)
    watch.see_step(trainer, torch.tensor(1.5))
    with pytest.raises(TrainingDiverged, match="step 7, epoch 1: the gradient"):
        watch.check(trainer, module)
    with torch.no_grad():
        module.weight.fill_(math.inf)
    with pytest.raises(TrainingDiverged, match="a weight"):
        watch.check(trainer, module, weights=True)
