"""What long work is at, on a terminal alone: one line that is written over and in the end taken away."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import TextIO

__all__ = ["StageLine", "stages"]

_AFTER_S = 1.0
_EVERY_S = 0.2
_BAR = 24


@contextmanager
def stages(*, quiet: bool = False, stream: TextIO | None = None) -> Iterator[StageLine | None]:
    """A `StageLine` while the body runs; None where nobody would see it, as in a file or a pipe."""
    stream = sys.stderr if stream is None else stream
    if quiet or not stream.isatty():
        yield None
        return
    line = StageLine(stream)
    try:
        yield line
    finally:
        line.close()


class StageLine:
    """Shows a stage, how much of it is done where that is known, and how long it has taken so far.

    The line is drawn by a thread of its own: a stage that cannot tell how far it is shows by its seconds that
    it is alive. Work that is done within a second shows nothing.

    Args:
        stream: a terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._told = ("", 0, 0)
        self._start = self._stage_start = time.monotonic()
        self._width = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw_on, daemon=True)
        self._thread.start()

    def __call__(self, message: str, done: int, total: int) -> None:
        """Tell that ``done`` of ``total`` is reached; ``total`` 0 means that it is not known."""
        if message != self._told[0]:
            self._stage_start = time.monotonic()
        self._told = (message, done, total)

    def close(self) -> None:
        """Take the line away."""
        self._ended.set()
        self._thread.join()
        self._write("")

    def text(self) -> str:
        """The line as it is drawn now."""
        message, done, total = self._told
        seconds = f"{time.monotonic() - self._stage_start:.0f} s"
        share = min(done / total, 1.0) if total > 0 else 0.0
        full = round(_BAR * share)
        bar = f"{'━' * full}{'╌' * (_BAR - full)} {share:4.0%}  " if total > 0 else ""
        room = max(get_terminal_size().columns - len(bar) - len(seconds) - 3, 10)
        return f"{message if len(message) <= room else message[: room - 1] + '…'}  {bar}{seconds}"

    def _draw_on(self) -> None:
        while not self._ended.wait(_EVERY_S):
            if self._told[0] and time.monotonic() - self._start >= _AFTER_S:
                self._write(self.text())

    def _write(self, text: str) -> None:
        if text or self._width:
            self._stream.write("\r" + text.ljust(self._width) + ("" if text else "\r"))
            self._stream.flush()
        self._width = len(text)
