"""Time to open tables of a million rows with texts and three columns of labels.

    python benchmarks/tables.py [--short]

A table of images takes the same time plus that of looking at each distinct file, and, when it is opened for
the first time, of decoding it.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from harness import Results, Size, Table, choose, main
from labeltree.data import open_source


def frame(rows: int) -> pd.DataFrame:
    """Distinct texts of ten words, and 20 families of 10 genera of 10 species."""
    rng = np.random.default_rng(0)
    words = [f"word{number}" for number in range(1000)]
    species = rng.integers(0, 2000, rows)
    text = [" ".join(words[i] for i in line) for line in rng.integers(0, 1000, (rows, 10)).tolist()]
    return pd.DataFrame(
        {
            "text": text,
            "depth1": [f"family {number // 100}" for number in species],
            "depth2": [f"genus {number // 10}" for number in species],
            "depth3": [f"species {number}" if number % 7 else None for number in species],
        }
    )


def opened(file: Path) -> list[str | float]:
    """A row of the table: a file is opened, once."""
    began, busy = time.perf_counter(), time.process_time()
    open_source(file)
    cpu, wall = time.process_time() - busy, time.perf_counter() - began
    return [file.suffix, file.stat().st_size / 2**20, cpu, wall]


def measure(size: Size) -> Results:
    """Seconds of opening."""
    rows = choose(size, full=1_000_000, short=200_000, tiny=500)
    pa.set_cpu_count(1)
    table = frame(rows)
    with tempfile.TemporaryDirectory() as folder:
        table.head(10).to_csv(Path(folder) / "first.csv", index=False)
        open_source(Path(folder) / "first.csv")  # libraries are loaded when they are used first
        table.to_csv(Path(folder) / "table.csv", index=False)
        table.to_parquet(Path(folder) / "table.parquet")
        found = [opened(Path(folder) / name) for name in ("table.csv", "table.parquet")]
    columns = ("file", "MiB", "opened, CPU s", "by the clock")
    return Results([Table(f"Tables of {rows:,} rows", columns, found)])


if __name__ == "__main__":
    main(__doc__, measure)
