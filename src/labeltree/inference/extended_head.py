"""The ridge head of a solved run with the samples of an extension added to its sums."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from labeltree.decisions.ridge_scores import RidgeScores
from labeltree.errors import DataError
from labeltree.inference.load_run import TrainedRun
from labeltree.ridge.ridge_file import load_ridge
from labeltree.ridge.tree_ridge import TreeRidge
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

__all__ = ["extended_head", "scores_of_head"]


def extended_head(
    run: TrainedRun,
    taxonomy: Taxonomy,
    places: Tensor,
    new: EmbeddingTable | None,
    learned: Tensor,
    seen: Tensor,
) -> tuple[TreeRidge | None, list[str]]:
    """The head of a solved run, or of its newest extension, with further training samples; else None.

    At the settings of the run, it equals a head that was solved from all of them.

    Args:
        run: The run, before it is extended.
        taxonomy: The extended taxonomy.
        places: For each node of the run's taxonomy the node in `taxonomy`.
        new: The new samples with their splits and labels in `taxonomy`; None = there are none.
        learned: Their labels that are classes; samples with others are left out.
        seen: Which of them the run was trained on `(n,)`: the sums hold these with other labels.

    Returns:
        The head, and what has to be said where there is none.
    """
    solver = run.network.objective.solver
    if solver is None or not run.network.objective.is_solved:
        return None, []
    why = ""
    if not run.folder.ridge.is_file():
        why = "the extension before has none"
    elif run.folder.path == run.folder.home.path and solver.taxonomy != run.taxonomy:
        why = "its labels were those of another taxonomy in training"
    train = torch.zeros(0, dtype=torch.bool)
    if new is not None:
        train = torch.from_numpy(np.asarray(new.split) == "train") & torch.isin(new.nodes, learned)
        if bool((seen & train).any()):
            why = f"its sums hold {int((seen & train).sum()):,} of the samples with other labels"
    if why:
        return None, [f"The run's own classifier is not extended: {why}."]
    try:
        head = load_ridge(run.folder.ridge, run.taxonomy).on_taxonomy(taxonomy, places)
        if new is not None and new.features is not None:
            head = head.add(new.features[train], new.nodes[train])
    except DataError as error:
        return None, [f"The run's own classifier is not extended: {error}."]
    return head, []


def scores_of_head(head: TreeRidge, classes: Tensor) -> RidgeScores:
    """The scores of those classes `(C,)`, ascending, that a head answers."""
    columns = torch.isin(head.classes, classes).nonzero()[:, 0]
    return RidgeScores(
        head.classes[columns],
        columns,
        head.scale * head.weight,
        head.scale * head.bias,
        head.calibration[head.classes].T.contiguous(),
        head.frequencies,
    )
