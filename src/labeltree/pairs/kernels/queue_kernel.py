# mypy: ignore-errors
"""The kernel of attention over a queue: for each query a masked softmax over the keys and their mean."""

import triton
import triton.language as tl

from labeltree.pairs.kernels.device import added_product, cosines, rows_of, tile_relation

__all__ = ["attention_kernel"]

INF = tl.constexpr(float("inf"))


@triton.jit
def attention_kernel(
    x, inverse_x, labels_x, y, inverse_y, labels_y, member,
    peak_of, total_of, pulled_of,
    pad_x, pad_y, n_y, tiles_y, span,
    T: tl.constexpr, U: tl.constexpr, D: tl.constexpr, L: tl.constexpr, R: tl.constexpr,
    REFINED: tl.constexpr, PRECISION: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    """Softmax number t of the rows of x over the rows of y; a are logits to the base 2, p = 2^(a − max a).

    Args:
        x: `(pad_x, D)` queries; `inverse_x` `(pad_x,)` what makes logits of x·y/|y|.
        labels_x: See `Side`; y, inverse_y and labels_y are those of the n_y keys.
        member: `(sets, R + 1)` int32, the relations that take part.
        peak_of: With what follows `(splits, sets, pad_x)`: max a, Σp.
        pulled_of: `(splits, sets, pad_x, D)` Σ p·y/|y|.
        span: Tiles that a program walks over.
    """
    i, part, t = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    rows = i * T + tl.arange(0, T)
    vectors, factor = rows_of(x, rows, D), tl.load(inverse_x + rows)
    peak, total = tl.zeros([T], tl.float32) - INF, tl.zeros([T], tl.float32)
    pulled = tl.zeros([T, D], tl.float32)
    for tile in range(part * span, tl.minimum(part * span + span, tiles_y)):
        cols = tile * U + tl.arange(0, U)
        others, inverse = rows_of(y, cols, D), tl.load(inverse_y + cols)
        logits = cosines(vectors, others, inverse, PRECISION) * factor[:, None]
        codes = tile_relation(labels_x, labels_y, rows, cols, pad_x, pad_y, n_y, L, R, REFINED)
        logits = tl.where(tl.load(member + t * (R + 1) + codes) != 0, logits, -INF)
        greater = tl.maximum(peak, tl.max(logits, 1))
        reached = tl.where(greater == -INF, 0.0, greater)
        p, keep = tl.exp2(logits - reached[:, None]), tl.exp2(peak - reached)
        total = keep * total + tl.sum(p, 1)
        pulled = pulled * keep[:, None]
        pulled = added_product(pulled, p * inverse[None, :], others, PRECISION, HALF)
        peak = greater
    place = (part * tl.num_programs(2) + t) * pad_x + rows
    tl.store(peak_of + place, peak)
    tl.store(total_of + place, total)
    tl.store(pulled_of + place.to(tl.int64)[:, None] * D + tl.arange(0, D)[None, :], pulled)
