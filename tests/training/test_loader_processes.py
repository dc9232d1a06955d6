"""Loader processes: texts are read in them, and what goes wrong there is told as if it went wrong here."""

import csv
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from labeltree.data.images.stores import FileStore
from labeltree.errors import DataError
from labeltree.training import fit
from labeltree.training.experiment import prepare
from labeltree.training.recipe import Recipe

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("forked_loaders")
def test_an_error_in_a_loader_process_is_raised_as_it_is(
    tmp_path: Path, image_folder: Path, recipe_of: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not as one of the loader, whose message is the traceback."""
    folder = tmp_path / "photos"
    shutil.copytree(image_folder, folder)

    def harmed(*arguments: object) -> object:
        experiment = prepare(*arguments)
        experiment.batches.inputs = FileStore(
            experiment.source.files, 28, 3
        )  # as where the cache has no room
        for file in folder.rglob("*.png"):
            file.write_bytes(b"no image")
        return experiment

    monkeypatch.setattr(fit, "prepare", harmed)
    with pytest.raises(DataError, match=r"^the image '[^\n]*png' cannot be read any more: [^\n]+$"):
        fit.train(recipe_of(data=str(folder), workers=1), tmp_path / "run", progress_bar=False)
    assert not (tmp_path / "run" / "recipe.yaml").exists()  # nothing was learned: nothing bars the way


@pytest.mark.usefixtures("forked_loaders")
def test_texts_in_a_loader_process(tmp_path: Path, recipe_of: Callable[..., Recipe]) -> None:
    table = tmp_path / "texts.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows([f"word{n % 5} word{n % 7} word{n}", "ab"[n % 2]] for n in range(60))
    settings = {"data": str(table), "encoder": "small-text", "image_size": "null", "batch_size": 60}
    batches = [
        next(iter(prepare(recipe_of(**settings, workers=workers)).batches.train_dataloader()))
        for workers in (0, 1)
    ]
    for name, value in batches[0].items():
        assert torch.equal(torch.as_tensor(value), torch.as_tensor(batches[1][name])), name
