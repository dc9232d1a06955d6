"""A limit to memory in total: who comes first is served first, and what can never be served is told."""

import threading

import pytest

from labeltree.serving.wait_for_memory import MemoryLimit


def test_a_large_one_is_not_overtaken() -> None:
    limit, order = MemoryLimit(100), list[int]()

    def take(count: int) -> None:
        with limit.taking(count):
            order.append(count)

    threads = [threading.Thread(target=take, args=(count,), daemon=True) for count in (100, 1, 2)]
    with limit.taking(50):
        for number, thread in enumerate(threads):
            thread.start()
            while len(limit._waiting) <= number:
                threading.Event().wait(0.001)
        assert (order, limit.used) == ([], 50), "1 and 2 would fit, but have come after 100"
    for thread in threads:
        thread.join(60)
    assert order[0] == 100
    assert limit.used == 0


def test_as_many_as_fit_at_once() -> None:
    limit, together = MemoryLimit(100), threading.Barrier(4)

    def take() -> None:
        with limit.taking(25):
            together.wait(60)

    threads = [threading.Thread(target=take, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not together.broken
    assert limit.used == 0


def test_an_error_gives_the_memory_back_and_too_much_is_told() -> None:
    limit = MemoryLimit(10)
    with pytest.raises(KeyError), limit.taking(10):
        raise KeyError
    assert limit.used == 0
    with pytest.raises(ValueError, match="11 bytes are wanted of 10"), limit.taking(11):
        pass
