# mypy: ignore-errors
"""The kernels of the bounded sum and of its gradient.

The members of a term are few: they lie within the nodes of one depth, and in the order of labels near the
diagonal. A program owns a block of rows, walks over a range of tiles and passes over those without a member.
"""

import triton
import triton.language as tl

from labeltree.pairs.kernels.device import added_product, cosines, next_mixed, rows_of, tile_relation

__all__ = ["bounded_gradient_kernel", "bounded_sum_kernel"]


@triton.jit
def bounded_sum_kernel(
    x, factor_x, labels_x, y, inverse_y, labels_y, tile_code, run_end, member,
    offset, least, total_of, own_of, held_of,
    pad_x, pad_y, n_y, tiles_y, span,
    T: tl.constexpr, D: tl.constexpr, L: tl.constexpr, R: tl.constexpr, REFINED: tl.constexpr,
    PRECISION: tl.constexpr, MIXED: tl.constexpr,
):  # fmt: skip
    """Sums of one term over the members of the rows of x.

    Args:
        x: `(pad_x, D)` vectors as in `statistics_kernel`; `factor_x` `(pad_x,)` their inverse norms over τ.
        labels_x: As there, with what follows up to `run_end`.
        member: `(R + 1,)` int32, the terms that sum over a relation: bit t for term t.
        offset: `(terms, pad_x)`; `least` likewise, the pair loss from which on a pair has its own.
        total_of: With what follows `(splits, terms, pad_x)`: the sum of losses that pairs have of their own,
            the number of these pairs, the number of pairs held at the bound.
        span: Tiles that a program walks over, unless MIXED.
        MIXED: As in `statistics_kernel`.
    """
    i, part, t = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    rows = i * T + tl.arange(0, T)
    place = (part * tl.num_programs(2) + t) * pad_x + rows
    total, own, held = tl.zeros([T], tl.float32), tl.zeros([T], tl.int32), tl.zeros([T], tl.int32)
    vectors, factor = rows_of(x, rows, D), tl.load(factor_x + rows)
    start, low = tl.load(offset + t * pad_x + rows), tl.load(least + t * pad_x + rows)
    if not MIXED:
        j = part * span
        stop = tl.minimum(j + span, tiles_y)
        while j < stop:
            code = tl.load(tile_code + i * tiles_y + j)
            end = tl.minimum(tl.load(run_end + i * tiles_y + j), stop)
            if code >= 0:  # noqa: SIM102  (`and` would look up both)
                if (tl.load(member + code) >> t & 1) != 0:
                    for tile in range(j, end):
                        cols = tile * T + tl.arange(0, T)
                        cos = cosines(vectors, rows_of(y, cols, D), tl.load(inverse_y + cols), PRECISION)
                        loss = start[:, None] - cos * factor[:, None]
                        kept = loss >= low[:, None]
                        number = tl.sum(kept.to(tl.int32), 1)
                        total += tl.sum(tl.where(kept, loss, 0.0), 1)
                        own += number
                        held += T - number
            j = end
    else:
        j = next_mixed(tile_code, run_end, i, part, tiles_y)
        while j < tiles_y:
            cols = j * T + tl.arange(0, T)
            codes = tile_relation(labels_x, labels_y, rows, cols, pad_x, pad_y, n_y, L, R, REFINED)
            use = (tl.load(member + codes) >> t & 1) != 0
            if tl.max(use.to(tl.int32)) > 0:
                cos = cosines(vectors, rows_of(y, cols, D), tl.load(inverse_y + cols), PRECISION)
                loss = start[:, None] - cos * factor[:, None]
                kept = use & (loss >= low[:, None])
                number = tl.sum(kept.to(tl.int32), 1)
                total += tl.sum(tl.where(kept, loss, 0.0), 1)
                own += number
                held += tl.sum(use.to(tl.int32), 1) - number
            j = next_mixed(tile_code, run_end, i, j + tl.num_programs(1), tiles_y)
    tl.store(total_of + place, total)
    tl.store(own_of + place, own)
    tl.store(held_of + place, held)


@triton.jit
def _slope(
    slopes, s, use, offset_x, least_x, slope_x, offset_y, least_y, slope_y, of_row, of_column,
    F: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Slopes of a tile `(T, T)`, with what a term adds to those of its members."""
    if F & 16:
        low, slope = tl.load(least_x + of_row)[:, None], tl.load(slope_x + of_row)[:, None]
        kept = tl.load(offset_x + of_row)[:, None] - s >= low
        slopes += tl.where(kept & use if MASKED else kept, slope, 0.0)
    if F & 32:
        low, slope = tl.load(least_y + of_column)[None, :], tl.load(slope_y + of_column)[None, :]
        kept = tl.load(offset_y + of_column)[None, :] - s >= low
        slopes += tl.where(kept & use if MASKED else kept, slope, 0.0)
    return slopes


@triton.jit
def bounded_gradient_kernel(
    x, factor_x, labels_x, y, inverse_y, labels_y, tile_code, run_end, member,
    offset_x, least_x, slope_x, offset_y, least_y, slope_y, out,
    terms, pad_x, pad_y, n_y, tiles_y, span,
    T: tl.constexpr, D: tl.constexpr, L: tl.constexpr, R: tl.constexpr, REFINED: tl.constexpr,
    F: tl.constexpr, PRECISION: tl.constexpr, HALF: tl.constexpr, MIXED: tl.constexpr,
):  # fmt: skip
    """Gradients with respect to unit vectors x: Σ_k slope_ik·y_k/|y_k|.

    Args:
        x: With what follows up to `member` as in `bounded_sum_kernel`.
        offset_x: With what follows `(terms, pad_x)` and `(terms, pad_y)`: offset, the least loss that a pair
            has of its own, and the gradient of the term's sum times −1/τ.
        out: `(splits, pad_x, D)`.
        F: Flags: 16 the row's tables count, 32 the column's.
        HALF: Slopes are rounded to bfloat16.
        MIXED: As there.
    """
    i, part = tl.program_id(0), tl.program_id(1)
    rows = i * T + tl.arange(0, T)
    vectors, factor = rows_of(x, rows, D), tl.load(factor_x + rows)
    gradient = tl.zeros([T, D], tl.float32)
    if not MIXED:
        j = part * span
        stop = tl.minimum(j + span, tiles_y)
        while j < stop:
            code = tl.load(tile_code + i * tiles_y + j)
            end = tl.minimum(tl.load(run_end + i * tiles_y + j), stop)
            if code >= 0:
                bits = tl.load(member + code)
                if bits != 0:
                    for tile in range(j, end):
                        cols = tile * T + tl.arange(0, T)
                        others, inverse = rows_of(y, cols, D), tl.load(inverse_y + cols)
                        s = cosines(vectors, others, inverse, PRECISION) * factor[:, None]
                        slopes = s * 0.0
                        for t in range(terms):
                            if (bits >> t & 1) != 0:
                                slopes = _slope(
                                    slopes, s, s, offset_x, least_x, slope_x, offset_y, least_y, slope_y,
                                    t * pad_x + rows, t * pad_y + cols, F, False,
                                )  # fmt: skip
                        gradient = added_product(gradient, slopes * inverse[None, :], others, PRECISION, HALF)
            j = end
    else:
        j = next_mixed(tile_code, run_end, i, part, tiles_y)
        while j < tiles_y:
            cols = j * T + tl.arange(0, T)
            codes = tile_relation(labels_x, labels_y, rows, cols, pad_x, pad_y, n_y, L, R, REFINED)
            bits = tl.load(member + codes)
            if tl.max(bits) > 0:
                others, inverse = rows_of(y, cols, D), tl.load(inverse_y + cols)
                s = cosines(vectors, others, inverse, PRECISION) * factor[:, None]
                slopes = s * 0.0
                for t in range(terms):
                    use = (bits >> t & 1) != 0
                    slopes = _slope(
                        slopes, s, use, offset_x, least_x, slope_x, offset_y, least_y, slope_y,
                        t * pad_x + rows, t * pad_y + cols, F, True,
                    )  # fmt: skip
                gradient = added_product(gradient, slopes * inverse[None, :], others, PRECISION, HALF)
            j = next_mixed(tile_code, run_end, i, j + tl.num_programs(1), tiles_y)
    place = (part * pad_x + rows).to(tl.int64)[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(out + place, gradient)
