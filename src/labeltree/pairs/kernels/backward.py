# mypy: ignore-errors
"""The kernel of the gradient of the pair statistics.

A program owns a block of rows, as in the forward kernel, and adds up their gradient; what a pair gives to
the row and what it gives as somebody's key come from tables of both sides, so that no program writes to
another's rows.
"""

import triton
import triton.language as tl

from labeltree.pairs.kernels.device import added_product, cosines, rows_of, tile_relation

__all__ = ["gradient_kernel"]


@triton.jit
def _slope(cos, scale, a_x, e_x, b_x, a_y, e_y, b_y, F: tl.constexpr):
    """∂/∂cos of pairs `(T, U)` of one relation."""
    slope = cos * 0.0
    if F & 1:
        x = cos * scale[:, None]
        if F & 8:  # the tables have the denominators in them
            factor = x * 0.0
            if F & 16:
                factor += a_x[:, None]
            if F & 32:
                factor += a_y[None, :]
            slope = tl.exp2(x) * factor
        else:
            if F & 16:
                slope += tl.exp2(x - e_x[:, None]) * a_x[:, None]
            if F & 32:
                slope += tl.exp2(x - e_y[None, :]) * a_y[None, :]
    if F & 2:
        if F & 16:
            slope += b_x[:, None]
        if F & 32:
            slope += b_y[None, :]
    return slope


@triton.jit
def gradient_kernel(
    x, inverse_x, labels_x, y, inverse_y, labels_y, tile_code, run_end, scale,
    A_x, E_x, B_x, A_y, E_y, B_y, out,
    pad_x, pad_y, n_y, tiles_y, span,
    T: tl.constexpr, D: tl.constexpr, L: tl.constexpr, R: tl.constexpr, REFINED: tl.constexpr,
    F: tl.constexpr, PRECISION: tl.constexpr, HALF: tl.constexpr, MIXED: tl.constexpr,
):  # fmt: skip
    """Gradients with respect to unit vectors x, times τ: Σ_k slope_ik·y_k/|y_k|.

    Args:
        x: with what follows up to `scale` as in `statistics_kernel`.
        A_x: with what follows `(R, pad_x)` and `(R, pad_y)`: weight of the exponential of a pair with such a
            row, logarithm to base 2 of its denominator, gradient of the sum.
        out: `(splits, pad_x, D)`.
        F: flags: 1 lse, 2 sum, 8 A has the denominators in it and E is not used, 16 the row's tables count,
            32 the column's tables count.
        HALF: slopes are rounded to bfloat16.
        MIXED: the tiles of several relations alone, added to what `out` holds; otherwise all others. Apart,
            as the former need more registers than leave room for many of the latter.
    """
    i, part = tl.program_id(0), tl.program_id(1)
    rows = i * T + tl.arange(0, T)
    vectors, norm = rows_of(x, rows, D), tl.load(inverse_x + rows)
    place = (part * pad_x + rows).to(tl.int64)[:, None] * D + tl.arange(0, D)[None, :]
    gradient = tl.load(out + place) if MIXED else tl.zeros([T, D], tl.float32)
    none = tl.zeros([T], tl.float32)
    j = part * span
    stop = tl.minimum(j + span, tiles_y)
    while j < stop:
        code = tl.load(tile_code + i * tiles_y + j)
        end = tl.minimum(tl.load(run_end + i * tiles_y + j), stop)
        if not MIXED:
            if code >= 0:
                factor = norm * tl.load(scale + code)
                a_x, e_x, b_x = _entries(A_x, E_x, B_x, code * pad_x + rows, none, F, F & 16)
                for tile in range(j, end):
                    cols = tile * T + tl.arange(0, T)
                    others, inverse = rows_of(y, cols, D), tl.load(inverse_y + cols)
                    cos = cosines(vectors, others, inverse, PRECISION)
                    a_y, e_y, b_y = _entries(A_y, E_y, B_y, code * pad_y + cols, none, F, F & 32)
                    slope = _slope(cos, factor, a_x, e_x, b_x, a_y, e_y, b_y, F)
                    gradient = added_product(gradient, slope * inverse[None, :], others, PRECISION, HALF)
        else:
            if code < 0:
                for tile in range(j, end):
                    cols = tile * T + tl.arange(0, T)
                    others, inverse = rows_of(y, cols, D), tl.load(inverse_y + cols)
                    cos = cosines(vectors, others, inverse, PRECISION)
                    codes = tile_relation(labels_x, labels_y, rows, cols, pad_x, pad_y, n_y, L, R, REFINED)
                    slopes = cos * 0.0
                    present = tl.min(codes)
                    while present < R:
                        factor = norm * tl.load(scale + present)
                        a_x, e_x, b_x = _entries(A_x, E_x, B_x, present * pad_x + rows, none, F, F & 16)
                        a_y, e_y, b_y = _entries(A_y, E_y, B_y, present * pad_y + cols, none, F, F & 32)
                        slope = _slope(cos, factor, a_x, e_x, b_x, a_y, e_y, b_y, F)
                        slopes = tl.where(codes == present, slope, slopes)
                        present = tl.min(tl.where(codes > present, codes, R))
                    gradient = added_product(gradient, slopes * inverse[None, :], others, PRECISION, HALF)
        j = end
    tl.store(out + place, gradient)


@triton.jit
def _entries(A, E, B, place, none, F: tl.constexpr, WANTED: tl.constexpr):
    """Entries of the three tables that are in use."""
    a, e, b = none, none, none
    if WANTED:
        if F & 1:
            a = tl.load(A + place)
            if (F & 8) == 0:
                e = tl.load(E + place)
        if F & 2:
            b = tl.load(B + place)
    return a, e, b
