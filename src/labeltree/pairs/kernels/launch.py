"""What a launch needs to know: whether kernels can run, sizes of tiles, vectors as kernels take them."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from labeltree.geometry.smooth import to_safe_length
from labeltree.pairs.kernels.layout import Side
from labeltree.pairs.precision import HALVES

__all__ = ["WIDEST", "Settings", "Vectors", "can_run", "settings", "splits", "vectors"]

WIDEST = 512
"""The largest d that a row of a tile is kept on the chip for."""
_PRECISION = {"highest": "ieee", "high": "tf32x3", "medium": "ieee"}  # "medium": products of bfloat16


@cache
def _installed() -> bool:
    return importlib.util.find_spec("triton") is not None


def can_run(device: torch.device) -> bool:
    """Whether kernels run on a device: CUDA with Triton, or anything under `TRITON_INTERPRET=1`."""
    if not _installed():
        return False
    if interpreted():
        return True
    if device.type != "cuda" or torch.version.hip is not None:
        return False
    return torch.cuda.get_device_capability(device) >= (8, 0)


def interpreted() -> bool:
    """Whether kernels are interpreted, which needs no GPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@dataclass(frozen=True)
class Settings:
    """How a kernel runs.

    Attributes:
        tile: rows and columns of a tile.
        width: d, filled up to a power of two.
        dtype: what products take; they give float32.
        precision: of float32 products: `"ieee"`, unless `torch.set_float32_matmul_precision` asks for less.
        num_warps: warps of a program.
        num_stages: tiles on their way at a time.
    """

    tile: int
    width: int
    dtype: torch.dtype
    precision: str
    num_warps: int
    num_stages: int

    @property
    def half(self) -> bool:
        """Whether products take half precision."""
        return self.dtype in HALVES


def settings(dtype: torch.dtype, d: int, tile: int | None = None) -> Settings:
    """Settings for vectors of a type and width: as large a tile as a program has registers for."""
    width = max(16, 1 << (d - 1).bit_length())
    allowed = torch.get_float32_matmul_precision()
    if dtype not in HALVES:
        dtype = torch.bfloat16 if allowed == "medium" else torch.float32
    if dtype in HALVES:
        side, warps, stages = (128, 8, 3) if width <= 128 else (64, 8, 2)
    else:
        side, warps, stages = (32, 4, 2) if width <= 128 else (32, 8, 1)
    return Settings(tile or side, width, dtype, _PRECISION[allowed], warps, stages)


@dataclass(frozen=True, eq=False)
class Vectors:
    """Rows as a kernel takes them, in the order of a side: `(n_pad, width)`, and `(n_pad,)` inverse norms.

    Half-precision vectors go into the products as they are, which is exact, and the norm is divided out
    afterwards in float32; others go in as unit vectors, at inverse norms of 1.
    """

    rows: Tensor
    inverse: Tensor


def vectors(given: Tensor, unit: Tensor, side: Side, how: Settings) -> Vectors:
    """The vectors of one side from what was given and its unit vectors in float32, `(n, d)` each."""
    if not how.half:
        rows = unit.float()
        inverse = torch.ones_like(rows[:, 0])
    else:
        given = given * to_safe_length(given.float()).to(given.dtype)  # a power of 2, so that it is exact
        rows = given.to(how.dtype)
        if interpreted():  # cannot multiply bfloat16
            rows = rows.float()
        norm = given.float().norm(dim=1)
        inverse = torch.where(unit.any(dim=1), 1 / norm, 0.0)
    return Vectors(side.placed(rows, how.width), side.placed(inverse))


def splits(blocks: int, tiles: int, device: torch.device) -> tuple[int, int]:
    """How many programs share a block of rows, and how many tiles each of them walks over."""
    wanted = 6
    if device.type == "cuda":
        wanted = 4 * torch.cuda.get_device_properties(device).multi_processor_count
    parts = max(1, min(tiles, wanted // max(blocks, 1)))
    span = -(-tiles // parts)
    return -(-tiles // span), span
