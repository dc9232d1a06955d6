"""Heads of images are read without their pixels, which would take as long as opening the data set anew."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image, ImageFile

from labeltree.data.images.decode import ImageHead, read_head


@pytest.mark.parametrize("kind", ["png", "jpg", "bmp", "webp", "tif"])
def test_no_pixel_is_decoded(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"image.{kind}"
    Image.new("L", (30, 20), 7).save(path)

    def load(self: ImageFile.ImageFile) -> None:
        raise AssertionError("the pixels were read")

    monkeypatch.setattr(ImageFile.ImageFile, "load", load)
    head = read_head(path)
    assert head is not None
    assert head[:2] == (30, 20)


@pytest.mark.parametrize("kind", ["png", "jpg", "webp"])
def test_the_orientation_counts(kind: str, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (30, 20)).save(tmp_path / f"image.{kind}", exif=exif)
    assert read_head(tmp_path / f"image.{kind}") == ImageHead(20, 30, False)
