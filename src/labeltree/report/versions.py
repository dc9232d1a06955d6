"""Which versions made the page."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

__all__ = ["versions"]

_PACKAGES = ("labeltree", "torch", "torchvision", "lightning", "timm", "numpy", "scipy", "scikit-learn")


def versions() -> list[tuple[str, str]]:
    """Name and exact version of Python, of labeltree and of what it computes with, as far as installed."""
    found = [("python", platform.python_version())]
    for name in _PACKAGES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return [*found, ("system", f"{platform.system()} {platform.machine()}")]
