"""Samples of concurrent requests, brought together into batches."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

__all__ = ["Batcher", "Job"]

S = TypeVar("S")
F = TypeVar("F")


@dataclass(eq=False)
class Job(Generic[S, F]):
    """A sample, and the future of what is computed from it.

    Attributes:
        sample: What to compute with.
        found: Its result; a job that is cancelled before its batch begins is dropped.
        since: When it was submitted, by the monotonic clock.
        on_end: Called once the sample is no longer held, in any thread, before the result is there.
    """

    sample: S
    found: Future[F] = field(default_factory=Future)
    since: float = 0.0
    on_end: Callable[[], None] = lambda: None

    def end(self) -> None:
        """Let go of the sample; for whoever holds the job, once."""
        del self.sample
        self.on_end()


class Batcher(Generic[S, F]):
    """Computes submitted samples in batches, in one thread per device.

    While a batch is computed, the next one collects. An idle thread waits for more samples until the oldest
    has waited `max_wait` or the batch is full. If a batch fails, its samples are computed one by one, so
    that a bad one does not fail the others.

    Args:
        computes: For each device, a function from the samples of a batch to a result for each; called in a
            thread of its own.
        max_batch: Most samples of a batch.
        max_wait: Seconds.
    """

    def __init__(
        self, computes: Sequence[Callable[[list[S]], Sequence[F]]], *, max_batch: int, max_wait: float
    ) -> None:
        self._max_batch = max_batch
        self._max_wait = max_wait
        self._queue: deque[Job[S, F]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self.batches = 0
        self._threads = [
            threading.Thread(target=self._work, args=(compute,), name=f"inference-{number}", daemon=True)
            for number, compute in enumerate(computes)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job[S, F]) -> None:
        """Queue a job.

        Raises:
            RuntimeError: If the batcher is closed.
        """
        with self._changed:
            if self._closed:
                raise RuntimeError("the service has stopped")
            job.since = time.monotonic()
            self._queue.append(job)
            self._changed.notify()
        job.found.add_done_callback(lambda future: self._drop(job) if future.cancelled() else None)

    @property
    def alive(self) -> bool:
        """Whether all threads run."""
        return all(thread.is_alive() for thread in self._threads)

    def close(self, timeout: float | None = None) -> None:
        """Compute what is queued, then end the threads.

        Args:
            timeout: Seconds to wait for each thread; None = until it has ended.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout)

    def _drop(self, job: Job[S, F]) -> None:
        """Take a cancelled job out of the queue; if a thread has taken it already, that lets go of it."""
        with self._changed:
            try:
                self._queue.remove(job)
            except ValueError:
                return
        job.end()

    def _work(self, compute: Callable[[list[S]], Sequence[F]]) -> None:
        while (batch := self._next()) is not None:
            wanted = []
            for job in batch:
                if job.found.set_running_or_notify_cancel():
                    wanted.append(job)
                else:
                    job.end()
            if wanted:
                self.batches += 1
                _compute(compute, wanted)
            del batch, wanted, job  # while it waits for the next batch

    def _next(self) -> list[Job[S, F]] | None:
        """The next batch; None once the batcher is closed and its queue is empty."""
        with self._changed:
            while True:
                while not self._queue:
                    if self._closed:
                        return None
                    self._changed.wait()
                until = self._queue[0].since + self._max_wait
                while 0 < len(self._queue) < self._max_batch and not self._closed:
                    if (left := until - time.monotonic()) <= 0 or not self._changed.wait(left):
                        break
                if self._queue:  # another thread may have taken them meanwhile
                    return [self._queue.popleft() for _ in range(min(self._max_batch, len(self._queue)))]


def _compute(compute: Callable[[list[S]], Sequence[F]], jobs: list[Job[S, F]]) -> None:
    try:
        results = compute([job.sample for job in jobs])
        if len(results) != len(jobs):
            raise RuntimeError(f"{len(results)} results for {len(jobs)} samples")
    except Exception as error:
        if len(jobs) == 1:
            jobs[0].end()
            jobs[0].found.set_exception(error)
            return
        for job in jobs:
            _compute(compute, [job])
        return
    for job, result in zip(jobs, results, strict=True):
        job.end()
        job.found.set_result(result)
