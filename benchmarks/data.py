"""Time of the data path: decoding, opening again, knowing the samples, views and batches beside an encoder's
step; memory.

    python benchmarks/data.py [--short]

The best of several repeats, in CPU seconds of the process, which is what it takes from other work.
"""

from __future__ import annotations

import gc
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch
from PIL import Image

from harness import Results, Row, Size, Table, best, choose, main
from labeltree.data import (
    ArrayStore,
    Source,
    ViewGenerator,
    ignore_cache,
    make_splits,
    open_source,
    summarize,
)
from labeltree.data.source import file_digest
from labeltree.data.views import RECIPES
from labeltree.losses import SupConLoss
from labeltree.models import ProjectionHead, build_encoder
from labeltree.runs import RunFolder
from labeltree.sampling import HierarchicalBatchSampler
from labeltree.taxonomy import Taxonomy
from labeltree.training.recipe import Recipe
from labeltree.training.records.record import begin_run
from labeltree.training.records.same_samples import check_samples
from labeltree.training.training_labels import training_labels

BATCH = 256
Result = TypeVar("Result")


def pictures(n: int, size: int, seed: int = 0) -> torch.Tensor:
    """Smooth random images, (n, 3, size, size) uint8, which compress like photographs."""
    coarse = torch.rand(n, 3, 8, 8, generator=torch.Generator().manual_seed(seed))
    smooth = torch.nn.functional.interpolate(coarse, size=(size, size), mode="bicubic")
    return (smooth.clamp(0, 1) * 255).to(torch.uint8)


def labelled(images: torch.Tensor) -> Source:
    """The images as a source with 100 leaves below 10 nodes."""
    tree = Taxonomy.from_paths([(f"group {leaf // 10}", f"class {leaf}") for leaf in range(100)])
    rows = torch.arange(len(images))
    nodes = tree.leaves[rows % 100]
    return Source("pictures", tree, nodes, rows, ArrayStore(images), rows)


def decoding(count: int) -> Table:
    """Files a second, the first time they are opened and when their pixels are in the cache."""
    rows: list[Row] = []
    for kind, side in (("jpg", 256), ("png", 256), ("png", 32)):
        with tempfile.TemporaryDirectory() as folder, own_cache(Path(folder) / "cache"):
            for number, image in enumerate(pictures(count, side)):
                path = Path(folder) / "images" / f"group {number % 10}" / f"{number}.{kind}"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(image.permute(1, 2, 0).numpy()).save(path, quality=90)
            seconds = []
            for _ in range(2):
                began, busy = time.perf_counter(), time.process_time()
                open_source(Path(folder) / "images", image_size=32)
                seconds.append((time.process_time() - busy, time.perf_counter() - began))
            (cpu, wall), (again, _) = seconds
        rows.append([f"{kind} of {side} px, to 32", count, count / cpu, count / wall, again])
    columns = ("files", "n", "decoded a CPU second", "a second by the clock", "opened again, CPU s")
    return Table("Decoding", columns, rows)


def knowing(counts: Sequence[int]) -> Table:
    """What it costs that a run knows its samples by name and content: small files, 32 pixels."""
    rows: list[Row] = [[str(count), *knowing_files(count)] for count in counts]
    columns = ("files", "first opening", "of it digests", "again", "recorded", "checked", "with --verify")
    return Table("Knowing the samples, CPU s", (*columns, "bytes a sample"), rows)


def knowing_files(count: int) -> list[float]:
    """The figures of so many files."""
    with tempfile.TemporaryDirectory() as folder, own_cache(Path(folder) / "cache"):
        images = Path(folder) / "images"
        for number, image in enumerate(pictures(count, 32)):
            path = images / f"group {number % 10}" / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image.permute(1, 2, 0).numpy()).save(path)
        first, source = cpu_seconds(lambda: make_splits(open_source(images, image_size=32, channels=3)))
        digests, _ = cpu_seconds(lambda: [file_digest(file) for file in source.files or ()])
        again, _ = cpu_seconds(lambda: make_splits(open_source(images, image_size=32, channels=3)))
        run, recipe = RunFolder(Path(folder) / "run"), Recipe(str(images))
        labels, summary = training_labels(recipe, source.taxonomy), summarize(source)
        written, _ = cpu_seconds(lambda: begin_run(run, recipe, source, source, labels, summary))
        checked, _ = cpu_seconds(lambda: check_samples(run, recipe, source, source))
        with ignore_cache():
            verified, _ = cpu_seconds(lambda: open_source(images, image_size=32, channels=3))
        return [first, digests, again, written, checked, verified, run.samples.stat().st_size / count]


def cpu_seconds(work: Callable[[], Result]) -> tuple[float, Result]:
    """CPU seconds of the process, and what came of them."""
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


@contextmanager
def own_cache(folder: Path) -> Iterator[None]:
    """Decoded images go to this folder."""
    before = os.environ.get("LABELTREE_DATA")
    os.environ["LABELTREE_DATA"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["LABELTREE_DATA"]
        else:
            os.environ["LABELTREE_DATA"] = before


def training_step(name: str, size: int) -> Callable[[], object]:
    """Forward, backward and update on a batch of two views of 128 samples each."""
    torch.manual_seed(0)
    encoder = build_encoder(name, channels=3, image_size=size).to(memory_format=torch.channels_last).train()
    head = ProjectionHead(encoder.feature_dim, 128)
    source = labelled(pictures(BATCH // 2, size))
    loss = SupConLoss(source.taxonomy)
    parameters = [*encoder.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.01, momentum=0.9)
    views = ViewGenerator("identity")(source.load(source.rows), source.instances)
    images = views.repeat(2, 1, 1, 1).contiguous(memory_format=torch.channels_last)
    nodes, instances = source.nodes.repeat(2), source.instances.repeat(2)

    def step() -> None:
        optimizer.zero_grad()
        embeddings = torch.nn.functional.normalize(head(encoder(images)), dim=1)
        loss(embeddings, nodes, instances).backward()
        optimizer.step()

    return step


def making_views(recipe: str, size: int, source: Source) -> Callable[[], object]:
    """What the training loop does for one view of a batch: draw it, read it, augment it."""
    views = ViewGenerator(recipe)  # type: ignore[arg-type]
    sampler = HierarchicalBatchSampler(source.taxonomy, source.nodes.numpy(), BATCH)
    batches = itertools.cycle(enumerate(sampler.batches(0)))

    def make() -> torch.Tensor:
        number, rows = next(batches)
        index = torch.from_numpy(rows)
        made = views(source.load(index), source.instances[index], number)
        return made.contiguous(memory_format=torch.channels_last)

    return make


def throughput(repeats: int, sizes: Sequence[int], encoders: Sequence[str]) -> Table:
    """Views and batching of a batch beside a training step on as many images."""
    rows: list[Row] = []
    for size in sizes:
        source = labelled(pictures(4 * BATCH, size))
        steps = {name: best(training_step(name, size), repeats)[0] for name in encoders}
        for recipe in RECIPES:
            cpu, _ = best(making_views(recipe, size, source), 4 * repeats)
            rows.append([recipe, size, 1e3 * cpu, *(100 * cpu / steps[name] for name in encoders)])
        rows += [[f"a step of {name}", size, 1e3 * s, *[None] * len(encoders)] for name, s in steps.items()]
    columns = ("views of a batch", "px", "CPU ms", *(f"% of a step of {name}" for name in encoders))
    return Table(f"Views and batches of {BATCH} images", columns, rows)


def resident() -> float:
    """Memory of this process in MiB."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return float("nan")


def memory(epochs: int, steps: int) -> Table:
    """Memory and tensors alive after every epoch of views and steps."""
    size = 32
    source = labelled(pictures(10 * BATCH, size))
    make, step = making_views("simclr", size, source), training_step("small-conv", size)
    rows: list[Row] = []
    for epoch in range(epochs):
        for _ in range(steps):
            make()
            step()
        gc.collect()
        alive = sum(type(entry) in (torch.Tensor, torch.nn.Parameter) for entry in gc.get_objects())
        rows.append([str(epoch), resident(), alive])
    return Table("Memory after each epoch", ("epoch", "MiB", "tensors alive"), rows)


def measure(size: Size) -> Results:
    """Four tables."""
    sizes = choose(size, full=[32, 64], short=[32], tiny=[32])
    encoders = choose(size, full=["small-conv", "small-resnet"], short=["small-conv"], tiny=["small-conv"])
    tables = [throughput(choose(size, full=7, short=3, tiny=1), sizes, encoders)]
    tables.append(decoding(choose(size, full=1000, short=300, tiny=10)))
    tables.append(knowing(choose(size, full=[2000, 10000], short=[2000], tiny=[20])))
    if Path("/proc/self/status").exists():
        tables.append(memory(*choose(size, full=(10, 10), short=(3, 3), tiny=(1, 1))))
    return Results(tables)


if __name__ == "__main__":
    main(__doc__, measure)
