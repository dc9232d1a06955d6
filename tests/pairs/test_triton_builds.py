"""The Triton kernels are compiled for an H100 or H200, which needs no GPU."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import torch

from labeltree.pairs.kernels.launch_kernels import settings
from sweeps import long_unless, some_now

pytestmark = pytest.mark.slow

triton = pytest.importorskip("triton")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("kernels are interpreted", allow_module_level=True)

from labeltree.pairs.kernels.bounded_kernels import bounded_gradient_kernel, bounded_sum_kernel  # noqa: E402
from labeltree.pairs.kernels.layout_kernels import bounds_kernel, tiles_kernel  # noqa: E402
from labeltree.pairs.kernels.queue_kernel import attention_kernel  # noqa: E402
from labeltree.pairs.kernels.statistics_kernels import gradient_kernel, statistics_kernel  # noqa: E402

INTEGERS = {
    "labels", "labels_x", "labels_y", "low", "high", "low_x", "low_y", "high_x", "high_y",
    "tile_code", "run_end", "index_of", "count_of", "member", "own_of", "held_of",
}  # fmt: skip
SHARED_MEMORY = 227 << 10  # bytes that a program can have
NAMES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}
LSE, SUM, LEAST, SMALL, ROW, COLUMN = 1, 2, 4, 8, 16, 32


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def build(kernel, dtype, how, warps, stages, **constants):
    """Compile a kernel with the types that it is launched with."""
    signature, attributes = {}, {}
    for place, parameter in enumerate(kernel.params):
        name = parameter.name
        if parameter.is_constexpr:
            signature[name] = "constexpr"
        elif name in ("pad", "blocks", "pad_x", "pad_y", "n_y", "tiles_x", "tiles_y", "span", "terms"):
            signature[name] = "i32"
        else:
            signature[name] = "*" + (
                "i32" if name in INTEGERS else NAMES[dtype] if name in ("x", "y") else "fp32"
            )
        if signature[name].startswith("*") or name.startswith("pad"):
            attributes[(place,)] = [["tt.divisibility", 16]]
    constants = {"D": how.width, "L": 3, "R": 17, "PRECISION": how.precision, **constants}
    constants = {name: value for name, value in constants.items() if signature.get(name) == "constexpr"}
    source = triton.compiler.ASTSource(kernel, signature, constexprs=constants, attrs=attributes)
    target = triton.backends.compiler.GPUTarget("cuda", 90, 32)
    options = {"num_warps": warps, "num_stages": stages}
    built = triton.compile(source, target=target, options=options)
    assert built.metadata.shared <= SHARED_MEMORY
    return built


def bytes_spilled(built, folder):
    """Bytes of stack that a thread needs because it has too few registers."""
    (folder / "kernel.cubin").write_bytes(built.asm["cubin"])
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    command = [tool, "--dump-resource-usage", folder / "kernel.cubin"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (stack,) = re.findall(r"STACK:(\d+)", told)
    return int(stack)


@pytest.mark.parametrize(
    ("dtype", "d"),
    some_now([(torch.bfloat16, 128), (torch.bfloat16, 512), (torch.float16, 128), (torch.float32, 128)]),
)
@pytest.mark.long
def test_tiles_of_one_relation(dtype, d, tmp_path):
    how = settings(dtype, d)
    common = {"T": how.tile, "REFINED": False, "MIXED": False}
    forward = build(
        statistics_kernel, dtype, how, how.num_warps, min(2, how.num_stages), **common, F=LSE | SUM | SMALL
    )
    flags = LSE | SUM | SMALL | ROW | COLUMN
    backward = build(
        gradient_kernel, dtype, how, how.num_warps, how.num_stages, **common, F=flags, HALF=how.half
    )
    for built in (forward, backward):
        assert bytes_spilled(built, tmp_path) <= (256 if dtype == torch.float16 else 0)
        assert ("wgmma.mma_async" in built.asm["ptx"]) == how.half  # float32 proper has no tensor core
        assert "cp.async" in built.asm["ptx"]  # tiles are fetched ahead


@pytest.mark.parametrize("dtype", some_now([torch.bfloat16, torch.float32]))
@pytest.mark.long
def test_tiles_of_several_relations(dtype):
    how = settings(dtype, 128)
    common = {"T": how.tile, "MIXED": True}
    flags = LSE | SUM | LEAST
    build(statistics_kernel, dtype, how, how.num_warps, how.num_stages, **common, REFINED=True, F=flags)
    flags = LSE | SUM | COLUMN
    build(
        gradient_kernel,
        dtype,
        how,
        2 * how.num_warps,
        how.num_stages,
        **common,
        REFINED=True,
        F=flags,
        HALF=how.half,
    )


@pytest.mark.parametrize("refined", long_unless([False, True], [True]))
def test_relations_of_tiles(refined):
    how = settings(torch.bfloat16, 128)
    build(bounds_kernel, torch.float32, how, 1, 2, T=how.tile)
    build(tiles_kernel, torch.float32, how, 4, 2, T=how.tile, B=8, C=128, REFINED=refined)


def test_counts_alone():
    how = settings(torch.bfloat16, 1)
    for mixed in (False, True):
        build(
            statistics_kernel,
            torch.float32,
            how,
            how.num_warps,
            2,
            T=how.tile,
            REFINED=False,
            MIXED=mixed,
            F=0,
        )


@pytest.mark.parametrize(("dtype", "side"), some_now([(torch.bfloat16, 64), (torch.float32, 32)]))
@pytest.mark.long
def test_contrast(dtype, side):
    how = settings(dtype, 128)
    build(attention_kernel, dtype, how, 4, 2, T=side, U=side, REFINED=False, HALF=how.half)


@pytest.mark.parametrize(
    ("dtype", "mixed"),
    some_now(
        [(torch.bfloat16, False), (torch.bfloat16, True), (torch.float32, False), (torch.float32, True)]
    ),
)
def test_bounded_sum(dtype, mixed, tmp_path):
    how = settings(dtype, 128)
    common = {"T": how.tile, "REFINED": False, "MIXED": mixed}
    forward = build(bounded_sum_kernel, dtype, how, how.num_warps, min(2, how.num_stages), **common)
    warps = 2 * how.num_warps if mixed else how.num_warps
    flags = {"F": ROW | COLUMN, "HALF": how.half}
    backward = build(bounded_gradient_kernel, dtype, how, warps, how.num_stages, **common, **flags)
    for built in (forward, backward):
        assert ("wgmma.mma_async" in built.asm["ptx"]) == how.half
        assert mixed or bytes_spilled(built, tmp_path) <= 32
