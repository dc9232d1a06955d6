"""How every figure here is measured and kept: one core, one thread, candidates in turn, ratios to a baseline.

A script is a module with a function `measure(size) -> Results`, and ends with

    if __name__ == "__main__":
        main(__doc__, measure)

`size` is "full", "short" (`--short`: minutes become seconds, the same sizes where a goal names one) or "tiny"
(`--tiny`: a few rows, to see that the script runs). The tables are printed and written, as JSON and Markdown,
with the command and the machine: those of the full form in benchmarks/results, of the others in a folder of
that name below. What a goal asks for goes into `Results.measured` under the goal's key, see goals.py.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Literal, TypeVar

import torch

from kept import Results, Row, Table, markdown, write

__all__ = [
    "Results",
    "Row",
    "Size",
    "Table",
    "Timing",
    "best",
    "choose",
    "in_turn",
    "limit3",
    "main",
    "matmuls",
    "one_core",
]

T = TypeVar("T")
Size = Literal["full", "short", "tiny"]
LEAST_SECONDS = 0.05  # a shorter call is repeated, so that the clock's grain does not matter


@dataclass(frozen=True)
class Timing:
    """One candidate over the rounds.

    Attributes:
        seconds: median over the rounds, CPU seconds of the process a call.
        ratio: median over the rounds of its seconds over the baseline's in the same round.
        ratios: all of them.
    """

    seconds: float
    ratio: float
    ratios: list[float] = field(repr=False)

    @property
    def spread(self) -> str:
        """The least and the greatest ratio."""
        return f"{min(self.ratios):.3g}–{max(self.ratios):.3g}"


def one_core(core: int | None = None) -> None:
    """Run on one core (where the system lets a process choose) with one thread."""
    torch.set_num_threads(1)
    with suppress(RuntimeError):  # it can be set once in a process, before the first parallel work
        torch.set_num_interop_threads(1)
    if hasattr(os, "sched_setaffinity"):
        mine = sorted(os.sched_getaffinity(0))
        if core is not None and core not in mine:
            raise SystemExit(f"--core {core} is none of this process's cores, which are {mine}")
        os.sched_setaffinity(0, {mine[0] if core is None else core})


def in_turn(
    candidates: Mapping[str, Callable[[], object]], baseline: str, *, rounds: int = 5, warmup: int = 1
) -> dict[str, Timing]:
    """Time the candidates, every one once a round, so that a machine that drifts drifts for all of them.

    Args:
        candidates: what to call, by name; the baseline is one of them.
        baseline: name of the candidate that the others are divided by, round by round.
        rounds: counted rounds; a single one is a trial, without warm-up and repetition.
        warmup: calls of each that are not counted, before.

    Raises:
        ValueError: the baseline is no candidate, or there is no round.
    """
    if baseline not in candidates or rounds < 1:
        raise ValueError(f"baseline {baseline!r} must be a candidate and rounds at least 1; got {rounds}")
    calls = {name: _calls(call, warmup) if rounds > 1 else 1 for name, call in candidates.items()}
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, call in candidates.items():
                seconds[name].append(_timed(call, calls[name]))
    finally:
        gc.enable()
    base = seconds[baseline]
    timings = {}
    for name, of in seconds.items():
        ratios = [mine / theirs for mine, theirs in zip(of, base, strict=True)]
        timings[name] = Timing(median(of), median(ratios), ratios)
    return timings


def best(call: Callable[[], object], repeats: int, *, warmup: int = 1) -> tuple[float, float]:
    """The least CPU seconds and the least seconds by the clock of a call."""
    for _ in range(warmup):
        call()
    cpu, wall = [], []
    for _ in range(repeats):
        began, busy = time.perf_counter(), time.process_time()
        call()
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - busy)
    return min(cpu), min(wall)


def limit3(n: int, d: int) -> Callable[[], object]:
    """The baseline of pairwise losses: S = Z Zᵀ, G Z and Gᵀ Z, plain matrix products with n rows of d."""
    generator = torch.Generator().manual_seed(0)
    z, g = torch.randn(n, d, generator=generator), torch.randn(n, n, generator=generator)
    s, left, right = torch.empty(n, n), torch.empty(n, d), torch.empty(n, d)

    def products() -> None:
        torch.mm(z, z.T, out=s)
        torch.mm(g, z, out=left)
        torch.mm(g.T, z, out=right)

    return products


def matmuls(b: int, m: int, d: int) -> Callable[[], object]:
    """The baseline of a queue of m keys: q Vᵀ, k Vᵀ, (soft target) V and (softmax) V for b queries."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(rows, d, generator=generator) for rows in (b, b, m))
    s, near, out = torch.empty(b, m), torch.empty(b, m), torch.empty(b, d)

    def products() -> None:
        torch.mm(q, v.T, out=s)
        torch.mm(k, v.T, out=near)
        torch.mm(s, v, out=out)
        torch.mm(near, v, out=out)

    return products


def choose(size: Size, *, full: T, short: T, tiny: T) -> T:
    """The setting of a size."""
    return {"full": full, "short": short, "tiny": tiny}[size]


def main(
    description: str | None, measure: Callable[..., Results], options: Mapping[str, str] | None = None
) -> None:
    """Read the command line, measure on one core, print and write the results.

    Args:
        description: of the script, its docstring.
        measure: called with the size and, by name, the further options that were given.
        options: further options with one value each: name and what it means.
    """
    text = (description or "").strip().splitlines()
    parser = argparse.ArgumentParser(description=text[0] if text else None)
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--short", action="store_true", help="the short form")
    sizes.add_argument("--tiny", action="store_true", help="a few rows: does it run?")
    parser.add_argument("--core", type=int, help="the core to run on; else the first it may use")
    parser.add_argument("--out", type=Path, help="folder of the results; else benchmarks/results")
    for name, meaning in (options or {}).items():
        parser.add_argument(f"--{name}", help=meaning)
    given = vars(parser.parse_args())
    size: Size = "short" if given.pop("short") else "full"
    size = "tiny" if given.pop("tiny") else size
    out = given.pop("out")
    one_core(given.pop("core"))
    further = {name: value for name, value in given.items() if value is not None}
    name = Path(sys.argv[0]).stem
    began = time.perf_counter()
    results = measure(size, **further)
    results.seconds = time.perf_counter() - began
    kept = write(results, name, size, further, folder=out)
    print(markdown(kept))


def _timed(call: Callable[[], object], calls: int) -> float:
    began = time.process_time()
    for _ in range(calls):
        call()
    return (time.process_time() - began) / calls


def _calls(call: Callable[[], object], warmup: int) -> int:
    """How many calls make one measurement; they are found in the warm-up."""
    took = min(_timed(call, 1) for _ in range(max(warmup, 1)))
    if took < LEAST_SECONDS:
        took = min(took, _timed(call, 3))
    return max(1, round(LEAST_SECONDS / took)) if 0 < took < LEAST_SECONDS else 1
