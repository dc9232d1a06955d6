"""Progress of long work: on a terminal one line that is overwritten, elsewhere one line per stage."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

__all__ = ["Progress", "ProgressLine", "silent"]

Progress = Callable[[str, int, int], None]
"""``progress(message, done, total)``; ``total`` 0 where it is not known."""

_EVERY_S = 0.1


def silent(message: str, done: int, total: int) -> None:
    """Report nothing."""


class ProgressLine:
    """Shows what ``fetch`` and ``open_source`` report: pass it as their ``progress``.

    Args:
        stream: Where to; None = standard error.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._message = ""
        self._width = 0
        self._shown_at = 0.0

    def __call__(self, message: str, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` is reached; ``total`` 0 means that it is not known."""
        is_new = message != self._message
        self._message = message
        if not self._stream.isatty():
            if is_new:
                print(message, file=self._stream, flush=True)
            return
        is_complete = total > 0 and done >= total
        now = time.monotonic()
        if not (is_new or is_complete) and now - self._shown_at < _EVERY_S:
            return
        self._shown_at = now
        text = f"{message}: {done / total:4.0%}" if total else message
        if is_new and self._width:
            self._stream.write("\n")
            self._width = 0
        self._stream.write("\r" + text.ljust(self._width))
        self._width = len(text)
        if is_complete:
            self._stream.write("\n")
            self._width = 0
        self._stream.flush()

    def close(self) -> None:
        """End the line."""
        if self._width:
            self._stream.write("\n")
            self._stream.flush()
            self._width = 0
