"""What an engine adds to embedding: CPU time a file of Ray Data, Spark and Dask beside `labeltree embed`.

    python benchmarks/engines.py [--short]

JPEG files of 64 px are generated, and embedded by a `small-conv` encoder from a table of their paths, with
one worker, into Parquet. All CPU seconds of the process and of those that it has started count, after the
same on a tenth of the files: those that starting an engine takes do not. Ray Data starts its actor, which
loads the run, for every job; that counts. Engines that are not installed are left out.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from bulk import trained, write_files
from harness import Results, Row, Size, Table, choose, main
from labeltree import BatchModel, load

PARTS = 8
_TICKS = os.sysconf("SC_CLK_TCK")

Embed = Callable[[pd.DataFrame, Path], None]


def cpu_seconds() -> float:
    """CPU seconds of this process and of all that it has started, also of those that have ended."""
    parents, used = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(folder.name)] = int(words[1])
        used[int(folder.name)] = sum(map(int, words[11:15])) / _TICKS
    tree = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return sum(used.get(pid, 0.0) for pid in tree)


@contextmanager
def ray_data(model: BatchModel, arguments: tuple[Any, ...]) -> Iterator[Embed]:
    """Ray Data with one actor."""
    import ray

    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)

    def embed(table: pd.DataFrame, out: Path) -> None:
        data = ray.data.from_pandas(table).repartition(PARTS)
        rows = data.map_batches(BatchModel, fn_constructor_args=arguments, concurrency=1, batch_size=1024)
        rows.write_parquet(str(out))

    yield embed
    ray.shutdown()


@contextmanager
def spark(model: BatchModel, arguments: tuple[Any, ...]) -> Iterator[Embed]:
    """Spark with one task at a time."""
    from pyspark.sql import SparkSession
    from pyspark.sql.pandas.types import from_arrow_schema

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()

    def embed(table: pd.DataFrame, out: Path) -> None:
        rows = session.createDataFrame(table).repartition(PARTS)
        rows = rows.mapInArrow(model.map, from_arrow_schema(model.schema))
        rows.write.parquet(str(out))

    yield embed
    session.stop()


@contextmanager
def dask(model: BatchModel, arguments: tuple[Any, ...]) -> Iterator[Embed]:
    """Dask with one thread."""
    import dask
    import dask.dataframe

    def embed(table: pd.DataFrame, out: Path) -> None:
        with dask.config.set(scheduler="synchronous"):
            rows = dask.dataframe.from_pandas(table, npartitions=PARTS)
            rows = rows.map_partitions(model, meta=model.schema.empty_table().to_pandas())
            rows.to_parquet(out, schema=model.schema, write_index=False)

    yield embed


ENGINES = {
    "Ray Data, `map_batches` of one actor": ("ray", ray_data),
    "Spark, `mapInArrow` in one task": ("pyspark", spark),
    "Dask, `map_partitions` in one thread": ("dask", dask),
}


def measure(size: Size) -> Results:
    """CPU seconds of each engine on the same files."""
    count = choose(size, full=20_000, short=2_000, tiny=40)
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        run = trained(place, "small-conv", 64)
        files = write_files(place / "files", count, 64)
        table = pd.DataFrame({"path": [str(file) for file in files]})
        arguments = (str(run), "path", "embed")
        model = BatchModel(*arguments)

        def by_command(table: pd.DataFrame, out: Path) -> None:
            load(run).embed_to(place / "files", out, labelled=False, workers=1)

        rows: list[Row] = []

        def time_of(name: str, embed: Embed) -> None:
            embed(table[: count // 10], place / "warm")
            shutil.rmtree(place / "warm")
            cpu, began = cpu_seconds(), time.perf_counter()
            embed(table, place / "out")
            cpu, seconds = cpu_seconds() - cpu, time.perf_counter() - began
            files = len(pd.read_parquet(place / "out", columns=["sample"]))
            assert files == count, (name, files)
            shutil.rmtree(place / "out")
            base = float(rows[0][1]) if rows else cpu  # type: ignore[arg-type]
            rows.append([name, cpu, count / cpu, cpu / base, seconds])

        time_of("`labeltree embed`, one process", by_command)
        for name, (package, opened) in ENGINES.items():
            if find_spec(package) is not None:
                with opened(model, arguments) as embed:
                    time_of(name, embed)
    columns = ("way", "CPU s", "files a CPU second", "× `labeltree embed`", "s by the clock")
    return Results([Table(f"{count:,} files of 64 px, small-conv", columns, rows)], {})


if __name__ == "__main__":
    main(__doc__, measure)
