"""Both sides of the pairs sorted by label, and the relation of every tile whose pairs have the same one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.pairs.relation import LabelRows, PairRelation

__all__ = ["MIXED", "Side", "Tiles", "sides", "tiles_between", "unsorted_sides"]

MIXED = -1
"""The code of a tile whose pairs differ in their relation."""


@dataclass(frozen=True, eq=False)
class Side:
    """One side of the pairs, sorted by label and then by instance, padded to whole blocks.

    Attributes:
        rows: Labels in their original order.
        order: `(n,)` the row at each place.
        labels: `(L + 5, n_pad)` int32: the path; the depth at which it stops changing, −1 where the label
            is missing; the label's depth; a number of the instance, which grows with the places, −1 for
            none; the place of the same sample on the other side, −1 for none; the row.
    """

    rows: LabelRows
    order: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.rows)

    def placed(self, x: Tensor, width: int | None = None) -> Tensor:
        """Rows of x `(n, ...)` in this order, padded with zero rows, and with zero columns up to `width`."""
        shape = (self.labels.shape[1], *x.shape[1:]) if width is None else (self.labels.shape[1], width)
        placed = x.new_zeros(shape)
        if width is None:
            placed[: len(x)] = x[self.order]
        else:
            placed[: len(x), : x.shape[1]] = x[self.order]
        return placed

    def restored(self, placed: Tensor) -> Tensor:
        """The inverse of `placed`, for rows `(n_pad, ...)`."""
        rows = torch.empty_like(placed[: len(self)])
        rows[self.order] = placed[: len(self)]
        return rows


@dataclass(frozen=True, eq=False)
class Tiles:
    """The relation of tiles.

    Attributes:
        code: `(B, C)` int32, the code that all pairs of a tile have, or `MIXED`.
        end: `(B, C)` int32, the first tile to the right that has another; C for none.
    """

    code: Tensor
    end: Tensor


def sides(relation: PairRelation, tile: int) -> tuple[Side, Side]:
    """The queries (perhaps none) and the keys (some) of a relation; one object if they are the same."""
    queries, keys = relation.queries, relation.keys
    of_queries, of_keys = _instances(queries, keys)
    size = len(queries) + len(keys)
    key_order = _order(keys, of_keys, size)
    key_place = _inverse(key_order)
    order = key_order if queries is keys else _order(queries, of_queries, size)
    place = key_place if queries is keys else _inverse(order)
    # an instance is numbered by the first place of its keys, so that blocks of keys have ranges of instances
    none = torch.iinfo(torch.int32).max
    first = place.new_full((size + 1,), none).scatter_reduce(0, of_keys + 1, key_place, "amin")
    first[:1].fill_(none)  # to assign a number waits for a GPU
    of_queries, of_keys = (
        torch.where(first[of] < none, first[of], -1) for of in (of_queries + 1, of_keys + 1)
    )
    shift = relation.offset
    key_side = _side(keys, key_order, of_keys, _partners(len(keys), place, shift and -shift), tile)
    if queries is keys and not shift:
        return key_side, key_side
    return _side(queries, order, of_queries, _partners(len(queries), key_place, shift), tile), key_side


def unsorted_sides(relation: PairRelation, query_tile: int, key_tile: int) -> tuple[Side, Side]:
    """The queries and the keys in the given order, neither empty."""
    queries, keys = relation.queries, relation.keys
    of_queries, of_keys = _instances(queries, keys)
    index, key_index = (torch.arange(len(side), device=queries.nodes.device) for side in (queries, keys))
    there = _partners(len(queries), key_index, relation.offset)
    back = torch.full_like(key_index, -1)  # not used
    return _side(queries, index, of_queries, there, query_tile), _side(
        keys, key_index, of_keys, back, key_tile
    )


def tiles_between(relation: PairRelation, u: Side, v: Side, tile: int) -> Tiles:
    """The tiles of rows u and columns v."""
    from labeltree.pairs.kernels.layout_kernels import tiles_kernel

    (pad_x, rows), (pad_y, cols) = ((len(side.labels[0]), len(side.labels[0]) // tile) for side in (u, v))
    of_x = _bounds(u, tile)
    of_y = of_x if u is v else _bounds(v, tile)
    code, end = torch.empty((2, rows, cols), dtype=torch.int32, device=u.labels.device)
    with torch.cuda.device_of(u.labels):  # type: ignore[no-untyped-call]  # kernels run there
        tiles_kernel[(-(-rows // 8),)](
            u.labels, *of_x, v.labels, *of_y, code, end, pad_x, pad_y, len(v), rows, cols,
            T=tile, B=8, C=min(128, 1 << (cols - 1).bit_length()), L=relation.max_depth,
            R=relation.num_relations, REFINED=relation.refined,
        )  # fmt: skip
    return Tiles(code, end)


def _side(rows: LabelRows, order: Tensor, instances: Tensor, partners: Tensor, tile: int) -> Side:
    own = torch.zeros_like(rows.nodes)
    if rows.paths.shape[1]:
        own = 1 + (rows.paths[:, 1:] != rows.paths[:, :-1]).sum(dim=1)
    own = own.masked_fill(rows.nodes < 0, -1)
    depth = torch.zeros_like(own) if rows.depth is None else rows.depth
    index = torch.arange(len(rows), device=order.device)
    fields = torch.stack([*rows.paths.unbind(1), own, depth, instances, partners, index])
    places = torch.arange(-(-len(rows) // tile) * tile, device=order.device).clamp(max=len(rows) - 1)
    return Side(rows, order, fields[:, order[places]].to(torch.int32).contiguous())


def _bounds(side: Side, tile: int) -> tuple[Tensor, Tensor]:
    """The least and the greatest label fields of every block, `(L + 5, B)`; see `bounds_kernel`."""
    from labeltree.pairs.kernels.layout_kernels import bounds_kernel

    fields, pad = side.labels.shape
    low, high = torch.empty((2, fields, pad // tile), dtype=torch.int32, device=side.labels.device)
    with torch.cuda.device_of(side.labels):  # type: ignore[no-untyped-call]  # kernels run there
        bounds_kernel[(pad // tile, fields)](
            side.labels, low, high, pad, pad // tile, T=tile, L=fields - 5, num_warps=1
        )
    return low, high


def _order(rows: LabelRows, instances: Tensor, size: int) -> Tensor:
    """By label, those without one last, then by instance, a number below size, then by row."""
    label = torch.where(rows.nodes < 0, torch.iinfo(torch.int32).max, rows.nodes)
    return (label * size + instances).argsort(stable=True)


def _inverse(order: Tensor) -> Tensor:
    return torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))


def _instances(queries: LabelRows, keys: LabelRows) -> tuple[Tensor, Tensor]:
    """Instances of both sides as numbers from 0, fewer than their rows together; −1 for none."""
    if queries.instances is None or keys.instances is None:
        return torch.full_like(queries.nodes, -1), torch.full_like(keys.nodes, -1)
    known = keys.instances if queries is keys else torch.cat([queries.instances, keys.instances])
    known = known.sort().values  # not `unique`, which would wait for the GPU
    of_keys = torch.searchsorted(known, keys.instances)
    return of_keys if queries is keys else torch.searchsorted(known, queries.instances), of_keys


def _partners(rows: int, places: Tensor, shift: int | None) -> Tensor:
    """The place of row i + shift of the other side for each row i of this one; −1 where there is none."""
    if shift is None or not len(places):
        return places.new_full((rows,), -1)
    there = torch.arange(rows, device=places.device) + shift
    inside = (there >= 0) & (there < len(places))
    return torch.where(inside, places[there.clamp(0, len(places) - 1)], -1)
