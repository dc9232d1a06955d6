"""What several processes make in the cache: one at a time, also those that come while others wait."""

import os
from pathlib import Path
from threading import Event, Thread

import pytest

from labeltree import cache
from labeltree.atomic import take_lock
from labeltree.cache import one_at_a_time


def test_who_has_waited_keeps_out_who_comes_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who leaves removes the file of the lock: who waited for it must lock the file that is there then."""
    folder, wait = tmp_path / "made", cache.wait_for_lock
    waiting, inside, leave, entered = Event(), Event(), Event(), list[str]()

    def tell(handle: int) -> None:
        waiting.set()
        wait(handle)

    def enter(name: str) -> None:
        with one_at_a_time(folder):
            entered.append(name)
            inside.set()
            assert leave.wait(60)
            entered.remove(name)

    second, third = (Thread(target=enter, args=(name,)) for name in ("second", "third"))
    with one_at_a_time(folder):
        monkeypatch.setattr(cache, "wait_for_lock", tell)
        second.start()
        assert waiting.wait(60)
    assert inside.wait(60)
    lock = os.open(tmp_path / ".made.lock", os.O_RDWR | os.O_CREAT)
    try:
        assert take_lock(lock) is False, "the second is inside, and a third would enter"
    finally:
        os.close(lock)
        leave.set()
        second.join(60)
    third.start()
    third.join(60)
    assert not entered
