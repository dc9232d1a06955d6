"""Answers, and how much they say."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.taxonomy import AnyTaxonomy

__all__ = ["Answers", "holds_truth", "information"]


@dataclass(frozen=True)
class Answers:
    """What is answered for n samples.

    Attributes:
        nodes: (n,) the answers; the root says nothing.
        probabilities: (n,) float64 calibrated, of the answers.
        cut: (n,) bool, whether a finer answer was there but not sure enough.
        guesses: (n, K) the most probable classes, as if something had to be guessed.
        guess_probabilities: (n, K) float64.
        costs: (n,) expected cost of each answer, where answers were chosen by cost.
    """

    nodes: Tensor
    probabilities: Tensor
    cut: Tensor
    guesses: Tensor
    guess_probabilities: Tensor
    costs: Tensor | None = None

    def __len__(self) -> int:
        return len(self.nodes)


def holds_truth(answers: Tensor, labels: Tensor, taxonomy: AnyTaxonomy) -> Tensor:
    """(n,) bool, whether each answer (n,) is its label (n,) or an ancestor of it; none is missing."""
    return taxonomy.lca(answers, labels) == answers


def information(answers: Tensor, taxonomy: AnyTaxonomy) -> Tensor:
    """How much answers say: 0 for the root, 1 for a leaf, (n,) float64.

    1 − log(leaves at or below the answer) / log(all leaves): the share of the uncertainty about a leaf, all
    being equally likely, that the answer removes (the hierarchical coverage of Section 2 of Goren et al.
    2024).
    """
    if taxonomy.num_leaves == 1:
        return (answers > 0).double()
    unique, inverse = torch.unique(answers, return_inverse=True)
    leaves = torch.tensor([len(taxonomy.descendant_leaves(node)) for node in unique.tolist()])
    return (1 - leaves.double().log() / math.log(taxonomy.num_leaves))[inverse]
