"""How often a prediction is right at each depth of the tree."""

from __future__ import annotations

from torch import Tensor

from labeltree.metrics.checks import check_tree
from labeltree.metrics.judging import judged
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["accuracy_by_depth", "correct_by_depth", "scores_by_depth"]


def accuracy_by_depth(predicted_nodes: Tensor, target_nodes: Tensor, taxonomy: AnyTaxonomy) -> Tensor:
    """Accuracy after cutting prediction and label to each depth.

    A leaf shallower than a depth continues itself there, so the last entry is the accuracy at the leaves. At
    each depth, samples whose label is too coarse to decide it are left out; a prediction too coarse for it is
    wrong.

    Args:
        predicted_nodes: (n,) nodes.
        target_nodes: (n,) nodes, -1 for a missing label.
        taxonomy: a tree; on a DAG the accuracy by depth is not defined.

    Returns:
        (L,) float64, coarse to fine; NaN at a depth that no label decides.

    Raises:
        ValueError: for wrong shapes or dtypes, entries outside the taxonomy, a labelled sample without
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
    """(L,) int64 number of samples right at each depth, and of samples whose label decides it."""
    tree = check_tree("accuracies by depth", taxonomy)
    _, predicted, target = judged(predicted_nodes, target_nodes, tree, "negative")
    paths = tree.paths.to(target.device)
    decided = paths[target] >= 0
    correct = decided & (paths[predicted] == paths[target])
    return correct.sum(dim=0), decided.sum(dim=0)


def scores_by_depth(predicted: Tensor, target: Tensor, taxonomy: AnyTaxonomy) -> dict[str, Tensor]:
    """The accuracy at each depth, and how many labels decide it."""
    correct, decided = correct_by_depth(predicted, target, taxonomy)
    accuracy = correct.double() / decided.double()
    return {
        **{f"accuracy/depth{depth}": value for depth, value in enumerate(accuracy, start=1)},
        **{f"samples/depth{depth}": value for depth, value in enumerate(decided, start=1)},
    }
