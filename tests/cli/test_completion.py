"""Completion in the shell: commands, their options and actions, and the values that an option may have."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
pytest.importorskip("argcomplete", reason="argcomplete is not installed: it completes in the shell")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("labeltree dup", {"duplicates"}),
        ("labeltree suspects runs --rank ", {"labels", "branches"}),
        ("labeltree taxonomy con", {"convert"}),
        ("labeltree train --objec", {"--objective"}),
    ],
)
def test_what_may_follow(line: str, expected: set[str], tmp_path: Path) -> None:
    asked = {
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "said"),
    }
    words = [sys.executable, "-m", "labeltree"]
    subprocess.run(words, env={**os.environ, **asked}, stderr=subprocess.DEVNULL, check=True)
    assert {word.strip() for word in (tmp_path / "said").read_text("utf-8").splitlines()} == expected
