"""A cache folder of each test's own, and images to put into folders."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


@pytest.fixture(autouse=True)
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
