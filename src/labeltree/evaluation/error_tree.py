"""Counts of errors at every node: where on the tree a classifier errs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.taxonomy import Taxonomy

__all__ = ["Confusion", "NodeErrors", "TreeErrors", "tree_errors"]


@dataclass(frozen=True)
class NodeErrors:
    """How the samples labelled at or below one node were classified.

    Attributes:
        node: node of the taxonomy.
        path: its path name; ``/`` for the root.
        depth: depth of the node.
        samples: evaluated samples labelled at or below it.
        wrong: those of them that got a wrong class.
        errors_here: errors whose LCA (of true and predicted class) is this node: it is here that the
            classifier took a wrong turn.
        parted: ``parted[d]`` of its samples were predicted outside this node and have their LCA at depth d,
            for d from 0 to one above this node's depth; the last were predicted into a sibling.
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
        """How many of its samples were predicted at or below this node."""
        return self.samples - sum(self.parted)


@dataclass(frozen=True)
class Confusion:
    """A wrong pair: samples of one class that were taken for another.

    Attributes:
        true: path name of the true class; ``true_node`` is its node.
        predicted: path name of the predicted class; ``predicted_node`` is its node.
        lca: path name of the LCA of the two, ``/`` for the root; ``lca_node`` is its node.
        count: how many samples.
        share: share of the true class's samples.
        severity: height of the LCA.
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
    """Where on the tree a classifier errs.

    Attributes:
        samples: how many were classified.
        errors: how many of them wrongly.
        by_depth: ``by_depth[d]`` errors have their LCA at depth d; entry 0 (the root) holds the worst ones.
        nodes: one entry for every node with samples, in node order.
        confusions: the most frequent wrong pairs, most frequent first.
    """

    samples: int
    errors: int
    by_depth: list[int]
    nodes: list[NodeErrors]
    confusions: list[Confusion]


def tree_errors(predicted: Tensor, target: Tensor, taxonomy: Taxonomy, *, confusions: int = 50) -> TreeErrors:
    """Sort the errors of a classifier by where on the tree its path left the true one.

    Args:
        predicted: ``(n,)`` predicted nodes.
        target: ``(n,)`` true nodes, none missing.
        taxonomy: taxonomy of the nodes.
        confusions: how many of the most frequent wrong pairs to keep.
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
            # below their LCA, the nodes on the true path have lost the sample
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
    """How often each node stands in the paths: ``(num_nodes,)``."""
    return torch.bincount(paths[paths >= 0], minlength=num_nodes)


def _confusions(
    true: Tensor, taken: Tensor, samples: Tensor, taxonomy: Taxonomy, limit: int
) -> list[Confusion]:
    pairs, counts = torch.unique(true * taxonomy.num_nodes + taken, return_counts=True)
    order = torch.argsort(counts, descending=True, stable=True)[:limit]
    found = []
    for pair, count in zip(pairs[order].tolist(), counts[order].tolist(), strict=True):
        a, b = divmod(pair, taxonomy.num_nodes)
        lca = int(taxonomy.lca(torch.tensor(a), torch.tensor(b)))
        found.append(
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
    return found
