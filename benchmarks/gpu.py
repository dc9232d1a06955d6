"""Losses on a GPU, forward and backward: time, memory, accuracy, waits, kernels, launch settings (P12, P14).

    python benchmarks/gpu.py [--short] [--seconds 540]

The goal comes first, then what explains it, and rows are printed as they are found: a run that is cut short
has told the most. Nothing is begun after so many seconds. Times are CUDA events, the median of several passes
after a warm-up; memory is the greatest that the allocator gave out, over what was there before. bfloat16
embeddings are multiplied as they are. float32 ones are multiplied in float32 proper, which no tensor core
does, or in three products of TF32 ("high") or rounded to bfloat16 ("medium"), as
`torch.set_float32_matmul_precision` says. Errors are those of gradients relative to float64 at the inputs as
their type has rounded them. Without a GPU it says so and measures nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from statistics import median
from unittest.mock import patch

import torch

from gpu_clock import Session, by_kernel, timed, waits
from harness import Results, Row, Size, choose, main
from inputs import Batch, batch
from labeltree.pairs.kernels import launch_kernels as launch
from labeltree.pairs.kernels.launch_kernels import Settings, settings
from objectives import OBJECTIVES, both_ways, objective, relative_error

D = 128
DEVICE = "cuda"
INPUTS: dict[str, tuple[torch.dtype, str]] = {
    "bfloat16": (torch.bfloat16, "highest"),
    "float32": (torch.float32, "highest"),
    "float32, high": (torch.float32, "high"),
    "float32, medium": (torch.float32, "medium"),
}
SETTINGS = {
    "bfloat16": [(64, 4, 3), (64, 4, 2), (64, 4, 4), (64, 8, 2), (128, 8, 3), (128, 4, 3), (32, 4, 3)],
    "float32": [(32, 4, 2), (32, 4, 3), (32, 8, 1), (64, 4, 2), (64, 8, 2), (16, 4, 2)],
    "float32, high": [(32, 4, 2), (32, 4, 3), (64, 4, 2), (64, 8, 2)],
}
"""Rows and columns of a tile, warps, tiles on their way; the first is what is used, at d up to 128."""
TUNED = [
    ("hicone", 65_536, D, "bfloat16"),
    ("hwc", 32_768, 2 * D, "bfloat16"),
    ("hwc", 32_768, 4 * D, "bfloat16"),
    ("hwc", 32_768, D, "float32, high"),
    ("hwc", 16_384, D, "float32"),
]
"""Objective, n, d and inputs for which the full form tries the settings, after those of the goal."""


@contextmanager
def precision(kind: str) -> Iterator[None]:
    """Products of float32 as a kind of inputs has them."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(INPUTS[kind][1])
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def there(inputs: Batch, kind: str) -> Batch:
    """The batch on the GPU."""
    return inputs.to(DEVICE, INPUTS[kind][0])


def speed(session: Session, size: Size) -> dict[str, float]:
    """Milliseconds and peak memory of the goal: HWC by type of inputs, and by what computes it."""
    n = choose(size, full=65_536, short=65_536, tiny=64)
    rounds = choose(size, full=15, short=7, tiny=1)
    inputs, measured = batch(n, D), {}
    products = 3 * 2 * n * n * D  # similarities in both passes, and the gradient
    columns = ("inputs", "by", "ms", "peak, GB", "TFLOP/s of its three products")
    with session.table(f"HWC, n = {n}, d = {D}, 8/64/512 nodes, forward and backward", columns) as rows:

        def row(kind: str, by: str, rounds: int) -> Row:
            given = there(inputs, kind)
            with precision(kind):
                took, peak = timed(both_ways(objective("hwc", given), given.z, by), rounds)
            return [kind, by, took, peak / 1e9, products / took / 1e9]

        found = session.add(rows, "HWC, bfloat16", partial(row, "bfloat16", "triton", rounds))
        if found is not None and n == 65_536:
            measured = {"P12": found[2], "P12 memory": found[3]}
        for kind in list(INPUTS)[1:]:
            session.add(rows, f"HWC, {kind}", partial(row, kind, "triton", max(rounds // 3, 1)))
        session.add(rows, "HWC, streaming", partial(row, "float32", "streaming", 1))
        session.add(rows, "plain products", partial(_products, n, rounds))
    return {name: float(figure) for name, figure in measured.items() if isinstance(figure, float)}


def _products(n: int, rounds: int) -> Row:
    """Three plain products of bfloat16 of the same size, by blocks of rows."""
    z = torch.randn(n, D, device=DEVICE, dtype=torch.bfloat16)

    def call() -> None:
        for rows in torch.split(z, 8192):
            s = rows @ z.T
            s @ z
            rows @ z.T

    took, peak = timed(call, rounds)
    return ["bfloat16", "three plain products", took, peak / 1e9, 6 * n * n * D / took / 1e9]


def kernels(session: Session, size: Size) -> None:
    """Milliseconds by kernel: all that runs on the GPU, sorting included."""
    n = choose(size, full=65_536, short=65_536, tiny=64)
    given = there(batch(n, D), "bfloat16")
    for name in choose(size, full=["hwc", "hicone", "maskcon"], short=["hwc", "hicone"], tiny=["hwc"]):
        with session.table(f"Kernels of {name}, n = {n}, bfloat16", ("kernel", "ms", "launches")) as rows:
            for kernel in by_kernel(both_ways(objective(name, given), given.z, "triton")):
                session.add(rows, kernel[0], partial(list, kernel))


def parity(session: Session, size: Size, names: list[str]) -> None:
    """Errors of kernels and of streaming on the GPU, beside those of dense float32."""
    n = choose(size, full=1024, short=1024, tiny=64)
    shapes = {"random": None, "clusters": 0.02}
    columns = ("objective", "embeddings", "inputs", "kernels", "streaming", "dense")
    with session.table(f"Error of the gradient, n = {n}", columns) as rows:
        for noise, name in ((noise, name) for noise in shapes for name in names):
            inputs = batch(n, D, noise=shapes[noise])
            for kind in ("bfloat16", "float32"):

                def row(name: str = name, noise: str = noise, kind: str = kind) -> Row:
                    given = there(inputs, kind)  # noqa: B023
                    wide = given.to(DEVICE, torch.float64)
                    exact = both_ways(objective(name, wide), wide.z, "dense")()
                    errors: list[float] = []
                    for by in ("triton", "streaming", "dense"):
                        got = both_ways(objective(name, given), given.z, by)()
                        errors.append(relative_error(got.double(), exact))
                    return [name, noise, kind, *errors]

                session.add(rows, f"error of {name}, {noise}, {kind}", row)


def objectives(session: Session, size: Size, names: list[str]) -> None:
    """Milliseconds and memory of the objectives, small and large."""
    for n in choose(size, full=[512, 8192, 65_536], short=[512, 65_536], tiny=[64]):
        inputs, rounds = batch(n, D), choose(size, full=15, short=7, tiny=1)
        columns = ("objective", "ms", "peak, GB")
        with session.table(f"Objectives, n = {n}, bfloat16, forward and backward", columns) as rows:

            def row(name: str, inputs: Batch = inputs, rounds: int = rounds) -> Row:
                given = there(inputs, "bfloat16")
                took, peak = timed(both_ways(objective(name, given), given.z), rounds)
                return [name, took, peak / 1e9]

            for name in names:
                session.add(rows, f"{name}, n = {n}", partial(row, name))


def tuning(
    session: Session, size: Size, name: str = "hwc", n: int = 65_536, d: int = D, kind: str = "bfloat16"
) -> None:
    """Milliseconds of an objective by tile, warps and tiles on their way, of the kernels alone."""
    n = n if size != "tiny" else 64
    given = there(batch(n, d), kind)
    columns = ("tile", "warps", "stages", "forward and backward", "statistics_kernel", "gradient_kernel")
    with session.table(f"Launch settings, {name}, n = {n}, d = {d}, {kind}, ms", columns) as rows:

        def row(tile: int, warps: int, stages: int) -> Row:
            def chosen(dtype: torch.dtype, d: int, side: int | None = None) -> Settings:
                return replace(settings(dtype, d, side), tile=tile, num_warps=warps, num_stages=stages)

            with precision(kind), patch.object(launch, "settings", chosen):
                call = both_ways(objective(name, given), given.z, "triton")
                took, _ = timed(call, 7)
                spent = by_kernel(call, 3)
            alone = [sum(k[1] for k in spent if name in k[0]) for name in columns[-2:]]
            return [tile, warps, stages, took, *alone]

        for setting in SETTINGS[kind] if size != "tiny" else SETTINGS[kind][:1]:
            session.add(rows, f"launch setting {setting}", partial(row, *setting))


def waiting(session: Session, names: list[str]) -> None:
    """How often an objective waits for the GPU; launches before the first wait hide behind earlier work."""
    given = there(batch(512, D), "bfloat16")
    with session.table("Waits for the GPU, n = 512, bfloat16", ("objective", "waits", "where")) as rows:

        def row(name: str) -> Row:
            places = waits(both_ways(objective(name, given), given.z))
            return [name, len(places), ", ".join(dict.fromkeys(places)) or "–"]

        for name in names:
            session.add(rows, f"waits of {name}", partial(row, name))


def step(session: Session, size: Size) -> dict[str, float]:
    """What a loss adds to a step of ResNet-50 of 512 views (P14), and its parts with a wait after each."""
    if size == "tiny":
        return {}
    from training_step import BATCH, Setting, parted_steps, source_of, trainee_of, undivided_step

    rounds = 7
    setting = Setting("torchvision:resnet50", 224, DEVICE, "bf16", 3 * BATCH, rounds)
    columns = (
        "objective",
        "step, ms",
        "loss forward, ms",
        "loss backward, ms",
        "the loss, %",
        "without waits, ms",
        "without a loss, ms",
    )
    with session.table(f"{setting.title}: the loss within a step", columns) as rows:
        source = source_of(setting)

        def row(name: str) -> Row:
            parted = parted_steps({name: trainee_of(name, setting, source)}, setting)[name][1:]
            forward, backward = (
                [parts[f"loss {way}"] for parts in parted] for way in ("forward", "backward")
            )
            whole = [sum(parts.values()) for parts in parted]
            share = median(100 * (f + b) / w for f, b, w in zip(forward, backward, whole, strict=True))
            undivided = (
                undivided_step(trainee_of(name, setting, source), setting, loss=x) for x in (True, False)
            )
            return [
                name,
                *(1000 * median(x) for x in (whole, forward, backward)),
                share,
                *(1000 * x for x in undivided),
            ]

        found = [
            session.add(rows, f"step, {name}", partial(row, name)) for name in ("hwc", "hicone", "supcon")
        ]
    undivided = [row[-2:] for row in found if row is not None]
    added = [100 * (1 - float(without) / float(step)) for step, without in undivided]
    return {"P14 GPU": max(added)} if added else {}


def measure(size: Size, seconds: str = "540") -> Results:
    """The tables, or the word that there is no GPU."""
    if not torch.cuda.is_available():
        return Results([], {}, ["no GPU: nothing was measured."])
    session = Session(float(seconds))
    few = ["hwc", "himulcon", "hicone", "maskcon"]
    names = choose(size, full=few, short=few[:3], tiny=few[:1])
    every = choose(size, full=[*few, *(name for name in OBJECTIVES if name not in few)], short=few, tiny=few)
    measured = speed(session, size)
    waiting(session, list(OBJECTIVES) if size != "tiny" else few)
    with session.noting("step"):
        measured |= step(session, size)
    for part in (kernels, partial(parity, names=names), tuning):
        with session.noting(str(getattr(part, "__name__", "parity"))):
            part(session, size)
    for tuned in TUNED if size == "full" else ():
        with session.noting(f"tuning {tuned}"):
            tuning(session, size, *tuned)
    objectives(session, size, every)
    return Results(session.tables, measured, session.notes)


if __name__ == "__main__":
    main(__doc__, measure, {"seconds": "after which nothing more is begun"})
