"""Downloads that appear whole or not at all, and checks of files by size and digest."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from labeltree.atomic import new_folder_in
from labeltree.errors import DataError
from labeltree.lock import lock_folder

__all__ = ["Expected", "check_files", "download_with_torchvision", "downloading", "sha256", "work_folder"]


@dataclass(frozen=True)
class Expected:
    """Size and digest that a file must have."""

    size: int
    sha256: str


def sha256(path: Path) -> str:
    """Digest of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_files(folder: Path, expected: Mapping[str, Expected]) -> None:
    """Compare files with their expected sizes and digests.

    Raises:
        DataError: Names the first file that is missing, has another size, or another digest.
    """
    for name, wanted in expected.items():
        path = folder / name
        if not path.is_file():
            raise DataError(f"the file '{path}' is missing")
        size = path.stat().st_size
        if size != wanted.size:
            raise DataError(f"the file '{path}' has {size} bytes where {wanted.size} were expected")
        if sha256(path) != wanted.sha256:
            raise DataError(
                f"the file '{path}' is damaged or of another version: its digest is not {wanted.sha256[:12]}…"
            )


def work_folder(folder: Path) -> Path:
    """The folder that holds downloads of a data set until all are complete."""
    return folder / ".download"


@contextmanager
def downloading(
    folder: Path, what: str, otherwise: str = "run the command again to continue"
) -> Iterator[tuple[Path, Path]]:
    """Yield `work_folder`, which is kept for the next attempt if the block fails, and an empty folder.

    What is left in either after the block is deleted.

    Args:
        folder: Folder of the data set; it is created.
        what: Name of the download in error messages.
        otherwise: Advice for the error if the download fails.

    Raises:
        DataError: If the block raises one, or the folder cannot be written to; with what to do.
        FolderInUseError: If another process brings something there.
    """
    work = work_folder(folder)
    try:
        with lock_folder(folder):
            work.mkdir(parents=True, exist_ok=True)
            with new_folder_in(folder) as fresh:
                yield work, fresh
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise DataError(
            f"cannot write to '{folder}' ({error.strerror or error}); choose another folder with "
            "LABELTREE_DATA"
        ) from error
    except DataError as error:
        raise DataError(f"could not get {what} ({error}); {otherwise}") from error


def download_with_torchvision(name: str, folder: Path) -> None:
    """Download a data set into a folder with torchvision.

    Args:
        name: Name of its class in `torchvision.datasets`.
        folder: Folder to unpack into.

    Raises:
        DataError: If it cannot, with the first line of why.
    """
    import torchvision.datasets

    try:
        getattr(torchvision.datasets, name)(str(folder), download=True)
    except Exception as error:  # torchvision lets everything through that a download can raise
        first = next(iter(str(error).splitlines()), "").rstrip(" :")
        raise DataError(first or type(error).__name__) from error
