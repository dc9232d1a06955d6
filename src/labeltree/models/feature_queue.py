"""A queue of keys: outputs of the momentum encoder for earlier batches."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labeltree.pairs import gather_rows

__all__ = ["KeyQueue"]


class KeyQueue(nn.Module):
    """The newest keys, first in, first out, each with its label and instance id (MoCo's queue).

    The queue starts empty and never holds placeholder keys. It has no parameters; its content is in the state
    dict, and is the same on every rank, so a checkpoint can be loaded on any number of ranks.

    Args:
        size: Largest number of keys, at least 1.
        dim: d, dimension of the keys.

    Raises:
        ValueError: `size` or `dim` is not a whole number above 0.

    Example:
        >>> queue = KeyQueue(size=3, dim=2)
        >>> queue.enqueue(torch.eye(2), torch.tensor([4, 5]), torch.tensor([0, 1]))
        >>> len(queue)
        2
        >>> queue.enqueue(torch.ones(2, 2), torch.tensor([6, -1]), torch.tensor([2, 3]))
        >>> queue.nodes, queue.instances
        (tensor([ 5,  6, -1]), tensor([1, 2, 3]))
    """

    ring_vectors: Tensor
    ring_nodes: Tensor
    ring_instances: Tensor
    count: Tensor

    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        for name, value in (("size", size), ("dim", dim)):
            if not (isinstance(value, int) and value > 0):
                raise ValueError(f"{name} is {value!r}; expected a whole number above 0")
        self.size = size
        self.dim = dim
        # Key number i since the beginning lies in slot i % size.
        self.register_buffer("ring_vectors", torch.zeros(size, dim))
        self.register_buffer("ring_nodes", torch.full((size,), -1))
        self.register_buffer("ring_instances", torch.full((size,), -1))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def __len__(self) -> int:
        return min(int(self.count), self.size)

    def extra_repr(self) -> str:
        """The settings shown by `repr`."""
        return f"size={self.size}, dim={self.dim}"

    @property
    def vectors(self) -> Tensor:
        """`(m, d)` the keys, oldest first; a copy, so that enqueuing does not disturb a pending backward."""
        return self._unroll(self.ring_vectors)

    @property
    def nodes(self) -> Tensor:
        """`(m,)` int64 labels of the keys, −1 where missing; a copy, oldest first."""
        return self._unroll(self.ring_nodes)

    @property
    def instances(self) -> Tensor:
        """`(m,)` int64 instance ids of the keys; a copy, oldest first."""
        return self._unroll(self.ring_instances)

    @torch.no_grad()
    def enqueue(self, keys: Tensor, nodes: Tensor, instances: Tensor) -> None:
        """Append the keys of all ranks, rank by rank, and drop the oldest that no longer fit.

        All ranks must call it together; they may have different numbers of keys, including none.

        Args:
            keys: `(b, d)` this rank's keys.
            nodes: `(b,)` labels of the keys, −1 where missing.
            instances: `(b,)` instance ids of the keys.

        Raises:
            ValueError: The shapes do not fit.
        """
        if keys.ndim != 2 or keys.shape[1] != self.dim:
            raise ValueError(f"keys must have shape (b, {self.dim}); got {tuple(keys.shape)}")
        for name, ids in (("nodes", nodes), ("instances", instances)):
            if ids.shape != keys.shape[:1]:
                raise ValueError(
                    f"{name} must have shape ({len(keys)},), one per key; got {tuple(ids.shape)}"
                )
        ring = self.ring_vectors
        vectors = gather_rows(keys.to(ring.device, ring.dtype))
        ids = gather_rows(torch.stack([nodes, instances], dim=1).to(ring.device, torch.int64))
        newest = slice(max(len(vectors) - self.size, 0), None)
        slots = (self.count + torch.arange(len(vectors), device=ring.device)[newest]) % self.size
        ring[slots] = vectors[newest]
        self.ring_nodes[slots] = ids[newest, 0]
        self.ring_instances[slots] = ids[newest, 1]
        self.count += len(vectors)

    def _unroll(self, ring: Tensor) -> Tensor:
        count = int(self.count)
        if count <= self.size:
            return ring[:count].clone()
        return ring.roll(-(count % self.size), 0)
