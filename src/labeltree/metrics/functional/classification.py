"""Predicted nodes against true nodes: how often and how far they differ in the taxonomy.

All functions treat labels in the same way. Samples without a label (-1), or labelled at the root, are left
out. With a leaf label, the whole prediction is compared. With an inner-node label, a prediction below the
label's depth is cut to its ancestor at that depth (`undecided="ignore"`), or compared as it is, so that every
finer prediction counts as partly wrong (`undecided="negative"`). With leaf labels both options equal the
published formulas. On a DAG, a prediction below an inner-node label is cut to the label, and any other
prediction is cut along its shortest path from the root. A prediction may be an inner node; predicting the
root means no decision. -1 means no prediction, which is an error if the sample has a label.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.metrics.metric_checks import (
    check_nodes,
    check_reduction,
    check_same_length,
    mean_of_counted,
    spread,
)
from labeltree.taxonomy import AnyTaxonomy, Taxonomy
from labeltree.taxonomy.dag import check_tree

__all__ = [
    "Undecided",
    "accuracy_by_depth",
    "classification_metrics",
    "correct_by_depth",
    "hierarchical_f1",
    "mistake_severity",
    "tree_accuracy",
    "truncate_predictions",
]

Undecided = Literal["ignore", "negative"]


def truncate_predictions(
    predicted: Tensor, target: Tensor, taxonomy: AnyTaxonomy, undecided: Undecided
) -> tuple[Tensor, Tensor, Tensor]:
    """The mask of samples that count (n,), their predictions, cut as set by `undecided`, and their labels."""
    check_nodes("predicted_nodes", predicted, taxonomy)
    check_nodes("target_nodes", target, taxonomy)
    check_same_length("predicted_nodes", predicted, "target_nodes", target)
    check_choice("undecided", undecided, Undecided)
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


def hierarchical_f1(
    predicted_nodes: Tensor,
    target_nodes: Tensor,
    taxonomy: AnyTaxonomy,
    include_root: bool = False,
    *,
    undecided: Undecided = "ignore",
    reduction: str = "mean",
) -> Tensor:
    """HF1: mean over samples of the F1 between the ancestor sets of prediction and label, each with the node
    itself.

    F1_h = 2 |A_y ∩ A_ŷ| / (|A_y| + |A_ŷ|)  (Section 3.5 of Climbing the Label Tree; Silla & Freitas 2011),
    which on a tree is 2·depth(lca) / (depth(y) + depth(ŷ)), with 1 added to every depth if the root counts.
    On a DAG the sets hold the ancestors along all paths.

    Args:
        predicted_nodes: (n,) nodes.
        target_nodes: (n,) nodes, -1 for a missing label.
        taxonomy: a tree or a DAG.
        include_root: Whether the root is in the sets. The paper does not say; the root only adds a constant
            credit.
        undecided: "ignore" or "negative", see `labeltree.metrics.functional.classification`.
        reduction: "mean", or "none" for one value per sample, NaN where the sample is left out.

    Returns:
        float64 scalar, NaN if no sample counts; or (n,) with `reduction="none"`.

    Raises:
        ValueError: For wrong shapes or dtypes, entries outside the taxonomy, a labelled sample without
            prediction.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> target = taxonomy.encode(["dog", "dog", "dog", None])
        >>> hierarchical_f1(taxonomy.encode(["dog", "cat", "trout", "cat"]), target, taxonomy).item()
        0.5

    """
    check_reduction(reduction)
    counted, predicted, target = truncate_predictions(predicted_nodes, target_nodes, taxonomy, undecided)
    left_out = 0 if include_root else 1
    sizes = taxonomy.ancestor_count.to(target.device) - left_out
    common = taxonomy.common_ancestor_count(predicted, target) - left_out
    f1 = 2.0 * common.double() / (sizes[predicted] + sizes[target])
    return _reduced(f1, counted, reduction)


def tree_accuracy(
    predicted_nodes: Tensor,
    target_nodes: Tensor,
    taxonomy: AnyTaxonomy,
    *,
    undecided: Undecided = "ignore",
    reduction: str = "mean",
) -> Tensor:
    """H-Acc: mean over samples of 1 − path_length(y, ŷ) / (2L)  (Section 3.5 of Climbing the Label Tree).

    Args:
        predicted_nodes: (n,) nodes.
        target_nodes: (n,) nodes, -1 for a missing label.
        taxonomy: a tree or a DAG; L is its maximal depth.
        undecided: "ignore" or "negative", see `labeltree.metrics.functional.classification`.
        reduction: "mean", or "none" for one value per sample, NaN where the sample is left out.

    Returns:
        float64 scalar, NaN if no sample counts; or (n,) with `reduction="none"`.

    Raises:
        ValueError: For wrong shapes or dtypes, entries outside the taxonomy, a labelled sample without
            prediction.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> predicted, target = taxonomy.encode(["dog", "cat", "trout"]), taxonomy.encode(["dog"] * 3)
        >>> tree_accuracy(predicted, target, taxonomy).item()
        0.5

    """
    check_reduction(reduction)
    counted, predicted, target = truncate_predictions(predicted_nodes, target_nodes, taxonomy, undecided)
    credit = 1.0 - taxonomy.path_length(predicted, target).double() / (2 * max(taxonomy.max_depth, 1))
    return _reduced(credit, counted, reduction)


def mistake_severity(
    predicted_nodes: Tensor,
    target_nodes: Tensor,
    taxonomy: AnyTaxonomy,
    *,
    undecided: Undecided = "ignore",
    reduction: str = "mean",
) -> Tensor:
    """Mean height of the LCA of prediction and label over the mistakes (Bertinetto et al. 2020, Section 4.1).

    Args:
        predicted_nodes: (n,) nodes.
        target_nodes: (n,) nodes, -1 for a missing label.
        taxonomy: a tree or a DAG.
        undecided: "ignore" or "negative", see `labeltree.metrics.functional.classification`.
        reduction: "mean", or "none" for one value per sample, NaN where the sample is left out or the
            prediction is correct.

    Returns:
        float64 scalar in edges, NaN if there is no mistake; or (n,) with `reduction="none"`.

    Raises:
        ValueError: For wrong shapes or dtypes, entries outside the taxonomy, a labelled sample without
            prediction.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> predicted, target = taxonomy.encode(["dog", "cat", "trout"]), taxonomy.encode(["dog"] * 3)
        >>> mistake_severity(predicted, target, taxonomy).item()
        1.5

    """
    check_reduction(reduction)
    counted, predicted, target = truncate_predictions(predicted_nodes, target_nodes, taxonomy, undecided)
    height = taxonomy.lca_height(predicted, target).double()
    return _reduced(torch.where(predicted == target, torch.nan, height), counted, reduction)


def classification_metrics(
    predicted_nodes: Tensor, target_nodes: Tensor, taxonomy: AnyTaxonomy, *, undecided: Undecided = "ignore"
) -> dict[str, Tensor]:
    """All metrics of this module, and the numbers of samples that they are computed from.

    Args:
        predicted_nodes: (n,) nodes.
        target_nodes: (n,) nodes, -1 for a missing label.
        taxonomy: a tree or a DAG.
        undecided: "ignore" or "negative", see `labeltree.metrics.functional.classification`.

    Returns:
        float64 scalars "accuracy" (at the leaves), "accuracy/depth{l}" for every depth of a tree,
        "hierarchical_f1", "hierarchical_f1/with_root", "tree_accuracy", "mistake_severity"; and int64 counts
        "samples" (counted), "samples_left_out" (no label, or the root), "mistakes", "samples/depth{l}"
        (samples whose label decides depth l of a tree).

    Raises:
        ValueError: For wrong shapes or dtypes, entries outside the taxonomy, a labelled sample without
            prediction.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> predicted, target = taxonomy.encode(["dog", "cat", "cat"]), taxonomy.encode(["dog", "dog", None])
        >>> metrics = classification_metrics(predicted, target, taxonomy)
        >>> metrics["accuracy"].item(), metrics["hierarchical_f1"].item(), metrics["samples_left_out"].item()
        (0.5, 0.75, 1)

    """
    pair = (predicted_nodes, target_nodes, taxonomy)
    severity = mistake_severity(*pair, undecided=undecided, reduction="none")
    f1 = hierarchical_f1(*pair, undecided=undecided, reduction="none")
    results: dict[str, Tensor] = {}
    if isinstance(taxonomy, Taxonomy):
        correct, decided = correct_by_depth(*pair)
        for depth, value in enumerate(correct.double() / decided.double(), start=1):
            results[f"accuracy/depth{depth}"] = value
        for depth, value in enumerate(decided, start=1):
            results[f"samples/depth{depth}"] = value
    leaves = taxonomy.is_leaf.to(target_nodes.device)[target_nodes.clamp(min=0)] & (target_nodes > 0)
    results["accuracy"] = (predicted_nodes == target_nodes)[leaves].double().mean()
    results["hierarchical_f1"] = mean_of_counted(f1)
    results["hierarchical_f1/with_root"] = hierarchical_f1(*pair, include_root=True, undecided=undecided)
    results["tree_accuracy"] = tree_accuracy(*pair, undecided=undecided)
    results["mistake_severity"] = mean_of_counted(severity)
    results["mistakes"] = (~severity.isnan()).sum()
    results["samples"] = (~f1.isnan()).sum()
    results["samples_left_out"] = f1.isnan().sum()
    return results


def accuracy_by_depth(predicted_nodes: Tensor, target_nodes: Tensor, taxonomy: AnyTaxonomy) -> Tensor:
    """Accuracy after cutting prediction and label to each depth.

    A leaf shallower than a depth stands for itself there, so the last entry is the accuracy at the leaves. At
    each depth, samples whose label is too coarse are left out, and a prediction that is too coarse is wrong.

    Args:
        predicted_nodes: (n,) nodes.
        target_nodes: (n,) nodes, -1 for a missing label.
        taxonomy: a tree; on a DAG the accuracy by depth is not defined.

    Returns:
        (L,) float64, coarse to fine; NaN at a depth that no label decides.

    Raises:
        ValueError: For wrong shapes or dtypes, entries outside the taxonomy, a labelled sample without
            prediction.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> target = taxonomy.encode(["dog", "dog", "mammal"])
        >>> accuracy_by_depth(taxonomy.encode(["dog", "cat", "cat"]), target, taxonomy)
        tensor([1.0000, 0.5000], dtype=torch.float64)

    """
    correct, decided = correct_by_depth(predicted_nodes, target_nodes, taxonomy)
    return correct.double() / decided.double()


def correct_by_depth(
    predicted_nodes: Tensor, target_nodes: Tensor, taxonomy: AnyTaxonomy
) -> tuple[Tensor, Tensor]:
    """(L,) int64 each: number of correct samples, and of samples with a decided label, at each depth."""
    tree = check_tree("accuracies by depth", taxonomy)
    _, predicted, target = truncate_predictions(predicted_nodes, target_nodes, tree, "negative")
    paths = tree.paths.to(target.device)
    decided = paths[target] >= 0
    correct = decided & (paths[predicted] == paths[target])
    return correct.sum(dim=0), decided.sum(dim=0)


def _reduced(values: Tensor, counted: Tensor, reduction: str) -> Tensor:
    return mean_of_counted(values) if reduction == "mean" else spread(values, counted)
