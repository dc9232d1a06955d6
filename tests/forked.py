"""Processes of their own for tests, forked from one that has imported the libraries and done nothing else."""

import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import torch.multiprocessing

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["labeltree.training.fit", "labeltree.inference.bulk", "labeltree.cli.main"])


def start_forked(
    code: str, arguments: Sequence[str], errors: Path, environment: dict[str, str] | None = None
) -> ForkServerProcess:
    """Start what ``python -c CODE ARGUMENTS`` would run, with further variables; stderr goes to a file."""
    process = _context.Process(
        target=_run, args=(code, list(arguments), str(errors), os.environ | (environment or {})), daemon=True
    )
    process.start()
    return process


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


def _run(code: str, arguments: list[str], errors: str, environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
    sys.argv = ["-c", *arguments]
    from lightning.fabric.utilities.rank_zero import rank_zero_only

    rank = environment.get("RANK") or environment.get("SLURM_PROCID") or 0
    rank_zero_only.rank = int(rank)  # type: ignore[attr-defined]
    exec(compile(code, "-c", "exec"), {"__name__": "__main__"})
