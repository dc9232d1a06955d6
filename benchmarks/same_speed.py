"""Is one version of labeltree as fast as another?

    python benchmarks/same_speed.py --before OTHER [--after .] [--rounds 5] [CASE ...]

OTHER and `.` are folders of the project. Each version has a process of its own; the two take turns at every
case, so that a machine that drifts drifts for both, and CPU seconds are compared round by round. A case is
given by the beginning of its name: `"hwc n=4096"`, `himulcon`, `retrieval`. Exit status 1 if any is slower by
more than a tenth.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

LEAST = 0.1  # CPU seconds of a timed repetition
SHAPES = ("balanced, 8/64/512", "2 leaves", "4000 leaves, flat", "1200 nodes, ragged")
EVERYWHERE = ("hwc", "himulcon", "hicone")  # in all shapes


def cases() -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    """Name, kind and arguments of each case."""
    names = "ntxent supcon hwc himulcon hicone himulcone mlcl jaccard lam maskcon grafit"
    for n in (512, 4096):
        for shape in SHAPES:
            for name in names.split() if shape == SHAPES[0] else EVERYWHERE:
                yield f"{name} n={n}, {shape}", "step", (name, n, shape)
    for name in EVERYWHERE:
        yield f"{name} n=8192, {SHAPES[0]}", "step", (name, 8192, SHAPES[0])
    yield "retrieval metrics, 4,000 samples", "retrieval", (4000,)
    yield "an epoch of the sampler, 200,000 samples", "sampler", (200_000,)
    yield "relation of a batch of 8192", "relation", (8192,)


def made(kind: str, arguments: tuple[Any, ...]) -> Callable[[], object]:
    """The work of a case, by this process's version."""
    import torch

    from inputs import balanced, batch

    if kind == "step":
        from objectives import both_ways, objective

        name, n, shape = arguments
        inputs = batch(n, 128, shape)
        return both_ways(objective(name, inputs), inputs.z)
    (n,) = arguments
    if kind == "retrieval":
        from labeltree.metrics.functional import retrieval_metrics

        inputs = batch(n, 128, noise=0.1)
        return lambda: retrieval_metrics(inputs.z, inputs.nodes, inputs.taxonomy)
    if kind == "sampler":
        from labeltree.sampling import HierarchicalBatchSampler

        tree = balanced(8, 80, 1_600)
        nodes = tree.leaves[
            torch.randint(len(tree.leaves), (n,), generator=torch.Generator().manual_seed(0))
        ].numpy()
        epochs = iter(range(10**6))
        sampler = HierarchicalBatchSampler(tree, nodes, 512)
        return lambda: sampler.plan(next(epochs))
    from labeltree.pairs import PairRelation

    tree = balanced(10, 100, 10_000)
    nodes = tree.leaves[torch.randint(len(tree.leaves), (n,), generator=torch.Generator().manual_seed(0))]
    return lambda: PairRelation.of_batch(tree.paths, nodes)


def work() -> None:
    """Answer each case that is asked for with the CPU seconds of one call."""
    import torch

    torch.set_num_threads(1)
    ready: dict[str, tuple[Callable[[], object], int]] = {}
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what else is printed is no answer
    for line in sys.stdin:
        name, kind, arguments = json.loads(line)
        if name not in ready:
            ready.clear()
            call = made(kind, tuple(arguments))
            call()
            began = time.process_time()
            call()
            ready[name] = call, max(1, round(LEAST / max(time.process_time() - began, 1e-6)))
        call, calls = ready[name]
        began = time.process_time()
        for _ in range(calls):
            call()
        answers.write(f"{(time.process_time() - began) / calls}\n")
        answers.flush()


class Version:
    """A process in which one version works."""

    def __init__(self, project: Path) -> None:
        paths = [project.resolve() / "src", project.resolve() / "benchmarks"]
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--work"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONSAFEPATH": "1"},
        )

    def seconds(self, case: tuple[str, str, tuple[Any, ...]]) -> float:
        """CPU seconds of one call."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process ended at {case[0]!r}; what it printed stands above")
        return float(answer)


def main() -> int:
    """Print a row a case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help="beginnings of names; default: all")
    parser.add_argument("--before", metavar="FOLDER", type=Path)
    parser.add_argument("--after", metavar="FOLDER", type=Path, default=Path())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work()
        return 0
    if options.before is None:
        parser.error("--before FOLDER is needed")
    chosen = [case for case in cases() if not options.cases or case[0].startswith(tuple(options.cases))]
    if not chosen:
        parser.error(f"no case begins with {' or '.join(map(repr, options.cases))}")
    before, after = Version(options.before), Version(options.after)
    print("| case | before, CPU ms | after ÷ before | least–greatest | |\n|---|---:|---:|---:|---|")
    slower = 0
    for case in chosen:
        pairs = [(before.seconds(case), after.seconds(case)) for _ in range(options.rounds)]
        ratios = [ours / theirs for theirs, ours in pairs]
        slow = median(ratios) > 1.1
        slower += slow
        print(
            f"| {case[0]} | {1e3 * median(theirs for theirs, _ in pairs):.3g} | {median(ratios):.2f} "
            f"| {min(ratios):.2f}–{max(ratios):.2f} | {'slower' if slow else ''} |",
            flush=True,
        )
    print(f"\n{len(chosen)} cases, {slower} slower by more than a tenth")
    return int(slower > 0)


if __name__ == "__main__":
    sys.exit(main())
