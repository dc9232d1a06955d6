"""`s3://` on a server on loopback: what is read there is what is read on the disk; `make campaign-engines`.

Skipped where it is not installed: `pip install 'labeltree[s3]' 'moto[server]'`.
"""

import socket
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import labeltree as lt
from labeltree.cli.main import main

SETTINGS = {"epochs": 1, "batch_size": 16, "encoder": "small-conv", "image_size": 28, "accelerator": "cpu"}
SHARDS = "s3://birds/sets/new-{000..002}.tar"


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A client of an empty bucket."""
    pytest.importorskip("s3fs")
    server_of = pytest.importorskip("moto.server").ThreadedMotoServer
    boto3 = pytest.importorskip("boto3")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("LABELTREE_OFFLINE", raising=False)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        server = server_of(ip_address="127.0.0.1", port=port, verbose=False)
        server.start()
        made = boto3.client("s3")
        made.create_bucket(Bucket="birds")
        yield made
        server.stop()


@pytest.fixture(scope="module")
def place(
    tmp_path_factory: pytest.TempPathFactory, make_image_folder: Callable[..., Path], client: Any
) -> Path:
    """A run, and new images in three shards, which lie in the bucket, too."""
    home = tmp_path_factory.mktemp("stores")
    photos = make_image_folder(home / "photos")
    lt.train(photos, "hwc+lam", out=home / "run", progress_bar=False, val=0.3, **SETTINGS)
    files = sorted(make_image_folder(home / "new", per_leaf=12, seed=1).rglob("*.png"))
    for number in range(3):
        shard = home / f"new-{number:03}.tar"
        with tarfile.open(shard, "w") as tar:
            for file in files[number::3]:
                (label := file.with_suffix(".cls")).write_text(str(file.parent.relative_to(home / "new")))
                name = f"{number}{file.stem}-{file.parent.name}"
                tar.add(file, f"{name}.png")
                tar.add(label, f"{name}.cls")
        client.upload_file(str(shard), "birds", f"sets/{shard.name}")
    return home


@pytest.mark.parametrize("command", ["embed", "predict"])
def test_shards(place: Path, command: str, cache_folder: Path) -> None:
    for name, data in (("store", SHARDS), ("disk", f"{place}/new-{{000..002}}.tar")):
        assert main([command, f"{place}/run", "--data", data, "--out", f"{place}/{command}-{name}/"]) == 0
    rows = [ds.dataset(place / f"{command}-{name}").to_table() for name in ("store", "disk")]
    assert rows[0].equals(rows[1])
    assert len(rows[0]) == 60
    files = [path.name for path in (cache_folder / "copies").rglob("*.tar")]
    assert sorted(files) == ["new-000.tar", "new-001.tar", "new-002.tar"]


def test_a_parquet_file(place: Path, client: Any) -> None:
    """Of the bytes of images, by name of the column."""
    files = sorted((place / "new").rglob("*.png"))
    table = pa.table({"image": [file.read_bytes() for file in files]})
    pq.write_table(table, place / "images.parquet")
    client.upload_file(f"{place}/images.parquet", "birds", "images.parquet")
    for name, data in (("store", "s3://birds/images.parquet"), ("disk", f"{place}/images.parquet")):
        assert main(["embed", f"{place}/run", "--data", data, "--out", f"{place}/bytes-{name}/"]) == 0
    rows = [ds.dataset(place / f"bytes-{name}").to_table() for name in ("store", "disk")]
    assert rows[0].equals(rows[1])
    assert len(rows[0]) == 60


def test_embeddings(place: Path, client: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """An index, and an evaluation, of Parquet files with embeddings."""
    lt.load(place / "run").embed_to(place / "new", place / "embedded")
    for file in (place / "embedded").iterdir():
        client.upload_file(str(file), "birds", f"embedded/{file.name}")
    assert main(["index", "--embeddings", "s3://birds/embedded"]) == 2
    assert "object store: say where the index is to be, by --out" in capsys.readouterr().err
    assert main(["index", "--embeddings", "s3://birds/embedded", "--out", f"{place}/index"]) == 0
    assert len(lt.Index.open(place / "index")) == 60
    assert main(["evaluate", "--embeddings", "s3://birds/embedded", "--out", f"{place}/report"]) == 0
    ours, theirs = (
        lt.evaluate(embeddings=where, out=place / f"report-{number}", resamples=0).headline
        for number, where in enumerate(("s3://birds/embedded", place / "embedded"))
    )
    assert ours == theirs


def test_a_run_on_shards(place: Path) -> None:
    run = lt.train(SHARDS, "hwc", out=place / "trained", progress_bar=False, val=0.3, test=0.3, **SETTINGS)
    assert lt.load(run).recipe.data == SHARDS
    assert lt.evaluate(run, resamples=0).report.is_file()


def test_a_bucket_that_is_not_there(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", f"{place}/run", "--data", "s3://none/a.tar", "--out", f"{place}/none/"]) == 2
    assert "'s3://none/a.tar' names a file that is not in the store" in capsys.readouterr().err
