"""Features of frozen encoders: computed once, kept on disk, found again only where nothing has changed."""

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from labeltree.data.images.stores import FileStore
from labeltree.errors import DataError
from labeltree.inference.embeddings import embed_source
from labeltree.training.experiment import Experiment, prepare
from labeltree.training.frozen import FeatureFile, encode_rows, use_precomputed_features
from labeltree.training.recipe import Recipe

pytestmark = pytest.mark.slow


@pytest.fixture
def features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache" / "features"


def frozen(recipe_of: Callable[..., Recipe], **settings: object) -> Experiment:
    return prepare(recipe_of("supcon", trainable="head", views="identity", **settings))


def encoded(experiment: Experiment, rows: list[int]) -> torch.Tensor:
    return encode_rows(experiment.network, experiment.source, experiment.batches.inputs, torch.tensor(rows))


def test_kept_and_completed(
    recipe_of: Callable[..., Recipe], features: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = frozen(recipe_of, adapter=5)
    inputs = experiment.batches.inputs
    first = encoded(experiment, [3, 1, 4])
    images = experiment.source.store.load(torch.tensor([3, 1, 4]))
    encoder = experiment.module.encoder.without_adapter
    with torch.no_grad():
        torch.testing.assert_close(first, encoder(experiment.module.plain(images, torch.arange(3))))
    calls = []
    load = inputs.load
    monkeypatch.setattr(inputs, "load", lambda rows: calls.append(rows.tolist()) or load(rows))
    both = encoded(experiment, [1, 5, 3])
    assert [rows for rows in calls if len(rows) < 60] == [[5]]  # all of them are read for the key alone
    assert torch.equal(both[[2, 0]], first[:2])
    (kept,) = features.iterdir()
    kept.write_bytes(b"damaged")
    torch.testing.assert_close(encoded(experiment, [3, 1, 4]), first)
    use_precomputed_features(experiment)
    store = pickle.loads(pickle.dumps(experiment.batches.inputs))  # as loader processes get it
    assert torch.equal(store.load(torch.tensor([3, 1, 4])), first)
    table = embed_source(experiment.network, experiment.source)
    assert table.features.shape[1] == 5


def test_other_weights_other_samples_and_other_pixels_are_other_features(
    recipe_of: Callable[..., Recipe], features: Path, image_folder: Path
) -> None:
    def files_after(experiment: Experiment) -> int:
        encoded(experiment, [0])
        return len(list(features.iterdir()))

    experiment = frozen(recipe_of)
    assert files_after(experiment) == 1
    assert files_after(frozen(recipe_of, epochs=1, limit=20)) == 1
    assert files_after(frozen(recipe_of, seed=1)) == 2  # a fresh encoder has weights of its own
    assert files_after(frozen(recipe_of, image_size=20)) == 3
    experiment.module.views.plain.mean = experiment.module.views.plain.std = torch.full((3,), 0.5)
    assert files_after(experiment) == 4


def test_files_that_are_decoded_on_demand_are_told_apart(tmp_path: Path) -> None:
    for name in ("a", "b"):
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / f"{name}.png")
    files = [str(tmp_path / "a.png"), str(tmp_path / "b.png")]
    key = FileStore(files, 8, 3).key()
    assert FileStore(list(files), 8, 3).key() == key
    boxes = np.array([[0, 0, 4, 4], [np.nan] * 4])
    others = [FileStore(files[::-1], 8, 3), FileStore(files, 9, 3), FileStore(files, 8, 3, boxes)]
    Image.fromarray(np.ones((9, 9, 3), np.uint8)).save(tmp_path / "b.png")
    others.append(FileStore(files, 8, 3))
    assert len({key, *(store.key() for store in others)}) == 5


def test_a_file_of_features(tmp_path: Path) -> None:
    one = FeatureFile(tmp_path / "f" / "kept.bin", 1000, 3)
    other = FeatureFile(tmp_path / "f" / "kept.bin", 1000, 3)  # two processes
    values = torch.arange(3000.0).view(1000, 3)
    rows = torch.tensor([999, 5, 6, 7, 0, 300])
    one.add(rows, values[rows])
    assert other.missing(torch.tensor([5, 8, 999])).tolist() == [1]
    assert torch.equal(other.load(rows), values[rows])
    other.add(torch.tensor([8]), values[8:9])
    assert torch.equal(one.load(torch.tensor([8, 7])), values[[8, 7]])
    one.add(torch.empty(0, dtype=torch.int64), torch.empty(0, 3))
    assert list((tmp_path / "f").iterdir()) == [tmp_path / "f" / "kept.bin"]
    (tmp_path / "any").touch()
    assert (tmp_path / "f" / "kept.bin").stat().st_mode == (tmp_path / "any").stat().st_mode
    with pytest.raises(DataError, match=r"features have vanished from '.*kept\.bin'; the same command"):
        one.load(torch.tensor([9]))


def test_many_rows_take_no_room_before_they_are_there(tmp_path: Path) -> None:
    kept = FeatureFile(tmp_path / "kept.bin", 1_000_000, 384)
    kept.add(torch.tensor([999_999]), torch.ones(1, 384))
    assert (tmp_path / "kept.bin").stat().st_size > 1.5e9
    assert (tmp_path / "kept.bin").stat().st_blocks * 512 < 1e6


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a file where a folder should be")
    with pytest.raises(DataError, match=r"features cannot be kept in .*cache folder with LABELTREE_DATA"):
        FeatureFile(tmp_path / "f" / "kept.bin", 10, 3)
