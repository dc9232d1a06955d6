"""The benchmark of memory: a process of its own whose peak is over what its inputs took."""

import importlib
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.long
def test_a_process_of_its_own() -> None:
    peak = importlib.import_module("peak").peak("supcon", 1024, 16, "dense")
    assert 4 < peak.megabytes < 500  # a matrix of similarities is 4.2 MB
    assert peak.seconds > 0


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="not Linux")
def test_the_peak_begins_anew() -> None:
    peak = importlib.import_module("peak")
    block = bytearray(200 * 2**20)
    block[::4096] = b"x" * len(block[::4096])
    held = peak.resident("VmRSS:")
    del block
    assert held - 2**24 <= peak.resident("VmHWM:")
    peak.forget_peak()
    assert peak.resident("VmHWM:") < held - 100 * 2**20


def test_growth_is_the_greatest_of_doublings() -> None:
    memory, peak = importlib.import_module("memory"), importlib.import_module("peak").Peak
    peaks = {8: peak(10.0, 1.0), 16: peak(21.0, 4.0), 32: peak(40.0, 16.0), 100: peak(999.0, 1.0)}
    assert memory.growth(peaks) == 2.1
    assert memory.growth({8: peak(10.0, 1.0)}) is None
    assert memory.growth({8: peak(10.0, 1.0), 16: peak(None, None)}) is None


def test_a_figure_of_all_is_left_out_where_one_is_missing() -> None:
    memory, peak = importlib.import_module("memory"), importlib.import_module("peak").Peak
    n = memory.LARGEST
    found = {"hwc": {n // 2: peak(100.0, 4.0), n: peak(200.0, 16.0)}}
    assert memory.figures(found) == {"P5": 200.0, "P5 seconds": 16.0, "P5 growth": 2.0}
    found["mlcl"] = {n // 2: peak(100.0, 4.0), n: peak(None, None)}
    assert memory.figures(found) == {"P5 seconds": 16.0}
