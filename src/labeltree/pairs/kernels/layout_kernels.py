# mypy: ignore-errors
"""The kernels that find which tiles have one relation."""

import triton
import triton.language as tl

from labeltree.pairs.kernels.device import tile_relation

__all__ = ["bounds_kernel", "tiles_kernel"]

LARGEST = tl.constexpr(2**31 - 1)


@triton.jit
def bounds_kernel(labels, low, high, pad, blocks, T: tl.constexpr, L: tl.constexpr):
    """The least and the greatest entry of one label field in one block of places.

    Where a block has no instances or no partners, the least is above the greatest.

    Args:
        labels: `(L + 5, pad)`, see `Side`.
        low: `(L + 5, blocks)`; `high` likewise.
    """
    block, field = tl.program_id(0), tl.program_id(1)
    entries = tl.load(labels + field * pad + block * T + tl.arange(0, T))
    tl.store(high + field * blocks + block, tl.max(entries))
    if (field == L + 2) | (field == L + 3):
        entries = tl.where(entries < 0, LARGEST, entries)
    tl.store(low + field * blocks + block, tl.min(entries))


@triton.jit
def tiles_kernel(
    labels_x, low_x, high_x, labels_y, low_y, high_y, tile_code, run_end,
    pad_x, pad_y, n_y, tiles_x, tiles_y,
    T: tl.constexpr, B: tl.constexpr, C: tl.constexpr, L: tl.constexpr, R: tl.constexpr,
    REFINED: tl.constexpr,
):  # fmt: skip
    """The relation of the tiles of B blocks of rows, `Tiles.code` and `Tiles.end`; C at once, from the right.

    Args:
        labels_x: `(L + 5, pad_x)`, see `Side`; `low_x` and `high_x` see `bounds_kernel`; labels_y, low_y and
            high_y are the same of the keys, of which there are n_y.
        tile_code: `(tiles_x, tiles_y)`; `run_end` likewise.
    """
    blocks = tl.program_id(0) * B + tl.arange(0, B)
    rows = tl.minimum(blocks, tiles_x - 1)
    chunk = tl.cdiv(tiles_y, C) - 1
    after = tl.zeros([B], tl.int32) + tiles_y  # where the runs of the tiles at the right end
    while chunk >= 0:
        places = chunk * C + tl.arange(0, C)
        codes = _codes(
            labels_x, low_x, high_x, labels_y, low_y, high_y, rows, tl.minimum(places, tiles_y - 1),
            pad_x, pad_y, n_y, tiles_x, tiles_y, T, L, R, REFINED,
        )  # fmt: skip
        inside = (blocks < tiles_x)[:, None] & (places < tiles_y)[None, :]
        there, next_place = blocks[:, None] * tiles_y + places[None, :], places + 1
        tl.store(tile_code + there, codes, mask=inside)
        tl.debug_barrier()  # the codes at the right are other threads' of this program
        right = tl.load(tile_code + there + 1, mask=inside & (next_place < tiles_y)[None, :], other=LARGEST)
        ends = tl.where(codes != right, next_place[None, :], LARGEST)
        ends = tl.minimum(tl.associative_scan(ends, 1, _least, reverse=True), after[:, None])
        tl.store(run_end + there, ends, mask=inside)
        after = tl.min(ends, 1)
        chunk -= 1


@triton.jit
def _least(a, b):
    return tl.minimum(a, b)


@triton.jit
def _codes(
    labels_x, low_x, high_x, labels_y, low_y, high_y, rows, cols, pad_x, pad_y, n_y, tiles_x, tiles_y,
    T: tl.constexpr, L: tl.constexpr, R: tl.constexpr, REFINED: tl.constexpr,
):  # fmt: skip
    """Codes `(B, C)` of the tiles of blocks of rows and of columns: that of all their pairs, or `MIXED`.

    The least and the greatest entry of the labels of a block bound what its pairs can be: where two blocks
    share their paths down to a depth and there have entries of disjoint ranges, all their pairs are apart at
    that depth. A tile that this does not decide counts as mixed, which only costs time.
    """
    shared = (rows >= 0)[:, None] & (cols >= 0)[None, :]
    pure = ~shared
    if REFINED:  # the shallower depth must be unique, too
        a, b, c, d = _ends(low_x, high_x, low_y, high_y, rows, cols, tiles_x, tiles_y, L + 1)
        unique = tl.minimum(a, c) == tl.minimum(b, d)
    for level in range(L):
        a, b, c, d = _ends(low_x, high_x, low_y, high_y, rows, cols, tiles_x, tiles_y, level)
        differ = shared & (a >= 0) & (c >= 0) & ((b < c) | (d < a))
        if REFINED:
            differ = differ & unique
        pure = pure | differ | (shared & ((b < 0) | (d < 0)))
        shared = shared & (a == b) & (c == d) & (a == c) & (a >= 0)
    a, b, c, d = _ends(low_x, high_x, low_y, high_y, rows, cols, tiles_x, tiles_y, L)
    pure = (pure | shared) & (a >= 0) & (c >= 0)  # no label is missing
    pure = pure | (b < 0) | (d < 0)  # or all are
    a, b, c, d = _ends(low_x, high_x, low_y, high_y, rows, cols, tiles_x, tiles_y, L + 2)
    pure = pure & ((a > d) | (c > b))  # no views of one sample
    a, b, c, d = _ends(low_x, high_x, low_y, high_y, rows, cols, tiles_x, tiles_y, L + 3)
    start = cols * T
    pure = pure & ((b < start[None, :]) | (a >= start[None, :] + T))  # nothing meets itself
    pure = pure & (start + T <= n_y)[None, :]
    codes = tile_relation(labels_x, labels_y, rows * T, start, pad_x, pad_y, n_y, L, R, REFINED)
    return tl.where(pure, codes, -1)


@triton.jit
def _ends(low_x, high_x, low_y, high_y, rows, cols, tiles_x, tiles_y, field):
    """The least and the greatest entry of a field in blocks of rows `(B, 1)`, and of columns `(1, C)`."""
    place_x, place_y = field * tiles_x + rows, field * tiles_y + cols
    low, high = tl.load(low_x + place_x)[:, None], tl.load(high_x + place_x)[:, None]
    return low, high, tl.load(low_y + place_y)[None, :], tl.load(high_y + place_y)[None, :]
