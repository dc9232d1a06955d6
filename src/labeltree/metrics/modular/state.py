"""Base classes: they keep the rows of all samples, over batches and ranks.

A class sets its `function`, which computes the value, and its direction. The other arguments of the
function are the settings, which are attributes of the metric. No sums are kept: metrics that read the same
rows may then share them in a `MetricCollection`, whatever the first batch is.

Rows are kept in the order of rank, then of arrival. A sample counts once: where one may arrive several times
(`DistributedSampler` repeats samples to make ranks even), `update` takes the `instances` of the rows, and
only the first row of each instance counts. Otherwise a sample would find itself in a search.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities.distributed import gather_all_tensors

from labeltree.metrics.catalogue import find_metric, is_larger_better
from labeltree.metrics.metric_checks import check_embeddings, check_labels, check_same_length
from labeltree.metrics.search.ranking import repeated_rows
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["Collected", "CollectedPredictions", "CollectedSamples", "FunctionMetric"]


class FunctionMetric(Metric):
    """A metric whose value is a function of the collected samples and of settings.

    Attributes:
        function: The function in `labeltree.metrics.functional`, or the method of `Retrieval`.
        key: Of the metric in the catalogue, which knows the better direction; default: the function's name.
        settings: Arguments of the function by name; each is an attribute of the metric.

    Args:
        settings: Arguments of the function by name.
        **kwargs: Arguments of `torchmetrics.Metric`.

    """

    is_differentiable = False
    full_state_update = False
    higher_is_better: bool | None = True
    function: ClassVar[Callable[..., Any]]
    key: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        key = cls.key or getattr(getattr(cls, "function", None), "__name__", "")
        if find_metric(key) is not None or (key and "higher_is_better" not in vars(cls)):
            cls.higher_is_better = is_larger_better(key)

    def __init__(self, settings: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._settings = tuple(settings)
        for name, value in settings.items():
            setattr(self, name, value)

    @property
    def settings(self) -> dict[str, Any]:
        """The current settings."""
        return {name: getattr(self, name) for name in self._settings}


class Collected(FunctionMetric):
    """Collects one row of each state per sample; a rank without samples takes part in the synchronisation.

    Args:
        names: Names of the states, besides `instances`.
        settings: As in `FunctionMetric`.
        **kwargs: Arguments of `torchmetrics.Metric`.

    """

    instances: list[Tensor]

    def __init__(self, names: Sequence[str], settings: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(settings, **kwargs)
        self.names = (*names, "instances")
        for name in self.names:
            self.add_state(name, [], dist_reduce_fx="cat")

    def compute(self) -> Any:
        """The metric of all collected samples."""
        return self.value(*(self.rows(name) for name in self.names[:2]))

    def value(self, samples: Tensor, labels: Tensor) -> Any:
        """Compute the metric from the rows of the first two states, (n, ...) and (n,)."""
        return type(self).function(samples, labels, **self.settings)

    def add_instances(self, instances: Tensor | None, rows: Tensor) -> None:
        """Add the instances of the rows (b, ...); None: every row is its own instance."""
        if instances is None:
            instances = torch.full((len(rows),), -1, device=rows.device)
        else:
            check_labels("instances", instances)
            check_same_length("instances", instances, "rows", rows)
        self.instances.append(instances.long())

    def rows(self, name: str) -> Tensor:
        """The rows of a state, one per sample: the first row of each instance."""
        ids, rows = self._arrived("instances"), self._arrived(name)
        if not bool((ids >= 0).any()):
            return rows
        known, order = torch.unique(ids, return_inverse=True)
        first = torch.full_like(known, len(ids)).scatter_reduce(
            0, order, torch.arange(len(ids), device=ids.device), "amin"
        )
        return rows[(ids < 0) | (first[order] == torch.arange(len(ids), device=ids.device))]

    def _arrived(self, name: str) -> Tensor:
        """All rows of a state, which is a list while collecting and a tensor after a synchronisation."""
        state: Tensor | list[Tensor] = getattr(self, name)
        if isinstance(state, Tensor):
            return state
        return torch.cat(state) if state else self._no_rows(name, 0)

    def _no_rows(self, name: str, dimension: int) -> Tensor:
        if name == "embeddings":
            return torch.empty(0, dimension, device=self.device)
        if name == "values":
            return torch.empty(0, dtype=torch.float64, device=self.device)
        return torch.empty(0, dtype=torch.int64, device=self.device)

    def _sync_dist(
        self, dist_sync_fn: Callable[..., Any] = gather_all_tensors, process_group: Any | None = None
    ) -> None:
        # torchmetrics stands in for a rank without rows with an empty float vector, which fits neither the
        # dtype of ids nor the shape of embeddings. The rows of other ranks give the right dtype and shape.
        rows = {name: self._arrived(name) for name in self.names}
        widths = [row.shape[1] if row.ndim == 2 else 0 for row in rows.values()]
        double = [int(row.dtype == torch.float64) for row in rows.values()]
        mine = torch.tensor([widths, double], device=self.device)
        everywhere = torch.stack(dist_sync_fn(mine, group=process_group or self.process_group)).amax(dim=0)
        for name, width, wide in zip(self.names, *everywhere.tolist(), strict=True):
            row = rows[name] if len(rows[name]) else self._no_rows(name, width)
            setattr(self, name, [row.double() if wide else row])
        super()._sync_dist(dist_sync_fn, process_group)


class CollectedPredictions(Collected):
    """Collects predicted nodes and labels.

    Args:
        settings: As in `FunctionMetric`, with the `taxonomy` of the nodes; checked at once.
        **kwargs: Arguments of `torchmetrics.Metric`.

    """

    taxonomy: AnyTaxonomy
    predicted: list[Tensor]
    target: list[Tensor]

    def __init__(self, settings: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(("predicted", "target"), settings, **kwargs)
        nothing = torch.empty(0, dtype=torch.int64)
        self.value(nothing, nothing)

    def update(
        self, predicted_nodes: Tensor, target_nodes: Tensor, *, instances: Tensor | None = None
    ) -> None:
        """Add predictions (b,) and labels (b,); rows with equal `instances` (b,) count once."""
        check_same_length("predicted_nodes", predicted_nodes, "target_nodes", target_nodes)
        self.value(predicted_nodes, target_nodes)  # so that a bad batch is refused when it comes
        self.predicted.append(predicted_nodes.long())
        self.target.append(target_nodes.long())
        self.add_instances(instances, target_nodes)


class CollectedSamples(Collected):
    """Collects embeddings and nodes.

    Args:
        settings: As in `FunctionMetric`; checked at once.
        further: Names of further states of a subclass, with one row per sample.
        **kwargs: Arguments of `torchmetrics.Metric`.

    """

    embeddings: list[Tensor]
    nodes: list[Tensor]

    def __init__(self, settings: Mapping[str, Any], further: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(("embeddings", "nodes", *further), settings, **kwargs)
        self.value(torch.zeros(2, 1), torch.full((2,), -1))  # two samples without a label

    def update(self, embeddings: Tensor, nodes: Tensor, *, instances: Tensor | None = None) -> None:
        """Add embeddings (b, d) and labels (b,).

        Args:
            embeddings: (b, d).
            nodes: (b,), -1 where a label is missing.
            instances: (b,) sample ids, the same on every rank: rows of one sample count once; -1: a sample of
                its own.

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
        self._tell_of_repetitions()
        return super().compute()

    def _told_apart(self) -> bool:
        """Whether it was said which rows are of one sample."""
        return bool((self._arrived("instances") >= 0).any())

    def _tell_of_repetitions(self) -> None:
        """Warn of identical rows if nothing tells them apart, unless all embeddings have collapsed."""
        points = self._arrived("embeddings")
        pair = None if self._told_apart() else repeated_rows(points)
        if pair is not None and 2 * len(pair[0]) <= len(points):
            warnings.warn(
                f"{len(pair[0])} of {len(points)} samples have the embedding of another one, bit by bit. If "
                f"a DistributedSampler repeats samples to make ranks even, {type(self).__name__}.update(..., "
                "instances=ids) counts them once; if the data have copies, equal groups keep them from being "
                "each other's results",
                stacklevel=2,
            )

    @property
    def shard(self) -> bool:
        """Whether all ranks now hold the same rows, so that each can search for a part of the queries."""
        whole = self._is_synced and self.process_group is None and self.dist_sync_fn is None
        return whole and dist.is_available() and dist.is_initialized()
