"""What the losses over a queue of keys are given, and a sentence for each way to get it wrong."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor, nn

from labeltree.losses.batch import check_batch

__all__ = ["StoredKeys", "check_queries"]


class StoredKeys(Protocol):
    """Keys of earlier batches, with what is known of them: `labeltree.models.KeyQueue` is one."""

    @property
    def vectors(self) -> Tensor:
        """`(m, d)` the keys; m may be 0."""

    @property
    def nodes(self) -> Tensor:
        """`(m,)` int64 their labels, −1 where missing."""

    @property
    def instances(self) -> Tensor:
        """`(m,)` int64 the samples that they are of."""


def check_queries(
    queries: Tensor,
    keys: Tensor,
    queue: StoredKeys,
    nodes: Tensor | None,
    instances: Tensor | None,
    num_nodes: int | None,
    loss: nn.Module | None = None,
) -> tuple[Tensor | None, Tensor | None]:
    """Check the shapes, types and range of a batch and the queue that it meets.

    Args:
        queries: `(b, d)` floating point.
        keys: `(b, d)` floating point.
        queue: of keys `(m, d)`.
        nodes: `(b,)` node ids from −1 (missing) to `num_nodes` − 1, or None.
        instances: `(b,)` instance ids, or None.
        num_nodes: size of the taxonomy; None where nodes are not looked up.
        loss: as in `check_batch`.

    Returns:
        Nodes and instances as int64, on the device of the queries.

    Raises:
        ValueError: names the argument, what it is and what was expected.
    """
    nodes, instances = check_batch(queries, nodes, instances, num_nodes, loss)
    if not isinstance(keys, Tensor) or keys.shape != queries.shape or not keys.is_floating_point():
        got = (
            f"{keys.dtype} of shape {tuple(keys.shape)}" if isinstance(keys, Tensor) else type(keys).__name__
        )
        raise ValueError(
            f"keys must be a floating-point tensor of shape {tuple(queries.shape)}, one per query; got "
            + got.removeprefix("torch.")
        )
    stored = queue.vectors
    if stored.ndim != 2 or stored.shape[1] != queries.shape[1]:
        raise ValueError(
            f"the queue's keys must have shape (m, {queries.shape[1]}), as the queries have; "
            f"got {tuple(stored.shape)}"
        )
    if num_nodes is not None and len(stored):
        least, greatest = (int(node) for node in queue.nodes.aminmax())
        if least < -1 or greatest >= num_nodes:
            wrong = greatest if greatest >= num_nodes else least
            raise ValueError(
                f"the queue holds node {wrong}, but the taxonomy's are "
                f"-1 (missing) to {num_nodes - 1}; enqueue the nodes of this taxonomy"
            )
    return nodes, instances
