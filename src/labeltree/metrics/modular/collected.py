"""Metrics that need all samples at once: their rows are collected over batches and ranks.

Rows are kept in the order of rank, then of arrival. A sample must arrive once: a sampler that pads its last
batch with repetitions would let a sample find itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities.distributed import gather_all_tensors

from labeltree.metrics.checks import check_embeddings, check_labels, check_same_length

__all__ = ["Collected", "CollectedSamples"]


class Collected(Metric):
    """Collects one row of each state per sample; a rank without samples takes part in the synchronisation."""

    is_differentiable = False
    full_state_update = False
    higher_is_better: bool | None = True

    def __init__(self, names: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.names = tuple(names)
        for name in self.names:
            self.add_state(name, [], dist_reduce_fx="cat")

    def rows(self, name: str) -> Tensor:
        """All rows of a state: a list while collecting, one tensor after a synchronisation."""
        state: Tensor | list[Tensor] = getattr(self, name)
        if isinstance(state, Tensor):
            return state
        return torch.cat(state) if state else self._no_rows(name, 0)

    def _no_rows(self, name: str, dimension: int) -> Tensor:
        if name == "embeddings":
            return torch.empty(0, dimension, device=self.device)
        return torch.empty(0, dtype=torch.int64, device=self.device)

    def _sync_dist(
        self, dist_sync_fn: Callable[..., Any] = gather_all_tensors, process_group: Any | None = None
    ) -> None:
        # torchmetrics stands in for a rank without rows with an empty float vector, which fits neither the
        # dtype of ids nor the shape of embeddings. Other ranks' rows tell what an empty state looks like.
        rows = {name: self.rows(name) for name in self.names}
        widths = [row.shape[1] if row.ndim == 2 else 0 for row in rows.values()]
        double = [int(row.dtype == torch.float64) for row in rows.values()]
        mine = torch.tensor([widths, double], device=self.device)
        everywhere = torch.stack(dist_sync_fn(mine, group=process_group or self.process_group)).amax(dim=0)
        for name, width, wide in zip(self.names, *everywhere.tolist(), strict=True):
            row = rows[name] if len(rows[name]) else self._no_rows(name, width)
            setattr(self, name, [row.double() if wide else row])
        super()._sync_dist(dist_sync_fn, process_group)


class CollectedSamples(Collected):
    """Collects embeddings and nodes; subclasses define the value of a whole collection.

    Args:
        further: names of states of a subclass, a row a sample.
        **kwargs: of `torchmetrics.Metric`.

    """

    embeddings: list[Tensor]
    nodes: list[Tensor]

    def __init__(self, further: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(("embeddings", "nodes", *further), **kwargs)

    def update(self, embeddings: Tensor, nodes: Tensor) -> None:
        """Add embeddings (b, d) and labels (b,)."""
        check_embeddings("embeddings", embeddings)
        check_labels("nodes", nodes)
        check_same_length("embeddings", embeddings, "nodes", nodes)
        exact = torch.promote_types(embeddings.dtype, torch.float32)
        self.embeddings.append(embeddings.detach().to(exact))
        self.nodes.append(nodes.long())

    def compute(self) -> Any:
        """The metric of all collected samples."""
        return self.value(self.rows("embeddings"), self.rows("nodes"))

    @property
    def shard(self) -> bool:
        """Whether all ranks hold the same rows now, so that each may search for a part of them."""
        whole = self._is_synced and self.process_group is None and self.dist_sync_fn is None
        return whole and dist.is_available() and dist.is_initialized()

    def value(self, embeddings: Tensor, nodes: Tensor) -> Any:
        """The metric of samples (n, d) and their labels (n,)."""
        raise NotImplementedError
