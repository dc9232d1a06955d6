"""What 1.3 million images of 224 px need: decoding for each core, disk, memory of the index, time to open.

    python benchmarks/large_data.py [--short]

The images are generated: noise of all scales, as large as the images of ImageNet (500 x 375 pixels, JPEG of
quality 90, about 100 kB). Rates are measured on one core; what the tables call extrapolated is these rates
and sizes times a number. Files come from the page cache: a slow disk comes on top.
"""

from __future__ import annotations

import gc
import io
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image

from data import own_cache, resident
from harness import Results, Row, Size, Table, choose, in_turn, main
from labeltree.data import Source, open_source, stream_samples
from labeltree.data.images.decode import decode, pixels_of

SIDE = 224
MILLION = 1_000_000
IMAGENET = 1_281_167  # training images
GPU_RATES = (500, 2_000, 5_000)  # images a second that a GPU trains on
DISTINCT = 64  # generated images; more files repeat them


def photograph(width: int, height: int, seed: int) -> bytes:
    """A JPEG with detail of all scales."""
    random = np.random.default_rng(seed)
    pixels = np.full((height, width, 3), 128.0)
    for scale in (1, 2, 4, 8, 16, 64, 256):
        shape = (-(-height // scale), -(-width // scale))
        gray, colours = (random.normal(0, sigma * scale**0.25, (*shape, c)) for sigma, c in ((12, 1), (3, 3)))
        noise = gray + colours
        pixels += noise.repeat(scale, 0).repeat(scale, 1)[:height, :width]
    buffer = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def decode_whole(content: bytes) -> np.ndarray[Any, Any]:
    """As `decode`, without decoding to a smaller scale first."""
    return pixels_of(Image.open(io.BytesIO(content)), SIDE, 3)


def decode_coarsely(content: bytes) -> np.ndarray[Any, Any]:
    """As `decode`, but first to the least scale that has the size wanted, not twice that."""
    image = Image.open(io.BytesIO(content))
    image.draft(None, (SIDE, SIDE))
    return pixels_of(image, SIDE, 3)


def decode_as_labeltree(content: bytes) -> np.ndarray[Any, Any]:
    """By `decode`."""
    return decode(content, SIDE, 3)


WAYS = {"whole": decode_whole, "ours": decode_as_labeltree, "coarsely": decode_coarsely}


def decoding(count: int, rounds: int) -> tuple[Table, float, float]:
    """Decoding to 224 px by the three ways; images a second, and kB a file, of ImageNet's size."""
    rows: list[Row] = []
    rates, sizes = [], []
    for width, height in ((500, 375), (1024, 768), (2048, 1536)):
        images = [photograph(width, height, seed) for seed in range(count)]
        ways = {name: partial(_all, way, images) for name, way in WAYS.items()}
        timings = in_turn(ways, "whole", rounds=rounds)
        coarse = [np.abs(decode_coarsely(image).astype(int) - decode_whole(image)).mean() for image in images]
        rates.append(count / timings["ours"].seconds)
        sizes.append(sum(map(len, images)) / count / 1e3)
        a_second = [count / timings[name].seconds for name in WAYS]
        gains = [1 / timings[name].ratio for name in ("ours", "coarsely")]
        rows.append([f"{width} x {height}", sizes[-1], *a_second, *gains, float(np.mean(coarse))])
    columns = (
        *("pixels", "kB a file", "whole, a second and core", "labeltree", "to 224 or more"),
        *("labeltree, times as fast", "to 224 or more, times", "its mean difference, of 255"),
    )
    return Table(f"Decoding JPEG to {SIDE} px", columns, rows), rates[0], sizes[0]


def _all(way: Callable[[bytes], object], images: list[bytes]) -> None:
    for image in images:
        way(image)


def write_files(images: Iterable[bytes], folder: Path) -> Path:
    """The images as files in ten folders."""
    for number, image in enumerate(images):
        path = folder / f"class {number % 10}" / f"{number:07d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image)
    return folder


def write_tars(images: Iterable[bytes], folder: Path, each: int = 1000) -> Path:
    """The images as tar shards."""
    folder.mkdir(parents=True)
    tar = None
    for number, image in enumerate(images):
        if tar is None or number % each == 0:
            if tar is not None:
                tar.close()
            tar = tarfile.open(folder / f"part-{number // each:06d}.tar", "w")  # noqa: SIM115
        for extension, content in (("jpg", image), ("cls", b"%d" % (number % 10))):
            info = tarfile.TarInfo(f"{number:07d}.{extension}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    if tar is not None:
        tar.close()
    return folder


def write_parquets(images: list[bytes], folder: Path, each: int = 1000) -> Path:
    """The images as Parquet shards."""
    folder.mkdir(parents=True)
    for start in range(0, len(images), each):
        some = images[start : start + each]
        rows = {
            "image": [{"bytes": image, "path": None} for image in some],
            "label": [i % 10 for i in range(len(some))],
        }
        pq.write_table(pa.table(rows), folder / f"part-{start // each:06d}.parquet", row_group_size=100)
    return folder


WRITERS: dict[str, Callable[..., Path]] = {"files": write_files, "tar": write_tars, "Parquet": write_parquets}


def seconds(work: Callable[[], Source]) -> tuple[float, Source]:
    """CPU seconds of the process, and the source."""
    began = time.process_time()
    source = work()
    return time.process_time() - began, source


def disk_of(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def reading(count: int, batch: int) -> tuple[Table, dict[str, tuple[float, float]]]:
    """Opening without decoding, and images in random order, as files and shards, of the size of ImageNet."""
    images = [photograph(500, 375, seed) for seed in range(min(DISTINCT, count))]
    # What follows the end of a JPEG is ignored; no two files are the same.
    images = [images[number % len(images)] + number.to_bytes(8, "big") for number in range(count)]
    rows: list[Row] = []
    found: dict[str, tuple[float, float]] = {}
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0))[:batch]
    for kind, write in WRITERS.items():
        with tempfile.TemporaryDirectory() as root, own_cache(Path(root) / "cache"):
            data = write(images, Path(root) / "data")

            def opened(data: Path = data) -> Source:
                return open_source(data, image_size=SIDE, channels=3, check=False, cache=False)

            first, _ = seconds(opened)
            again, source = seconds(opened)
            cache = disk_of(Path(root) / "cache")
            began = time.process_time()
            for row in order.tolist():
                source.load([row])
            loading = time.process_time() - began
            began = time.process_time()
            for sample in stream_samples(data):
                sample.name  # noqa: B018
            streaming = time.process_time() - began
            each = [1e6 * taken / count for taken in (first, again, streaming)]
            rows.append([kind, *each[:2], batch / loading, each[2], cache / disk_of(data)])
            found[kind] = first / count, cache / count
    columns = (
        "images as", "opened first, µs each", "again, µs each", "loaded a second, random order",
        "streamed, undecoded, µs each", "bytes in the cache / of the data",
    )  # fmt: skip
    return Table(f"Reading {count:,} images of 500 x 375 pixels, one core", columns, rows), found


def grown(small: Path, data: Path) -> float:
    """Megabytes by which this process grows when it opens the data, after it has opened similar ones."""
    sources, sizes = [], []
    for place in (small, data):
        sources.append(open_source(place, image_size=8, channels=3, check=False, cache=False))
        gc.collect()
        pa.default_memory_pool().release_unused()
        sizes.append(resident())
    return (sizes[1] - sizes[0]) * 1.048576


def index_memory(count: int) -> Table:
    """Memory of an opened source, by images of a few bytes."""
    rows: list[Row] = []
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "JPEG")
    images = [buffer.getvalue()] * count
    for kind, write in WRITERS.items():
        with tempfile.TemporaryDirectory() as root, own_cache(Path(root) / "cache"):
            data = write(images, Path(root) / "data", *([10_000] if kind != "files" else []))
            small = write(images[:20], Path(root) / "small")
            open_source(data, image_size=8, channels=3, check=False, cache=False)  # makes the index
            with ProcessPoolExecutor(1, get_context("spawn")) as process:
                megabytes = process.submit(grown, small, data).result()
            rows.append([kind, count, megabytes * MILLION / count])
    return Table("Memory of an opened source", ("images as", "n", "MB a million, extrapolated"), rows)


def needs(rate: float, found: dict[str, tuple[float, float]], kilobytes: float) -> list[Table]:
    """Arithmetic: what ImageNet needs, and how many cores feed a GPU."""
    pixels = 3 * SIDE * SIDE
    once = IMAGENET / rate / 3600
    rows: list[Row] = [
        ["images as they are, GB", kilobytes * IMAGENET / 1e6],
        [f"pixel cache of {SIDE} px, GB", pixels * IMAGENET / 1e9],
        ["decoding all once, core hours", once],
    ]
    for kind, (first, cache) in found.items():
        rows.append([f"{kind}: first opening without a pixel cache, core minutes", first * IMAGENET / 60])
        rows.append([f"{kind}: kept in the cache folder, GB", cache * IMAGENET / 1e9])
    disk = Table(f"{IMAGENET:,} images, extrapolated", ("what", "amount"), rows)
    feeding: list[Row] = [[gpu, gpu / rate] for gpu in GPU_RATES]
    cores = Table(
        "Cores that decode for one GPU, extrapolated", ("images a second of the GPU", "cores"), feeding
    )
    return [disk, cores]


def measure(size: Size) -> Results:
    """Five tables."""
    decoded, rate, kilobytes = decoding(*choose(size, full=(32, 5), short=(16, 3), tiny=(2, 1)))
    read, found = reading(*choose(size, full=(2000, 1000), short=(500, 200), tiny=(20, 5)))
    memory = index_memory(choose(size, full=100_000, short=20_000, tiny=50))
    return Results([decoded, read, memory, *needs(rate, found, kilobytes)])


if __name__ == "__main__":
    main(__doc__, measure)
