"""A run on images and one on texts, for services."""

from collections.abc import Callable
from pathlib import Path

import pytest

import labeltree as lt

WORDS = {"animal,dog": "barks bone kennel", "animal,cat": "purrs mouse sofa", "plant,oak": "acorn trunk leaf"}


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory, make_image_folder: Callable[..., Path]) -> Path:
    return make_image_folder(tmp_path_factory.mktemp("serving") / "photos")


@pytest.fixture(scope="session")
def image_run(photos: Path, make_image_folder: Callable[..., Path]) -> Path:
    # Of other images: those that it is calibrated on lie at the thresholds, where rounding would decide.
    trained_on = make_image_folder(photos.parent / "trained on", seed=7)
    settings = {"epochs": 1, "batch_size": 16, "image_size": 28, "val": 0.3}
    out = photos.parent / "run"
    return lt.train(
        trained_on,
        "hwc+lam",
        out=out,
        encoder="small-conv",
        accelerator="cpu",
        progress_bar=False,
        **settings,
    ).path


@pytest.fixture(scope="module")
def text_run(tmp_path_factory: pytest.TempPathFactory, few_words: None) -> Path:
    folder = tmp_path_factory.mktemp("notes")
    rows = [
        f"{a} {b} today,{label}" for label, said in WORDS.items() for a in said.split() for b in said.split()
    ]
    (folder / "notes.csv").write_text("\n".join(["text,depth1,depth2", *(3 * rows)]))
    return lt.train(
        folder / "notes.csv",
        "ce",
        out=folder / "run",
        encoder="small-text",
        epochs=1,
        val=0.4,
        accelerator="cpu",
        progress_bar=False,
    ).path
