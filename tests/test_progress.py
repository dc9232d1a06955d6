"""The line that shows the progress of long work: drawn over on a terminal, a line a stage elsewhere."""

import io
import threading
from types import SimpleNamespace

import pytest

from labeltree import progress
from labeltree.progress import ProgressLine, progress_line


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
    with progress_line(only_terminal=True, stream=stream) as report:
        assert report is None
    with progress_line(False, stream=Terminal()) as report:
        assert report is None
    assert stream.getvalue() == ""


def test_elsewhere_each_message_is_one_line() -> None:
    stream = io.StringIO()
    line = ProgressLine(stream)
    for done in range(5):
        line("downloading", done, 4)
    line("checking", 0, 0)
    line.close()
    with progress_line(stream=stream) as report:
        assert report is not None
        report("reading", 0, 0)
    assert stream.getvalue() == "downloading\nchecking\nreading\n"


def test_without_a_thread_the_line_is_drawn_over_when_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_EVERY_S", 0.0)
    stream = Terminal()
    line = ProgressLine(stream)
    line("downloading", 0, 4)
    line("checking", 0, 0)
    line.close()
    drawn = [text.strip() for text in stream.getvalue().split("\r")]
    assert drawn == ["", f"downloading  {'╌' * 24}   0%  0 s", "checking  0 s", "", ""]


def test_the_line_comes_and_goes() -> None:
    stream = Terminal()
    with progress_line(stream=stream) as report:
        assert isinstance(report, ProgressLine)
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
        with progress_line(stream=stream) as report:
            assert report is not None
            report("reading", 0, 0)
            stream.written.wait(10)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert stream.getvalue().endswith("\r")
