"""The batch of all ranks, as one process would have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, distributed

from labeltree.pairs.gather import gather_embeddings, gather_rows, num_ranks

__all__ = ["UnionBatch", "union_batch"]

_TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


@dataclass(frozen=True, eq=False)
class UnionBatch:
    """Embeddings and integer columns of the rows of all ranks, in the order of the ranks.

    Attributes:
        embeddings: `(n, d)`; the gradient is as in `gather_embeddings`.
        columns: by name, `(n,)` or `(n, A)` int64, or None.
        shard: the rows of this rank; None: there are no other ranks.
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
        columns: by name, `(n_rank,)` or `(n_rank, A)` int64, or None; the same names on every rank.
        over_ranks: False: the batch of this rank alone, and nobody is asked.

    Raises:
        ValueError: on every rank, if a column is there on one rank and not on another, or of another shape;
            likewise for the width and type of the embeddings.
    """
    if not over_ranks or num_ranks() == 1:
        return UnionBatch(embeddings, columns, None)
    counts = _agreed_counts(embeddings, columns)
    union, shard = gather_embeddings(embeddings, counts)
    found = dict(columns)
    there = {name: x if x.ndim == 2 else x[:, None] for name, x in columns.items() if x is not None}
    if there:
        rows = gather_rows(torch.cat(list(there.values()), dim=1), counts)
        for name, column in there.items():
            part, rows = rows[:, : column.shape[1]], rows[:, column.shape[1] :]
            found[name] = part[:, 0] if _kind(columns[name]) == -1 else part
    return UnionBatch(union, found, shard)


def _agreed_counts(embeddings: Tensor, columns: Mapping[str, Tensor | None]) -> list[int]:
    """Rows of every rank, once all have the same kind of batch."""
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
                    f"all ranks must give a loss the same arguments; {name} is {_described(at, first[at])} "
                    f"on rank 0 and {_described(at, other[at])} on rank {rank}"
                )
    return [row[0] for row in table]


def _kind(column: Tensor | None) -> int:
    """−2 for None, −1 for `(n,)`, A for `(n, A)`."""
    return -2 if column is None else -1 if column.ndim == 1 else int(column.shape[1])


def _described(at: int, kind: int) -> str:
    if at == 1:
        return str(_TYPES[kind]).removeprefix("torch.")
    return "None" if kind == -2 else "of shape (n,)" if kind == -1 else f"of shape (n, {kind})"
