# mypy: ignore-errors
"""What the kernels share: the similarities of a tile and the relation of its pairs.

These functions are in the language of kernels, which looks like Python and has types of its own.
"""

import triton
import triton.language as tl

from labeltree.taxonomy import relations

__all__ = ["added_product", "cosines", "next_mixed", "rows_of", "tile_relation"]

ANCESTOR = tl.constexpr(relations.ANCESTOR)
SAME = tl.constexpr(relations.SAME)
INSTANCE = tl.constexpr(relations.INSTANCE)
UNKNOWN = tl.constexpr(relations.UNKNOWN)


@triton.jit
def rows_of(x, rows, D: tl.constexpr):
    """The rows `(T, D)` of a matrix."""
    return tl.load(x + rows[:, None].to(tl.int64) * D + tl.arange(0, D)[None, :])


@triton.jit
def cosines(x, y, inverse, PRECISION: tl.constexpr):
    """x·y over |y|, `(T, U)`, from rows as they are and the inverse norms of y."""
    return tl.dot(x, tl.trans(y), input_precision=PRECISION) * inverse[None, :]


@triton.jit
def added_product(sums, weight, y, PRECISION: tl.constexpr, HALF: tl.constexpr):
    """sums + weight·y, with weights rounded to bfloat16 if HALF: it has the range that they need."""
    if not HALF:
        sums = tl.dot(weight, y, sums, input_precision=PRECISION)
    elif y.dtype == tl.float32:  # in the interpreter
        sums = tl.dot(weight.to(tl.bfloat16).to(tl.float32), y, sums, input_precision="ieee")
    elif y.dtype == tl.bfloat16:
        sums = tl.dot(weight.to(tl.bfloat16), y, sums)
    else:  # float16 has three bits more, which in tight clusters are what the gradient is made of
        most = y.to(tl.bfloat16)
        sums = tl.dot(weight.to(tl.bfloat16), most, sums)
        sums = tl.dot(weight.to(tl.bfloat16), (y - most.to(y.dtype)).to(tl.bfloat16), sums)
    return sums


@triton.jit
def next_mixed(tile_code, run_end, i, j, tiles):
    """The first tile of several relations among tile j of block i and every tile that is its program's turn.

    Programs of a block take turns, so that a block with many such tiles in a row is not one program's work.
    """
    step = tl.num_programs(1)
    seeking = j < tiles
    while seeking:
        if tl.load(tile_code + i * tiles + j) >= 0:
            end = tl.load(run_end + i * tiles + j)
            j += (end - j + step - 1) // step * step
            seeking = j < tiles
        else:
            seeking = False
    return j


@triton.jit
def tile_relation(
    labels_x, labels_y, rows, cols, pad_x, pad_y, n_y, L: tl.constexpr, R: tl.constexpr, REFINED: tl.constexpr
):
    """Codes `(T, U)` int32 as `PairRelation.codes` has them, from the tables `Side.labels`."""
    depth = tl.zeros([rows.shape[0], cols.shape[0]], tl.int32)
    differ = depth > 0
    for level in range(L):
        u, v = tl.load(labels_x + level * pad_x + rows), tl.load(labels_y + level * pad_y + cols)
        equal = u[:, None] == v[None, :]
        decided = (u >= 0)[:, None] & (v >= 0)[None, :]
        depth += (equal & decided).to(tl.int32)
        differ = differ | ((u[:, None] != v[None, :]) & decided)
    own_x, own_y = tl.load(labels_x + L * pad_x + rows), tl.load(labels_y + L * pad_y + cols)
    kind = tl.where(differ, 0, tl.where(depth == L, SAME, ANCESTOR))
    depth = tl.minimum(depth, own_x[:, None])
    codes = kind * (L + 1) + depth
    if REFINED:
        shallower = tl.minimum(
            tl.load(labels_x + (L + 1) * pad_x + rows)[:, None],
            tl.load(labels_y + (L + 1) * pad_y + cols)[None, :],
        )
        codes = tl.where(differ, UNKNOWN * (L + 1) + 1 + depth * L + shallower - 1, codes)
    missing = (own_x < 0)[:, None] | (own_y < 0)[None, :]
    codes = tl.where(missing, UNKNOWN * (L + 1), codes)
    depth = tl.where(missing, 0, depth)
    of_x = tl.load(labels_x + (L + 2) * pad_x + rows)
    of_y = tl.load(labels_y + (L + 2) * pad_y + cols)
    views = (of_x >= 0)[:, None] & (of_x[:, None] == of_y[None, :])
    codes = tl.where(views, INSTANCE * (L + 1) + depth, codes)
    itself = tl.load(labels_x + (L + 3) * pad_x + rows)[:, None] == cols[None, :]
    return tl.where(itself | (cols >= n_y)[None, :], R, codes)
