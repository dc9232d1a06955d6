"""Where on the tree a classifier errs."""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.evaluation.error_result import Confusion, NodeErrors, TreeErrors
from labeltree.taxonomy import Taxonomy

__all__ = ["tree_errors"]


def tree_errors(predicted: Tensor, target: Tensor, taxonomy: Taxonomy, *, confusions: int = 50) -> TreeErrors:
    """Sort the errors of a classifier by where on the tree its path left the true one.

    Args:
        predicted: ``(n,)`` predicted nodes.
        target: ``(n,)`` true nodes, none missing.
        taxonomy: of the nodes.
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
