"""A campaign of kills of moderate size; see `crash.py` beside this, and docs/reliability.md."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="forks processes that have loaded torch")
def test_what_is_killed_goes_on_and_ends_as_if_undisturbed() -> None:
    """Four times, trainings, evaluations, calibrations or studies are killed, by seed."""
    words = [sys.executable, str(Path(__file__).with_name("crash.py")), "--count", "4", "--seed", "0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # a process with threads cannot be forked
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "failures: 0" in done.stdout
