"""Tests in several processes, forked once all tests are known: ``pytest --workers 3``.

Libraries are imported and tests collected once, not by every process anew; a process takes the next file of
tests when it has finished one. Its fork server (see `forked`) is forked from it, before it has run a test.
A process that ends by a signal fails the test that it was in, and another takes its place.
"""

import contextlib
import gc
import importlib
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Generator, Iterator
from itertools import groupby
from multiprocessing import Pipe, process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import pytest
import torch

import budget
import forked


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=0, metavar="N", help="run the tests in N processes")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """A file that calculates when imported must not start threads of OpenMP: no forked process has them."""
    if not session.config.option.workers:
        return (yield)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return (yield)
    finally:
        torch.set_num_threads(before)


# Of several seconds each, and used by tests of several rooms, which every process would import for itself.
_USED_LATE = ("timm", "sentence_transformers", "open_clip", "peft", "transformers.trainer", "qdrant_client")
_MANY = 100  # files


def _import_once() -> None:
    """Import what most processes will use. W&B, which timm looks for, takes half of the time and is not."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "wandb" not in sys.modules:
            patch.setitem(sys.modules, "wandb", None)
        for name in _USED_LATE:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    config = session.config
    if not config.option.workers or config.option.collectonly or session.testsfailed:
        return None
    if len({item.path for item in session.items}) >= _MANY:
        _import_once()
        gc.freeze()
    if threads := threading.enumerate()[1:]:
        names = ", ".join(thread.name for thread in threads)
        raise pytest.UsageError(f"importing the tests started threads, which no forked process has: {names}")
    files = [list(items) for _, items in groupby(session.items, key=lambda item: item.path)]
    _Workers(session, files).run()
    return True


class _Workers:
    """The processes, and what they are doing."""

    def __init__(self, session: pytest.Session, files: list[list[pytest.Item]]) -> None:
        self.session, self.files = session, files
        self.left = iter(range(len(files)))
        self.processes: dict[Connection, int] = {}
        self.running: dict[Connection, tuple[str, Any]] = {}
        config = session.config
        self.folder: Path = config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]

    def run(self) -> None:
        try:
            for _ in range(min(self.session.config.option.workers, len(self.files))):
                self.start()
            while self.processes:
                for connection in wait(list(self.processes)):
                    assert isinstance(connection, Connection)
                    self.listen(connection)
        finally:
            for number in self.processes.values():
                os.kill(number, signal.SIGKILL)
                os.waitpid(number, 0)
        if self.session.shouldfail:
            raise self.session.Failed(self.session.shouldfail)
        if self.session.shouldstop:
            raise self.session.Interrupted(self.session.shouldstop)

    def start(self) -> None:
        ours, theirs = Pipe()
        folder = self.folder / f"worker{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        sys.stdout.flush()
        sys.stderr.flush()
        number = os.fork()
        if not number:
            for other in (ours, *self.processes):
                other.close()
            _work(self.session, self.files, theirs, folder)
        theirs.close()
        self.processes[ours] = number

    def listen(self, connection: Connection) -> None:
        hook, config = self.session.config.hook, self.session.config
        try:
            kind, content = connection.recv()
        except (EOFError, ConnectionResetError):
            self.ended(connection)
            return
        if kind == "next":
            stop = self.session.shouldfail or self.session.shouldstop
            connection.send(None if stop else next(self.left, None))
        elif kind == "start":
            self.running[connection] = content
            hook.pytest_runtest_logstart(nodeid=content[0], location=content[1])
        elif kind == "report":
            hook.pytest_runtest_logreport(
                report=hook.pytest_report_from_serializable(config=config, data=content)
            )
        elif kind == "warning":
            category, text, where = content
            message = warnings.WarningMessage(Warning(f"{category}: {text}"), Warning, where[0], where[1])
            hook.pytest_warning_recorded.call_historic(
                kwargs={"warning_message": message, "when": "runtest", "nodeid": where[2], "location": None}
            )
        elif kind == "finish":
            self.running.pop(connection, None)
            hook.pytest_runtest_logfinish(nodeid=content[0], location=content[1])

    def ended(self, connection: Connection) -> None:
        connection.close()
        _, status = os.waitpid(self.processes.pop(connection), 0)
        if code := os.waitstatus_to_exitcode(status):
            nodeid, location = self.running.pop(connection, ("no test", ("", None, "")))
            text = f"The process of this test ended with {code}; the tests after it in its file did not run."
            report = pytest.TestReport(nodeid, location, {}, "failed", text, "call")
            self.session.config.hook.pytest_runtest_logreport(report=report)
            self.start()


class _Teller:
    """What a process tells the one that prints."""

    def __init__(self, connection: Connection, config: pytest.Config) -> None:
        self.connection, self.config = connection, config

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        self.connection.send(("start", (nodeid, location)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self.connection.send(("report", data))

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        self.connection.send(("finish", (nodeid, location)))

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, nodeid: str) -> None:
        where = warning_message.filename, warning_message.lineno, nodeid
        self.connection.send(
            ("warning", (warning_message.category.__name__, str(warning_message.message), where))
        )


def _work(
    session: pytest.Session, files: list[list[pytest.Item]], connection: Connection, folder: Path
) -> None:
    """Run the files of tests that are handed out, and end this process."""
    try:
        config = session.config
        process._children.clear()  # type: ignore[attr-defined] # of the process that it was forked from
        config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]
        plugins = config.pluginmanager
        plugins.unregister(name="terminalreporter")
        plugins.register(_Teller(connection, config))
        capture: Any = plugins.getplugin("capturemanager")
        capture.stop_global_capturing()
        forked.fork_the_server()
        capture.start_global_capturing()
        budget.begin()
        items = _handed_out(files, connection)
        item = next(items, None)
        while item is not None:
            after = next(items, None)
            config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            item = after
        forked.end_the_server()
        connection.close()
        os._exit(0)
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
        os._exit(3)


def _handed_out(files: list[list[pytest.Item]], connection: Connection) -> Iterator[pytest.Item]:
    while True:
        connection.send(("next", None))
        number = connection.recv()
        if number is None:
            return
        yield from files[number]
