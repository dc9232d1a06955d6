"""`labeltree evaluate` on a table of embeddings: CPU seconds and peak memory of the whole process (P26).

    python benchmarks/evaluation.py [--short]

Every table is made up, saved, and measured by the command in a process of its own, report and intervals
included. The goal is of as many samples, classes and dimensions as frozen features of the Grocery Store
photographs have; the other rows have more samples, more classes, wide vectors, and groups.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from harness import Results, Row, Size, Table, choose, main
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy


@dataclass(frozen=True)
class Case:
    """A table: how many samples, classes under how many groups, and dimensions."""

    name: str
    train: int
    test: int
    classes: int
    middle: int
    features: int = 1280
    embeddings: int = 128
    in_groups: bool = False

    def save(self, folder: Path) -> tuple[Path, Path]:
        """Write table and taxonomy: class means near those of their groups, some classes rare."""
        generator = torch.Generator().manual_seed(0)
        paths = [(f"{i % self.middle % 3}", f"m{i % self.middle}", f"c{i}") for i in range(self.classes)]
        taxonomy, n = Taxonomy.from_paths(paths), self.train + self.test
        chance = (1.0 + torch.arange(self.classes)).rsqrt()
        nodes = taxonomy.encode(paths)[torch.multinomial(chance, n, replacement=True, generator=generator)]
        steps = torch.randn(taxonomy.num_nodes, self.features, generator=generator)
        centres = steps[taxonomy.ancestors.clamp_min(0)[nodes]].sum(1)
        features = (centres + 4.0 * torch.randn(n, self.features, generator=generator)).relu()
        embeddings = features
        if self.embeddings != self.features:
            turned = torch.randn(self.features, self.embeddings, generator=generator)
            embeddings = (features - features.mean(0)) @ turned
        split = np.repeat(["train", "test"], [self.train, self.test])
        groups = torch.arange(n) // 3 + n * torch.from_numpy(split == "test") if self.in_groups else None
        table, tree = folder / "table.npz", folder / "tree.json"
        embeddings = torch.nn.functional.normalize(embeddings, dim=1)
        EmbeddingTable(embeddings, nodes, split=split, features=features, groups=groups).save(table)
        taxonomy.save(tree)
        return table, tree


P26 = Case("Grocery Store", 2640, 2485, 81, 43)
CASES = (
    P26,
    Case("features searched themselves", 2640, 2485, 81, 43, embeddings=1280),
    Case("in groups of three", 2640, 2485, 81, 43, in_groups=True),
    Case("10,000 test samples", 10_000, 10_000, 81, 43),
    Case("1,644 classes", 10_000, 5000, 1644, 300),
)
TINY = Case("a few", 60, 60, 6, 3, features=8, embeddings=4)


def process(case: Case) -> tuple[float, float]:
    """CPU seconds and greatest resident set, in MB, of the command in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        table, tree = case.save(Path(folder))
        words = ["evaluate", "--embeddings", str(table), "--taxonomy", str(tree), "--out", f"{folder}/out"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        child = subprocess.Popen(
            [sys.executable, "-m", "labeltree", *words, "--quiet"],
            env=environment,
            stdout=subprocess.DEVNULL,
        )
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise RuntimeError(f"labeltree evaluate failed on the table '{case.name}'")
    kilo = 1024.0 if sys.platform != "darwin" else 1.0
    return used.ru_utime + used.ru_stime, kilo * used.ru_maxrss / 1e6


def measure(size: Size) -> Results:
    """A row a table."""
    rows: list[Row] = []
    found = {}
    for case in choose(size, full=CASES, short=CASES[:1], tiny=(TINY,)):
        found[case] = process(case)
        widths = f"{case.features:,} and {case.embeddings:,}"
        rows.append([case.name, f"{case.train:,} + {case.test:,}", case.classes, widths, *found[case]])
    columns = ("table", "training + test samples", "classes", "dimensions", "CPU s", "peak MB")
    measured = {"P26": found[P26][0], "P26 memory": found[P26][1]} if P26 in found else {}
    note = "The peak is that of the whole process, PyTorch's libraries included."
    return Results([Table("labeltree evaluate --embeddings", columns, rows)], measured, [note])


if __name__ == "__main__":
    main(__doc__, measure)
