"""MATLAB files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labeltree.errors import DataError

__all__ = ["read_matlab"]


def read_matlab(file: Path) -> dict[str, Any]:
    """The variables of a MATLAB file, without axes of length 1.

    Raises:
        DataError: If it is missing, or damaged.
    """
    from scipy.io import loadmat

    if not file.is_file():
        raise DataError(f"there is no '{file}'")
    try:
        return dict(loadmat(str(file), squeeze_me=True))
    except Exception as error:  # SciPy raises whatever a broken file makes it stumble over
        raise DataError(f"'{file}' is no MATLAB file that can be read; unpack it again") from error
