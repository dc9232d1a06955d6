"""Progress of long operations: one updated line on a terminal, elsewhere one line per stage."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import TextIO

__all__ = ["MINUTE_S", "Progress", "ProgressLine", "add_prefix", "duration", "progress_line", "silent"]

Progress = Callable[[str, int, int], None]
"""Callback `progress(message, done, total)`; `total` is 0 if unknown."""

_AFTER_S = 1.0
_EVERY_S = 0.2
_FIRST_S = 10.0  # in a file or a pipe, a stage that takes longer has a line more
MINUTE_S = 60.0  # and then one every minute
_BAR = 24


def silent(message: str, done: int, total: int) -> None:
    """Report nothing."""


def add_prefix(progress: Progress | None, prefix: str) -> Progress | None:
    """A progress callback whose messages begin with `prefix: `; None for None."""
    if progress is None:
        return None
    return lambda message, done, total: progress(f"{prefix}: {message}", done, total)


@contextmanager
def progress_line(
    shown: bool = True,
    *,
    only_terminal: bool = False,
    stream: TextIO | None = None,
    counted: str | None = None,
) -> Iterator[ProgressLine | None]:
    """A `ProgressLine` for the duration of the `with` block.

    Args:
        shown: Whether to show progress; if False, yields None.
        only_terminal: Show nothing if the stream is a file or a pipe.
        stream: Output stream; None = standard error.
        counted: See `ProgressLine`.
    """
    stream = sys.stderr if stream is None else stream
    if not shown or (only_terminal and not stream.isatty()):
        yield None
        return
    with ProgressLine(stream, counted) as line:
        yield line


class ProgressLine:
    """Shows the progress of a long operation; pass it as `progress`.

    On a terminal it is one line with the completed share and the seconds since the stage began. In a `with`
    block a thread redraws the line, so that the seconds advance even in a stage without progress reports, and
    the line is removed at the end. Operations shorter than a second show nothing. In a file or a pipe there
    is one line per stage, and after ten seconds and then every minute one with the time gone and left.

    Args:
        stream: Output stream; None = standard error.
        counted: What is counted, such as `samples`: the line then gives their number, the rate and the time
            left.
    """

    def __init__(self, stream: TextIO | None = None, counted: str | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._counted = counted
        self._on_terminal = self._stream.isatty()
        self._told = ("", 0, 0)
        self._start = self._stage_start = self._drawn = self._printed = time.monotonic()
        self._done_before = 0
        self._pause = _FIRST_S
        self._width = 0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __call__(self, message: str, done: int, total: int) -> None:
        """Report that `done` of `total` is complete; `total` is 0 if unknown."""
        is_new = message != self._told[0]
        self._told = (message, done, total)
        if is_new:
            self._stage_start = self._printed = time.monotonic()
            self._done_before, self._pause = done, _FIRST_S
            if not self._on_terminal:
                print(message, file=self._stream, flush=True)
        elif self._is_due(total):
            self._printed, self._pause = time.monotonic(), MINUTE_S
            print(f"{message}: {self._rate()}", file=self._stream, flush=True)
        if self._thread is None and time.monotonic() - self._drawn >= _EVERY_S:
            self._draw()

    def __enter__(self) -> ProgressLine:
        if self._on_terminal:
            self._thread = threading.Thread(target=self._keep_drawing, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the line."""
        if self._thread is not None:
            self._ended.set()
            self._thread.join()
        self._write("")

    def text(self) -> str:
        """The current text of the line."""
        message, done, total = self._told
        elapsed = f"{time.monotonic() - self._stage_start:.0f} s"
        seconds = self._rate() if self._counted else f"{elapsed}{self._time_left()}"
        share = min(done / total, 1.0) if total > 0 else 0.0
        full = round(_BAR * share)
        bar = f"{'━' * full}{'╌' * (_BAR - full)} {share:4.0%}  " if total > 0 else ""
        room = max(get_terminal_size().columns - len(bar) - len(seconds) - 3, 10)
        return f"{message if len(message) <= room else message[: room - 1] + '…'}  {bar}{seconds}"

    def _rate(self) -> str:
        """How many are done, how many a second, and the time left."""
        _, done, total = self._told
        seconds = time.monotonic() - self._stage_start
        if not self._counted:
            return f"{done / total:.0%}, {duration(seconds)} gone{self._time_left()}"
        text = f"{done:,} {f'of {total:,} ' if total else ''}{self._counted}"
        if done > self._done_before and seconds > 0:
            rate = (done - self._done_before) / seconds
            text += f", {rate:,.0f} a second" if rate >= 10 else f", {rate:.2g} a second"
        return text + self._time_left()

    def _is_due(self, total: int) -> bool:
        """Whether a file or a pipe gets a further line of this stage."""
        known = self._counted is not None or total > 0
        return known and not self._on_terminal and time.monotonic() - self._printed >= self._pause

    def _time_left(self) -> str:
        """The time left, at the rate so far; empty if that is not known."""
        _, done, total = self._told
        seconds, new = time.monotonic() - self._stage_start, done - self._done_before
        return f", {duration((total - done) * seconds / new)} left" if new > 0 and done < total else ""

    def _keep_drawing(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        if self._on_terminal and self._told[0] and self._drawn - self._start >= _AFTER_S:
            self._write(self.text())

    def _write(self, text: str) -> None:
        if text or self._width:
            self._stream.write("\r" + text.ljust(self._width) + ("" if text else "\r"))
            self._stream.flush()
        self._width = len(text)


def duration(seconds: float) -> str:
    """A time for people, in its largest unit."""
    for unit, size, most in (("s", 1.0, 100), ("min", 60.0, 100), ("h", 3600.0, 48)):
        if seconds < most * size:
            return f"{seconds / size:.0f} {unit}" if unit != "h" else f"{seconds / size:.1f} h"
    return f"{seconds / 86400:.1f} days"
