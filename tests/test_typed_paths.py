"""Paths in the commands of messages are what a shell makes of them."""

import subprocess

import pytest

from labeltree.errors import typed


@pytest.mark.parametrize(
    "path", ["runs/one", "my runs/one", "it's", 'say "so"', "$HOME/`id`", "a\\b c", "ä ö"]
)
def test_a_shell_reads_the_path(path: str) -> None:
    found = subprocess.run(
        ["sh", "-c", f"printf %s {typed(path)}"], capture_output=True, text=True, check=True
    )
    assert found.stdout == path


def test_plain_paths_stay() -> None:
    assert typed("runs/one-2.b") == "runs/one-2.b"
    assert typed("my run") == '"my run"'
