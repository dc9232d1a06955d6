"""Single images and texts that somebody names, in the shape that a trained run's encoder takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from labeltree.data import Source
from labeltree.data.images.files import open_images as open_image_files
from labeltree.data.source import printable
from labeltree.errors import DataError
from labeltree.training.trainee import Trainee

__all__ = ["NamedSamples", "open_images", "open_texts"]


@dataclass(frozen=True)
class NamedSamples:
    """Samples that were named one by one, some of which may not be readable.

    Attributes:
        names: of all of them, in the order given.
        source: the readable ones, in that order, with their places in ``names`` as instances; None where
            there are none.
        skipped: place in ``names`` → why the sample cannot be read.
    """

    names: list[str]
    source: Source | None
    skipped: dict[int, str]


def open_images(trainee: Trainee, files: Sequence[str]) -> NamedSamples:
    """Image files as unlabelled samples; one that cannot be read does not keep the others from it.

    Raises:
        DataError: if the run reads texts.
    """
    _check_modality(trainee, "image", "files")
    channels, height, _ = trainee.source.image_shape
    paths = [str(file) for file in files]
    found = open_image_files(paths, paths, size=height, channels=channels, on_error="return", cache=False)
    reasons = {
        row: "it is a folder; name it by --data" if Path(paths[row]).is_dir() else reason
        for row, reason in sorted(found.failures.items())
    }
    names = [printable(path) for path in paths]
    rows = torch.from_numpy(found.readable())
    if not len(rows):
        return NamedSamples(names, None, reasons)
    source = Source(
        name="images",
        taxonomy=trainee.source.taxonomy,
        nodes=torch.full((len(rows),), -1),
        instances=rows,
        store=found.store,
        rows=rows,
        files=paths,
    )
    return NamedSamples(names, source, reasons)


def open_texts(trainee: Trainee, texts: Sequence[str]) -> NamedSamples:
    """Texts as unlabelled samples; an empty one is skipped.

    Raises:
        DataError: if the run reads images.
    """
    _check_modality(trainee, "text", "--text")
    rows = torch.tensor([row for row, text in enumerate(texts) if text.strip()], dtype=torch.int64)
    empty = {row: "the text is empty" for row, text in enumerate(texts) if not text.strip()}
    if not len(rows):
        return NamedSamples(list(texts), None, empty)
    source = Source(
        name="texts",
        taxonomy=trainee.source.taxonomy,
        nodes=torch.full((len(rows),), -1),
        instances=rows,
        store=None,
        rows=rows,
        texts=list(texts),
    )
    return NamedSamples(list(texts), source, empty)


def _check_modality(trainee: Trainee, wanted: str, given: str) -> None:
    reads = trainee.module.encoder.modality
    if reads != wanted:
        how = "--text 'WORDS', or --data TABLE" if reads == "text" else "image files, or --data FOLDER"
        raise DataError(
            f"the run's encoder '{trainee.module.recipe.encoder}' reads {reads}s: instead of {given}, "
            f"give {how}"
        )
