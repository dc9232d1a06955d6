"""Processes of their own for tests, forked from one that has imported the libraries and done nothing else."""

import contextlib
import logging
import multiprocessing
import multiprocessing.forkserver
import multiprocessing.process
import multiprocessing.resource_tracker
import multiprocessing.util
import os
import socket
import stat
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any
from unittest import mock

import torch.multiprocessing

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["labeltree.training.fit", "labeltree.inference.bulk", "labeltree.cli.main"])


def fork_the_server() -> None:
    """Fork the server of `multiprocessing` from this process, in which all libraries are imported.

    It would be started anew, and import them once more.
    """

    def start(_: object, arguments: Sequence[str], handles: Sequence[int]) -> int:
        number = os.fork()
        if number:
            return number
        try:
            _close_pipes({0, 1, 2, *handles})
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            for handler in logging._handlerList:  # type: ignore[attr-defined] # of streams that are captured
                if type(found := handler()) is logging.StreamHandler:
                    found.stream = sys.stderr
            multiprocessing.process._children.clear()  # type: ignore[attr-defined] # of the parent
            multiprocessing.forkserver._forkserver.__init__()  # type: ignore[attr-defined,misc] # it was locked
            exec(arguments[-1])
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(0)

    multiprocessing.resource_tracker.ensure_running()  # which is started in the same way
    with mock.patch.object(multiprocessing.util, "spawnv_passfds", start):
        multiprocessing.forkserver.ensure_running()


def _close_pipes(kept: set[int]) -> None:
    """Close those of the process that this one was forked from: it would not be seen to end."""
    for number in map(int, os.listdir("/dev/fd")):
        with contextlib.suppress(OSError):  # that of the listing itself
            mode = os.fstat(number).st_mode
            if number not in kept and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
                os.close(number)


def end_the_server() -> None:
    """And wait for it, so that its time is counted as this process's."""
    multiprocessing.forkserver._forkserver._stop()  # type: ignore[attr-defined]


def start_forked(
    code: str,
    arguments: Sequence[str],
    errors: Path,
    environment: dict[str, str] | None = None,
    output: Path | None = None,
) -> ForkServerProcess:
    """Start what ``python -c CODE ARGUMENTS`` would run, with further variables; stderr goes to a file.

    Its folder is the one in which the tests were started, wherever they are now.

    Args:
        output: where stdout goes; None = nowhere.
    """
    words = list(arguments), str(errors), os.environ | (environment or {}), output and str(output)
    process = _context.Process(target=_run, args=(code, *words), daemon=True)
    process.start()
    return process


def run_forked(
    code: str, arguments: Sequence[str] = (), environment: dict[str, str] | None = None, patience: float = 400
) -> subprocess.CompletedProcess[str]:
    """Run what ``python -c CODE ARGUMENTS`` would, as `subprocess.run` does with its output captured."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        process = start_forked(code, arguments, err, environment, out)
        try:
            ended = end_forked(process, patience)
        finally:
            process.kill()
        return subprocess.CompletedProcess([code, *arguments], ended, out.read_text(), err.read_text())


def run_two_ranks(code: str, arguments: Sequence[str], out: Path, *, ends_well: bool = True) -> list[str]:
    """Run what ``python -c CODE ARGUMENTS`` would as two ranks on this machine, as a launcher starts them.

    Args:
        out: folder for their standard errors, which are returned.
        ends_well: They must end with 0.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ranks = [
        start_forked(
            code,
            arguments,
            out / f"errors{rank}.txt",
            {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "NODE_RANK": "0"}
            | {"RANK": str(rank), "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": "1"},
        )
        for rank in range(2)
    ]
    try:
        ended = [end_forked(rank, 400) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    errors = [(out / f"errors{rank}.txt").read_text() for rank in range(2)]
    if ends_well:
        assert ended == [0, 0], "\n".join([str(ended), *errors])
    return errors


def start_ranks(function: Callable[..., object], arguments: tuple[Any, ...], nprocs: int) -> None:
    """Run ``function(rank, *arguments)`` in as many processes, and wait for them.

    Processes of `torch.multiprocessing.spawn` would import everything anew, which costs more than most of
    what is tested so.
    """
    torch.multiprocessing.start_processes(function, arguments, nprocs, start_method="forkserver")


def end_forked(process: ForkServerProcess, patience: float) -> int:
    """Wait until it ends; its exit code, below 0 for a signal."""
    process.join(patience)
    assert process.exitcode is not None, "it does not end"
    return process.exitcode


def _run(
    code: str, arguments: list[str], errors: str, environment: dict[str, str], output: str | None
) -> None:
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined] # it may fork
    os.environ.clear()
    os.environ.update(environment)
    for number, file in ((1, output), (2, errors)):
        if file is not None:
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), number)
    sys.argv = ["-c", *arguments]
    if threads := environment.get("OMP_NUM_THREADS"):  # torch reads it at its import, which was before
        torch.set_num_threads(int(threads))
    from lightning.fabric.utilities.rank_zero import _get_rank, rank_zero_only

    rank_zero_only.rank = _get_rank() or 0  # type: ignore[attr-defined] # as at an import
    exec(compile(code, "-c", "exec"), {"__name__": "__main__"})
