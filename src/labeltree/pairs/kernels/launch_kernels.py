"""The inputs of a kernel launch: availability, tile sizes, the two sides of the pairs and their vectors."""

from __future__ import annotations

import importlib.util
import math
import os
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from labeltree.geometry.smooth import to_safe_length
from labeltree.pairs.gather_ranks import rows_of_all_ranks
from labeltree.pairs.kernels.layout import Side, Tiles, sides, tiles_between
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.similarity import HALVES

__all__ = [
    "COLUMN",
    "ROW",
    "SMALL",
    "WIDEST",
    "Pairs",
    "Problem",
    "Settings",
    "Vectors",
    "can_run",
    "pairs_of",
    "settings",
    "splits",
    "turns",
    "vectors",
]

WIDEST = 512
"""The largest d that a row of a tile is kept on the chip for."""
_PRECISION = {"highest": "ieee", "high": "tf32x3", "medium": "ieee"}  # "medium": products of bfloat16
SMALL, ROW, COLUMN = 8, 16, 32
"""Flags beside those of statistics: logits need no maximum; tables of rows count, tables of columns count."""

_Layout = tuple[PairRelation | None, Side, Side, Tiles]  # None: the relation that keeps it


@cache
def _is_installed() -> bool:
    return importlib.util.find_spec("triton") is not None


def can_run(device: torch.device) -> bool:
    """Whether kernels run on a device: CUDA with Triton, or anything under `TRITON_INTERPRET=1`."""
    if not _is_installed():
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
        tile: Rows and columns of a tile.
        width: d, padded to a power of two.
        dtype: Dtype of the factors of products, which are accumulated in float32.
        precision: Precision of float32 products: `"ieee"`, unless `torch.set_float32_matmul_precision` asks
            for less.
        num_warps: Warps of a program.
        num_stages: Number of tiles being loaded at a time.
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
    """Settings for vectors of a dtype and width, with the largest tile that fits in a program's registers."""
    width = max(16, 1 << (d - 1).bit_length())
    allowed = torch.get_float32_matmul_precision()
    if dtype not in HALVES:
        dtype = torch.bfloat16 if allowed == "medium" else torch.float32
    if dtype in HALVES:
        warps, stages = (4, 3) if width <= 128 else (4, 2) if width <= 256 else (8, 2)
        side = 64
    else:
        side, warps, stages = (32, 4, 2) if width <= 128 else (32, 8, 1)
    return Settings(tile or side, width, dtype, _PRECISION[allowed], warps, stages)


@dataclass(frozen=True, eq=False)
class Vectors:
    """Rows as input of a kernel, in the order of a side: `(n_pad, width)`, and `(n_pad,)` inverse norms.

    Half-precision vectors are multiplied unchanged, which is exact, and divided by their norms afterwards in
    float32; other vectors are normalised first and have inverse norms of 1.
    """

    rows: Tensor
    inverse: Tensor


def vectors(given: Tensor, unit: Tensor, side: Side, how: Settings) -> Vectors:
    """The vectors of one side from the given vectors and their unit vectors in float32, `(n, d)` each."""
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


def turns(parts: int, tiles: int) -> int:
    """How many programs take turns at the tiles of several relations of a block of rows.

    Few blocks have many such tiles: those with rows of two nodes near the root. With one program each, the
    others would wait for these.
    """
    return max(parts, min(tiles, 4))


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of one or two batches, as input of kernels.

    Attributes:
        relation: Relation of the queries that are walked over.
        queries: Labels of the queries, sorted; with a shard, only of its rows.
        keys: The labels of all keys, likewise.
        tiles: The relation of each tile of these pairs.
        of_queries: Vectors of the queries; empty if only labels count.
        of_keys: Vectors of the keys, likewise.
        how: Settings of the kernel.
        d: Width of the vectors before padding.
        alike: Whether queries and keys are one batch.
        shard: The rows of such a batch that this rank walks over; None: all.
    """

    relation: PairRelation
    queries: Side
    keys: Side
    tiles: Tiles
    of_queries: Vectors
    of_keys: Vectors
    how: Settings
    d: int
    alike: bool
    shard: slice | None

    def from_ranks(self, own: list[Tensor]) -> list[Tensor]:
        """Tables `(n, ...)` of one type, of all rows, from those of the rows walked over; no gradient."""
        if self.shard is None:
            return own
        whole = rows_of_all_ranks(torch.cat(own, dim=1), self.shard, len(self.keys))
        return list(torch.split(whole, [table.shape[1] for table in own], dim=1))

    def own(self, rows: Tensor) -> Tensor:
        """The part of rows `(n, ...)` that is walked over."""
        return rows if self.shard is None else rows[self.shard]

    def whole(self, own: Tensor) -> Tensor:
        """Rows of the whole batch, with 0 for rows that are not walked over."""
        if self.shard is None:
            return own
        rows = own.new_zeros(len(self.keys), *own.shape[1:])
        rows[self.shard] = own
        return rows


@dataclass(frozen=True, eq=False)
class Problem:
    """The pair statistics to compute."""

    pairs: Pairs
    temperature: float
    scale: Tensor  # ω, float32
    flags: int

    @property
    def exponents(self) -> Tensor:
        """Factors that convert cosines to logits to the base 2, `(R,)`."""
        return self.scale * (math.log2(math.e) / self.temperature)


def are_alike(relation: PairRelation) -> bool:
    """Whether queries and keys of a relation are the same batch."""
    return relation.queries is relation.keys and relation.offset in (0, None)


def pairs_of(
    relation: PairRelation,
    given: tuple[Tensor, Tensor] | None,
    unit: tuple[Tensor, Tensor] | None,
    tile: int | None,
) -> Pairs:
    """The pairs of a relation.

    Args:
        relation: As in `pair_statistics`.
        given: The queries and the keys as given; None: only labels count.
        unit: Unit vectors of the queries and the keys, in float32.
        tile: Rows and columns of a tile, or None.
    """
    alike = are_alike(relation) and (given is None or given[0] is given[1])
    if given is None or unit is None:
        how, d = settings(torch.bfloat16, 1, tile), 0
    else:
        (queries, keys), d = given, given[0].shape[1]
        how = settings(queries.dtype if queries.dtype == keys.dtype else torch.float32, d, tile)
    shard = relation.shard if alike else None
    own, u, v, tiles = _layout(relation, how.tile, shard)
    nothing = torch.empty(0, dtype=torch.float32, device=u.order.device)
    of_queries = of_keys = Vectors(nothing, nothing)
    if given is not None and unit is not None:
        of_keys = vectors(given[1].detach(), unit[1].detach(), v, how)
        of_queries = of_keys
        if not alike or shard is not None:
            rows = slice(None) if shard is None else shard
            of_queries = vectors(given[0].detach()[rows], unit[0].detach()[rows], u, how)
    return Pairs(own, u, v, tiles, of_queries, of_keys, how, d, alike, shard)


def _layout(relation: PairRelation, tile: int, shard: slice | None) -> tuple[PairRelation, Side, Side, Tiles]:
    """Sides and tiles, cached for all passes over a relation; with a shard only those of its rows.

    The cache of a relation must not refer to the relation: its memory would wait for the garbage collector.
    """
    key = ("kernels", tile, shard and (shard.start, shard.stop))
    if key not in relation.kept:
        part = None
        if shard is not None:
            offset = None if relation.offset is None else shard.start
            part = PairRelation(relation.queries[shard], relation.keys, offset=offset)
        own = relation if part is None else part
        u, v = sides(own, tile)
        relation.kept[key] = part, u, v, tiles_between(own, u, v, tile)
    layout: _Layout = relation.kept[key]
    return relation if layout[0] is None else layout[0], *layout[1:]
