"""A folder as it comes from a telephone and a network drive: trained on, predicted, its faults listed."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from labeltree.cli.main import main
from labeltree.runs import RunFolder
from labeltree.training.fit import train
from labeltree.training.recipe import Recipe

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("cache_folder")
def test_leftovers_are_no_classes_and_broken_files_are_listed(
    tmp_path: Path,
    make_image_folder: Callable[..., Path],
    recipe_of: Callable[..., Recipe],
    capsys: pytest.CaptureFixture[str],
) -> None:
    photos = make_image_folder(tmp_path / "photos")
    for name in ("__MACOSX/._a.png", "@eaDir/a.png/SYNOPHOTO_THUMB_XL.jpg", "plant/rose/Thumbs.db", "new/.x"):
        (photos / name).parent.mkdir(parents=True, exist_ok=True)
        (photos / name).write_bytes(b"\0")
    for number in range(7):
        (photos / "plant" / "rose" / f"broken{number}.jpg").write_bytes(b"no image")
    Image.open(photos / "plant/rose/000.png").save(photos / "plant/rose/a.avif")
    run = train(recipe_of(data=str(photos), epochs=1), tmp_path / "run", progress_bar=False)
    rows = list(csv.DictReader(run.unreadable.open(encoding="utf-8")))
    assert [Path(row["name"]).name for row in rows] == [f"broken{number}.jpg" for number in range(7)]
    assert {row["reason"] for row in rows} == {"it is not an image in a format that can be read"}
    summary = json.loads(run.data.read_text("utf-8"))
    assert "1 folder holds no image and is not a class: 'new'" in summary["notes"]
    (lost,) = [note for note in summary["notes"] if "cannot be read" in note]
    assert lost.startswith("7 of 68 images cannot be read: ")
    assert lost.endswith("(unreadable.csv in the run folder lists the 7 that cannot be read)")
    assert run.load_taxonomy().names[1:] == [
        *("animal", "cat", "tabby", "dog", "beagle", "poodle"),
        *("plant", "fern", "rose"),
    ]
    capsys.readouterr()
    out = tmp_path / "answers.csv"
    assert main(["predict", str(run.path), str(photos), "--coverage", "0.5", "--out", str(out)]) == 1
    said = capsys.readouterr().err
    assert "no answer for 7 of 68 samples" in said
    assert f"their rows in '{out}' say why, the others are answered" in said
    answers = list(csv.DictReader(out.open(encoding="utf-8")))
    assert sum(bool(row["problem"]) for row in answers) == 7
    assert not any("eaDir" in row["sample"] or "MACOSX" in row["sample"] for row in answers)
    assert RunFolder(run.path).unreadable.is_file()
