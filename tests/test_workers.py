"""Tests in processes (`workers`) are reported as they are in one; a process that is killed fails its test."""

import re
from pathlib import Path

import pytest

from forked import run_forked

pytestmark = pytest.mark.slow

FILES = {
    "test_a.py": """
import os, warnings, pytest
from pathlib import Path

@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    yield tmp_path_factory.mktemp("shared")
    Path("torn_down").write_text("yes")

def test_passes(folder):
    print("not shown")
    (folder / "file").touch()

def test_the_same_folder(folder):
    assert (folder / "file").exists()

def test_fails(tmp_path):
    print("what was printed")
    assert [tmp_path.name] == 3

def test_warns():
    warnings.warn("beware")

@pytest.mark.skip
def test_is_skipped():
    pass
""",
    "test_b.py": "import os, signal\ndef test_before(): pass\n"
    "def test_is_killed(): os.kill(os.getpid(), signal.SIGKILL)\ndef test_after(): pass\n",
    "test_c.py": "def test_passes(): pass\n",
}


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def ran(tests: Path, *words: str) -> str:
    code = f"import os, sys, pytest; os.chdir({str(tests)!r}); sys.exit(pytest.main(sys.argv[1:]))"
    done = run_forked(code, ["-p", "workers", "-p", "budget", "-p", "no:cacheprovider", "-rA", *words])
    assert done.returncode == 1, done.stderr
    return done.stdout


def test_all_is_reported_of_two_processes(tests: Path) -> None:
    said = ran(tests, "--workers", "2")
    assert re.search(r"2 failed, 5 passed, 1 skipped, \d+ warning", said), said
    assert "PASSED test_a.py::test_the_same_folder" in said
    assert "FAILED test_a.py::test_fails - AssertionError" in said
    assert "what was printed" in said
    assert "beware" in said
    assert "FAILED test_b.py::test_is_killed" in said
    assert "The process of this test ended with -9" in said
    assert "test_b.py::test_after" not in said
    assert "PASSED test_c.py::test_passes" in said
    assert (tests / "torn_down").exists()


def test_it_stops_when_it_is_told_to(tests: Path) -> None:
    said = ran(tests, "--workers", "1", "-x", "test_b.py", "test_c.py")
    assert re.search(r"1 failed, 1 passed", said)
    assert "stopping after 1 failures" in said
