"""Samples of many threads become batches, and everyone gets the result of their own sample."""

import random
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from labeltree.serving import ServiceSettings, batching
from labeltree.serving.batching import Batcher, Job

WAIT = 60  # seconds until a test gives up; nothing depends on how long it takes


def doubled(numbers: list[int]) -> list[int]:
    return [2 * number for number in numbers]


@pytest.mark.parametrize(("max_batch", "devices"), [(1, 1), (7, 1), (64, 3)])
def test_everyone_gets_their_own(max_batch: int, devices: int) -> None:
    batches: list[int] = []

    def compute(numbers: list[int]) -> list[int]:
        batches.append(len(numbers))
        return doubled(numbers)

    batcher: Batcher[int, int] = Batcher([compute] * devices, max_batch=max_batch, max_wait=0.001)

    def ask(number: int) -> int:
        job: Job[int, int] = Job(number)
        batcher.submit(job)
        return job.found.result(WAIT)

    numbers = list(range(300))
    random.Random(0).shuffle(numbers)
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(ask, numbers)) == doubled(numbers)
    batcher.close()
    assert sum(batches) == 300
    assert max(batches) <= max_batch
    assert batcher.batches == len(batches)
    assert not batcher.alive


def test_a_batch_collects_while_one_is_computed() -> None:
    began, go, sizes = threading.Event(), threading.Event(), []

    def compute(numbers: list[int]) -> list[int]:
        sizes.append(len(numbers))
        began.set()
        assert go.wait(WAIT)
        return numbers

    batcher: Batcher[int, int] = Batcher([compute], max_batch=5, max_wait=0)
    jobs: list[Job[int, int]] = [Job(number) for number in range(9)]
    batcher.submit(jobs[0])
    assert began.wait(WAIT)
    for job in jobs[1:]:
        batcher.submit(job)
    jobs[3].found.cancel()  # its client has gone
    go.set()
    batcher.close()
    assert sizes == [1, 5, 2], "the cancelled one has left the queue"
    assert [job.found.result() for job in jobs if job is not jobs[3]] == [0, 1, 2, 4, 5, 6, 7, 8]
    with pytest.raises(CancelledError):
        jobs[3].found.result()


def test_who_has_waited_while_a_batch_was_computed_waits_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    began, go, now = threading.Event(), threading.Event(), [0.0]

    def compute(numbers: list[int]) -> list[int]:
        began.set()
        assert go.wait(WAIT)
        return numbers

    monkeypatch.setattr(batching, "time", SimpleNamespace(monotonic=lambda: now[0]))
    batcher: Batcher[int, int] = Batcher([compute], max_batch=2, max_wait=WAIT)
    jobs: list[Job[int, int]] = [Job(number) for number in range(3)]
    for job in jobs[:2]:
        batcher.submit(job)  # a full batch
    assert began.wait(WAIT)
    batcher.submit(jobs[2])
    now[0] = WAIT + 1.0
    go.set()
    assert jobs[2].found.result(WAIT / 4) == 2
    batcher.close()


def test_a_cancelled_sample_leaves_the_queue_at_once() -> None:
    began, go, ended = threading.Event(), threading.Event(), []

    def compute(numbers: list[int]) -> list[int]:
        began.set()
        assert go.wait(WAIT)
        return numbers

    batcher: Batcher[int, int] = Batcher([compute], max_batch=1, max_wait=0)
    jobs: list[Job[int, int]] = [Job(n, on_end=lambda n=n: ended.append(n)) for n in range(3)]
    batcher.submit(jobs[0])
    assert began.wait(WAIT)
    jobs[2].found.cancel()
    for job in jobs[1:]:
        batcher.submit(job)
    assert ended == [2], "it was cancelled before it was queued"
    jobs[1].found.cancel()
    assert ended == [2, 1]
    assert not hasattr(jobs[1], "sample"), "its memory is free"
    assert not jobs[0].found.cancel(), "it is being computed"
    go.set()
    batcher.close()
    assert ended == [2, 1, 0]


def test_a_bad_sample_does_not_fail_the_others() -> None:
    def compute(numbers: list[int]) -> list[float]:
        return [12 / number for number in numbers]

    batcher: Batcher[int, float] = Batcher([compute], max_batch=4, max_wait=10)
    ended: list[int] = []
    jobs: list[Job[int, float]] = [Job(n, on_end=lambda n=n: ended.append(n)) for n in (1, 0, 2, 3)]
    for job in jobs:
        batcher.submit(job)
    assert [job.found.result(WAIT) for job in jobs if job is not jobs[1]] == [12, 6, 4]
    assert ended == [1, 0, 2, 3]
    assert isinstance(jobs[1].found.exception(WAIT), ZeroDivisionError)
    assert batcher.alive
    batcher.close()


def test_a_wrong_number_of_results_is_an_error() -> None:
    batcher: Batcher[int, int] = Batcher([lambda numbers: [*numbers, 0]], max_batch=4, max_wait=0)
    job: Job[int, int] = Job(1)
    batcher.submit(job)
    assert "2 results for 1 samples" in str(job.found.exception(WAIT))
    batcher.close()


def test_nothing_is_taken_after_the_end() -> None:
    batcher: Batcher[int, int] = Batcher([doubled], max_batch=4, max_wait=0)
    batcher.close()
    batcher.close()
    with pytest.raises(RuntimeError, match="has stopped"):
        batcher.submit(Job(1))


def test_one_thread_that_has_ended_is_told() -> None:
    batcher: Batcher[int, int] = Batcher([doubled, doubled], max_batch=4, max_wait=0)
    assert batcher.alive
    batcher._threads.append(threading.Thread())  # has not begun, and so does not run
    assert not batcher.alive
    batcher._threads.pop()
    batcher.close()
    assert not batcher.alive


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_batch", 0), ("max_wait", -1), ("timeout", 0), ("max_upload", -5), ("timeout", float("nan"))],
)
def test_settings_are_checked(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"{name} is {value}; expected"):
        ServiceSettings(**{name: value})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="raise max_waiting"):
        ServiceSettings(max_samples=5, max_waiting=4)
    assert ServiceSettings(max_wait=0).max_wait == 0
