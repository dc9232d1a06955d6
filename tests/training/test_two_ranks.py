"""Training on two ranks: real gloo processes, started as a launcher would start them."""

import shutil
import textwrap
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import by_itself
import pytest
import torch

from forked import run_two_ranks
from labeltree.runs import RunFolder
from labeltree.training.fit import train
from labeltree.training.read_recipes import read_recipe

pytestmark = pytest.mark.slow

RANK = textwrap.dedent(
    """
    import sys, torch
    from lightning.pytorch.callbacks import Callback
    from labeltree.training.fit import train
    from labeltree.training.read_recipes import read_recipe
    import by_itself

    recipe, run, out, stop = sys.argv[1:]

    class Watch(Callback):
        def on_train_batch_end(self, trainer, module, *_):
            step = trainer.global_step
            rows = {"instances": module.queue.instances.clone()} if module.queue is not None else {}
            torch.save(module.state_dict() | rows, f"{out}/rank{trainer.global_rank}-step{step}.pt")
            if step == int(stop):
                raise SystemExit(3)

        def on_train_end(self, trainer, module):
            rows = next(c.rows for c in trainer.callbacks if hasattr(c, "rows"))
            torch.save(rows, f"{out}/rows{trainer.global_rank}.pt")

    torch.set_num_threads(1)
    train(read_recipe(recipe), run, callbacks=[Watch()], progress_bar=False, every_n_steps=1)
    """
)
# Each rank normalises by its own batch, as the papers train (no synchronised batch normalisation), so running
# statistics are each rank's own between two steps.
OWN = ("running_mean", "running_var", "num_batches_tracked")


def write_recipe(path: Path, images: Path, objective: str, **settings: object) -> Path:
    fixed = {
        "data": images, "objective": objective, "devices": 2, "batch_size": 12, "epochs": 2, "val": 0.2,
        "test": 0.2, "image_size": 16, "accelerator": "cpu", "head": "{dim: 8}", "monitor": "recall_at_1",
    }  # fmt: skip
    path.write_text("".join(f"{name}: {value}\n" for name, value in {**fixed, **settings}.items()))
    return path


def run_ranks(recipe: Path, run: Path, out: Path, *, stop_after: int = 0) -> list[str]:
    """Train on two ranks; the standard error of each. They must end as they are meant to."""
    out.mkdir(exist_ok=True)
    words = [str(recipe), str(run), str(out), str(stop_after)]
    return run_two_ranks(RANK, words, out, ends_well=not stop_after)


def states(out: Path, step: int) -> list[dict[str, torch.Tensor]]:
    return [torch.load(out / f"rank{rank}-step{step}.pt", weights_only=True) for rank in range(2)]


def assert_same_everywhere(out: Path, steps: int) -> None:
    for step in range(1, steps + 1):
        first, second = states(out, step)
        assert first.keys() == second.keys()
        for name in first:
            if not name.startswith("momentum") and name.endswith(OWN):
                continue
            assert torch.equal(first[name], second[name]), f"{name} after step {step}"


@dataclass(frozen=True)
class Stopped:
    """MaskCon on two ranks, stopped in its second step; gone on with on two ranks, and a copy on one."""

    recipe: Path
    two: RunFolder
    one: RunFolder
    states: Path
    step: int


@pytest.fixture(scope="module")
def maskcon(image_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    path = tmp_path_factory.mktemp("maskcon")
    queue = "{size: 20, momentum: 0.5}"
    recipe = write_recipe(path / "recipe.yaml", image_folder, "maskcon", coarsen=1, queue=queue)
    run_ranks(recipe, path / "two", path / "states", stop_after=2)
    two = RunFolder(path / "two")
    step = torch.load(two.last_checkpoint, weights_only=True)["global_step"]
    shutil.copytree(two.path, path / "one")
    run_ranks(recipe, two.path, path / "states")
    one = train(read_recipe(recipe, ["--devices", "1"]), path / "one", progress_bar=False)
    return Stopped(recipe, two, one, path / "states", step)


def test_queue_and_momentum_encoder_are_the_same(maskcon: Stopped) -> None:
    steps = int(maskcon.two.read_history()[-1]["step"])
    assert steps >= 4
    assert_same_everywhere(maskcon.states, steps)
    final = states(maskcon.states, steps)[0]
    names = [name for name in final if name.startswith("momentum")]
    assert any(name.startswith("momentum.encoder") for name in names)
    assert any(name.startswith("momentum.head") for name in names)
    assert len(final["queue.ring_vectors"]) == len(final["instances"]) == 20


def test_the_queue_has_the_samples_of_both_ranks(maskcon: Stopped) -> None:
    after_one, after_two = (states(maskcon.states, step)[0]["instances"] for step in (1, 2))
    assert len(after_one) == 12
    assert len(after_one.unique()) == 12  # six of each rank, no sample twice
    assert len(after_two) == 20
    assert torch.equal(after_two[:8], after_one[4:])  # the oldest four went first


def test_training_finishes_and_leaves_one_run(maskcon: Stopped) -> None:
    history = maskcon.two.read_history()
    assert [row["epoch"] for row in history] == [0, 1]
    assert all(isfinite(row["train_loss"]) for row in history)
    final = states(maskcon.states, int(history[-1]["step"]))[0]
    saved = torch.load(maskcon.two.last_checkpoint, weights_only=True)["state_dict"]
    for name, value in saved.items():
        if not name.endswith(OWN):
            assert torch.equal(value, final[name]), name
    again = train(read_recipe(maskcon.recipe), maskcon.two.path, progress_bar=False)
    assert again.path == maskcon.two.path  # nothing left to do


def test_a_stopped_run_goes_on_on_one_rank(maskcon: Stopped) -> None:
    assert maskcon.step == 1
    assert [row["epoch"] for row in maskcon.one.read_history()] == [0, 1]
    assert maskcon.one.read_history()[-1]["step"] == maskcon.two.read_history()[-1]["step"]
    ours, theirs = (
        torch.load(run.last_checkpoint, weights_only=True)["state_dict"]["queue.count"]
        for run in (maskcon.one, maskcon.two)
    )
    assert ours == theirs > 20
    assert all(value.isfinite().all() for value in maskcon.one.load_weights().values())


@pytest.fixture(scope="module")
def hwc_lam(image_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, Path]:
    """Run and states of HWC + LAM with an averaged encoder, trained to its end on two ranks."""
    path = tmp_path_factory.mktemp("hwc-lam")
    recipe = write_recipe(path / "recipe.yaml", image_folder, "hwc+lam", ema=0.9)
    run_ranks(recipe, path / "run", path / "states")
    return RunFolder(path / "run"), path / "states"


def test_prototypes_are_the_same(hwc_lam: tuple[RunFolder, Path]) -> None:
    run, out = hwc_lam
    steps = int(run.read_history()[-1]["step"])
    assert_same_everywhere(out, steps)
    final = states(out, steps)[0]
    prototypes = next(value for name, value in final.items() if name.endswith("prototypes"))
    seen = next(value for name, value in final.items() if name.endswith("seen"))
    assert seen.sum() >= 3
    assert (prototypes[seen].norm(dim=1) > 0).all()
    assert any(name.startswith("averaged") for name in final)


def test_ranks_agree_on_the_history(hwc_lam: tuple[RunFolder, Path]) -> None:
    """Ranks validate with normalisation statistics of their own; one of them says which epoch is best."""
    run, out = hwc_lam
    first, second = (torch.load(out / f"rows{rank}.pt", weights_only=True) for rank in range(2))
    assert first == second
    assert [row["val_ahp"] for row in first] == [row["val_ahp"] for row in run.read_history()]


def test_two_ranks_learn_what_one_process_does(image_folder: Path, tmp_path: Path) -> None:
    """Without batch normalisation and dropout, from the same samples a step; losses compare those of both."""
    recipe = write_recipe(
        tmp_path / "recipe.yaml", image_folder, "hwc+lam", encoder=by_itself.NAME, sampler="random",
        head="{dim: 8, layers: 1}", optimizer="{name: sgd, lr: 0.1, momentum: 0.5}",
    )  # fmt: skip
    run_ranks(recipe, tmp_path / "two", tmp_path / "states")
    one = train(read_recipe(recipe, ["--devices", "1"]), tmp_path / "one", progress_bar=False)
    two = RunFolder(tmp_path / "two")
    losses = [[row["train_loss"] for row in run.read_history()] for run in (one, two)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    start = states(tmp_path / "states", 1)[0]
    ours, theirs = (torch.load(run.last_checkpoint, weights_only=True)["state_dict"] for run in (one, two))
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        torch.testing.assert_close(theirs[name], value, rtol=1e-5, atol=1e-6, msg=name)
    weight = next(name for name in ours if name.startswith("encoder") and name.endswith("weight"))
    assert (ours[weight] - start[weight]).abs().max() > 1e-3


@pytest.mark.long
def test_the_first_of_two_ranks_writes_the_log(image_folder: Path, tmp_path: Path) -> None:
    recipe = write_recipe(
        tmp_path / "recipe.yaml", image_folder, "supcon", logger="tensorboard", epochs=1, encoder="small-conv"
    )
    run_ranks(recipe, tmp_path / "run", tmp_path)
    folder = RunFolder(tmp_path / "run")
    assert len(list(folder.logs.rglob("events.*"))) == 1
    (row,) = folder.read_history()
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logged = EventAccumulator(str(folder.logs))
    logged.Reload()
    (event,) = logged.Scalars("train_loss")
    assert event.step == row["step"]
    assert event.value == pytest.approx(row["train_loss"])
