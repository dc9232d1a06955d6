"""Rows of all ranks: the union of their batches, as in a single process, and each rank's part of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed
from torch.autograd.function import once_differentiable

__all__ = [
    "UnionBatch",
    "gather_embeddings",
    "gather_rows",
    "num_ranks",
    "own_rows",
    "rows_of_all_ranks",
    "sum_over_ranks",
    "union_batch",
]


def num_ranks() -> int:
    """Number of processes that train together; 1 without `torch.distributed`."""
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_world_size())
    return 1


def gather_rows(x: Tensor, counts: Sequence[int] | None = None) -> Tensor:
    """The rows of all ranks, in the order of the ranks, without gradient. Ranks may hold different numbers.

    Args:
        x: `(n_rank, ...)`; dtype and trailing shape are the same on every rank.
        counts: n_rank of every rank, if already known.

    Returns:
        `(Σ n_rank, ...)`, the same on every rank.
    """
    x = x.detach()
    if num_ranks() == 1:
        return x
    counts = _counts(x) if counts is None else counts
    padded = torch.cat([x, x.new_zeros(max(counts) - len(x), *x.shape[1:])])
    parts = [torch.empty_like(padded) for _ in counts]
    distributed.all_gather(parts, padded.contiguous())
    return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])


def gather_embeddings(z: Tensor, counts: Sequence[int] | None = None) -> tuple[Tensor, slice | None]:
    """The embeddings of all ranks in the order of the ranks, with gradient, and the slice of this rank.

    The backward takes this rank's rows of the gradient times the number of ranks, which undoes the mean that
    DDP takes, and needs no communication. It is correct if every rank computes the same value from the union:
    each rank then has the gradient of all rows, or at least of its own. It cannot be differentiated again.

    Args:
        z: `(n_rank, d)`; dtype and d are the same on every rank.
        counts: n_rank of every rank, if already known.

    Returns:
        `(Σ n_rank, d)` and the slice of it that is z; z itself and None without other ranks.
    """
    if num_ranks() == 1:
        return z, None
    counts = _counts(z) if counts is None else counts
    start = sum(counts[: distributed.get_rank()])
    union: Tensor = _Gather.apply(z, counts, start)
    return union, slice(start, start + len(z))


def rows_of_all_ranks(own: Tensor, shard: slice | None, n: int) -> Tensor:
    """The row statistics of a union batch, of which every rank has computed its own rows; without gradient.

    Args:
        own: `(n_rank, ...)`, the rows of this rank.
        shard: The slice of these rows in the union, from `gather_embeddings`; None: all.
        n: Number of rows of the union.

    Returns:
        `(n, ...)`, the same on every rank.
    """
    if shard is None:
        return own
    rows = own.new_zeros(n, *own.shape[1:])
    rows[shard] = own.detach()
    distributed.all_reduce(rows)  # a sum with zeros is exact, infinities included, and needs no sizes
    return rows


def own_rows(rows: Tensor, shard: slice | None) -> Tensor:
    """This rank's rows of losses `(n,)` of a union batch, which each rank may reduce in its own way.

    A rank's result depends on the embeddings of all ranks, so the backward gathers the gradients of all rows,
    one number each. The mean over ranks, which DDP takes, is then the gradient of the mean of the ranks'
    results.
    """
    if shard is None:
        return rows
    own: Tensor = _OwnRows.apply(rows, shard)
    return own


def sum_over_ranks(x: Tensor) -> Tensor:
    """The sum of a tensor over all ranks; without gradient."""
    x = x.detach().clone()
    if num_ranks() > 1:
        distributed.all_reduce(x)
    return x


def _counts(x: Tensor) -> list[int]:
    """The number of rows of every rank."""
    sizes = [torch.zeros(1, dtype=torch.int64, device=x.device) for _ in range(num_ranks())]
    distributed.all_gather(sizes, torch.tensor([len(x)], device=x.device))
    return [int(size) for size in sizes]


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, counts: Sequence[int], start: int) -> Tensor:
        ctx.rows, ctx.ranks = slice(start, start + len(z)), len(counts)
        return gather_rows(z, counts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return grad[ctx.rows] * ctx.ranks, None, None


class _OwnRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, shard: slice) -> Tensor:
        ctx.shard, ctx.n = shard, len(rows)
        return rows[shard].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return rows_of_all_ranks(grad, ctx.shard, ctx.n) / num_ranks(), None


_TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


@dataclass(frozen=True, eq=False)
class UnionBatch:
    """Embeddings and integer columns of the rows of all ranks, in the order of the ranks.

    Attributes:
        embeddings: `(n, d)`; the gradient is as in `gather_embeddings`.
        columns: By name, `(n,)` or `(n, A)` int64, or None.
        shard: The rows of this rank; None: there are no other ranks.
    """

    embeddings: Tensor
    columns: Mapping[str, Tensor | None]
    shard: slice | None


def union_batch(
    embeddings: Tensor, columns: Mapping[str, Tensor | None], *, over_ranks: bool = True
) -> UnionBatch:
    """The union of the batches of all ranks, which may be uneven or empty. All ranks must call this.

    Args:
        embeddings: `(n_rank, d)` floating point.
        columns: By name, `(n_rank,)` or `(n_rank, A)` int64, or None; the same names on every rank.
        over_ranks: False: only the batch of this rank, without communication.

    Raises:
        ValueError: On every rank, if a column is given on one rank and not on another, or has another shape;
            likewise for the width and type of the embeddings.
    """
    if not over_ranks or num_ranks() == 1:
        return UnionBatch(embeddings, columns, None)
    counts = _agreed_counts(embeddings, columns)
    union, shard = gather_embeddings(embeddings, counts)
    restored = dict(columns)
    there = {name: x if x.ndim == 2 else x[:, None] for name, x in columns.items() if x is not None}
    if there:
        rows = gather_rows(torch.cat(list(there.values()), dim=1), counts)
        for name, column in there.items():
            part, rows = rows[:, : column.shape[1]], rows[:, column.shape[1] :]
            restored[name] = part[:, 0] if _kind(columns[name]) == -1 else part
    return UnionBatch(union, restored, shard)


def _agreed_counts(embeddings: Tensor, columns: Mapping[str, Tensor | None]) -> list[int]:
    """Number of rows of every rank, after checking that all ranks have the same kind of batch."""
    kinds = [embeddings.shape[1], _TYPES.index(embeddings.dtype)]
    kinds += [_kind(column) for column in columns.values()]
    own = torch.tensor([len(embeddings), *kinds], device=embeddings.device)
    every = [torch.empty_like(own) for _ in range(num_ranks())]
    distributed.all_gather(every, own)
    table: list[list[int]] = torch.stack(every).tolist()
    (_, *first), *others = table
    for rank, (_, *other) in enumerate(others, start=1):
        for at, name in enumerate(["embeddings", "embeddings", *columns]):
            if other[at] != first[at]:
                raise ValueError(
                    f"all ranks must give a loss the same arguments; {name} is {_describe(at, first[at])} "
                    f"on rank 0 and {_describe(at, other[at])} on rank {rank}"
                )
    return [row[0] for row in table]


def _kind(column: Tensor | None) -> int:
    """Code of a column's kind: −2 for None, −1 for `(n,)`, A for `(n, A)`."""
    return -2 if column is None else -1 if column.ndim == 1 else int(column.shape[1])


def _describe(at: int, kind: int) -> str:
    if at == 1:
        return str(_TYPES[kind]).removeprefix("torch.")
    return "None" if kind == -2 else "of shape (n,)" if kind == -1 else f"of shape (n, {kind})"
