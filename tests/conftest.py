"""What tests of several rooms share: small images and folders of them, empty caches, one thread of torch."""

import gc
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from PIL import Image

import labeltree.training.objectives  # noqa: F401  # before a test registers others for a while
from labeltree.runs import versions

pytest_plugins = ["budget", "workers"]

# A busy machine is no failure: neither a slow case nor slowly drawn ones.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

LEAVES = ("animal/dog/poodle", "animal/dog/beagle", "animal/cat/tabby", "plant/rose", "plant/fern")


def pytest_configure() -> None:
    """Temporary files that a page or a killed process leaves behind go with the tests: they are gigabytes."""
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())  # what failed can be looked at
    folder = tempfile.mkdtemp(prefix="lt-")
    os.chmod(folder, 0o755)  # a database server runs as another user
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    # In this process alone, when that of multiprocessing has been removed.
    Finalize(None, shutil.rmtree, args=(folder, True), exitpriority=-200)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Image caches of the tests' folders do not go to the user's cache, and nothing is fetched."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABELTREE_DATA", str(tmp_path_factory.mktemp("data")))
        patch.setenv("LABELTREE_OFFLINE", "1")
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """What tests write need not outlive a power cut; waiting for the disk is a fifth of a small training."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _git_is_asked_once() -> Iterator[None]:
    """And not for every run and every page, of which the tests make a thousand."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(versions, "commit", cache(versions.commit))
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session", autouse=True)
def _operators_of_onnx_are_listed_once() -> Iterator[None]:
    """Every export would list them anew, for half a second."""
    export = torch.onnx.export
    with pytest.MonkeyPatch.context() as patch:

        def first_export(*arguments: Any, **options: Any) -> Any:
            from torch.onnx._internal.exporter._registration import ONNXRegistry

            patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(cache(ONNXRegistry.from_torchlib)))
            patch.setattr(torch.onnx, "export", export)
            return export(*arguments, **options)

        patch.setattr(torch.onnx, "export", first_export)
        yield


def write_image_folder(folder: Path, per_leaf: int = 12, size: int = 28, seed: int = 0) -> Path:
    """Nested folders of noisy images: each leaf has its own hue and stripes, branches share their stripes."""
    rng = np.random.default_rng(seed)
    across = np.arange(size)
    for number, leaf in enumerate(LEAVES):
        (folder / leaf).mkdir(parents=True)
        stripes = 60 * np.sin(across / (1.5 + number // 2))
        tint = np.random.default_rng(number).uniform(-60, 60, 3)
        for sample in range(per_leaf):
            base = 128 + stripes[:, None, None] + tint + rng.normal(0, 12, (size, size, 3))
            Image.fromarray(base.clip(0, 255).astype(np.uint8)).save(folder / leaf / f"{sample:03d}.png")
    return folder


@pytest.fixture(scope="session")
def make_image_folder() -> Callable[..., Path]:
    """Write such a folder, for tests that change or delete it."""
    return write_image_folder


@pytest.fixture(scope="session")
def image_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty images in five leaves of a ragged tree; not to be changed by a test."""
    return write_image_folder(tmp_path_factory.mktemp("images") / "photos")


@pytest.fixture
def forked_loaders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loader processes are forked from one that has the libraries: each would import them for seconds."""
    import forked  # noqa: F401  # it says what that process imports
    from labeltree.training import batches

    monkeypatch.setattr(batches, "_START", "forkserver")
    # It ends them with their parent, which here is the process that they are forked from.
    monkeypatch.setattr(batches, "_start_loader_process", None)


@pytest.fixture(scope="module")
def few_words() -> Iterator[None]:
    """The text encoder of this module's runs is small: writing its weights takes most of a short training."""
    from small_vocabulary import small_vocabulary

    with small_vocabulary(buckets=1024):
        yield


@pytest.fixture
def cache_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("LABELTREE_DATA", str(folder))
    return folder


@pytest.fixture
def write_image() -> Callable[..., Path]:
    """Write an image of noise, always the same for the same seed."""

    def write(path: Path, seed: int = 0, size: tuple[int, int] = (8, 8), mode: str = "RGB") -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        channels = len(Image.new(mode, (1, 1)).getbands())
        shape = (size[1], size[0], channels) if channels > 1 else (size[1], size[0])
        pixels = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
        Image.fromarray(pixels, mode if mode in ("RGB", "RGBA", "LA") else "L").save(path)
        return path

    return write


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Quick tests need not import the files of which all tests are slow."""
    if config.option.markexpr != "not slow and not long" or collection_path.suffix != ".py":
        return None
    text = collection_path.read_text("utf-8")
    return re.search(r"^pytestmark = \[?pytest\.mark\.slow\b", text, re.MULTILINE) is not None or None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """No search for garbage goes through the modules and the thousands of tests, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
