"""Counts of a classifier's errors at every node of the tree."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.taxonomy import Taxonomy

__all__ = ["Confusion", "NodeErrors", "TreeErrors", "tree_errors"]


@dataclass(frozen=True)
class NodeErrors:
    """Classification errors among the samples labelled at or below one node.

    Attributes:
        node: Node of the taxonomy.
        path: Path name of the node; `/` for the root.
        depth: Depth of the node.
        samples: Number of evaluated samples labelled at or below the node.
        wrong: Number of these samples that were misclassified.
        errors_here: Number of errors for which the LCA of true and predicted class is this node.
        parted: `parted[d]` is the number of these samples that were predicted outside this node, with the
            LCA of true and predicted class at depth d, for d from 0 to the depth of this node's parent; the
            last entry counts predictions at or below a sibling.
    """

    node: int
    path: str
    depth: int
    samples: int
    wrong: int
    errors_here: int
    parted: list[int]

    @property
    def stayed(self) -> int:
        """Number of the node's samples that were predicted at or below it."""
        return self.samples - sum(self.parted)


@dataclass(frozen=True)
class Confusion:
    """A confused pair: samples of one class that were predicted as another.

    Attributes:
        true: Path name of the true class; `true_node` is its node.
        predicted: Path name of the predicted class; `predicted_node` is its node.
        lca: Path name of the LCA of both classes, `/` for the root; `lca_node` is its node.
        count: Number of samples with this confusion.
        share: `count` as a fraction of the true class's samples.
        severity: Height of the LCA.
    """

    true: str
    predicted: str
    lca: str
    true_node: int
    predicted_node: int
    lca_node: int
    count: int
    share: float
    severity: int


@dataclass(frozen=True)
class TreeErrors:
    """A classifier's errors by their position on the tree.

    Attributes:
        samples: Number of samples classified.
        errors: Number of samples misclassified.
        by_depth: `by_depth[d]` is the number of errors with their LCA at depth d; those at depth 0 (the
            root) are the most severe.
        nodes: One entry for every node with samples, in node order.
        confusions: The most frequent confused pairs, in descending order.
    """

    samples: int
    errors: int
    by_depth: list[int]
    nodes: list[NodeErrors]
    confusions: list[Confusion]


def tree_errors(predicted: Tensor, target: Tensor, taxonomy: Taxonomy, *, confusions: int = 50) -> TreeErrors:
    """Count the errors of a classifier by the node where the predicted path leaves the true one.

    Args:
        predicted: `(n,)` predicted nodes.
        target: `(n,)` true nodes, none missing.
        taxonomy: Taxonomy of the nodes.
        confusions: Number of the most frequent confused pairs to keep.
    """
    wrong = predicted != target
    true, taken = target[wrong], predicted[wrong]
    lca = taxonomy.lca(true, taken)
    lca_depth = taxonomy.depth[lca]
    num_nodes = taxonomy.num_nodes
    samples = _below(taxonomy.ancestors[target], num_nodes)
    errors = _below(taxonomy.ancestors[true], num_nodes)
    parted = torch.stack(
        [
            # nodes on the true path below the LCA do not contain the prediction
            _below(taxonomy.ancestors[true[lca_depth == depth]][:, depth + 1 :], num_nodes)
            for depth in range(taxonomy.max_depth + 1)
        ],
        dim=1,
    )
    here = torch.bincount(lca, minlength=num_nodes).tolist()
    return TreeErrors(
        samples=len(target),
        errors=int(wrong.sum()),
        by_depth=torch.bincount(lca_depth, minlength=taxonomy.max_depth + 1).tolist(),
        nodes=[
            NodeErrors(
                node=node,
                path=taxonomy.path_name(node),
                depth=int(taxonomy.depth[node]),
                samples=int(samples[node]),
                wrong=int(errors[node]),
                errors_here=here[node],
                parted=parted[node, : int(taxonomy.depth[node])].tolist(),
            )
            for node in range(num_nodes)
            if samples[node]
        ],
        confusions=_confusions(true, taken, samples, taxonomy, confusions),
    )


def _below(paths: Tensor, num_nodes: int) -> Tensor:
    """The number of occurrences of each node in the paths: `(num_nodes,)`."""
    return torch.bincount(paths[paths >= 0], minlength=num_nodes)


def _confusions(
    true: Tensor, taken: Tensor, samples: Tensor, taxonomy: Taxonomy, limit: int
) -> list[Confusion]:
    pairs, counts = torch.unique(true * taxonomy.num_nodes + taken, return_counts=True)
    order = torch.argsort(counts, descending=True, stable=True)[:limit]
    confusions = []
    for pair, count in zip(pairs[order].tolist(), counts[order].tolist(), strict=True):
        a, b = divmod(pair, taxonomy.num_nodes)
        lca = int(taxonomy.lca(torch.tensor(a), torch.tensor(b)))
        confusions.append(
            Confusion(
                true=taxonomy.path_name(a),
                predicted=taxonomy.path_name(b),
                lca=taxonomy.path_name(lca),
                true_node=a,
                predicted_node=b,
                lca_node=lca,
                count=count,
                share=count / int(samples[a]),
                severity=int(taxonomy.height[lca]),
            )
        )
    return confusions
