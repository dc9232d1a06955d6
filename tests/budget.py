"""What tests cost: CPU seconds by room, printed at the end. ``--budget FILE`` writes those of every test."""

import os
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

_KEY = "cpu_seconds"
_mark = 0.0
_living = 0.0
_tests: dict[str, float] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--budget", metavar="FILE", help="write the CPU seconds of every test to FILE")


def cpu_seconds(look: bool = True) -> float:
    """CPU seconds of this process and of all that it has started.

    Args:
        look: See anew what those have used that go on, such as a browser (Linux only); it takes milliseconds.
    """
    global _living
    if look:
        _living = _of_living()
    return sum(os.times()[:4]) + _living


def _of_living() -> float:
    parents, seconds = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text("utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        process = int(stat.parent.name)
        parents[process] = int(fields[1])
        seconds[process] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    ours, found = {os.getpid()}, 0.0
    while below := {process for process, parent in parents.items() if parent in ours} - ours:
        found += sum(seconds[process] for process in below)
        ours |= below
    return found


def begin() -> None:
    """What is used from now on is used by tests."""
    global _mark
    _mark = cpu_seconds()


def pytest_collection_finish() -> None:
    begin()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Tests of a file follow one another; what lives on is counted with the last of them."""
    item.stash[_LAST] = nextitem is None or nextitem.path != item.path
    return (yield)


_LAST = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    global _mark
    report = yield
    if report.when == "teardown":
        now = cpu_seconds(look=item.stash.get(_LAST, True))
        report.user_properties.append((_KEY, now - _mark))
        _mark = now
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Called in the process that prints, of the tests of all workers."""
    for key, value in report.user_properties:
        if key == _KEY:
            _tests[report.nodeid] = _tests.get(report.nodeid, 0.0) + float(str(value))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not _tests:
        return
    rooms, files = Counter[str](), Counter[str]()
    for test, seconds in _tests.items():
        file = test.split("::")[0]
        rooms[room_of(file)] += seconds
        files[file] += seconds
    whole = cpu_seconds(look=False)
    rooms["start, collection"] = whole - sum(rooms.values())
    terminalreporter.section("CPU seconds")
    for name, seconds in rooms.most_common():
        terminalreporter.line(f"{seconds:8.1f}  {name}")
    terminalreporter.line(f"{whole:8.1f}  in all; the dearest files:")
    for name, seconds in files.most_common(10):
        terminalreporter.line(f"{seconds:8.1f}  {name}")
    if config.getoption("budget"):
        lines = (f"{seconds:.3f}\t{test}\n" for test, seconds in _tests.items())
        Path(config.getoption("budget")).write_text("".join(lines), "utf-8")


def room_of(file: str) -> str:
    """The room that a file of tests is in; files beside the rooms are a room of their own."""
    parts = Path(file).parts
    below = parts[parts.index("tests") + 1 :] if "tests" in parts else parts
    return below[0] if len(below) > 1 else "tests/*.py"
