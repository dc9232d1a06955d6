"""What a datum passes: files, functions and calls of labeltree, and how often one file calls another.

    python benchmarks/passage.py [--short]

Any version can be traced: `PYTHONPATH=other/src python benchmarks/passage.py`. Each way is gone twice and
traced the second time, so that nothing that is done on import, or kept from then on, is counted.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from PIL import Image

import labeltree
from harness import Results, Row, Size, Table, choose, main
from inputs import batch
from objectives import both_ways, objective

PACKAGE = Path(labeltree.__file__).parent
COLUMNS = ("way", "files", "functions", "calls", "changes of file", "files by room")


@dataclass
class Passage:
    """What was passed.

    Attributes:
        calls: how often each function was called, by file (relative to the package) and name.
        moves: how often a function was called in another file than the call before it.
    """

    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    moves: int = 0
    _last: str = ""

    def see(self, frame: FrameType, event: str, _: Any) -> None:
        """A profile function for `sys.setprofile`."""
        if event != "call":
            return
        path = frame.f_code.co_filename
        if not path.startswith(f"{PACKAGE}/"):
            return
        file = path[len(str(PACKAGE)) + 1 :]
        self.calls[file, frame.f_code.co_qualname] += 1
        self.moves += file != self._last
        self._last = file

    @property
    def files(self) -> list[str]:
        """The files, sorted."""
        return sorted({file for file, _ in self.calls})

    def row(self, way: str) -> Row:
        """A row of the table."""
        rooms = Counter(file.partition("/")[0] if "/" in file else "(top)" for file in self.files)
        by_room = ", ".join(f"{room} {count}" for room, count in rooms.most_common())
        return [way, len(self.files), len(self.calls), sum(self.calls.values()), self.moves, by_room]


@contextmanager
def traced() -> Iterator[Passage]:
    """Follow all calls within a `with` block, in threads begun there, too."""
    found = Passage()
    threading.setprofile(found.see)
    sys.setprofile(found.see)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def passage(way: Callable[[], object]) -> Passage:
    """What a way passes when it is gone for the second time."""
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        way()
        with traced() as found:
            way()
    return found


def step(n: int) -> Callable[[], object]:
    """One step of HWC: forward and backward."""
    inputs = batch(n)
    return both_ways(objective("hwc", inputs), inputs.z)


def command(*words: str | Path) -> Callable[[], object]:
    """A command of the program."""
    from labeltree.cli.main import main as program

    def run() -> None:
        try:
            ended = program([str(word) for word in words])
        except SystemExit as end:
            ended = end.code
        if ended not in (None, 0):
            raise RuntimeError(f"labeltree {' '.join(map(str, words))} ended with {ended}")

    return run


def evaluation(folder: Path, rows: int) -> Callable[[], object]:
    """`labeltree evaluate` of a small table of embeddings."""
    rng = np.random.default_rng(0)
    leaves = np.array([a + b + c for a in "ab" for b in "cd" for c in "ef"])
    classes = np.arange(rows) % len(leaves)
    centres = rng.normal(size=(len(leaves), 8))
    tree, table = folder / "tree.yaml", folder / "table.npz"
    nested = {a: {a + b: [a + b + c for c in "ef"] for b in "cd"} for a in "ab"}
    tree.write_text(json.dumps(nested), encoding="utf-8")  # which is YAML, too
    np.savez(
        table,
        embeddings=(centres[classes] + rng.normal(size=(rows, 8))).astype(np.float32),
        labels=leaves[classes],
        split=np.where(np.arange(rows) // len(leaves) % 2, "test", "train"),
    )
    return command("evaluate", "--embeddings", table, "--taxonomy", tree, "--out", folder / "out", "--quiet")


def first_batch(folder: Path) -> Callable[[], object]:
    """From a folder of images to the first batch that an encoder is given, by `labeltree train`."""
    rng = np.random.default_rng(0)
    for name in ("a/c", "a/d", "b/e", "b/f"):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(12):
            pixels = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "photos" / name / f"{number}.png")
    words = ("train", "--data", folder / "photos", "--objective", "hwc", "--epochs", "1", "--batch_size", "8")
    turns = count()

    def until_it_is_there() -> None:
        run, arrived = command(*words, "--out", folder / f"run {next(turns)}"), False

        def stop(module: torch.nn.Module, given: tuple[Any, ...]) -> None:
            nonlocal arrived
            if given and isinstance(given[0], torch.Tensor) and given[0].dim() == 4:
                arrived = True
                sys.setprofile(None)
                raise RuntimeError("the first batch is there")

        hook = torch.nn.modules.module.register_module_forward_pre_hook(stop)
        try:
            run()
        except RuntimeError:
            if not arrived:
                raise
        finally:
            hook.remove()

    return until_it_is_there


def measure(size: Size) -> Results:
    """A row for each way."""
    rows = []
    for n in choose(size, full=[512, 4096], short=[512, 4096], tiny=[32]):
        rows.append(passage(step(n)).row(f"an HWC step, n = {n:,}"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows.append(passage(evaluation(folder, 160)).row("labeltree evaluate, 160 rows"))
        if size != "tiny":
            rows.append(passage(first_batch(folder)).row("a folder of images to the first batch"))
    return Results([Table("What a datum passes of labeltree", COLUMNS, rows)])


if __name__ == "__main__":
    main(__doc__, measure)
