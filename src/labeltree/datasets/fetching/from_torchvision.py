"""Data sets that torchvision downloads and checks."""

from __future__ import annotations

from pathlib import Path

from labeltree.errors import DataError

__all__ = ["download_with_torchvision"]


def download_with_torchvision(name: str, folder: Path) -> None:
    """Have torchvision bring a data set into a folder.

    Args:
        name: Of its class in ``torchvision.datasets``.
        folder: To unpack into.

    Raises:
        DataError: If it cannot, with the first line of why.
    """
    import torchvision.datasets

    try:
        getattr(torchvision.datasets, name)(str(folder), download=True)
    except Exception as error:  # torchvision lets everything through that a download can raise
        first = next(iter(str(error).splitlines()), "").rstrip(" :")
        raise DataError(first or type(error).__name__) from error
