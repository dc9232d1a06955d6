"""Running npm and pip: their output, or a sentence on why they do not run."""

from __future__ import annotations

import subprocess
from pathlib import Path

from labeltree.errors import DataError

__all__ = ["run_command"]

_TIMEOUT_S = 1800


def run_command(tool: str, command: list[str], folder: Path) -> tuple[int, list[str]]:
    """Run a command without input.

    Args:
        tool: What errors call it.
        command: The program and its arguments.
        folder: To run it in.

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
