"""Run all benchmarks, one after the other, and print the table of goals.

    python benchmarks/every.py [--short] [--only losses memory]

`make bench` is the short form, of at most ten minutes; `make bench-full` the long one, whose results are
committed and from which the table in docs/performance.md is made.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from goals import collect, table
from kept import FOLDER

SCRIPTS = (
    "losses",
    "peers_all",
    "memory",
    "accuracy",
    "shapes",
    "contrast",
    "ranks",
    "metrics",
    "happier",
    "probe",
    "intervals",
    "paired_difference",
    "proportions",
    "worst_stratum",
    "means_over_nodes",
    "pooled_folds",
    "evaluation",
    "ridge_sums",
    "sampler",
    "gpu",
    "taxonomy",
    "taxonomy_files",
    "training_step",
    "proxies",
    "data",
    "text",
    "tables",
    "passage",
    "bulk",
    "engines",
    "cold_start",
    "large_data",
    "index",
    "shorter_vectors",
    "serving",
    "index_kills",
    "explorer",
)


def run(name: str, size: str) -> tuple[bool, float]:
    """Whether a script ended well, and the seconds it took; it prints its own tables."""
    words = [sys.executable, str(Path(__file__).with_name(f"{name}.py"))]
    began = time.perf_counter()
    print(f"\n## {name}\n", flush=True)
    ended = subprocess.run(words + ([] if size == "full" else [f"--{size}"]), check=False)
    return ended.returncode == 0, time.perf_counter() - began


def main() -> int:
    """Run them; the number of those that failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--short", action="store_true", help="the short forms")
    sizes.add_argument("--tiny", action="store_true", help="a few rows: do they run?")
    parser.add_argument("--only", nargs="+", choices=SCRIPTS, default=SCRIPTS, metavar="NAME")
    given = parser.parse_args()
    size = "short" if given.short else "tiny" if given.tiny else "full"
    there = [name for name in given.only if Path(__file__).with_name(f"{name}.py").exists()]
    ended = {name: run(name, size) for name in there}
    print(f"\n## Goals\n\n{table(collect(FOLDER if size == 'full' else FOLDER / size))}\n")
    for name, (well, seconds) in ended.items():
        print(f"{name:16} {seconds:7.1f} s{'' if well else '   failed'}")
    return sum(not well for well, _ in ended.values())


if __name__ == "__main__":
    sys.exit(main())
