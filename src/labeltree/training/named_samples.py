"""Single images and texts that somebody names, in the shape that a trained run's encoder takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from labeltree.data import Source
from labeltree.data.sources.listed import open_listed
from labeltree.errors import DataError
from labeltree.taxonomy.naming import some
from labeltree.training.trainee import Trainee

__all__ = ["open_images", "open_texts"]


def open_images(trainee: Trainee, files: Sequence[str]) -> Source:
    """Image files as unlabelled samples.

    Raises:
        DataError: if the run reads texts, or a file is missing, a folder or no image.
    """
    _check_modality(trainee, "image", "files")
    for kind, wrong in (
        ("folders; name one by --data", [file for file in files if Path(file).is_dir()]),
        ("no files", [file for file in files if not Path(file).exists()]),
    ):
        if wrong:
            raise DataError(f"{len(wrong)} of {len(files)} images are {kind}: {some(wrong)}")
    channels, height, _ = trainee.source.image_shape
    return open_listed(
        "images",
        Path(),
        [str(Path(file)) for file in files],
        torch.full((len(files),), -1),
        trainee.source.taxonomy,
        image_size=height,
        channels=channels,
        cache=False,
    )


def open_texts(trainee: Trainee, texts: Sequence[str]) -> Source:
    """Texts as unlabelled samples.

    Raises:
        DataError: if the run reads images, or a text is empty.
    """
    _check_modality(trainee, "text", "--text")
    if not all(text.strip() for text in texts):
        raise DataError("a text is empty; there is nothing to answer about it")
    return Source(
        name="texts",
        taxonomy=trainee.source.taxonomy,
        nodes=torch.full((len(texts),), -1),
        instances=torch.arange(len(texts)),
        store=None,
        rows=torch.arange(len(texts)),
        texts=list(texts),
    )


def _check_modality(trainee: Trainee, wanted: str, given: str) -> None:
    reads = trainee.module.encoder.modality
    if reads != wanted:
        how = "--text 'WORDS', or --data TABLE" if reads == "text" else "image files, or --data FOLDER"
        raise DataError(
            f"the run's encoder '{trainee.module.recipe.encoder}' reads {reads}s: instead of {given}, "
            f"give {how}"
        )
