"""From what a person types after ``--data`` to a source."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from labeltree.data.registry import get_dataset, list_datasets
from labeltree.data.source import Source
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy

__all__ = ["open_source"]


def open_source(
    spec: str | Path,
    *,
    image_size: int | None = None,
    channels: int | None = None,
    taxonomy: Taxonomy | str | Path | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> Source:
    """Open samples."""
    name = str(spec)
    if name in list_datasets():
        return get_dataset(name).open(image_size=image_size, channels=channels)
    raise DataError(f"'{name}' is neither a data set ({', '.join(list_datasets())}) nor a folder or table")
