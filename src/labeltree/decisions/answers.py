"""Answers: the path of nodes of each sample, the node at which it is cut, and scores of the answers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.decisions.class_nodes import ClassNodes
from labeltree.metrics.functional.risk_coverage import information
from labeltree.options.choices import Descent
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["Answers", "Descent", "Paths", "answer_scores", "find_paths", "holds_truth", "information"]


@dataclass(frozen=True)
class Paths:
    """A chain of nodes from the root down for each sample; the answer is a node of the chain.

    Attributes:
        nodes: (n, D) int64 nodes, the root first, -1 after the end of the path.
        probabilities: (n, D) float64 node probabilities, non-increasing along a row, 0 after the end.
    """

    nodes: Tensor
    probabilities: Tensor

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def ends(self) -> Tensor:
        """The last node of each path, (n,)."""
        return self.nodes.gather(1, (self.nodes >= 0).sum(1, keepdim=True) - 1)[:, 0]

    def cut(self, bars: Tensor) -> tuple[Tensor, Tensor]:
        """Go down each path as long as the next node is more probable than its bar.

        Args:
            bars: (N,) float64 threshold of each node.

        Returns:
            The nodes at which the paths are cut, and their probabilities, both (n,).
        """
        step = self.nodes[:, 1:]
        goes = (step >= 0) & (self.probabilities[:, 1:] > bars[step.clamp(min=0)])
        count = goes.long().cumprod(1).sum(1, keepdim=True)
        return self.nodes.gather(1, count)[:, 0], self.probabilities.gather(1, count)[:, 0]


def find_paths(probabilities: Tensor, classes: ClassNodes, descent: Descent = "child") -> Paths:
    """Find the path of each sample.

    - `child`: from the root to the most probable child at each step, until a class is reached that is more
      probable by itself than any of its children. Every node on the path with more than half of its parent's
      probability is the best answer at its depth, so coarse answers on this path lose least.
    - `leaf`: the path to the most probable class, followed from the class up to the root as in Climbing
      (Section 3 of Goren et al., Hierarchical Selective Classification, 2024). Its end is the usual answer.

    Ties go to the first node. On a DAG, `leaf` follows the parent nearest the root.

    Args:
        probabilities: Class probabilities of shape (n, C).
        classes: The classes, on a tree or a DAG.
        descent: Kind of path, `child` or `leaf`.

    Raises:
        ValueError: If the descent is unknown, or the probabilities are not valid.
    """
    check_choice("descent", descent, Descent)
    parts = [_paths_of(part, classes, descent) for part in classes.parts(probabilities)]
    width = max(paths.nodes.shape[1] for paths in parts)
    return Paths(
        torch.cat([_pad(paths.nodes, width, -1) for paths in parts]),
        torch.cat([_pad(paths.probabilities, width, 0) for paths in parts]),
    )


def _pad(rows: Tensor, width: int, value: int) -> Tensor:
    return torch.nn.functional.pad(rows, (0, width - rows.shape[1]), value=value)


def _paths_of(probabilities: Tensor, classes: ClassNodes, descent: Descent) -> Paths:
    of_nodes = classes.node_probabilities(probabilities)
    nodes = (
        _down(probabilities.detach().double(), of_nodes, classes)
        if descent == "child"
        else _up(probabilities, classes)
    )
    on_path = of_nodes.gather(1, nodes.clamp(min=0)).masked_fill(nodes < 0, 0.0)
    # sums of the same numbers in another order may differ in the last bit
    return Paths(nodes, torch.cummin(on_path, dim=1).values)


def _down(own: Tensor, of_nodes: Tensor, classes: ClassNodes) -> Tensor:
    here = np.zeros(len(own), dtype=np.int64)
    columns = [here]
    active = np.arange(len(own))
    mine, summed = own.numpy(), of_nodes.numpy()
    while len(active):
        following = np.full(len(own), -1, dtype=np.int64)
        order = active[np.argsort(here[active], kind="stable")]
        at, starts = np.unique(here[order], return_index=True)
        for node, rows in zip(at.tolist(), np.split(order, starts[1:]), strict=True):
            kids = classes.children(node)
            if not len(kids):
                continue
            block = summed[np.ix_(rows, kids)]
            best = block.argmax(1)
            step = kids[best]
            place = int(classes.place[node])
            if place >= 0:
                step = np.where(mine[rows, place] >= block.max(1), -1, step)
            following[rows] = step
        active = np.flatnonzero(following >= 0)
        if len(active):
            columns.append(following)
        here = following
    return torch.from_numpy(np.stack(columns, axis=1))


def _up(probabilities: Tensor, classes: ClassNodes) -> Tensor:
    paths = [_path_to(node, classes) for node in classes.nodes.tolist()]
    width = max(map(len, paths))
    table = torch.tensor([path + [-1] * (width - len(path)) for path in paths])
    return table[probabilities.argmax(1)]


def _path_to(node: int, classes: ClassNodes) -> list[int]:
    """The nodes from the root to a node; on a DAG, the nodes on the path that names it."""
    path, names = [0], classes.taxonomy.path(node)
    for end in range(1, len(names) + 1):
        at = classes.taxonomy.follow(names[:end])
        assert at is not None
        path.append(at)
    return path


@dataclass(frozen=True)
class Answers:
    """Answers for n samples.

    Attributes:
        nodes: (n,) answered nodes; the root is the answer that says nothing.
        probabilities: (n,) float64 calibrated probabilities of the answers.
        cut: (n,) bool, True where the path had a finer node that was not certain enough.
        guesses: (n, K) the K most probable classes, regardless of certainty.
        guess_probabilities: (n, K) float64 probabilities of `guesses`.
        costs: (n,) expected cost of each answer; None unless answers were chosen by cost.
        p_known: (n,) float64 p-value of being like the known classes; None if there was nothing to compare
            with. See `labeltree.decisions.novelty`.
        unknown: (n,) bool, True where the sample fits no known class: its answer is the finest node that an
            unknown class could lie below. None as with `p_known`.
    """

    nodes: Tensor
    probabilities: Tensor
    cut: Tensor
    guesses: Tensor
    guess_probabilities: Tensor
    costs: Tensor | None = None
    p_known: Tensor | None = None
    unknown: Tensor | None = None

    def __len__(self) -> int:
        return len(self.nodes)


def holds_truth(answers: Tensor, labels: Tensor, taxonomy: AnyTaxonomy) -> Tensor:
    """Which answers (n,) equal their label (n,) or an ancestor of it: (n,) bool; no label may be missing."""
    return taxonomy.lca(answers, labels) == answers


def truth_told(answers: Tensor, labels: Tensor, taxonomy: AnyTaxonomy) -> list[bool | None]:
    """Whether answers (n,) hold their labels (n,); None where a label lies above, and does not tell."""
    common = taxonomy.lca(answers, labels)
    above = (common == labels) & (labels != answers)
    held = zip((common == answers).tolist(), above.tolist(), strict=True)
    return [None if is_above else holds for holds, is_above in held]


def answer_scores(answers: Tensor, labels: Tensor, taxonomy: AnyTaxonomy) -> dict[str, float]:
    """Scores of answers, for samples whose label decides whether an answer is right (`ClassNodes.judges`).

    Args:
        answers: (n,) nodes.
        labels: (n,) nodes, none missing.
        taxonomy: Taxonomy of the nodes.

    Returns:
        `coverage`, the share of answers that hold the truth; `depth`, the mean depth of the answers;
        `true_depth`, the mean depth of the labels; `information`, the mean of `information`; `right_leaf`,
        the share of answers equal to the label; `root`, the share of answers at the root;
        `accuracy_below_root`, the coverage of the answers below the root.
    """
    if not len(answers):
        return dict.fromkeys(
            ("coverage", "depth", "true_depth", "information", "right_leaf", "root", "accuracy_below_root"),
            math.nan,
        )
    holds = holds_truth(answers, labels, taxonomy)
    below = answers > 0
    return {
        "coverage": _mean(holds),
        "depth": _mean(taxonomy.depth[answers]),
        "true_depth": _mean(taxonomy.depth[labels]),
        "information": _mean(information(answers, taxonomy)),
        "right_leaf": _mean(answers == labels),
        "root": _mean(~below),
        "accuracy_below_root": _mean(holds[below]) if bool(below.any()) else math.nan,
    }


def _mean(values: Tensor) -> float:
    return float(values.to(torch.float64).mean())
