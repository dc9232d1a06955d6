"""Times and memory on a GPU, and what a run that has to end in time does with its minutes."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

import torch
from torch.profiler import ProfilerActivity, profile

from kept import Row, Table, show

__all__ = ["Session", "by_kernel", "timed", "waits"]


def timed(call: Callable[[], object], rounds: int, warmup: int = 3) -> tuple[float, float]:
    """Median milliseconds of a call, and peak bytes over what was allocated before."""
    for _ in range(warmup):
        call()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before, took = torch.cuda.memory_allocated(), []
    for _ in range(rounds):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        began.record()
        call()
        ended.record()
        torch.cuda.synchronize()
        took.append(began.elapsed_time(ended))
    return median(took), float(torch.cuda.max_memory_allocated() - before)


def by_kernel(call: Callable[[], object], calls: int = 5, most: int = 20) -> list[tuple[str, float, float]]:
    """Name, milliseconds and launches of the kernels that a call spends most on, the longest first.

    A kernel that a call launches a few times counts once for every such place.
    """
    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
    ran: dict[str, list[float]] = {}
    for event in sorted(seen.events() or (), key=lambda event: event.time_range.start):
        if "CUDA" in str(event.device_type):
            name = event.name.split("(")[0][-70:]
            ran.setdefault(name, []).append(event.time_range.elapsed_us() / 1e3)
    spent = []
    for name, took in ran.items():
        each = len(took) // calls
        places = each if 0 < each <= 4 and each * calls == len(took) else 1
        for place in range(places):
            label = name if places == 1 else f"{name}, launch {place + 1}"
            spent.append((label, sum(took[place::places]) / calls, len(took) / places / calls))
    spent.sort(key=lambda kernel: -kernel[1])
    rest = spent[most:]
    others = ("all others", sum(kernel[1] for kernel in rest), sum(kernel[2] for kernel in rest))
    return [*spent[:most], *([others] if rest else [])]


def waits(call: Callable[[], object], warmup: int = 12) -> list[str]:
    """File and line of every place in labeltree at which a call waits for the GPU, in order.

    The calls before it are not watched, since a loss reads the labels of its first batches.
    """
    for _ in range(warmup):
        call()
    places: list[str] = []

    def keep(message: Warning | str, *_: object, **__: object) -> None:
        if "synchronizing" in str(message):
            ours = [line for line in traceback.extract_stack() if "labeltree" in line.filename]
            places.extend(f"{line.filename.rsplit('/', 1)[-1]}:{line.lineno}" for line in ours[-1:])

    with warnings.catch_warnings():  # which restores `showwarning`
        warnings.simplefilter("always")
        warnings.showwarning = keep
        torch.cuda.set_sync_debug_mode("warn")
        try:
            call()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return places


class Session:
    """A run with an end: a row at a time is printed when it is there, and none is begun too late.

    What fails is noted, and the run goes on.

    Args:
        seconds: after which nothing more is begun.
    """

    def __init__(self, seconds: float) -> None:
        self.tables: list[Table] = []
        self.notes: list[str] = []
        self._end = time.monotonic() + seconds
        self._began = time.monotonic()

    @contextmanager
    def table(self, title: str, columns: tuple[str, ...]) -> Iterator[list[Row]]:
        """The rows of a table, which is kept if it has any."""
        rows: list[Row] = []
        print(f"\n[{time.monotonic() - self._began:.0f} s] {title}: {', '.join(columns)}", flush=True)
        with self.noting(title):
            yield rows
        if rows:
            self.tables.append(Table(title, columns, rows))

    def add(self, rows: list[Row], name: str, make: Callable[[], Row]) -> Row | None:
        """Add the row that `make` finds, unless it is too late or it fails."""
        if time.monotonic() > self._end:
            self.notes.append(f"No time was left for: {name}.")
            return None
        row: Row | None = None
        with self.noting(name):
            row = make()
            rows.append(row)
            print("  " + " | ".join(show(cell) for cell in row), flush=True)
        return row

    @contextmanager
    def noting(self, name: str) -> Iterator[None]:
        """Notes what goes wrong within it."""
        try:
            yield
        except Exception as error:
            first = (str(error).strip().splitlines() or [""])[0][:200]
            self.notes.append(f"{name}: {type(error).__name__}: {first}")
            print(f"  {self.notes[-1]}", flush=True)
        finally:
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
