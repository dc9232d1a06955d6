"""End processes in order: when a signal asks for it, or together with the process that started them."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Stop", "Terminated", "end_with_parent", "stop_signals"]

_PR_SET_PDEATHSIG = 1
_LOOK_EVERY_S = 1.0
_AGAIN_AFTER_S = 0.01


class Terminated(KeyboardInterrupt):
    """SIGTERM was received; it unwinds the stack as Ctrl-C does."""


class Stop:
    """The signal that has asked to stop; ``signal`` is None until one has."""

    def __init__(self) -> None:
        self.signal: int | None = None


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """Within the block, SIGTERM raises `Terminated` as Ctrl-C raises KeyboardInterrupt; either is noted.

    What is ignored, such as Ctrl-C by a job in the background, stays so. Only the main thread can do this.
    Where Python swallows what was raised, as in callbacks of its garbage collection and its imports, the
    signal comes again a moment later.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def raises(number: int, _: FrameType | None) -> None:
        stop.signal = number
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    def again(found: sys.UnraisableHookArgs, /) -> None:
        if isinstance(found.exc_value, KeyboardInterrupt) and stop.signal is not None:
            threading.Timer(_AGAIN_AFTER_S, os.kill, (os.getpid(), stop.signal)).start()
        else:
            swallowed(found)

    swallowed, sys.unraisablehook = sys.unraisablehook, again
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, raises)
    try:
        yield stop
    finally:
        sys.unraisablehook = swallowed
        for number, handler in before.items():
            signal.signal(number, handler)


def end_with_parent(parent: int, with_signal: int = signal.SIGKILL) -> None:
    """Send this process a signal as soon as its parent is dead, also if that is so already.

    Args:
        parent: the process id of the parent, as the parent itself knows it.
        with_signal: SIGKILL by default.
    """
    if not _ask_the_kernel(with_signal):
        threading.Thread(target=_watch, args=(parent, with_signal), daemon=True).start()
    if os.getppid() != parent:
        os.kill(os.getpid(), with_signal)


def _ask_the_kernel(with_signal: int) -> bool:
    if sys.platform != "linux":
        return False
    import ctypes

    try:
        return bool(ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(with_signal), 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def _watch(parent: int, with_signal: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY_S)
    os.kill(os.getpid(), with_signal)
