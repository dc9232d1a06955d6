"""Which predictions are judged, and how far.

All functions treat labels alike. A sample without a label (-1), or labelled at the root, says nothing and is
left out. A leaf label judges a prediction as a whole. An inner-node label judges it only as deep as the label
goes: a prediction below that depth is cut to its ancestor there (`undecided="ignore"`), or compared as it is,
so that every finer prediction counts as partly wrong (`undecided="negative"`). With leaf labels both are the
published formulas. On a DAG, a prediction below an inner-node label is cut to the label, any other along its
shortest path from the root. A prediction may be an inner node; the root says nothing; -1 is no prediction and
an error where there is a label.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from labeltree.metrics.checks import check_nodes, check_same_length
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["Undecided", "judged"]

Undecided = Literal["ignore", "negative"]


def judged(
    predicted: Tensor, target: Tensor, taxonomy: AnyTaxonomy, undecided: Undecided
) -> tuple[Tensor, Tensor, Tensor]:
    """Which samples count (n,), and for those the prediction, cut as `undecided` asks, and the label."""
    check_nodes("predicted_nodes", predicted, taxonomy)
    check_nodes("target_nodes", target, taxonomy)
    check_same_length("predicted_nodes", predicted, "target_nodes", target)
    if undecided not in ("ignore", "negative"):
        raise ValueError(f"undecided is {undecided!r}; expected 'ignore' or 'negative'")
    counted = target > 0
    without = counted & (predicted < 0)
    if bool(without.any()):
        raise ValueError(
            f"predicted_nodes holds -1 in row {int(without.nonzero()[0])}, whose label is known; "
            "expected a node: predict the root (0) to say nothing"
        )
    predicted, target = predicted[counted].long(), target[counted].long()
    if undecided == "ignore":
        predicted = taxonomy.cut_to_labels(predicted, target)
    return counted, predicted, target
