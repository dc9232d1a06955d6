"""An image vanishes while a run trains: the run says which, keeps its state, and goes on from there."""

import os

import lightning as L
import pytest

from labeltree.data.images import image_files as opened_files
from labeltree.errors import DataError
from labeltree.training.fit import train
from labeltree.training.read_recipes import RecipeParser

pytestmark = pytest.mark.slow


class Vanishing(L.Callback):
    """Moves a file away when an epoch begins."""

    def __init__(self, path, epoch):
        self.path, self.epoch = path, epoch

    def on_train_epoch_start(self, trainer, pl_module):
        if trainer.current_epoch == self.epoch:
            self.path.rename(self.path.with_suffix(".away"))


def test_the_state_before_is_kept_and_the_run_goes_on(tmp_path, write_image, monkeypatch):
    monkeypatch.setattr(opened_files, "_CACHE_BYTES", 0)  # images are read from their files in every epoch
    for number in range(24):
        write_image(tmp_path / "photos" / "ab"[number % 2] / f"{number}.png", number)
    settings = {"data": tmp_path / "photos", "objective": "supcon", "encoder": "small-conv", "epochs": 3}
    arguments = [f"--{key}={value}" for key, value in {**settings, "batch_size": 8, "image_size": 8}.items()]
    recipe = RecipeParser("supcon").recipe(arguments)
    victim = tmp_path / "photos" / "a" / "4.png"
    with pytest.raises(
        DataError, match=r"^the image '.*/a/4\.png' cannot be read any more: there is no such"
    ):
        train(recipe, tmp_path / "run", callbacks=[Vanishing(victim, 1)], progress_bar=False)
    reached = (tmp_path / "run" / "history.csv").read_text().splitlines()
    assert len(reached) == 2  # the header and the first epoch
    os.rename(victim.with_suffix(".away"), victim)
    folder = train(recipe, tmp_path / "run", progress_bar=False)
    assert folder.encoder.is_file()
    history = (tmp_path / "run" / "history.csv").read_text().splitlines()
    assert history[:2] == reached
    assert len(history) == 4
