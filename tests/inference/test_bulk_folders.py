"""Bulk jobs find the images of tables whose images lie in a folder of their own."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from PIL import Image

from labeltree.errors import DataError
from labeltree.inference.bulk.bulk_samples import BulkSamples
from labeltree.inference.load_run import TrainedRun
from labeltree.training.recipe import TableRecipe


def draw(*files: Path) -> None:
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4)).save(file)


def table(folder: Path, image: str = "image") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "seen.csv"
    file.write_text(f"id,{image},label\n0,gone.jpg,a\n1,1.jpg,a\n")
    return file


@pytest.fixture(params=["{id}.jpg", None])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return {"image_folder": str(tmp_path / "photos"), "image_name": request.param}


def samples(settings: dict[str, Any], trained: Path, data: Path) -> list[Path]:
    """The images that are there, for a run on the table ``trained``."""
    recipe = SimpleNamespace(data=str(trained), missing_labels=(), table=TableRecipe(**settings))
    run = SimpleNamespace(
        recipe=recipe,
        taxonomy=None,
        change=None,
        columns={"images": () if settings["image_name"] else ("image",)},
        network=SimpleNamespace(encoder=SimpleNamespace(modality="image")),
    )
    found = BulkSamples(cast(TrainedRun, run), str(data), labelled=False).stream()
    return [one.content for one in found if isinstance(one.content, Path) and one.content.is_file()]


def test_the_table_of_training(tmp_path: Path, settings: dict[str, Any]) -> None:
    file = table(tmp_path / "a")
    draw(tmp_path / "photos" / "1.jpg", tmp_path / "a" / "1.jpg")
    assert samples(settings, file, file) == [tmp_path / "photos" / "1.jpg"]


def test_another_table(tmp_path: Path, settings: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """Its images lie beside it, or in the folder of training; else the error says where they were sought."""
    file, other = table(tmp_path / "a"), table(tmp_path / "b")
    with pytest.raises(DataError, match=r"another table .* rows has an image in '.*b' or '.*photos'; put"):
        samples(settings, file, other)
    draw(tmp_path / "photos" / "1.jpg")
    with caplog.at_level(logging.WARNING):
        assert samples(settings, file, other) == [tmp_path / "photos" / "1.jpg"]
    assert "photos', the image_folder of the run's training" in caplog.text
    draw(tmp_path / "b" / "1.jpg")
    assert samples(settings, file, other) == [tmp_path / "b" / "1.jpg"]


def test_a_table_without_rows(tmp_path: Path, settings: dict[str, Any]) -> None:
    file, other = table(tmp_path / "a"), table(tmp_path / "b")
    other.write_text("id,image,label\n")
    assert samples(settings, file, other) == []
