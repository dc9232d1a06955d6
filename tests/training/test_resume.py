"""A run that was stopped and continued ends with the weights of one that was not, bit for bit."""

import os
import signal
import textwrap
from collections.abc import Callable
from pathlib import Path

import lightning as L
import pytest
import torch
from lightning.pytorch.callbacks import Callback
from torch import nn

from forked import run_forked
from labeltree.models import Encoder, register_encoder
from labeltree.runs import RunFolder
from labeltree.training.callbacks.checkpoints import ResumedEarlyStopping
from labeltree.training.callbacks.stop_after_step import TrainingInterrupted
from labeltree.training.fit import train
from labeltree.training.recipe import Recipe
from sweeps import some_now

pytestmark = pytest.mark.slow


class Stop(RuntimeError):
    """The power fails."""


class StopAfter(Callback):
    """Stop without warning after a number of optimizer steps, before or after anything is saved."""

    def __init__(self, step: int, hook: str = "on_train_batch_end") -> None:
        self.step = step
        self.hook = hook

    def _stop(self, trainer: L.Trainer, hook: str) -> None:
        if self.hook == hook and trainer.global_step == self.step:
            raise Stop

    def on_train_batch_end(self, trainer: L.Trainer, *_: object) -> None:
        self._stop(trainer, "on_train_batch_end")

    def on_validation_start(self, trainer: L.Trainer, *_: object) -> None:
        self._stop(trainer, "on_validation_start")

    def on_train_epoch_end(self, trainer: L.Trainer, *_: object) -> None:
        self._stop(trainer, "on_train_epoch_end")

    def on_train_batch_start(self, trainer: L.Trainer, *_: object) -> None:
        self._stop(trainer, "on_train_batch_start")


@register_encoder("test-dropout", summary="an encoder whose steps draw random numbers")
def dropout_encoder(channels: int, image_size: int) -> Encoder:
    class Small(Encoder):
        def __init__(self) -> None:
            super().__init__("test-dropout", 16)
            self.body = nn.Sequential(
                nn.Conv2d(channels, 8, 3, stride=4), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(),
                nn.Dropout(0.5), nn.LazyLinear(16),
            )  # fmt: skip
            self.body(torch.zeros(2, channels, image_size, image_size))

        @property
        def stages(self) -> list[nn.Module]:
            return [self.body]

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            features: torch.Tensor = self.body(images)
            return features

    return Small()


def weights(folder: RunFolder) -> dict[str, torch.Tensor]:
    return folder.load_weights()


def assert_same(first: RunFolder, second: RunFolder) -> None:
    ours, theirs = weights(first), weights(second)
    assert ours.keys() == theirs.keys()
    different = [name for name in ours if not torch.equal(ours[name], theirs[name])]
    assert not different
    assert first.encoder.read_bytes() == second.encoder.read_bytes()
    keep = lambda rows: [{k: v for k, v in row.items() if k != "seconds"} for row in rows]  # noqa: E731
    assert keep(first.read_history()) == keep(second.read_history())
    states = [torch.load(f.last_checkpoint, weights_only=True)["state_dict"] for f in (first, second)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Recipe], RunFolder]:
    """The same recipe, trained without a stop; once for all tests."""
    done: dict[str, RunFolder] = {}

    def run(recipe: Recipe) -> RunFolder:
        key = repr(recipe)
        if key not in done:
            done[key] = train(recipe, tmp_path_factory.mktemp("undisturbed"), progress_bar=False)
        return done[key]

    return run


# The folder gives 4 steps an epoch; 2 epochs, so 8 steps.
STOPS = [
    (1, "on_train_batch_end", 1),
    (3, "on_train_batch_end", 2),  # a step is lost and done again
    (4, "on_train_batch_end", 2),  # on the epoch's last batch, before its validation
    (4, "on_validation_start", 1),
    (4, "on_train_epoch_end", 1),  # after validation, before the epoch's state is saved
    (4, "on_train_batch_start", 2),  # the second epoch has begun, nothing of it is done
    (6, "on_train_batch_end", 3),
    (8, "on_train_epoch_end", 1),  # all trained, not yet saved
]


@pytest.mark.parametrize(("step", "hook", "every"), some_now(STOPS, 4))
def test_stopped_and_continued_is_undisturbed(
    step: int,
    hook: str,
    every: int,
    tmp_path: Path,
    recipe_of: Callable[..., Recipe],
    undisturbed: Callable[[Recipe], RunFolder],
) -> None:
    recipe = recipe_of("hwc+lam", encoder="test-dropout")
    assert len(undisturbed(recipe).read_history()) == 2
    with pytest.raises(Stop):
        train(recipe, tmp_path, callbacks=[StopAfter(step, hook)], progress_bar=False, every_n_steps=every)
    assert not RunFolder(tmp_path).encoder.is_file()
    continued = train(recipe, tmp_path, progress_bar=False, every_n_steps=every)
    assert_same(undisturbed(recipe), continued)


def test_many_stops_and_an_average_of_weights(
    tmp_path: Path, recipe_of: Callable[..., Recipe], undisturbed: Callable[[Recipe], RunFolder]
) -> None:
    recipe = recipe_of("simclr", encoder="test-dropout", ema=0.9, ema_evaluate="true", optimizer__name="sgd")
    for step in (2, 3, 5, 7):
        with pytest.raises(Stop):
            train(recipe, tmp_path, callbacks=[StopAfter(step)], progress_bar=False, every_n_steps=1)
    assert_same(undisturbed(recipe), train(recipe, tmp_path, progress_bar=False))


@pytest.mark.parametrize("objective", some_now(["maskcon", "center+lam", "corr+cls"]))
def test_queue_momentum_encoder_and_centres_go_on(
    objective: str,
    tmp_path: Path,
    recipe_of: Callable[..., Recipe],
    undisturbed: Callable[[Recipe], RunFolder],
) -> None:
    queue = {"queue__size": 20} if "maskcon" in objective else {}
    recipe = recipe_of(objective, encoder="test-dropout", **queue)
    for step in (3, 6):
        with pytest.raises(Stop):
            train(recipe, tmp_path, callbacks=[StopAfter(step)], progress_bar=False, every_n_steps=1)
    assert_same(undisturbed(recipe), train(recipe, tmp_path, progress_bar=False))
    if objective == "maskcon":
        state = torch.load(RunFolder(tmp_path).last_checkpoint, weights_only=True)["state_dict"]
        assert int(state["queue.count"]) == 8 * 9
        assert any(name.startswith("momentum.encoder.") for name in state)


@pytest.mark.usefixtures("forked_loaders")
def test_prefetching_workers_lose_no_batch(
    tmp_path: Path, recipe_of: Callable[..., Recipe], undisturbed: Callable[[Recipe], RunFolder]
) -> None:
    """Workers fetch ahead of what is trained on; what they load does not depend on there being any."""
    recipe = recipe_of("supcon", epochs=1, workers=1)
    with pytest.raises(Stop):
        train(recipe, tmp_path, callbacks=[StopAfter(2)], progress_bar=False, every_n_steps=1)
    continued = train(recipe, tmp_path, progress_bar=False)
    assert_same(undisturbed(recipe_of("supcon", epochs=1)), continued)


def test_each_epoch_has_its_own_batches_after_resuming(
    tmp_path: Path, recipe_of: Callable[..., Recipe]
) -> None:
    seen: list[tuple[int, tuple[int, ...]]] = []

    class Record(Callback):
        def on_train_batch_start(
            self, trainer: L.Trainer, module: object, batch: dict[str, torch.Tensor], _: int
        ) -> None:
            seen.append((int(batch["epoch"]), tuple(batch["instances"].tolist())))

    recipe = recipe_of("supcon", epochs=3)
    with pytest.raises(Stop):
        train(recipe, tmp_path, callbacks=[Record(), StopAfter(5)], progress_bar=False, every_n_steps=1)
    train(recipe, tmp_path, callbacks=[Record()], progress_bar=False)
    assert seen.pop(4) == seen[4]  # the step that was lost, done again
    assert [epoch for epoch, _ in seen] == [0] * 4 + [1] * 4 + [2] * 4
    for epoch in range(3):
        samples = [i for e, batch in seen if e == epoch for i in batch]
        assert len(set(samples)) == len(samples) == 36
    assert len({batch for _, batch in seen}) == 12


def test_finished_run_is_left_alone(tmp_path: Path, recipe_of: Callable[..., Recipe]) -> None:
    recipe = recipe_of("supcon", epochs=1)
    folder = train(recipe, tmp_path, progress_bar=False)
    before = folder.encoder.stat().st_mtime_ns
    train(recipe, tmp_path, callbacks=[StopAfter(0, "on_train_batch_start")], progress_bar=False)
    assert folder.encoder.stat().st_mtime_ns == before


def test_early_stopping_stays_stopped(tmp_path: Path, recipe_of: Callable[..., Recipe]) -> None:
    """Killed between the last epoch's state and the final weights, a stopped run trains no further epoch."""
    recipe = recipe_of("supcon", epochs=30, patience=1, optimizer__lr=1e-9)
    folder = train(recipe, tmp_path, progress_bar=False)
    epochs = len(folder.read_history())
    assert epochs < 30
    folder.encoder.unlink()
    again = train(recipe, tmp_path, progress_bar=False)
    assert again.encoder.is_file()
    assert len(again.read_history()) == epochs


def test_the_key_of_early_stopping_in_checkpoints_stays_as_it_is() -> None:
    """Runs that were interrupted under an earlier version go on counting."""
    found = ResumedEarlyStopping("map_at_r", patience=3).state_key
    assert found == "Patience{'monitor': 'map_at_r', 'mode': 'max'}"


def test_ctrl_c_finishes_the_step_and_saves(
    tmp_path: Path, recipe_of: Callable[..., Recipe], undisturbed: Callable[[Recipe], RunFolder]
) -> None:
    class PressCtrlC(Callback):
        def on_train_batch_start(self, trainer: L.Trainer, *_: object) -> None:
            if trainer.global_step == 5:
                os.kill(os.getpid(), signal.SIGINT)

    recipe = recipe_of("supcon")
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(TrainingInterrupted, match="the same command continues"):
        train(recipe, tmp_path, callbacks=[PressCtrlC()], progress_bar=False)
    assert signal.getsignal(signal.SIGINT) is handler
    assert torch.load(RunFolder(tmp_path).last_checkpoint, weights_only=True)["global_step"] == 6
    assert_same(undisturbed(recipe), train(recipe, tmp_path, progress_bar=False))


def test_kill_minus_nine(
    tmp_path: Path,
    image_folder: Path,
    recipe_of: Callable[..., Recipe],
    undisturbed: Callable[[Recipe], RunFolder],
) -> None:
    """A real SIGKILL in a real process, then the same call again."""
    script = textwrap.dedent(f"""
        import os, signal, sys, torch
        from lightning.pytorch.callbacks import Callback
        from labeltree.training.fit import train
        from labeltree.training.read_recipes import read_recipe

        class Kill(Callback):
            def on_train_batch_end(self, trainer, *_):
                if trainer.global_step == 6:
                    os.kill(os.getpid(), signal.SIGKILL)

        torch.set_num_threads(1)
        kill = [Kill()] if sys.argv[1] == "kill" else []
        train(read_recipe({str(tmp_path / "recipe.yaml")!r}), {str(tmp_path / "run")!r}, callbacks=kill,
              progress_bar=False, every_n_steps=5)
    """)
    recipe = recipe_of("supcon")
    recipe.save(tmp_path / "recipe.yaml")
    killed = run_forked(script, ["kill"])
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    run_forked(script, ["go on"]).check_returncode()
    assert_same(undisturbed(recipe), RunFolder(tmp_path / "run"))


def test_moved_in_between(
    tmp_path: Path, recipe_of: Callable[..., Recipe], undisturbed: Callable[[Recipe], RunFolder]
) -> None:
    """The best epoch so far is remembered also when the run folder has been renamed."""
    recipe = recipe_of("simclr", epochs=3, optimizer__lr=0.3, optimizer__name="sgd")
    with pytest.raises(Stop):
        train(recipe, tmp_path / "old", callbacks=[StopAfter(9)], progress_bar=False, every_n_steps=1)
    (tmp_path / "old").rename(tmp_path / "new")
    assert_same(undisturbed(recipe), train(recipe, tmp_path / "new", progress_bar=False))


def test_killed_before_the_history_was_written(tmp_path: Path, recipe_of: Callable[..., Recipe]) -> None:
    recipe = recipe_of("supcon")
    with pytest.raises(Stop):
        train(recipe, tmp_path, callbacks=[StopAfter(8, "on_train_epoch_end")], progress_bar=False)
    folder = train(recipe, tmp_path, progress_bar=False)
    assert [row["epoch"] for row in folder.read_history()] == [0, 1]
