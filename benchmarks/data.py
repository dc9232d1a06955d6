"""Time of the data path: decoding, opening again, views and batches beside an encoder's step; memory.

    python benchmarks/data.py [--threads 1 2] [--images 1000] [--repeats 7] [--epochs 10]

The best of several repeats, in CPU seconds of the process (`cpu`: what it takes from other work, whatever
else the machine does) and in seconds by the clock (`wall`).
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from labeltree.data import ArrayStore, Source, ViewGenerator, open_source
from labeltree.data.views import RECIPES
from labeltree.losses import SupConLoss
from labeltree.models import ProjectionHead, build_encoder
from labeltree.sampling import HierarchicalBatchSampler
from labeltree.taxonomy import Taxonomy

BATCH = 256
SIZES = (32, 64)
ENCODERS = ("small-conv", "small-resnet")


def best(function: Callable[[], object], repeats: int) -> tuple[float, float]:
    """The least CPU seconds and seconds by the clock of a call; the first call is not counted."""
    function()
    cpu, wall = [], []
    for _ in range(repeats):
        began, busy = time.perf_counter(), time.process_time()
        function()
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - busy)
    return min(cpu), min(wall)


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


def decoding(count: int) -> None:
    """Files a second, the first time they are opened and when their pixels are in the cache."""
    print(f"{'files':24} {'n':>6} {'decoded/s, cpu':>15} {'decoded/s, wall':>16} {'opened again, s':>16}")
    for kind, side, options in (("jpg", 256, {"quality": 90}), ("png", 256, {}), ("png", 32, {})):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["LABELTREE_DATA"] = f"{folder}/cache"
            for number, image in enumerate(pictures(count, side)):
                path = Path(folder) / "images" / f"group {number % 10}" / f"{number}.{kind}"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(image.permute(1, 2, 0).numpy()).save(path, **options)
            seconds = []
            for _ in range(2):
                began, busy = time.perf_counter(), time.process_time()
                open_source(Path(folder) / "images", image_size=32)
                seconds.append((time.process_time() - busy, time.perf_counter() - began))
            (cpu, wall), (_, again) = seconds
        name = f"{kind} of {side} px, to 32"
        print(f"{name:24} {count:>6} {count / cpu:>15,.0f} {count / wall:>16,.0f} {again:>16.2f}", flush=True)


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


def throughput(threads: list[int], repeats: int) -> None:
    """Views and batching of a batch beside a training step on as many images."""
    print(f"{'threads':>7} {'px':>3} {'recipe':12} {'cpu ms':>8} {'wall ms':>8}", end="")
    print("".join(f"{f'of a step of {name}':>27}" for name in ENCODERS))
    for count in threads:
        torch.set_num_threads(count)
        for size in SIZES:
            source = labelled(pictures(20 * BATCH, size))
            steps = {name: best(training_step(name, size), repeats) for name in ENCODERS}
            for recipe in RECIPES:
                cpu, wall = best(making_views(recipe, size, source), 4 * repeats)
                row = f"{count:>7} {size:>3} {recipe:12} {1e3 * cpu:>8.1f} {1e3 * wall:>8.1f}"
                for name in ENCODERS:
                    shares = f"{cpu / steps[name][0]:.1%} cpu, {wall / steps[name][1]:.1%} wall"
                    row += f"{shares:>27}"
                print(row, flush=True)
            for name in ENCODERS:
                cpu, wall = steps[name]
                print(f"{count:>7} {size:>3} {name:12} {1e3 * cpu:>8.1f} {1e3 * wall:>8.1f}  (the step)")


def resident() -> float:
    """Memory of this process in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return float("nan")


def memory(epochs: int) -> None:
    """Memory and tensors alive after every epoch of views and steps."""
    size = 32
    source = labelled(pictures(10 * BATCH, size))
    make, step = making_views("simclr", size, source), training_step("small-conv", size)
    print(f"{'epoch':>5} {'MiB':>8} {'tensors alive':>14}")
    for epoch in range(epochs):
        for _ in range(10):
            make()
            step()
        gc.collect()
        alive = sum(type(entry) in (torch.Tensor, torch.nn.Parameter) for entry in gc.get_objects())
        print(f"{epoch:>5} {resident():>8.1f} {alive:>14}", flush=True)


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--images", type=int, default=1000, help="files to decode; 0 leaves that out")
    parser.add_argument("--repeats", type=int, default=7, help="0 leaves views and steps out")
    parser.add_argument("--epochs", type=int, default=10, help="of the table of memory; 0 leaves it out")
    given = parser.parse_args()
    np.random.seed(0)
    if given.repeats:
        throughput(given.threads, given.repeats)
        print()
    if given.images:
        decoding(given.images)
        print()
    if given.epochs:
        memory(given.epochs)


if __name__ == "__main__":
    main()
