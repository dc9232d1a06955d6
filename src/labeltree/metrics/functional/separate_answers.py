"""Answers made separately at every depth: are all of them right, and do they contradict one another?"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from labeltree.metrics.metric_checks import (
    check_nodes,
    check_reduction,
    check_same_length,
    mean_of_counted,
)
from labeltree.taxonomy import AnyTaxonomy, Taxonomy
from labeltree.taxonomy.dag import check_tree

__all__ = ["answers_by_depth", "consistency_by_depth", "full_path_accuracy"]


def answers_by_depth(
    probabilities: Tensor, taxonomy: AnyTaxonomy, *, classes: Tensor | None = None
) -> Tensor:
    """The most probable node of every depth, each for itself: the probability of a node is the sum over the
    classes at or below it.

    A leaf shallower than a depth stands for itself there. The answers of two depths may contradict each
    other: of three dogs and a cat with probabilities .2, .2, .2 and .4 the answers are dog and cat.

    Args:
        probabilities: (n, C) of the classes, each 0 or more.
        taxonomy: a tree.
        classes: (C,) nodes that the columns stand for; default the leaves, ascending.

    Returns:
        (n, L) int64 nodes, coarse to fine; -1 at a depth that no class reaches. Ties go to the first node.

    Raises:
        ValueError: For wrong shapes, nodes outside the taxonomy, negative numbers or NaN.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("dog", "pug"), ("dog", "spitz"), ("cat", "manx")])
        >>> classes = taxonomy.encode(["pug", "spitz", "manx"])
        >>> answers = answers_by_depth(torch.tensor([[0.3, 0.3, 0.4]]), taxonomy, classes=classes)
        >>> taxonomy.decode(answers[0])
        ['dog', 'cat/manx']

    """
    tree = check_tree("answers at every depth", taxonomy)
    classes = tree.leaves if classes is None else classes
    check_nodes("predicted classes", classes, tree)
    if probabilities.ndim != 2 or probabilities.shape[1] != len(classes):
        raise ValueError(
            f"probabilities has shape {tuple(probabilities.shape)}; expected (n, {len(classes)}), a column a "
            "class"
        )
    given = probabilities.detach().cpu().double().numpy()
    if not (given >= 0).all():
        raise ValueError("probabilities must be at least 0, none missing")
    paths = tree.paths[classes.long().cpu()].numpy()
    answers = np.full((len(given), tree.max_depth), -1, dtype=np.int64)
    for depth, at in enumerate(paths.T):
        there = np.flatnonzero(at >= 0)
        if len(there):
            nodes, place = np.unique(at[there], return_inverse=True)
            sums = np.zeros((len(nodes), len(given)))
            np.add.at(sums, place, given.T[there])
            answers[:, depth] = nodes[sums.argmax(0)]
    return torch.from_numpy(answers).to(probabilities.device)


def full_path_accuracy(
    predicted_by_depth: Tensor, target_nodes: Tensor, taxonomy: AnyTaxonomy, *, reduction: str = "mean"
) -> Tensor:
    """FPA: the share of samples whose answers are right at every depth (Sani & Anand 2026, Hier-COS).

    The answers must be made separately at each depth. If those of coarse depths are the ancestors of the
    finest one, this is the top-1 accuracy. With an inner-node label, the depths that it decides count.

    Args:
        predicted_by_depth: (n, L) the node answered at each depth, coarse to fine, such as those of
            `answers_by_depth`; -1 for none, which is wrong.
        target_nodes: (n,) nodes, -1 for a missing label.
        taxonomy: a tree.
        reduction: "mean", or "none" for one value per sample, NaN where the sample is left out.

    Returns:
        float64 scalar, NaN if no sample counts; or (n,) with `reduction="none"`.

    Raises:
        ValueError: For wrong shapes or dtypes, or nodes outside the taxonomy.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("dog", "pug"), ("dog", "spitz"), ("cat", "manx")])
        >>> dog, cat, pug, manx = taxonomy.encode(["dog", "cat", "pug", "manx"])
        >>> predicted = torch.stack([torch.stack([dog, pug]), torch.stack([dog, manx])])
        >>> full_path_accuracy(predicted, torch.stack([pug, manx]), taxonomy).item()
        0.5

    """
    check_reduction(reduction)
    tree = _check_depths(predicted_by_depth, taxonomy)
    check_nodes("target_nodes", target_nodes, tree)
    check_same_length("predicted_by_depth", predicted_by_depth, "target_nodes", target_nodes)
    path = tree.paths.to(target_nodes.device)[target_nodes.clamp(min=0)]
    right = ((predicted_by_depth == path) | (path < 0)).all(1).double()
    right = right.masked_fill(target_nodes <= 0, torch.nan)
    return mean_of_counted(right) if reduction == "mean" else right


def consistency_by_depth(
    predicted_by_depth: Tensor, taxonomy: AnyTaxonomy, *, reduction: str = "mean"
) -> Tensor:
    """How often the answer of each depth is an ancestor of the finest answer, or that answer itself.

    Args:
        predicted_by_depth: (n, L) the node answered at each depth, coarse to fine; -1 for none.
        taxonomy: a tree.
        reduction: "mean", or "none" for one value per sample and depth.

    Returns:
        (L,) float64, coarse to fine, the last 1; NaN without samples; or (n, L) with `reduction="none"`, NaN
        where an answer is missing.

    Raises:
        ValueError: For wrong shapes or dtypes, or nodes outside the taxonomy.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("dog", "pug"), ("dog", "spitz"), ("cat", "manx")])
        >>> dog, pug, manx = taxonomy.encode(["dog", "pug", "manx"])
        >>> predicted = torch.stack([torch.stack([dog, pug]), torch.stack([dog, manx])])
        >>> consistency_by_depth(predicted, taxonomy).tolist()
        [0.5, 1.0]

    """
    check_reduction(reduction)
    tree = _check_depths(predicted_by_depth, taxonomy)
    depths = torch.arange(tree.max_depth, device=predicted_by_depth.device)
    last = torch.where(predicted_by_depth >= 0, depths, -1).amax(1)
    finest = predicted_by_depth.gather(1, last.clamp(min=0)[:, None])[:, 0]
    along = tree.paths.to(finest.device)[finest.clamp(min=0)]
    missing = (predicted_by_depth < 0) | (finest < 0)[:, None]
    same = (predicted_by_depth == along).double().masked_fill(missing, torch.nan)
    return torch.nanmean(same, dim=0) if reduction == "mean" else same


def _check_depths(predicted: Tensor, taxonomy: AnyTaxonomy) -> Taxonomy:
    tree = check_tree("answers at every depth", taxonomy)
    if predicted.ndim != 2 or predicted.shape[1] != tree.max_depth:
        raise ValueError(
            f"predicted_by_depth has shape {tuple(predicted.shape)}; expected (n, {tree.max_depth}), a "
            "column a depth"
        )
    check_nodes("predicted_by_depth", predicted.reshape(-1), tree)
    return tree
