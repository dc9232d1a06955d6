"""The line that tells what long work is at: on a terminal alone, and taken away in the end."""

import io
import threading
from types import SimpleNamespace

import pytest

from labeltree.cli import progress
from labeltree.cli.progress import StageLine, stages


class Terminal(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_AFTER_S", 0.0)
    monkeypatch.setattr(progress, "_EVERY_S", 0.001)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: 7.0))
    monkeypatch.setenv("COLUMNS", "80")


def test_elsewhere_nothing_is_said() -> None:
    stream = io.StringIO()
    with stages(stream=stream) as report:
        assert report is None
    with stages(stream=Terminal(), quiet=True) as report:
        assert report is None
    assert stream.getvalue() == ""


def test_the_line_comes_and_goes() -> None:
    stream = Terminal()
    with stages(stream=stream) as report:
        assert isinstance(report, StageLine)
        report("linear probe", 0, 0)
        assert report.text() == "linear probe  0 s"
        report("retrieval", 1, 4)
        assert report.text() == f"retrieval  {'━' * 6}{'╌' * 18}  25%  0 s"
        report("retrieval", 9, 4)
        assert " 100%  0 s" in report.text()
        report("a very long name of a stage " * 20, 1, 2)
        assert len(report.text()) <= 80
        assert stream.written.wait(10)
    last = stream.getvalue().rsplit("\r", 2)[1:]
    assert last[0].strip() == ""
    assert last[1] == ""
    assert threading.active_count() == 1 or all(
        thread is not report._thread for thread in threading.enumerate()
    )


def test_an_error_takes_the_line_away_too() -> None:
    stream = Terminal()

    def fail() -> None:
        with stages(stream=stream) as report:
            assert report is not None
            report("reading", 0, 0)
            stream.written.wait(10)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert stream.getvalue().endswith("\r")
