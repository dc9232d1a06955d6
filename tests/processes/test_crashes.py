"""A campaign of kills of moderate size; see `crash.py` beside this, and docs/reliability.md."""

import sys
from pathlib import Path

import pytest

from forked import run_forked

pytestmark = pytest.mark.slow


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="forks processes that have loaded torch")
@pytest.mark.long
def test_what_is_killed_goes_on_and_ends_as_if_undisturbed() -> None:
    """Four times, trainings, evaluations, calibrations or studies are killed, by seed."""
    script = str(Path(__file__).with_name("crash.py"))
    code = f"import runpy, sys; sys.argv[0] = {script!r}; runpy.run_path(sys.argv[0], run_name='__main__')"
    done = run_forked(code, ["--count", "4", "--seed", "0"], {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "failures: 0" in done.stdout
