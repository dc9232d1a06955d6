"""`import_quickly` leaves garbage collection as it was; what is slow to import is not imported early."""

import gc
from collections.abc import Iterator

import pytest

from labeltree.processes import import_quickly


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.unfreeze()  # what conftest.py froze
    yield
    gc.freeze()
    (gc.enable if was_on else gc.disable)()


@pytest.mark.parametrize("on", [True, False])
def test_no_garbage_is_sought_within_the_block(on: bool) -> None:
    (gc.enable if on else gc.disable)()
    with import_quickly():
        assert not gc.isenabled()
    assert gc.isenabled() is on
    assert gc.get_freeze_count() > 0


def test_a_failing_import_leaves_the_collector_on() -> None:
    gc.enable()
    with pytest.raises(ImportError), import_quickly():
        raise ImportError
    assert gc.isenabled()
