"""A run knows its samples by name and content: what has changed is refused by name, what has not is taken."""

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from labeltree.cli.main import main
from labeltree.data.images import image_files as opened_files
from labeltree.errors import OtherSettingsError, RunError
from labeltree.inference.load_run import load_run
from labeltree.runs import RunFolder, SampleRecord
from labeltree.training.callbacks.checkpoints import Checkpoints
from labeltree.training.fit import train
from labeltree.training.recipe import Recipe
from sweeps import some_now

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_words")]


WORDS = ["--objective=supcon", "--encoder=small-conv", "--epochs=1", "--batch_size=9", "--accelerator=cpu"]
WORDS += ["--image_size=28", "--quiet", "--val=0.2"]


class Stop(RuntimeError):
    """The power fails."""


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Train until the first epoch is saved, and no further."""

    def run(recipe: Recipe, folder: Path) -> Path:
        with monkeypatch.context() as patch:
            end = Checkpoints.on_train_epoch_end

            def stop(self: Checkpoints, *arguments: object) -> None:
                end(self, *arguments)  # type: ignore[arg-type]
                raise Stop

            patch.setattr(Checkpoints, "on_train_epoch_end", stop)
            with pytest.raises(Stop):
                train(recipe, folder, progress_bar=False)
        return folder

    return run


@pytest.fixture(scope="module")
def trained_once(image_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A finished run and its photos; tests copy both."""
    place = tmp_path_factory.mktemp("trained")
    shutil.copytree(image_folder, place / "photos")
    assert main(["train", f"--data={place / 'photos'}", f"--out={place / 'run'}", *WORDS]) == 0
    return place / "photos", place / "run"


@pytest.fixture
def finished(trained_once: tuple[Path, Path]) -> Iterator[tuple[Path, Path]]:
    """The same, put back after the test as it was."""
    photos, run = trained_once
    kept = photos.with_name("kept"), run.with_name("kept-run")
    shutil.copytree(photos, kept[0])
    shutil.copytree(run, kept[1])
    yield photos, run
    for now, before in zip((photos, run), kept, strict=True):
        shutil.rmtree(now, ignore_errors=True)
        before.rename(now)


def images_of(photos: Path) -> list[Path]:
    return sorted(photos.rglob("*.png"))


def blacken(photos: Path, *, unseen: bool = False) -> None:
    """Make all images black; unseen: the files keep their size and time of change."""
    for path in images_of(photos):
        status = path.stat()
        black = Image.new("RGB", Image.open(path).size)
        black.save(path)
        if unseen:
            assert path.stat().st_size < status.st_size
            with path.open("ab") as file:  # what follows the image is not read
                file.write(bytes(status.st_size - path.stat().st_size))
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_one_renamed_image_of_each_class(
    finished: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The order of the files moves, and with it who would be drawn for the test."""
    photos, run = finished
    folders = sorted({path.parent for path in images_of(photos)})
    for folder in folders:
        (folder / "000.png").rename(folder / "zz.png")
    for words in (["evaluate"], ["embed"], ["calibrate", "--verify"], ["predict", "--split=test"]):
        assert main([words[0], str(run), *words[1:]]) == 2
        said = capsys.readouterr().err
        assert "5 renamed ('animal/cat/tabby/000.png' is now 'animal/cat/tabby/zz.png', " in said
        assert "and 2 more" in said
        assert "put them back" in said
        assert len(said.splitlines()) == 1
    assert not (run / "metrics.json").exists()


def test_all_pixels_black_between_a_kill_and_the_resume(
    image_folder: Path, tmp_path: Path, recipe_of: Callable[..., Recipe], stopped: Callable[..., Path]
) -> None:
    shutil.copytree(image_folder, tmp_path / "photos")
    recipe = recipe_of("supcon", data=str(tmp_path / "photos"))
    run = stopped(recipe, tmp_path / "run")
    blacken(tmp_path / "photos")
    with pytest.raises(RunError, match=r"60 with another content \('animal/cat/tabby/000\.png', "):
        train(recipe, run, progress_bar=False)
    assert not RunFolder(run).encoder.is_file()
    shutil.rmtree(tmp_path / "photos")
    shutil.copytree(image_folder, tmp_path / "photos")
    assert train(recipe, run, progress_bar=False).encoder.is_file()


@pytest.mark.parametrize("kept", some_now([True, False]))
def test_black_pixels_of_the_same_size_and_time_are_found_by_verify(
    kept: bool,
    image_folder: Path,
    tmp_path: Path,
    recipe_of: Callable[..., Recipe],
    stopped: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "cache"))
    if not kept:  # no room for pixels: files are decoded in every epoch
        monkeypatch.setattr(opened_files, "_CACHE_BYTES", 0)
    shutil.copytree(image_folder, tmp_path / "photos")
    recipe = recipe_of("supcon", data=str(tmp_path / "photos"))
    run = stopped(recipe, tmp_path / "run")
    blacken(tmp_path / "photos", unseen=True)
    with pytest.raises(RunError, match="60 with another content"):
        train(recipe, run, progress_bar=False, verify=True)
    with pytest.raises(RunError, match="60 with another content"):  # what was kept has been put right
        train(recipe, run, progress_bar=False)


def test_evaluate_verifies(finished: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    photos, run = finished
    assert main(["evaluate", str(run), "--verify", "--quiet"]) == 0
    blacken(photos, unseen=True)
    capsys.readouterr()
    assert main(["evaluate", str(run), "--verify", "--quiet"]) == 2
    assert "60 with another content" in capsys.readouterr().err
    again = ["train", "--config", str(run / "recipe.yaml"), "--out", str(run), "--quiet"]
    for words in (again, [*again, "--verify"]):
        assert main(words) == 2
        assert "60 with another content" in capsys.readouterr().err


def test_every_command_on_the_own_samples_verifies(
    finished: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    photos, run = finished
    assert main(["calibrate", str(run), "--verify"]) == 0
    blacken(photos, unseen=True)
    for words in (["embed"], ["calibrate"], ["predict", "--split=test"]):
        again = [words[0], str(run), *words[1:]]
        capsys.readouterr()
        assert main([*again, "--verify"]) == 2
        assert "60 with another content" in capsys.readouterr().err
    image = str(images_of(photos)[0])
    for other in (["embed", "--data", image], ["calibrate", "--data", image], ["predict", image]):
        assert main([other[0], str(run), *other[1:], "--verify"]) == 2
        assert "--verify is about the run's own samples" in capsys.readouterr().err


def test_what_was_only_touched_or_moved_as_a_whole_is_the_same(
    finished: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    photos, run = finished
    for number, path in enumerate(images_of(photos)):
        os.utime(path, ns=(0, 10**18 + number))
    assert len(load_run(run).source) == 60
    elsewhere = photos.with_name("elsewhere")
    photos.rename(elsewhere)
    try:
        assert main(["evaluate", str(run), "--quiet"]) == 2
        said = capsys.readouterr().err
        assert f"no longer at '{photos}'" in said
        advice = re.search(r"'labeltree (train --config \S+ --data) PLACE (--out \S+)'", said)
        assert advice is not None
        words = [*advice[1].split(), str(elsewhere), *advice[2].split(), "--quiet"]
        weights = (run / "encoder.safetensors").read_bytes()
        assert main(words) == 0
        assert (run / "encoder.safetensors").read_bytes() == weights
        assert json.loads((run / "model.json").read_text())["settings"]["data"] == str(elsewhere)
        assert len(load_run(run).source) == 60
        (elsewhere / "plant" / "rose" / "003.png").unlink()
        shutil.copytree(elsewhere, photos)
        words[words.index(str(elsewhere))] = str(photos)
        with pytest.raises(OtherSettingsError, match=r"on other data .*1 gone or unreadable"):
            train_by(words)
    finally:
        shutil.rmtree(elsewhere)


def test_after_a_move_the_first_command_is_still_that_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The recipe keeps what was asked for; what was chosen for it compares equal all the same."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    labels = np.repeat(["animal/dog", "animal/cat", "plant/oak", "plant/fern"], 15)
    Path("a").mkdir()
    np.savez("a/v.npz", vectors=rng.normal(size=(60, 8)).astype(np.float32), labels=labels)
    first = ["train", "--data", "a/v.npz", "--objective", "auto", "--epochs", "1", "--quiet", "--out", "run"]
    assert main(first) == 0
    recipe = Path("run/recipe.yaml").read_text()
    assert "objective: auto" in recipe
    Path("a").rename("b")
    moved = ["train", "--config", "run/recipe.yaml", "--data", "b/v.npz", "--out", "run", "--quiet"]
    assert main(moved) == 0
    assert Path("run/recipe.yaml").read_text() == recipe.replace("/a/v.npz", "/b/v.npz")
    Path("b").rename("a")
    assert main(first) == 0
    assert Path("run/recipe.yaml").read_text() == recipe
    assert capsys.readouterr().out.count("the run was complete") == 2
    assert main([*first, "--head.dim", "7"]) == 2
    assert "give another --out\n" in capsys.readouterr().err, "no advice to delete a complete run"


def train_by(words: list[str]) -> None:
    """As `main` does, with its error."""
    from labeltree.cli.commands import train_command as command

    command.run(words[1:])


def test_each_kind_of_change_is_named(finished: tuple[Path, Path]) -> None:
    photos, run = finished
    rose, fern = photos / "plant" / "rose", photos / "plant" / "fern"
    (rose / "001.png").unlink()
    (rose / "002.png").rename(fern / "other.png")
    shutil.copy(rose / "003.png", rose / "004.png")
    with pytest.raises(RunError) as caught:
        load_run(run)
    said = str(caught.value)
    assert "1 renamed ('plant/rose/002.png' is now 'plant/fern/other.png')" in said
    assert "1 gone or unreadable ('plant/rose/001.png')" in said
    assert "1 with another content ('plant/rose/004.png')" in said
    assert "split" not in said


def test_added_images_move_no_other(
    finished: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
    recipe_of: Callable[..., Recipe],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The splits of a run are its own; drawn anew, one image more would part them otherwise."""
    photos, run = finished
    before = load_run(run).source
    shutil.copy(images_of(photos)[0], photos / "animal" / "000.png")
    Image.new("RGB", (40, 90)).save(photos / "plant" / "fern" / "000a.png")
    (photos / "plant" / "moss").mkdir()
    Image.new("RGB", (28, 28)).save(photos / "plant" / "moss" / "0.png")
    after = load_run(run).source
    assert "had 60 samples" in caplog.text
    assert "has 63 now" in caplog.text
    assert before.sample_names() == after.sample_names()
    assert before.taxonomy == after.taxonomy
    assert torch.equal(before.instances, after.instances)
    assert torch.equal(before.nodes, after.nodes)
    assert before.split is not None
    assert after.split is not None
    assert (before.split == after.split).all()
    assert torch.equal(before.load(range(60)), after.load(range(60)))
    (photos / "plant" / "moss" / "broken.png").write_bytes(b"no image")
    (note,) = (note for note in load_run(run).source.notes if "cannot be read" in note)
    assert note.startswith("1 of 64 images cannot be read")
    assert note.endswith("(as the data are now, with 63 samples; the run began with 60)")
    capsys.readouterr()
    assert main(["evaluate", str(run), "--quiet"]) == 0


def test_the_command_of_a_finished_run_again(
    finished: tuple[Path, Path], capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """It checks the samples as `evaluate` does, and names the command that trains on those of today."""
    photos, run = finished
    again = ["train", f"--data={photos}", f"--out={run}", *WORDS]
    assert main(again) == 0
    said = capsys.readouterr()
    assert said.out.startswith("the run was complete: nothing was trained anew\n")
    assert said.err == ""
    (photos / "plant" / "moss").mkdir()
    shutil.copy(images_of(photos)[0], photos / "plant" / "moss" / "0.png")
    elsewhere = f"'labeltree train --config {run}/recipe.yaml --out {run}-2'"
    for words in (again, [*again, "--verify"]):
        assert main(words) == 0
        assert "nothing was trained anew" in capsys.readouterr().out
        assert "had 60 samples" in caplog.text
        assert "has 61 now (1 new); the run keeps its own samples" in caplog.text
        assert f"To train on all, name another --out: {elsewhere}" in caplog.text
        caplog.clear()
    (photos / "plant" / "rose" / "002.png").rename(photos / "plant" / "fern" / "other.png")
    for words in (again, ["evaluate", str(run)]):
        assert main(words) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert "1 renamed ('plant/rose/002.png' is now 'plant/fern/other.png')" in said.err
        assert f"train on the data as they are now into another --out: {elsewhere}" in said.err
    shutil.rmtree(photos)
    assert main(again) == 0  # it answers without them


def test_an_added_image_is_refused_by_a_resume(
    image_folder: Path, tmp_path: Path, recipe_of: Callable[..., Recipe], stopped: Callable[..., Path]
) -> None:
    shutil.copytree(image_folder, tmp_path / "photos")
    recipe = recipe_of("supcon", data=str(tmp_path / "photos"))
    run = stopped(recipe, tmp_path / "run")
    shutil.copy(images_of(image_folder)[0], tmp_path / "photos" / "plant" / "fern" / "000a.png")
    with pytest.raises(RunError, match=r"1 new \('plant/fern/000a\.png'\)"):
        train(recipe, run, progress_bar=False)
    (tmp_path / "photos" / "plant" / "fern" / "000a.png").unlink()
    (tmp_path / "photos" / "plant" / "moss").mkdir()  # a folder without images is no class
    shutil.copy(images_of(image_folder)[0], tmp_path / "photos" / "plant" / "moss" / "000.png")
    with pytest.raises(RunError, match=r"taxonomy .* is no longer .* \(new: 'plant/moss'\)"):
        train(recipe, run, progress_bar=False)


def test_other_samples_need_no_data_of_the_run(
    finished: tuple[Path, Path], tmp_path: Path, image_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photos, run = finished
    assert main(["calibrate", str(run)]) == 0
    one = str(images_of(image_folder)[0])
    assert main(["predict", str(run), one, "--coverage=0.8"]) == 0
    answered = capsys.readouterr().out
    shutil.rmtree(photos)
    assert main(["predict", str(run), one, "--coverage=0.8"]) == 0
    assert capsys.readouterr().out in answered
    others = ["--data", str(image_folder), "--out", str(tmp_path / "others.npz")]
    assert main(["embed", str(run), *others]) == 0
    with np.load(tmp_path / "others.npz") as table:
        assert len(table["embeddings"]) == 60
    assert main(["predict", str(run), "--split", "test"]) == 2
    assert "no longer at" in capsys.readouterr().err
    photos.mkdir()


def test_runs_without_a_record_still_open(
    finished: tuple[Path, Path], caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    photos, run = finished
    with np.load(run / "samples.npz") as archive:
        old = {name: archive[name] for name in ("instances", "nodes", "split")}
    np.savez(run / "samples.npz", **old)
    source = load_run(run).source
    assert "cannot be checked" in caplog.text
    assert (source.split == old["split"]).all()
    caplog.clear()
    assert main(["train", "--config", str(run / "recipe.yaml"), "--out", str(run), "--quiet"]) == 0
    images_of(photos)[0].unlink()
    with pytest.raises(RunError, match="have changed since the run"):
        load_run(run)


def test_a_record_says_what_it_cannot_be_read_for(finished: tuple[Path, Path]) -> None:
    _, run = finished
    path = RunFolder(run).samples
    record = SampleRecord.load(path)
    assert record.names is not None
    assert record.names[0] == "animal/cat/tabby/000.png"
    assert set(record.split) == {"train", "val", "test"}
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(RunError, match=r"samples\.npz' cannot be read as the samples of a run"):
        load_run(run)
    path.unlink()
    with pytest.raises(RunError, match=r"there is no '.*samples\.npz'"):
        load_run(run)


def test_runs_on_other_samples_of_the_same_ids_are_not_compared(
    finished: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two folders with as many images a class: ids and labels alone would pair the ones with the others."""
    photos, run = finished
    shutil.copytree(photos, tmp_path / "photos")
    for path in images_of(tmp_path / "photos"):
        Image.open(path).transpose(Image.Transpose.ROTATE_180).save(path)
    words = ["--config", str(run / "recipe.yaml"), "--data", str(tmp_path / "photos")]
    assert main(["train", *words, "--out", str(tmp_path / "run"), "--quiet"]) == 0
    for folder in (run, tmp_path / "run"):
        assert main(["evaluate", str(folder), "--quiet"]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(run), "--beside", str(tmp_path / "run"), "--quiet"]) == 2
    assert "cannot stand beside" in capsys.readouterr().err
    assert main(["compare", str(run), str(tmp_path / "run"), "--out", str(tmp_path / "compared")]) == 2
    assert "different samples under the same ids" in capsys.readouterr().err


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Texts of two classes, a group for every two rows."""
    words = {"cat": "purrs miaows hunts mice", "oak": "acorn leaf bark root"}
    frame = pd.DataFrame(
        {
            "text": [f"{text} number {n}" for text in words.values() for n in range(15)],
            "label": [name for name in words for _ in range(15)],
            "group": [n // 2 for n in range(30)],
            "split": ["train", "train", "train", "val", "test"] * 6,
        }
    )
    frame.drop(columns="group").to_csv(tmp_path / "notes.csv", index=False)
    return tmp_path / "notes.csv"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("text", 3, "something else"), r"1 with another content \('line 5'\)"),
        (("label", 3, "oak"), r"1 with another label \('line 5' was 'cat', is 'oak'\)"),
        (("split", 0, "test"), r"1 moved to another split \('line 2' from training to test\)"),
        (("split", 4, "train"), r"1 moved to another split \('line 6' from test to training\)"),
    ],
)
def test_texts_of_a_table(
    change: tuple[str, int, str],
    said: str,
    notes: Path,
    tmp_path: Path,
    recipe_of: Callable[..., Recipe],
    stopped: Callable[..., Path],
) -> None:
    recipe = recipe_of(
        "supcon", data=str(notes), encoder="small-text", image_size="null", epochs=1, batch_size=8
    )
    run = stopped(recipe, tmp_path / "run")
    frame = pd.read_csv(notes)
    content = notes.read_bytes()
    column, row, value = change
    frame.loc[row, column] = value
    frame.to_csv(notes, index=False)
    with pytest.raises(RunError, match=said):
        train(recipe, run, progress_bar=False)
    notes.write_bytes(content)
    train(recipe, run, progress_bar=False)
    load_run(run)
    frame.to_csv(notes, index=False)
    with pytest.raises(RunError, match=said):
        load_run(run)


def test_a_run_of_an_earlier_version_keeps_the_names_of_its_rows(
    notes: Path, tmp_path: Path, recipe_of: Callable[..., Recipe], stopped: Callable[..., Path]
) -> None:
    """They were counted from the header, and are lines of the file now."""
    recipe = recipe_of(
        "supcon", data=str(notes), encoder="small-text", image_size="null", epochs=1, batch_size=8
    )
    run = stopped(recipe, tmp_path / "run")
    folder = RunFolder(run)
    record = folder.load_samples()
    assert record.names is not None
    former = [f"row {int(name.removeprefix('line ')) - 1}" for name in record.names]
    dataclasses.replace(record, names=former).save(folder.samples)
    train(recipe, run, progress_bar=False)
    assert load_run(run).source.sample_names() == former


def test_images_of_a_table(
    image_folder: Path, tmp_path: Path, recipe_of: Callable[..., Recipe], caplog: pytest.LogCaptureFixture
) -> None:
    """Rows that are put elsewhere are the same samples; rows whose groups are others are not."""
    shutil.copytree(image_folder, tmp_path / "photos")
    paths = images_of(tmp_path / "photos")
    frame = pd.DataFrame(
        {
            "image": [str(path.relative_to(tmp_path)) for path in paths],
            "label": ["/".join(path.parent.relative_to(tmp_path / "photos").parts) for path in paths],
            "group": [number // 2 for number in range(60)],
        }
    )
    table = tmp_path / "table.csv"
    frame.to_csv(table, index=False)
    run = train(recipe_of("supcon", data=str(table), epochs=1), tmp_path / "run", progress_bar=False).path
    before = load_run(run).source
    caplog.clear()
    frame.iloc[::-1].to_csv(table, index=False)
    after = load_run(run).source
    assert before.sample_names() == after.sample_names()
    assert torch.equal(before.load(range(60)), after.load(range(60)))
    assert not caplog.text
    frame["group"] = [(number + 1) // 2 for number in range(60)]
    frame.to_csv(table, index=False)
    with pytest.raises(RunError, match="in another group"):
        load_run(run)


def test_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe_of: Callable[..., Recipe]) -> None:
    """Images of a named data set that are rows of one array."""
    import dataclasses
    from functools import partial

    from labeltree.data import ArrayStore, Source
    from labeltree.data import named_data as registry
    from labeltree.taxonomy import Taxonomy

    pixels = np.random.default_rng(0).integers(0, 256, (40, 28, 28), dtype=np.uint8)

    def opened(images: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> Source:
        tree = Taxonomy.from_paths(["a", "b"])
        rows = torch.arange(40)
        return Source("squares", tree, tree.encode(["a", "b"] * 20), rows, ArrayStore(images), rows)

    entry = registry.DatasetEntry("squares", "", "", "", partial(opened, pixels), None)
    monkeypatch.setitem(registry._entries, "squares", entry)
    recipe = recipe_of("supcon", data="squares", epochs=1, limit=20)
    run = train(recipe, tmp_path / "run", progress_bar=False).path
    load_run(run)
    record = SampleRecord.load(RunFolder(run).samples)
    used, unused = int(record.instances[0]), next(iter({*range(40)} - {*record.instances.tolist()}))
    for changed, refused in ((unused, False), (used, True)):
        other = pixels.copy()
        other[changed, 0, 0] ^= 1
        entry = dataclasses.replace(entry, opener=partial(opened, other))
        monkeypatch.setitem(registry._entries, "squares", entry)
        if refused:
            with pytest.raises(RunError, match=rf"1 with another content \('sample {used}'\)"):
                load_run(run)
        else:
            load_run(run)


def test_a_run_reads_the_columns_of_texts_that_it_was_trained_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Earlier runs read a description without the title beside it, and their recipes leave it open."""
    rows = [
        f"a {kind} of {i},what is said of the {kind} number {i},{kind}" for i in range(40) for kind in "xyz"
    ]
    table = tmp_path / "rows.csv"
    table.write_text("\n".join(["title,description,label", *rows]))
    words = [
        "train",
        "--data",
        str(table),
        "--out",
        str(tmp_path / "run"),
        "--encoder",
        "small-text",
        "--epochs",
    ]
    words += ["1", "--batch_size", "8", "--objective", "ce", "--accelerator", "cpu", "--quiet"]
    assert main([*words, "--table.text_column", "description"]) == 0
    recipe = tmp_path / "run" / "recipe.yaml"
    text = recipe.read_text("utf-8")
    assert "text_column: description" in text
    recipe.write_text(text.replace("text_column: description", "text_column: null"), "utf-8")
    assert load_run(tmp_path / "run").source.columns["texts"] == ("description",)
    assert main(words) == 0
    assert main(["predict", str(tmp_path / "run"), "--split", "test"]) == 0
