"""The line that shows the progress of long work: drawn over on a terminal, a line a stage elsewhere."""

import io
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from labeltree import progress
from labeltree.progress import ProgressLine, progress_line
from labeltree.training.records import epoch_lines


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


def test_counted_samples_have_a_rate_and_a_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    line = ProgressLine(io.StringIO(), "samples")
    line("embedding", 1000, 9000)
    assert "1,000 of 9,000 samples" in line.text()
    assert "left" not in line.text()
    now[0] = 10.0
    line("embedding", 2000, 9000)  # those that were there before do not count for the rate
    assert line.text().endswith("2,000 of 9,000 samples, 100 a second, 70 s left")
    for total, left in ((32_000, "5 min"), (2_000_000, "5.5 h"), (100_000_000, "11.6 days")):
        line("embedding", 2000, total)
        assert line.text().endswith(f"{left} left")
    line("embedding", 2000, 0)
    assert line.text() == "embedding  2,000 samples, 100 a second"
    line("embedding", 9000, 9000)
    assert "left" not in line.text()


def test_counted_samples_get_a_line_after_ten_seconds_and_then_every_minute_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    stream = io.StringIO()
    with progress_line(stream=stream, counted="samples") as report:
        assert report is not None
        for second in range(0, 200, 10):
            now[0] = float(second)
            report("embedding", 10 * second, 0)
    lines = stream.getvalue().splitlines()
    assert lines[:2] == ["embedding", "embedding: 100 samples, 10 a second"]
    assert lines[2] == "embedding: 700 samples, 10 a second"
    assert len(lines) == 5


def test_elsewhere_a_long_stage_says_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    stream = io.StringIO()
    with progress_line(stream=stream) as report:
        assert report is not None
        for second in range(0, 100, 5):
            now[0] = float(second)
            report("computing features", second, 100)
            report("computing features", second, 100)
    lines = stream.getvalue().splitlines()
    assert lines == [
        "computing features",
        "computing features: 10%, 10 s gone, 90 s left",
        "computing features: 70%, 70 s gone, 30 s left",
    ]


def test_training_says_the_time_gone_and_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line after each epoch, and a line a minute in a long one; a continued run counts anew."""
    now = [0.0]
    monkeypatch.setattr(epoch_lines, "time", SimpleNamespace(monotonic=lambda: now[0]))
    trainer: Any = SimpleNamespace(
        current_epoch=4,
        max_epochs=10,
        num_training_batches=100,
        is_global_zero=True,
        progress_bar_metrics={"loss": 0.5},
    )
    lines, module = epoch_lines.EpochLines(), cast(Any, None)
    lines.on_train_start(trainer, module)
    for now[0], batch in ((30.0, 24), (75.0, 49), (100.0, 74), (140.0, 99)):
        lines.on_train_batch_end(trainer, module, None, None, batch)
    now[0] = 150.0
    lines.on_train_epoch_end(trainer, module)
    trainer.current_epoch, now[0] = 9, 900.0
    lines.on_train_epoch_end(trainer, module)
    assert capsys.readouterr().out.splitlines() == [
        "epoch 5 of 10, 50% of it, 75 s gone, 14 min left",
        "epoch 5 of 10, loss 0.5, 2 min gone, 12 min left",
        "epoch 10 of 10, loss 0.5, 15 min gone",
    ]
