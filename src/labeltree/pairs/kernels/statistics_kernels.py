# mypy: ignore-errors
"""The kernels of the pair statistics and of their gradient.

A program owns a block of rows and walks over a range of tiles to the right. Rows and columns are sorted by
label, so that it meets runs of tiles with one relation: within a run the statistics stay in registers, and at
its end they are merged into the row's own entries for that code. Nothing is shared between programs.

In the backward, too, a program owns a block of rows and adds up their gradient; what a pair gives to the row
and what it gives as somebody's key come from tables of both sides, so none writes to another's rows.
"""

import triton
import triton.language as tl

from labeltree.pairs.kernels.device import added_product, cosines, next_mixed, rows_of, tile_relation

__all__ = ["gradient_kernel", "statistics_kernel"]

INF = tl.constexpr(float("inf"))
NONE = tl.constexpr(2**31 - 1)


@triton.jit
def _nothing(T: tl.constexpr):
    """Statistics of no pairs."""
    zero = tl.zeros([T], tl.float32)
    none = tl.zeros([T], tl.int32)
    return zero - INF, zero, zero, zero + INF, none + NONE, none


@triton.jit
def _seen(
    cos, mask, scale, index, peak, total, sums, least, at, count, F: tl.constexpr, MASKED: tl.constexpr
):
    """Statistics of rows, updated with a tile.

    Args:
        cos: `(T, U)` cosines but for the norms of the rows.
        mask: The cosines that count, if MASKED.
        scale: `(T,)` factor that makes logits to the base 2 of them.
        index: `(U,)` number of each key.
        F: Flags: 1 lse, 2 sum, 4 least, 8 the logits are so small that their sum needs no maximum.
    """
    if F & 1:
        x = cos * scale[:, None]
        if MASKED:
            x = tl.where(mask, x, -INF)
        if F & 8:
            total += tl.sum(tl.exp2(x), 1)
        else:
            greater = tl.maximum(peak, tl.max(x, 1))
            safe = tl.where(greater == -INF, 0.0, greater)
            total = total * tl.exp2(peak - safe) + tl.sum(tl.exp2(x - safe[:, None]), 1)
            peak = greater
    if F & 2:
        sums += tl.sum(tl.where(mask, cos, 0.0) if MASKED else cos, 1)
    if F & 4:
        x = tl.where(mask, cos, INF) if MASKED else cos
        here = tl.min(x, 1)
        first = tl.min(tl.where((x == here[:, None]) & (x < INF), index[None, :], NONE), 1)
        at = tl.where(here < least, first, tl.where(here == least, tl.minimum(at, first), at))
        least = tl.minimum(least, here)
    if MASKED:
        count += tl.sum(mask.to(tl.int32), 1)
    else:
        count += cos.shape[1]
    return peak, total, sums, least, at, count


@triton.jit
def _merge(
    peak_of, total_of, sum_of, least_of, index_of, count_of,
    place, peak, total, sums, least, at, count, F: tl.constexpr,
):  # fmt: skip
    """Merge statistics into those at `place`."""
    tl.debug_barrier()  # the entries may have been written by other threads of this program
    if F & 1:
        was = tl.load(total_of + place)
        if F & 8:
            tl.store(total_of + place, was + total)
        else:
            before = tl.load(peak_of + place)
            greater = tl.maximum(before, peak)
            safe = tl.where(greater == -INF, 0.0, greater)
            tl.store(total_of + place, was * tl.exp2(before - safe) + total * tl.exp2(peak - safe))
            tl.store(peak_of + place, greater)
    if F & 2:
        tl.store(sum_of + place, tl.load(sum_of + place) + sums)
    if F & 4:
        before, where = tl.load(least_of + place), tl.load(index_of + place)
        first = tl.where(least < before, at, tl.where(least == before, tl.minimum(at, where), where))
        tl.store(index_of + place, first)
        tl.store(least_of + place, tl.minimum(before, least))
    tl.store(count_of + place, tl.load(count_of + place) + count)


@triton.jit
def statistics_kernel(
    x, inverse_x, labels_x, y, inverse_y, labels_y, tile_code, run_end, scale,
    peak_of, total_of, sum_of, least_of, index_of, count_of,
    pad_x, pad_y, n_y, tiles_y, span,
    T: tl.constexpr, D: tl.constexpr, L: tl.constexpr, R: tl.constexpr, REFINED: tl.constexpr,
    F: tl.constexpr, PRECISION: tl.constexpr, MIXED: tl.constexpr,
):  # fmt: skip
    """Statistics of the rows of x by relation to the rows of y.

    Args:
        x: `(pad_x, D)` vectors, sorted and filled up with zeros; `inverse_x` `(pad_x,)` their inverse norms.
        labels_x: See `Side`; y, inverse_y and labels_y are the same of the keys, of which there are n_y.
        tile_code: With `run_end` see `Tiles`.
        scale: `(R,)` ω(r)/τ·log₂e.
        peak_of: With what follows `(splits, R, pad_x)`, of each relation: greatest logit, sum of
            exponentials, sum of cosines, least cosine and its key, count; at first those of no pairs. Cosines
            lack the norm of the row; what is not wanted is not touched.
        span: Tiles that a program walks over, unless MIXED.
        F: See `_seen`.
        MIXED: The tiles of several relations alone, of which programs of a block take turns; otherwise all
            others. Apart, as the former need more registers than leave room for many of the latter.
    """
    i, part = tl.program_id(0), tl.program_id(1)
    rows = i * T + tl.arange(0, T)
    own = part * R * pad_x + rows
    if F & 7:
        vectors, norm = rows_of(x, rows, D), tl.load(inverse_x + rows)
    if not MIXED:
        j = part * span
        stop = tl.minimum(j + span, tiles_y)
        while j < stop:
            code = tl.load(tile_code + i * tiles_y + j)
            end = tl.minimum(tl.load(run_end + i * tiles_y + j), stop)
            if code >= 0:
                peak, total, sums, least, at, count = _nothing(T)
                if F & 7:
                    factor = norm * tl.load(scale + code)
                    for tile in range(j, end):
                        cols = tile * T + tl.arange(0, T)
                        cos = cosines(vectors, rows_of(y, cols, D), tl.load(inverse_y + cols), PRECISION)
                        index = tl.load(labels_y + (L + 4) * pad_y + cols) if F & 4 else cols
                        peak, total, sums, least, at, count = _seen(
                            cos, cos, factor, index, peak, total, sums, least, at, count, F, False
                        )
                else:
                    count += (end - j) * T
                _merge(
                    peak_of, total_of, sum_of, least_of, index_of, count_of,
                    own + code * pad_x, peak, total, sums, least, at, count, F,
                )  # fmt: skip
            j = end
    else:
        j = next_mixed(tile_code, run_end, i, part, tiles_y)
        while j < tiles_y:
            cols = j * T + tl.arange(0, T)
            codes = tile_relation(labels_x, labels_y, rows, cols, pad_x, pad_y, n_y, L, R, REFINED)
            if F & 7:
                cos = cosines(vectors, rows_of(y, cols, D), tl.load(inverse_y + cols), PRECISION)
            else:
                cos = codes
                norm = tl.zeros([T], tl.float32)
            index = tl.load(labels_y + (L + 4) * pad_y + cols) if F & 4 else cols
            present = tl.min(codes)
            while present < R:
                peak, total, sums, least, at, count = _nothing(T)
                factor = norm * tl.load(scale + present)
                peak, total, sums, least, at, count = _seen(
                    cos, codes == present, factor, index, peak, total, sums, least, at, count, F, True
                )
                _merge(
                    peak_of, total_of, sum_of, least_of, index_of, count_of,
                    own + present * pad_x, peak, total, sums, least, at, count, F,
                )  # fmt: skip
                present = tl.min(tl.where(codes > present, codes, R))
            j = next_mixed(tile_code, run_end, i, j + tl.num_programs(1), tiles_y)


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
        x: With what follows up to `scale` as in `statistics_kernel`.
        A_x: With what follows `(R, pad_x)` and `(R, pad_y)`: weight of the exponential of a pair with such a
            row, logarithm to base 2 of its denominator, gradient of the sum.
        out: `(splits, pad_x, D)`.
        F: Flags: 1 lse, 2 sum, 8 A has the denominators in it and E is not used, 16 the row's tables count,
            32 the column's tables count.
        HALF: Slopes are rounded to bfloat16.
        span: As there.
        MIXED: As there.
    """
    i, part = tl.program_id(0), tl.program_id(1)
    rows = i * T + tl.arange(0, T)
    vectors, norm = rows_of(x, rows, D), tl.load(inverse_x + rows)
    gradient, none = tl.zeros([T, D], tl.float32), tl.zeros([T], tl.float32)
    if not MIXED:
        j = part * span
        stop = tl.minimum(j + span, tiles_y)
        while j < stop:
            code = tl.load(tile_code + i * tiles_y + j)
            end = tl.minimum(tl.load(run_end + i * tiles_y + j), stop)
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
            j = end
    else:
        j = next_mixed(tile_code, run_end, i, part, tiles_y)
        while j < tiles_y:
            cols = j * T + tl.arange(0, T)
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
            j = next_mixed(tile_code, run_end, i, j + tl.num_programs(1), tiles_y)
    place = (part * pad_x + rows).to(tl.int64)[:, None] * D + tl.arange(0, D)[None, :]
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
