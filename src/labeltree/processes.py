"""Stop processes cleanly, on a signal or together with the parent process."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = [
    "Stop",
    "Terminated",
    "available_cores",
    "end_with_parent",
    "import_quickly",
    "keep_freed_memory",
    "stop_signals",
]

_PR_SET_PDEATHSIG = 1
_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8  # of mallopt(3)
_LOOK_EVERY_S = 1.0
_AGAIN_AFTER_S = 0.01


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP was received; unwinds the stack as Ctrl-C does."""


class Stop:
    """Records the signal that requested a stop; `signal` is None until then."""

    def __init__(self) -> None:
        self.signal: int | None = None


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """Within the block, SIGTERM raises `Terminated` as Ctrl-C raises KeyboardInterrupt; both are recorded.

    SIGHUP, as of a terminal that is closed, is passed on as SIGTERM. Ignored signals, such as Ctrl-C in a
    background job and SIGHUP under nohup, stay ignored. Works in the main thread only. Where
    Python swallows the exception, as in callbacks of garbage collection and imports, the signal is sent
    again a moment later.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def raises(number: int, _: FrameType | None) -> None:
        stop.signal = number
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    def again(unraisable: sys.UnraisableHookArgs, /) -> None:
        if isinstance(unraisable.exc_value, KeyboardInterrupt) and stop.signal is not None:
            threading.Timer(_AGAIN_AFTER_S, os.kill, (os.getpid(), stop.signal)).start()
        else:
            swallowed(unraisable)

    swallowed, sys.unraisablehook = sys.unraisablehook, again
    before = {}
    handlers = {signal.SIGINT: raises, signal.SIGTERM: raises}
    if hasattr(signal, "SIGHUP"):
        handlers[signal.SIGHUP] = lambda *_: os.kill(os.getpid(), signal.SIGTERM)
    for number, handler in handlers.items():
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, handler)
    try:
        yield stop
    finally:
        sys.unraisablehook = swallowed
        for number, previous in before.items():
            signal.signal(number, previous)


def available_cores() -> int:
    """The number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def import_quickly() -> Iterator[None]:
    """For a block of imports: no search for garbage while they run, and none in what they leave behind.

    What modules define stays until the process ends. Python nevertheless searches it again and again as it
    grows, which takes about a tenth of the CPU time that PyTorch takes to be imported.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if was_on:
            gc.enable()


def keep_freed_memory() -> bool:
    """Keep memory that is freed for the next use, in this process from now on; call it before threads begin.

    By default, glibc asks the system for tens of megabytes anew whenever a layer of a network wants them, and
    the system clears every page: on a CPU, that can take as long as the layer itself.

    Returns:
        Whether it could be set; only glibc knows these settings.
    """
    if sys.platform != "linux":
        return False
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, 2**31 - 1), (_M_ARENA_MAX, 1))
    return all(mallopt(name, value) == 1 for name, value in settings)


def end_with_parent(parent: int, with_signal: int = signal.SIGKILL) -> None:
    """Send this process a signal as soon as its parent is dead, or now if it already is.

    Args:
        parent: Process id of the parent, as seen by the parent itself.
        with_signal: The signal to send.
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
