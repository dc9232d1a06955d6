"""Features of frozen encoders: computed once, kept on disk, found again only where nothing has changed."""

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from labeltree.errors import DataError
from labeltree.inference.run_embeddings import embed_source
from labeltree.training.experiment import Experiment, prepare
from labeltree.training.features.feature_store import FeatureStore, KeptFeatures
from labeltree.training.features.frozen import encode_rows, use_precomputed_features
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
    assert calls == [[5]]
    assert torch.equal(both[[2, 0]], first[:2])
    (folder,) = features.iterdir()
    for kept in folder.iterdir():
        kept.write_bytes(b"damaged")
    torch.testing.assert_close(encoded(experiment, [3, 1, 4]), first)
    use_precomputed_features(experiment)
    store = pickle.loads(pickle.dumps(experiment.batches.inputs))  # as loader processes get it
    learned = experiment.source.of_split("train").rows[:3]
    torch.testing.assert_close(store.load(learned), encoded(experiment, learned.tolist()))
    with pytest.raises(IndexError, match="features of other rows"):
        store.load(experiment.source.of_split("test").rows[:1])
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


def digests_of(numbers: range) -> np.ndarray:
    """Digests of samples by number."""
    return np.array([[number // 256, number % 256, *[7] * 14] for number in numbers], np.uint8)


def test_a_store_of_features(tmp_path: Path) -> None:
    one, other = FeatureStore(tmp_path / "f", 3), FeatureStore(tmp_path / "f", 3)  # two processes
    values = torch.arange(3000.0).view(1000, 3)
    assert one.places(digests_of(range(2))).tolist() == [[-1, -1]] * 2
    one.add(digests_of(range(5, 400)), [values[5:100], values[100:400]])
    one.add(digests_of(range(0)), [])
    other.add(digests_of(range(300, 1000)), [values[300:]])
    third = FeatureStore(tmp_path / "f", 3)
    assert third.places(digests_of(range(7)))[:, 0].tolist()[:5] == [-1] * 5
    assert torch.equal(third.take(third.places(digests_of(range(5, 1000)))), values[5:])
    assert torch.equal(other.take(other.places(digests_of(range(5, 1000)))), values[5:])
    again = pickle.loads(pickle.dumps(third))
    assert torch.equal(again.take(again.places(digests_of(range(10, 12)))), values[10:12])
    (tmp_path / "any").touch()
    assert {file.stat().st_mode for file in (tmp_path / "f").iterdir()} == {(tmp_path / "any").stat().st_mode}


def test_damaged_and_foreign_files_of_features_are_passed_over(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path, 3)
    store.add(digests_of(range(4)), [torch.ones(4, 3)])
    (kept,) = tmp_path.iterdir()
    (tmp_path / "cut.features").write_bytes(kept.read_bytes()[:-1])
    (tmp_path / "other.features").write_bytes(b"something else")
    (tmp_path / "link.features").symlink_to(tmp_path / "nowhere")
    found = FeatureStore(tmp_path, 3)
    assert (found.places(digests_of(range(4)))[:, 0] >= 0).all()
    assert (FeatureStore(tmp_path, 4).places(digests_of(range(4))) == -1).all()


def test_features_that_have_vanished_are_named(tmp_path: Path) -> None:
    kept = KeptFeatures(FeatureStore(tmp_path, 3), torch.tensor([4]), digests_of(range(1)))
    with pytest.raises(DataError, match=r"features have vanished from .*; the same command makes them again"):
        kept.load(torch.tensor([4]))


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a file where a folder should be")
    with pytest.raises(DataError, match=r"features cannot be kept in .*cache folder with LABELTREE_DATA"):
        FeatureStore(tmp_path / "f", 3).add(digests_of(range(1)), [torch.ones(1, 3)])


def test_a_further_sample_is_the_only_one_that_is_encoded(
    recipe_of: Callable[..., Recipe],
    features: Path,
    make_image_folder: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = make_image_folder(tmp_path / "photos")
    first = frozen(recipe_of, data=data)
    encoded(first, list(range(len(first.source))))
    some = next(data.rglob("*.png"))
    image = Image.open(some).convert("RGB")
    image.putpixel((0, 0), (1, 2, 3))
    image.save(some.with_name("zz-new.png"))
    second = frozen(recipe_of, data=data)
    calls = []
    load = second.batches.inputs.load
    monkeypatch.setattr(second.batches.inputs, "load", lambda rows: calls.append(len(rows)) or load(rows))
    encoded(second, list(range(len(second.source))))
    assert calls == [1]
