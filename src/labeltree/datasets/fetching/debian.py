"""Files of a Debian package, and the lists of packages, without installing anything or being root."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from labeltree.errors import DataError
from labeltree.progress import Progress

__all__ = ["fetch_lists", "has_apt", "unpack_package"]

_TIMEOUT_S = 1800


def has_apt() -> bool:
    """Whether this machine has Debian's tools."""
    return shutil.which("apt-get") is not None and shutil.which("dpkg-deb") is not None


def unpack_package(package: str, work: Path, size: int, progress: Progress) -> Path:
    """Download a package with the machine's own package sources, and unpack it.

    The machine's package lists are used if they know the package. Otherwise (a fresh machine has none)
    lists are fetched into a folder below `work`; the machine's own are left alone, so no special rights
    are needed.

    Args:
        package: Name of the package.
        work: Working folder, from which an interrupted download is resumed.
        size: Approximate size in bytes, for the progress report.
        progress: Callback that reports progress.

    Returns:
        The folder that stands for `/` in the package.

    Raises:
        DataError: With the last line that apt said.
    """
    work.mkdir(parents=True, exist_ok=True)
    own = _own_lists(work / "apt")
    try:
        archive = _download(package, work, [], size, progress)
    except DataError:
        progress(f"fetching the list of Debian packages, to find {package}", 0, 0)
        _run(["apt-get", "-q", *own, "update"], work)
        archive = _download(package, work, own, size, progress)
    root = work / "unpacked"
    shutil.rmtree(root, ignore_errors=True)
    try:
        _run(["dpkg-deb", "-x", str(archive), str(root)], work)
    except DataError:
        archive.unlink()  # apt takes any file of the right size for a finished download
        raise
    return root


def fetch_lists(work: Path, progress: Progress) -> Path:
    """Fetch the lists of all packages that the machine's package sources have, with English descriptions.

    Args:
        work: Working folder; the machine's own lists are not changed.
        progress: Callback that reports progress.

    Returns:
        A folder with the lists, unpacked: `*_Packages`, and `*_Translation-en` with the descriptions.

    Raises:
        DataError: With the last line that apt said, or if it fetched none.
    """
    own = _own_lists(work / "lists", languages="en", packed=False)
    progress("fetching the lists of Debian packages with their descriptions", 0, 0)
    _run(["apt-get", "-q", *own, "update"], work)
    lists = work / "lists" / "state" / "lists"
    if not any(lists.glob("*_Packages")):
        raise DataError("'apt-get update' ended well but left no list of packages; has apt any sources?")
    return lists


def _own_lists(folder: Path, languages: str = "none", packed: bool = True) -> list[str]:
    """Options that make apt keep its state in the given folder."""
    for part in ("state/lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    options = {
        "Dir::State": folder / "state",
        "Dir::State::status": "/var/lib/dpkg/status",
        "Dir::Cache": folder / "cache",
        "Acquire::Languages": languages,
    } | ({} if packed else {"Acquire::GzipIndexes": "false"})
    return [part for key, value in options.items() for part in ("-o", f"{key}={value}")]


def _download(package: str, work: Path, options: list[str], size: int, progress: Progress) -> Path:
    command = ["apt-get", "-q", *options, "download", package]
    message = f"downloading the Debian package {package}"
    progress(message, 0, size)

    def report() -> None:
        sizes = [f.stat().st_size for f in work.rglob(f"{package}_*.deb*") if f.is_file()]
        progress(message, min(max(sizes, default=0), size), size)

    _run(command, work, report)
    archives = sorted(work.glob(f"{package}_*.deb"), key=lambda f: f.stat().st_mtime)
    if not archives:
        raise DataError(f"'apt-get download {package}' ended well but left no package in '{work}'")
    progress(message, size, size)
    return archives[-1]


def _run(command: list[str], work: Path, report: object = None) -> None:
    """Run a command in `work`; its last line of output becomes the error."""
    if os.geteuid() == 0 and command[0] == "apt-get":
        # apt as root gives up its rights before it downloads, and then cannot write into a folder of ours.
        command = [command[0], "-o", "APT::Sandbox::User=root", *command[1:]]
    log = work / "log.txt"
    with log.open("wb") as out:
        environment = os.environ | {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
        try:
            process = subprocess.Popen(
                command,
                cwd=work,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=environment,
            )
        except OSError as error:
            raise DataError(f"cannot run {command[0]}: {error}") from error
        try:
            deadline = time.monotonic() + _TIMEOUT_S
            while True:
                try:
                    process.wait(0.25)
                    break
                except subprocess.TimeoutExpired:
                    if callable(report):
                        report()
                    if time.monotonic() > deadline:
                        raise DataError(f"{command[0]} took more than {_TIMEOUT_S // 60} minutes") from None
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    if process.returncode:
        lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("E:")] or lines[-1:]
        said = errors[0].removeprefix("E:").strip() if errors else f"exit code {process.returncode}"
        raise DataError(f"{command[0]}: {said}")
