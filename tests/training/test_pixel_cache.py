"""Training without a pixel cache: nothing is decoded in advance, and the result is the same."""

import io
import logging
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from labeltree.data import ignore_cache, open_source
from labeltree.data.images import image_files as opening
from labeltree.errors import DataError, RunError
from labeltree.inference.run_embeddings import run_tables
from labeltree.runs import RunFolder
from labeltree.training import batches
from labeltree.training.fit import train
from labeltree.training.recipe import Recipe
from sweeps import long_unless, some_now

pytestmark = pytest.mark.slow


def shards_of(folder: Path, target: Path) -> Path:
    """The images of a folder as tar shards, with their folders as labels, in the order of the folder."""
    target.mkdir()
    files = [Path(file) for file in open_source(folder).files]
    for part in range(3):
        with tarfile.open(target / f"part-{part}.tar", "w") as tar:
            for number, file in list(enumerate(files))[part * 20 : part * 20 + 20]:
                label = str(file.relative_to(folder).parent).encode()
                for name, content in ((f"{number:04d}.png", file.read_bytes()), (f"{number:04d}.cls", label)):
                    info = tarfile.TarInfo(name)
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
    return target


def weights(run: RunFolder) -> dict[str, torch.Tensor]:
    """The weights of a run."""
    return run.load_weights()


def assert_equal_weights(first: RunFolder, second: RunFolder) -> None:
    """The weights of two runs are the same, bit for bit."""
    ours, theirs = weights(first), weights(second)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert torch.equal(value, theirs[name]), name


@pytest.mark.usefixtures("forked_loaders")
def test_the_pixels_and_what_is_learned_are_the_same(
    tmp_path: Path, image_folder: Path, recipe_of: Callable[..., Recipe]
) -> None:
    """Files or tar shards, decoded once or in loader processes."""
    shards = shards_of(image_folder, tmp_path / "shards")
    runs = [
        train(recipe_of(data=str(data), **settings), tmp_path / f"run{number}", progress_bar=False)
        for number, (data, settings) in enumerate(
            [
                (image_folder, {"pixel_cache": "always"}),
                (image_folder, {"pixel_cache": "never", "workers": 1}),
                (shards, {"pixel_cache": "never"}),
                (shards, {"pixel_cache": "always"}),
            ]
        )
    ]
    for run in runs[1:]:
        assert_equal_weights(runs[0], run)
    tables = [run_tables(run.path, ["trained"])[1]["trained"] for run in runs[2:]]
    assert torch.equal(tables[0].embeddings, tables[1].embeddings)


def test_nothing_is_decoded_in_advance(image_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "decode", None)
    source = open_source(image_folder, check=False, cache=False)
    assert len(source) == 60
    monkeypatch.setattr(opening.EncodedImages, "quick_digest", None)
    again = open_source(image_folder, check=False, cache=False)
    assert np.array_equal(source.sample_digests(), again.sample_digests())
    with pytest.raises(ValueError, match="cache is True, so all images are decoded now"):
        open_source(image_folder, check=False, cache=True)


@pytest.mark.parametrize("packed", long_unless([False, True], [True]))
def test_a_stopped_run_goes_on(
    packed: bool, tmp_path: Path, image_folder: Path, recipe_of: Callable[..., Recipe]
) -> None:
    """In the middle of an epoch, on files and on shards."""
    from lightning.pytorch.callbacks import Callback

    class Stop(Callback):
        def on_train_batch_end(self, trainer, *_):
            if trainer.global_step == 3:
                raise SystemExit

    data = shards_of(image_folder, tmp_path / "shards") if packed else image_folder
    recipe = recipe_of(data=str(data), pixel_cache="never", epochs=1)
    whole = train(recipe, tmp_path / "whole", progress_bar=False)
    with pytest.raises(BaseException, match="continues the run"):
        train(recipe, tmp_path / "run", callbacks=[Stop()], progress_bar=False, every_n_steps=1)
    resumed = train(recipe, tmp_path / "run", progress_bar=False)
    assert_equal_weights(whole, resumed)


def test_changed_contents_are_noticed(
    tmp_path: Path, image_folder: Path, recipe_of: Callable[..., Recipe], write_image: Callable[..., Path]
) -> None:
    folder = tmp_path / "photos"
    shutil.copytree(image_folder, folder)
    recipe = recipe_of(data=str(folder), pixel_cache="never", epochs=1)
    run = train(recipe, tmp_path / "run", progress_bar=False)
    files = sorted(folder.rglob("*.png"))
    for file in files:  # a copy of the data has other times
        file.touch()
    train(recipe, run.path, progress_bar=False, verify=True)
    with pytest.raises(RunError, match="pixel_cache is never, not auto"):
        train(recipe_of(data=str(folder), epochs=1), run.path, progress_bar=False)
    write_image(files[5], seed=1234, size=(16, 16))
    with pytest.raises(RunError, match=f"1 with another content .*{files[5].name}"):
        train(recipe, run.path, progress_bar=False, verify=True)
    with ignore_cache():
        assert len(open_source(folder, check=False, cache=False)) == 60


def break_images(folder: Path, every: int) -> list[Path]:
    """Make some images unreadable in their middle, which their size and ends do not show."""
    broken = sorted(folder.rglob("*.png"))[::every]
    for file in broken:
        file.write_bytes(b"no image at all")
    return broken


@pytest.mark.usefixtures("forked_loaders")
@pytest.mark.parametrize("workers", some_now([0, 1]))
def test_unreadable_images_are_replaced_in_their_batch(
    workers: int,
    tmp_path: Path,
    image_folder: Path,
    recipe_of: Callable[..., Recipe],
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = tmp_path / "photos"
    shutil.copytree(image_folder, folder)
    broken = break_images(folder, 7)
    recipe = recipe_of(data=str(folder), pixel_cache="never", workers=workers)
    with caplog.at_level(logging.WARNING, "labeltree.data"):
        run = train(recipe, tmp_path / "run", progress_bar=False)
    if not workers:
        assert f"{broken[0].name}' cannot be read: it is not an image" in caplog.text
        assert "Another sample takes its place" in caplog.text
    assert all(value.isfinite().all() for value in weights(run).values())
    loaded, tables = run_tables(run.path, ["trained"])
    lost = {str(file.relative_to(folder)) for file in broken}
    assert 0 < len(lost) < 60
    for name, node in zip(loaded.source.sample_names(), tables["trained"].nodes.tolist(), strict=True):
        assert (node == -1) == (name in lost)
    if workers:  # an error in a loader process: see test_loader_processes.py
        return
    again = train(recipe, tmp_path / "again", progress_bar=False)
    assert_equal_weights(run, again)
    with pytest.raises(DataError, match="cannot be read: it is not an image"):
        train(
            recipe_of(data=str(folder), pixel_cache="never", on_error="raise"),
            tmp_path / "raise",
            progress_bar=False,
        )


def test_missing_and_empty_images_are_found_at_once(tmp_path: Path, write_image: Callable[..., Path]) -> None:
    for number in range(6):
        write_image(tmp_path / "ab"[number % 2] / f"{number}.png", seed=number)
    (tmp_path / "a" / "0.png").write_bytes(b"")
    (tmp_path / "b" / "1.png").unlink()
    (tmp_path / "b" / "1.png").symlink_to("nowhere")
    with pytest.raises(DataError, match=r"2 of 6 images cannot be read: .*the file is empty.*no such file"):
        open_source(tmp_path, check=False, cache=False)
    source = open_source(tmp_path, check=False, cache=False, on_error="skip")
    assert len(source) == 4
    assert source.load([3]).shape == (1, 3, 8, 8)


def test_replacements() -> None:
    taken, again = batches._replacements(6, [0, 5, 2])
    assert taken.tolist() == [1, 1, 3, 3, 4, 1]
    assert again.tolist() == [1, 0, 1, 0, 0, 2]
    with pytest.raises(DataError, match="none of the 2 images of a batch"):
        batches._replacements(2, [0, 1])
