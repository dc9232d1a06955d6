"""The noun files of WordNet 3.0 (Miller 1995; Fellbaum 1998): where they are, and how they get there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from labeltree.cache import data_home
from labeltree.data.progress import Progress, silent
from labeltree.data.registry import register_download
from labeltree.datasets.fetching.bringing import bringing
from labeltree.datasets.fetching.debian import has_apt, unpack_package
from labeltree.errors import DataError

__all__ = ["fetch_wordnet", "wordnet_folder"]

NAME = "wordnet"
PACKAGE = "wordnet-base"
INSTALLED = Path("/usr/share/wordnet")
FILES = {"data.noun": 82_115, "index.noun": 117_798, "noun.exc": 2_054}
"""Lines of each file that say something. Synsets, words, and irregular plurals."""

_PACKAGE_SIZE = 6_467_132


def wordnet_folder() -> Path:
    """The folder with ``data.noun``, ``index.noun`` and ``noun.exc``: in the cache, or as Debian installs it.

    Raises:
        DataError: If they are in neither, with the command that gets them.
    """
    for folder in (data_home() / NAME, INSTALLED):
        if all((folder / name).is_file() for name in FILES):
            return folder
    raise DataError(
        f"the noun files of WordNet are neither in '{data_home() / NAME}' nor in '{INSTALLED}'; "
        f"'labeltree data get {NAME}' fetches them"
    )


def fetch_wordnet(*, progress: Progress | None = None, force: bool = False) -> Path:
    """Bring WordNet's noun files into the cache folder, from the Debian package (installed, or downloaded).

    Returns:
        Their folder.

    Raises:
        DataError: If they cannot be had, with what to do instead.
    """
    folder = data_home() / NAME
    if not force and _problem(folder) is None:
        return folder
    with bringing(folder, "WordNet") as (work, fresh):
        unpacked = _unpacked(work, progress or silent)
        for name in FILES:
            if (unpacked / name).is_file():
                shutil.copyfile(unpacked / name, fresh / name)
        if problem := _problem(fresh):
            raise DataError(f"what the package {PACKAGE} holds is not WordNet 3.0: {problem}")
        for name in FILES:
            os.replace(fresh / name, folder / name)
    return folder


def _unpacked(work: Path, report: Progress) -> Path:
    if _problem(INSTALLED) is None:
        return INSTALLED
    if not has_apt():
        raise DataError(
            f"it comes from the Debian package {PACKAGE}, and this machine has no apt-get; put "
            f"{', '.join(FILES)} of WordNet 3.0 into '{work.parent}'"
        )
    return unpack_package(PACKAGE, work, _PACKAGE_SIZE, report) / INSTALLED.relative_to("/")


def _problem(folder: Path) -> str | None:
    """What is wrong with the files of a folder; None if they are those of WordNet 3.0."""
    for name, expected in FILES.items():
        path = folder / name
        if not path.is_file():
            return f"there is no '{path}'"
        with path.open("rb") as file:
            found = sum(not line.startswith(b" ") for line in file)
        if found != expected:
            return f"'{path}' has {found:,} entries where {expected:,} were expected"
    return None


register_download(
    NAME,
    what="a dictionary; 'labeltree taxonomy from-wordnet' makes a taxonomy with it",
    summary="the noun files of WordNet 3.0, for the trees of ImageNet and of class names",
    licence="WordNet 3.0 licence (Princeton University)",
    size="6 MB to download, 20 MB on disk",
    fetch=fetch_wordnet,
)
