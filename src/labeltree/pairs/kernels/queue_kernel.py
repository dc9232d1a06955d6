# mypy: ignore-errors
"""The kernel of attention over a queue: for each query a masked softmax over the keys and their mean."""

import triton
import triton.language as tl

from labeltree.pairs.kernels.device import added_product, cosines, rows_of, tile_relation

__all__ = ["attention_kernel"]

INF = tl.constexpr(float("inf"))


@triton.jit
def attention_kernel(
    x, inverse_x, labels_x, y, inverse_y, labels_y, member, sharpness,
    peak_of, total_of, spread_of, count_of, mean_of,
    pad_x, pad_y, n_y, tiles_y, span,
    T: tl.constexpr, U: tl.constexpr, D: tl.constexpr, L: tl.constexpr, R: tl.constexpr,
    REFINED: tl.constexpr, PRECISION: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    """Softmax number t of the rows of x[t] over the rows of y: with c the cosine and p = exp(k·(c − max c)).

    Args:
        x: `(sets, pad_x, D)` queries; `inverse_x` `(sets, pad_x)` their inverse norms.
        labels_x: see `Side`; y, inverse_y and labels_y are those of the n_y keys.
        member: `(sets, R + 1)` int32, the relations that take part.
        sharpness: `(sets,)` k·log₂e ≥ 0; infinite: the keys with the greatest cosine alone.
        peak_of: with what follows `(splits, sets, pad_x)`: max c, Σp, Σ p·(c − max c), the number of keys.
        mean_of: `(splits, sets, pad_x, D)` Σ p·y/|y|.
        span: tiles that a program walks over.
    """
    i, part, t = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    rows = i * T + tl.arange(0, T)
    vectors = rows_of(x + t.to(tl.int64) * pad_x * D, rows, D)
    norm = tl.load(inverse_x + t * pad_x + rows)
    k = tl.load(sharpness + t)
    peak, total = tl.zeros([T], tl.float32) - INF, tl.zeros([T], tl.float32)
    spread, count = tl.zeros([T], tl.float32), tl.zeros([T], tl.int32)
    pulled = tl.zeros([T, D], tl.float32)
    for tile in range(part * span, tl.minimum(part * span + span, tiles_y)):
        cols = tile * U + tl.arange(0, U)
        others, inverse = rows_of(y, cols, D), tl.load(inverse_y + cols)
        cos = cosines(vectors, others, inverse, PRECISION) * norm[:, None]
        codes = tile_relation(labels_x, labels_y, rows, cols, pad_x, pad_y, n_y, L, R, REFINED)
        use = tl.load(member + t * (R + 1) + codes) != 0
        cos = tl.where(use, cos, -INF)
        greater = tl.maximum(peak, tl.max(cos, 1))
        safe = tl.where(greater == -INF, 0.0, greater)
        risen, behind = peak - safe, tl.where(use, cos - safe[:, None], 0.0)
        p = tl.where(use, tl.exp2(tl.where(behind == 0.0, 0.0, behind * k)), 0.0)
        keep = tl.where(risen == 0.0, 1.0, tl.exp2(risen * k))
        if k == 0.0:
            keep = tl.where(peak == -INF, 0.0, 1.0)
        spread = keep * spread + tl.where(total > 0, risen * keep * total, 0.0) + tl.sum(p * behind, 1)
        total = keep * total + tl.sum(p, 1)
        count += tl.sum(use.to(tl.int32), 1)
        p = p * inverse[None, :]
        pulled = pulled * keep[:, None]
        pulled = added_product(pulled, p, others, PRECISION, HALF)
        peak = greater
    place = (part * tl.num_programs(2) + t) * pad_x + rows
    tl.store(peak_of + place, peak)
    tl.store(total_of + place, total)
    tl.store(spread_of + place, spread)
    tl.store(count_of + place, count)
    tl.store(mean_of + place.to(tl.int64)[:, None] * D + tl.arange(0, D)[None, :], pulled)
