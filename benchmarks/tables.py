"""Time to open tables of a million rows with texts and three columns of labels.

    python benchmarks/tables.py [--rows 1000000]

A table of images takes the same time plus that of looking at each distinct file, and, when it is opened for
the first time, of decoding it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

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


def timed(file: Path) -> None:
    """Open a table, and print the seconds it took."""
    start = time.perf_counter()
    source = open_source(file)
    seconds = time.perf_counter() - start
    size = file.stat().st_size / 2**20
    print(f"{file.suffix:<9} {size:6.0f} MiB {len(source):>10,} rows {seconds:7.2f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    pa.set_cpu_count(1)
    table = frame(rows)
    with tempfile.TemporaryDirectory() as folder:
        table.head(10).to_csv(Path(folder) / "first.csv", index=False)
        open_source(Path(folder) / "first.csv")  # libraries are loaded when they are used first
        table.to_csv(Path(folder) / "table.csv", index=False)
        timed(Path(folder) / "table.csv")
        table.to_parquet(Path(folder) / "table.parquet")
        timed(Path(folder) / "table.parquet")


if __name__ == "__main__":
    main()
