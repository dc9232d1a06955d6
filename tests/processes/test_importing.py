"""`import_quickly` leaves garbage collection as it was."""

import gc

import pytest

from labeltree.processes import import_quickly


@pytest.fixture(autouse=True)
def _collector():
    was_on = gc.isenabled()
    yield
    gc.unfreeze()
    (gc.enable if was_on else gc.disable)()


@pytest.mark.parametrize("on", [True, False])
def test_no_garbage_is_sought_within_the_block(on):
    (gc.enable if on else gc.disable)()
    with import_quickly():
        assert not gc.isenabled()
    assert gc.isenabled() is on
    assert gc.get_freeze_count() > 0


def test_a_failing_import_leaves_the_collector_on():
    gc.enable()
    with pytest.raises(ImportError), import_quickly():
        import labeltree.no_such_module  # noqa: F401
    assert gc.isenabled()
