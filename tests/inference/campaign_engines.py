"""The engines that embed and predict for others: each gives the rows of one process; `make campaign-engines`.

Those that are not installed are skipped: `pip install ray pyspark 'dask[dataframe]'`; Spark needs Java 17.
"""

import operator
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

import labeltree as lt
from labeltree.ridge import TreeRidge

SETTINGS = {"epochs": 1, "batch_size": 16, "encoder": "small-conv", "image_size": 28, "accelerator": "cpu"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, make_image_folder: Callable[..., Path]) -> Path:
    """A run, and 61 new images, one of which is broken."""
    home = tmp_path_factory.mktemp("engines")
    photos = make_image_folder(home / "photos")
    lt.train(photos, "hwc+lam", out=home / "run", progress_bar=False, val=0.3, **SETTINGS)
    new = make_image_folder(home / "new", per_leaf=12, seed=1)
    next(new.rglob("*")).joinpath("broken.png").write_bytes(b"no image")
    return home


@pytest.fixture(scope="module")
def frame(place: Path) -> pd.DataFrame:
    files = sorted((place / "new").rglob("*.png"))
    names = [str(file.relative_to(place / "new")) for file in files]
    return pd.DataFrame({"path": names, "label": [name.rsplit("/", 1)[0] for name in names]})


def model_of(place: Path, what: Any) -> lt.BatchModel:
    return lt.BatchModel(place / "run", "path", what, labels="label", image_folder=place / "new")


def check(place: Path, frame: pd.DataFrame, rows: dict[str, pd.DataFrame]) -> None:
    """Check the rows of an engine beside those of one process."""
    for what, given in rows.items():
        expected, given = (
            each.sort_values("sample", ignore_index=True) for each in (model_of(place, what)(frame), given)
        )
        assert list(given.columns) == list(expected.columns)
        assert given["sample"].tolist() == sorted(frame["path"])
        good = expected["problem"].isna()
        assert given["problem"].isna().tolist() == good.tolist()
        assert int((~good).sum()) == 1
        pairs = [each[good] for each in (given, expected)]
        if what == "predict":
            assert pairs[0]["node"].tolist() == pairs[1]["node"].tolist()
            assert pairs[0]["holds"].tolist() == pairs[1]["holds"].tolist()
            numbers = [each["probability"].to_numpy(float) for each in pairs]
        else:
            numbers = [np.stack(each["embeddings"].tolist()) for each in pairs]
        np.testing.assert_allclose(*numbers, rtol=1e-5, atol=1e-6)


def check_sums(place: Path, frame: pd.DataFrame, sums: Any) -> None:
    """Check sums, and the head that they give, beside those of one process."""
    alone = model_of(place, "embed").moments(frame)
    taxonomy = lt.load(place / "run").taxonomy
    total = reduce(operator.add, sums)
    assert torch.equal(total.counts, alone.counts)
    weights = [TreeRidge.of(each, taxonomy, penalty=0.1, scale=1.0).weight for each in (total, alone)]
    torch.testing.assert_close(*weights, rtol=1e-5, atol=1e-6)  # features are of float32, in other batches


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield ray
    ray.shutdown()


@pytest.mark.parametrize("actors", [False, True])
def test_ray(ray: Any, place: Path, frame: pd.DataFrame, actors: bool) -> None:
    data = ray.data.from_pandas(frame).repartition(3)
    settings = {"labels": "label", "image_folder": str(place / "new")}
    rows = {}
    for what in ("predict", "embed"):
        if actors:
            done = data.map_batches(
                lt.BatchModel,
                fn_constructor_args=(str(place / "run"), "path", what),
                fn_constructor_kwargs=settings,
                batch_size=16,
                concurrency=2,
            )
        else:
            done = data.map_batches(model_of(place, what), batch_size=16)
        out = place / f"ray-{what}-{actors}"
        done.write_parquet(str(out))
        rows[what] = pq.read_table(out).to_pandas()
    check(place, frame, rows)
    model = model_of(place, "embed")
    sums = data.map_batches(lambda batch: {"sums": [model.moments(batch)]})
    check_sums(place, frame, (row["sums"] for row in sums.iter_rows()))


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java: apt install default-jre-headless")
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": 2,
    }
    builder = sql.SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.mark.parametrize("kind", ["mapInArrow", "mapInPandas"])
def test_spark(spark: Any, place: Path, frame: pd.DataFrame, kind: str) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    data = spark.createDataFrame(frame).repartition(3)
    rows = {}
    for what in ("predict", "embed"):
        model = model_of(place, what)
        done = getattr(data, kind)(model.map, from_arrow_schema(model.schema))
        done.write.parquet(str(place / f"{kind}-{what}"))
        rows[what] = pq.read_table(place / f"{kind}-{what}").to_pandas()
    check(place, frame, rows)
    model = lt.BatchModel(place / "run", "content", name="path")
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(str(place / "new"))
    done = getattr(files.repartition(2), kind)(model.map, from_arrow_schema(model.schema))
    nodes = {row.sample.partition("/new/")[2]: row.node for row in done.select("sample", "node").collect()}
    alone = rows["predict"]
    assert nodes == {
        name: None if np.isnan(node) else int(node)
        for name, node in zip(alone["sample"], alone["node"], strict=True)
    }
    model = model_of(place, "embed")
    sums = data.rdd.mapPartitions(lambda part: [model.moments(pd.DataFrame([row.asDict() for row in part]))])
    check_sums(place, frame, [sums.treeReduce(operator.add)])


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_dask(place: Path, frame: pd.DataFrame, scheduler: str) -> None:
    dask = pytest.importorskip("dask")
    dataframe = pytest.importorskip("dask.dataframe")
    data = dataframe.from_pandas(frame, npartitions=3)
    with dask.config.set(scheduler=scheduler):
        rows = {}
        for what in ("predict", "embed"):
            model = model_of(place, what)
            meta = model.schema.empty_table().to_pandas()
            rows[what] = data.map_partitions(model, meta=meta).compute()
        check(place, frame, rows)
        model = model_of(place, "embed")
        check_sums(
            place, frame, dask.compute(*(dask.delayed(model.moments)(part) for part in data.to_delayed()))
        )
