"""Which nodes a protocol shows, which of them count in its means, and what it says of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.evaluation.protocol_result import ProtocolResult
from labeltree.taxonomy import AnyTaxonomy
from labeltree.taxonomy.naming import some

__all__ = ["ShownNodes", "counted_nodes", "node_result", "with_prefix"]


@dataclass(frozen=True)
class ShownNodes:
    """The nodes below the root, by what can be said of them.

    Attributes:
        taxonomy: of the nodes.
        positives: ``(N,)`` test samples at or below each.
        negatives: ``(N,)`` test samples that are not.
        told: ``(N,)`` bool, some learned classes lie at or below it and some do not.
        shown: ``(N,)`` bool, it has test samples or learned classes.
    """

    taxonomy: AnyTaxonomy
    positives: Tensor
    negatives: Tensor
    told: Tensor
    shown: Tensor

    @classmethod
    def of(
        cls,
        rates: Mapping[str, Tensor],
        taxonomy: AnyTaxonomy,
        classes: Tensor | None = None,
        num_classes: int = 0,
    ) -> ShownNodes:
        """From rates with their counts, and how many of the learned classes lie at or below each node."""
        positives = rates["true_positives"] + rates["false_negatives"]
        negatives = rates["false_positives"] + rates["true_negatives"]
        below_root = torch.arange(taxonomy.num_nodes) > 0
        if classes is None:
            return cls(taxonomy, positives, negatives, below_root, below_root & (positives > 0))
        told = below_root & (classes > 0) & (classes < num_classes)
        return cls(taxonomy, positives, negatives, told, below_root & ((positives > 0) | (classes > 0)))

    @property
    def counted(self) -> Tensor:
        """``(N,)`` bool, it has samples of both kinds and counts in the means."""
        return self.shown & (self.positives > 0) & (self.negatives > 0)

    def named(self, values: Tensor) -> dict[str, float]:
        """The numbers ``(N,)`` of the nodes that are shown, by path name."""
        nodes = self.shown.nonzero().squeeze(1).tolist()
        return {self.taxonomy.path_name(node): float(values[node]) for node in nodes}

    def undefined(self) -> list[str]:
        """Sentences on the nodes that have no AUROC."""
        kinds = (
            ("have no test sample", self.positives == 0),
            ("have all test samples", (self.positives > 0) & (self.negatives == 0)),
            ("have all learned classes, or none,", self.counted & ~self.told),
        )
        found = []
        for what, mask in kinds:
            names = [self.taxonomy.path_name(v) for v in (self.shown & mask).nonzero().squeeze(1).tolist()]
            if names:
                found.append(
                    f"Nodes that {what} at or below them have no AUROC (NaN): {some(names, 3)}. They are in "
                    "no mean of it."
                )
        return found


def counted_nodes(values: Mapping[str, Tensor], nodes: ShownNodes) -> dict[str, NDArray[np.bool_]]:
    """Name → ``(N,)`` which nodes count in the means of a number."""
    return {name: (nodes.counted & ~column.isnan()).numpy() for name, column in values.items()}


def with_prefix(prefix: str, columns: dict[str, NDArray[np.bool_]]) -> dict[str, NDArray[np.bool_]]:
    return {name: column for name, column in columns.items() if name.startswith(prefix)}


def node_result(values: Mapping[str, Tensor], nodes: ShownNodes) -> ProtocolResult:
    """Numbers ``(N,)`` by name: their means, their means by depth, and each by node."""
    counted = {name: column.masked_fill(~nodes.counted, torch.nan) for name, column in values.items()}
    depths = [nodes.taxonomy.depth == depth for depth in range(1, nodes.taxonomy.max_depth + 1)]
    return ProtocolResult(
        "",
        scores={name: float(torch.nanmean(column)) for name, column in counted.items()},
        by_depth={
            name: [float(torch.nanmean(column[depth])) for depth in depths]
            for name, column in counted.items()
        },
        by_node={name: nodes.named(column) for name, column in values.items()},
    )
