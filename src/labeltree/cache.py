"""The cache folder: what `labeltree data get NAME` brings, each in a folder of its name."""

from __future__ import annotations

import os
from pathlib import Path

from labeltree.errors import DataError

__all__ = ["data_home", "need_weights", "weights_folder"]


def data_home() -> Path:
    """The cache folder: ``LABELTREE_DATA``, or else the platform's cache for labeltree. It need not exist."""
    chosen = os.environ.get("LABELTREE_DATA")
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("labeltree", appauthor=False)


def weights_folder(name: str) -> Path:
    """Where the packaged weights of the encoder ``name`` lie once they were fetched. It need not exist."""
    return data_home() / name / "weights"


def need_weights(name: str) -> Path:
    """`weights_folder`, which must be there.

    Raises:
        DataError: if it is not, with the command that fetches the weights.
    """
    folder = weights_folder(name)
    if not folder.is_dir():
        raise DataError(
            f"the weights of encoder '{name}' are not in '{folder}'; 'labeltree data get {name}' fetches them"
        )
    return folder
