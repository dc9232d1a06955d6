"""The most frequent wrong pairs, in words."""

from __future__ import annotations

from dataclasses import dataclass

from labeltree.evaluation import TreeErrors
from labeltree.report.names import NodeNames
from labeltree.report.palette import nearness_colour
from labeltree.taxonomy import Taxonomy

__all__ = ["ConfusionRow", "confusion_rows"]


@dataclass(frozen=True)
class ConfusionRow:
    """A wrong pair as the report shows it; ``steps`` of ``most`` is its severity."""

    true: str
    true_path: str
    predicted: str
    predicted_path: str
    lca: str
    count: int
    share: float
    steps: int
    most: int
    colour: str


def confusion_rows(
    errors: TreeErrors, taxonomy: Taxonomy, names: NodeNames, *, limit: int = 12
) -> list[ConfusionRow]:
    """Describe the most frequent confusions."""
    most = max(taxonomy.max_height, 1)
    return [
        ConfusionRow(
            true=names.short(entry.true_node),
            true_path=names.full(entry.true_node),
            predicted=names.short(entry.predicted_node),
            predicted_path=names.full(entry.predicted_node),
            lca=names.short(entry.lca_node),
            count=entry.count,
            share=entry.share,
            steps=entry.severity,
            most=most,
            colour=nearness_colour(entry.severity / most),
        )
        for entry in errors.confusions[:limit]
    ]
