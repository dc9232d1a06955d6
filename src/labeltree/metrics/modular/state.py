"""The state of metrics: sums over samples, or the rows of all samples, collected over batches and ranks.

Rows are kept in the order of rank, then of arrival. A sample counts once: where one may arrive several times
(`DistributedSampler` repeats samples to make ranks even), `update` takes the `instances` of the rows, and of
equal ones the first counts. Otherwise a sample would find itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities.distributed import gather_all_tensors

from labeltree.metrics.checks import check_embeddings, check_labels, check_same_length

__all__ = ["Collected", "CollectedSamples", "SampleMean"]


class SampleMean(Metric):
    """Mean of values per sample, NaN where a sample is left out.

    State: `total` and `count` of the counted samples, and how many were `left_out`.
    """

    is_differentiable = False
    full_state_update = False
    total: Tensor
    count: Tensor
    left_out: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_state("total", torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("left_out", torch.tensor(0), dist_reduce_fx="sum")

    def add(self, values: Tensor) -> None:
        """Add values (b,)."""
        left_out = values.isnan()
        self.total += values.nansum()
        self.count += (~left_out).sum()
        self.left_out += left_out.sum()

    def try_out(self) -> None:
        """Add no sample at all, so that arguments that make no sense are refused at once."""
        nothing = torch.empty(0, dtype=torch.int64)
        type(self).update(self, nothing, nothing)

    def compute(self) -> Tensor:
        """Float64 scalar; NaN if no sample counts."""
        return self.total / self.count


class Collected(Metric):
    """Collects one row of each state per sample; a rank without samples takes part in the synchronisation.

    Args:
        names: of the states, besides `instances`.
        **kwargs: of `torchmetrics.Metric`.

    """

    instances: list[Tensor]
    is_differentiable = False
    full_state_update = False
    higher_is_better: bool | None = True

    def __init__(self, names: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.names = (*names, "instances")
        for name in self.names:
            self.add_state(name, [], dist_reduce_fx="cat")

    def add_instances(self, instances: Tensor | None, rows: Tensor) -> None:
        """Add the samples that the rows (b, ...) are of; None: each is of another one."""
        if instances is None:
            instances = torch.full((len(rows),), -1, device=rows.device)
        else:
            check_labels("instances", instances)
            check_same_length("instances", instances, "rows", rows)
        self.instances.append(instances.long())

    def rows(self, name: str) -> Tensor:
        """The rows of a state, one for each sample: where one has arrived several times, its first."""
        ids, rows = self._arrived("instances"), self._arrived(name)
        if not bool((ids >= 0).any()):
            return rows
        known, order = torch.unique(ids, return_inverse=True)
        first = torch.full_like(known, len(ids)).scatter_reduce(
            0, order, torch.arange(len(ids), device=ids.device), "amin"
        )
        return rows[(ids < 0) | (first[order] == torch.arange(len(ids), device=ids.device))]

    def _arrived(self, name: str) -> Tensor:
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
        rows = {name: self._arrived(name) for name in self.names}
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

    def update(self, embeddings: Tensor, nodes: Tensor, *, instances: Tensor | None = None) -> None:
        """Add embeddings (b, d) and labels (b,).

        Args:
            embeddings: (b, d).
            nodes: (b,), -1 where a label is missing.
            instances: (b,) integers, the same on every rank: rows of one sample count once; -1 stands alone.

        """
        check_embeddings("embeddings", embeddings)
        check_labels("nodes", nodes)
        check_same_length("embeddings", embeddings, "nodes", nodes)
        exact = torch.promote_types(embeddings.dtype, torch.float32)
        self.embeddings.append(embeddings.detach().to(exact))
        self.nodes.append(nodes.long())
        self.add_instances(instances, nodes)

    def compute(self) -> Any:
        """The metric of all collected samples."""
        if self._is_synced:
            self._tell_of_repetitions()
        return self.value(self.rows("embeddings"), self.rows("nodes"))

    def _tell_of_repetitions(self) -> None:
        """Warn where ranks have brought rows that are equal bit by bit, without saying of which sample."""
        if bool((self._arrived("instances") >= 0).any()):
            return
        points = self._arrived("embeddings")
        bits = points.contiguous().view(torch.int64 if points.dtype == torch.float64 else torch.int32).long()
        mix = torch.arange(1, bits.shape[1] + 1, device=bits.device) * 0x9E3779B1 + 0x632BE5A5
        sums = (bits * mix).sum(1) + self._arrived("nodes") * 0x85EBCA6B
        repeated = len(sums) - len(sums.unique())  # type: ignore[no-untyped-call]
        if repeated:
            warnings.warn(
                f"{repeated} of {len(sums)} samples of all ranks have the label and the embedding of another "
                "one, bit by bit: a DistributedSampler repeats samples to make ranks even, and each then "
                f"finds itself; {type(self).__name__}.update(..., instances=ids) counts them once",
                stacklevel=2,
            )

    @property
    def shard(self) -> bool:
        """Whether all ranks hold the same rows now, so that each may search for a part of them."""
        whole = self._is_synced and self.process_group is None and self.dist_sync_fn is None
        return whole and dist.is_available() and dist.is_initialized()

    def value(self, embeddings: Tensor, nodes: Tensor) -> Any:
        """The metric of samples (n, d) and their labels (n,)."""
        raise NotImplementedError

    def try_out(self) -> None:
        """Evaluate two samples without a label, so that arguments that make no sense are refused at once."""
        self.value(torch.zeros(2, 1), torch.full((2,), -1))
