"""Time and memory of taxonomies in NCBI's shape, read, checked and mapped to their next release (P25).

    python benchmarks/taxonomy_files.py [--short]

The trees are generated: 2.6 million nodes named as organisms are, a million synonyms, written as nodes.dmp
and names.dmp. Of the next release, 1 % of the nodes are new, gone, renamed or moved. Each command runs in a
process of its own; memory is the largest that it had.
"""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import Results, Size, Table, choose, main

_SYLLABLES = [
    "ba",
    "co",
    "di",
    "fu",
    "ga",
    "hel",
    "io",
    "ju",
    "ka",
    "lo",
    "mi",
    "nu",
    "or",
    "pa",
    "qui",
    "ra",
    "so",
    "tu",
    "va",
    "xe",
    "yo",
    "ze",
    "an",
    "el",
    "ur",
    "phi",
    "the",
    "sta",
]


class Kingdom:
    """A tree that grows like NCBI's: numbers, parents and names of its nodes."""

    def __init__(self, nodes: int, seed: int) -> None:
        rng = self._rng = random.Random(seed)
        self.parent = {1: 1}
        self.name = {1: "root"}
        above = [1]
        for depth, share in enumerate((3, 12, 60, 300, 1500, 9000, 110_000)):  # down to genera
            layer = []
            for _ in range(max(1, share * nodes // 2_600_000)):
                layer.append(
                    self.add(rng.choice(above), f"{self.word(3)}{('ota', 'ia', 'ida', 'ales')[depth % 4]}")
                )
            above = layer
        genera, number = above, 0
        while len(self.name) < nodes:
            genus = genera[int(len(genera) * rng.random() ** 2)]
            number += 1
            kind = rng.random()
            if kind < 0.55:
                species = self.add(genus, f"{self.name[genus]} sp. {self.word(1).upper()}{number}")
            else:
                species = self.add(genus, f"{self.name[genus]} {self.word(3).lower()}{number % 1000}us")
            if kind > 0.93:
                self.add(species, f"{self.name[species]} strain {number}")

    def word(self, syllables: int) -> str:
        """A word that looks like a name."""
        return "".join(self._rng.choices(_SYLLABLES, k=syllables)).capitalize()

    def add(self, parent: int, name: str) -> int:
        """Add a node; returns its number."""
        number = len(self.name) + 1
        self.parent[number], self.name[number] = parent, name
        return number

    def next_release(self) -> None:
        """One in a hundred nodes is renamed, moved, or gone; as many are new."""
        rng = self._rng
        leaves = sorted(set(self.name) - set(self.parent.values()))
        last = max(self.name)
        for node in rng.sample(leaves, len(self.name) // 100):
            kind, parent = rng.random(), self.parent[node]
            if kind < 0.25:
                self.name[node] += " emend"
            elif kind < 0.5:
                self.parent[node] = self.parent.get(rng.choice(leaves), parent)
            elif kind < 0.75:
                del self.name[node], self.parent[node]
            else:
                last += 1
                self.parent[last], self.name[last] = parent, f"{self.name[parent]} novus {last}"

    def write(self, folder: Path) -> None:
        """Write nodes.dmp and names.dmp."""
        folder.mkdir()
        rng = random.Random(1)
        with (folder / "nodes.dmp").open("w") as nodes, (folder / "names.dmp").open("w") as names:
            for number, parent in sorted(self.parent.items()):
                fields = (number, parent, "species", "XX", 0, 1, 11, 1, 0, 1, 0, 0, "")
                nodes.write("\t|\t".join(map(str, fields)) + "\t|\n")
                name = self.name[number]
                names.write(f"{number}\t|\t{name}\t|\t\t|\tscientific name\t|\n")
                if rng.random() < 0.2:
                    names.write(f"{number}\t|\t{name} Author, 1900\t|\t\t|\tauthority\t|\n")
                if rng.random() < 0.4:
                    names.write(f"{number}\t|\tSyn. {name}\t|\t\t|\tsynonym\t|\n")


def run(words: list[str]) -> tuple[float, float, float]:
    """CPU seconds, seconds and megabytes of a command of labeltree."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "labeltree", *words], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"labeltree {' '.join(words)} failed")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - began, usage.ru_maxrss / 1024


def measure(size: Size) -> Results:
    """Seconds and memory of each command."""
    nodes = choose(size, full=2_600_000, short=260_000, tiny=2_600)
    rows: list[list[str | float]] = []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        kingdom = Kingdom(nodes, 0)
        kingdom.write(work / "old")
        kingdom.next_release()
        kingdom.write(work / "new")
        del kingdom
        for what, words in (
            ("check", ["check", "old"]),
            ("map to the next release", ["map", "old", "new", "--out", "map.yaml"]),
        ):
            given = [str(work / word) if word in ("old", "new", "map.yaml") else word for word in words]
            rows.append([what, *run(["taxonomy", *given])])
    table = Table(f"A tree of {nodes:,} nodes in NCBI's shape", ("command", "CPU s", "s", "MB"), rows)
    took = {str(row[0]): row for row in rows}
    return Results(
        [table],
        {
            "P25 check": float(took["check"][1]),
            "P25 memory": float(took["check"][3]),
            "P25 map": float(took["map to the next release"][1]),
        },
    )


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main(__doc__, measure)
