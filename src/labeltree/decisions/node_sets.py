"""Sets of nodes of the best expected hierarchical F, for samples that one node cannot describe."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.decisions.class_nodes import ClassNodes
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["NodeSets", "best_node_sets"]


@dataclass(frozen=True)
class NodeSets:
    """A set of nodes for each of n samples, each with all its ancestors below the root.

    Attributes:
        nodes: (n, K) int64 nodes, ascending, -1 after the last. The root is in every set, and not listed.
        values: (n,) float64 expected F of each set.
        beta: The β of F.
        include_root: Whether the root counts.
        taxonomy: Taxonomy of the nodes.
    """

    nodes: Tensor
    values: Tensor
    beta: float
    include_root: bool
    taxonomy: AnyTaxonomy

    def __len__(self) -> int:
        return len(self.nodes)

    def f_scores(self, labels: Tensor) -> Tensor:
        """The F (n,) float64 of each set for true nodes (n,), none missing.

        hF_β = (1 + β²)·|S ∩ A| / (|S| + β²·|A|), with A the label and its ancestors.
        """
        there = self.nodes >= 0
        common = there & (self.taxonomy.lca(self.nodes.clamp(min=0), labels[:, None]) == self.nodes)
        root = int(self.include_root)
        size = self.taxonomy.ancestor_count[labels] - 1 + root
        weight = self.beta**2
        whole = (there.sum(1) + root) + weight * size
        return (1 + weight) * (common.sum(1) + root).double() / whole.clamp(min=1)


def best_node_sets(
    probabilities: Tensor, classes: ClassNodes, *, beta: float = 1.0, include_root: bool = False
) -> NodeSets:
    """The set of nodes of the greatest expected hierarchical F_β for each sample (Plaud et al. 2025).

    With k nodes in the set, the expected F is the sum over them of Δ_k(v) = Σ p(l)·(1 + β²)/(k + β²·d(l))
    over the classes l at or below v, d being the number of a class's ancestors with itself. No node has a
    smaller Δ_k than one below it, so that the k largest are the best set of k nodes, and contain all their
    ancestors. Each k is tried, until no larger set can be better: F is at most Σ p(l)·(1 + β²)·d(l)/(k +
    β²·d(l)), which falls with k. Nodes that no best set can hold are left out before.

    The paper counts the root, and keeps the nodes with p(v) ≥ 1/(1 + β²·D(v)), D being the greatest d below
    v. That is right with the root and classes of one depth; elsewhere it may lose the best set. Here the
    bound comes from the F of one set, the path to the most probable class, and holds for all: p(v) ≥ F/(1 +
    β²)·(least d below v)/(greatest d).

    Args:
        probabilities: Class probabilities of shape (n, C).
        classes: The classes, on a tree or a DAG.
        beta: Weight of recall, above 0; 1 weighs precision and recall alike.
        include_root: Whether the root counts in all sets, as in the paper; see `hierarchical_f1`.

    Raises:
        ValueError: If the probabilities are not valid, or `beta` is not above 0.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> classes = ClassNodes(taxonomy.encode(["dog", "cat", "trout"]), taxonomy)
        >>> sets = best_node_sets(torch.tensor([[0.75, 0.25, 0.0], [0.5, 0.5, 0.0]]), classes)
        >>> [taxonomy.decode(row[row >= 0]) for row in sets.nodes]
        [['mammal', 'mammal/dog'], ['mammal', 'mammal/dog', 'mammal/cat']]
        >>> sets.values.tolist()
        [0.875, 0.8]
    """
    if not (math.isfinite(beta) and beta > 0):
        raise ValueError(f"beta is {beta!r}; expected a number above 0")
    parts = [_best_sets(part, classes, beta, int(include_root)) for part in classes.parts(probabilities)]
    width = max((rows.shape[1] for rows, _ in parts), default=0)
    padded = [torch.nn.functional.pad(rows, (0, width - rows.shape[1]), value=-1) for rows, _ in parts]
    values = torch.cat([best for _, best in parts])
    return NodeSets(torch.cat(padded), values, beta, include_root, classes.taxonomy)


def _best_sets(
    probabilities: Tensor, classes: ClassNodes, beta: float, root: int, *, prune: bool = True
) -> tuple[Tensor, Tensor]:
    """The nodes (n, K) of the best sets, and their expected F (n,)."""
    given, taxonomy = classes.check_probabilities(probabilities), classes.taxonomy
    count, weight = taxonomy.ancestor_count, beta**2
    of_class = (count[classes.nodes] - 1 + root).clamp(min=1)
    sizes, place = torch.unique(of_class, return_inverse=True)
    by_size = [given * (place == at) for at in range(len(sizes))]  # classes of one d
    whole = torch.stack([part.sum(1) for part in by_size], dim=1)

    def terms(k: int) -> Tensor:
        each: Tensor = (1 + weight) / (k + weight * sizes.double())
        return each

    total = classes.node_probabilities(given)
    kept = classes.counts > 0
    kept[0] = False  # the root is in every set
    kept = kept.expand(total.shape)
    if prune:
        path = torch.from_numpy(classes.above.T[given.argmax(1).numpy()].toarray())
        path[:, 0] = root
        length = (count[classes.nodes[given.argmax(1)]] - 1 + root).double()
        known = torch.zeros(len(given), dtype=torch.float64)
        for size, part in zip(sizes.tolist(), by_size, strict=True):
            on_path = (classes.node_probabilities(part) * path).sum(1)
            known += on_path * (1 + weight) / (length + weight * size)
        shallow = torch.full((taxonomy.num_nodes,), int(sizes[-1]))
        for column, size in enumerate(of_class.tolist()):
            at = classes.above[:, [column]].nonzero()[0]
            shallow[at] = shallow[at].clamp(max=size)
        bound = known[:, None] / (1 + weight) * shallow / sizes[-1]
        kept = kept & (total >= bound - 1e-12)
    # of equally probable nodes the coarser first, so that a set never lacks an ancestor
    order = torch.argsort(count, stable=True)
    most = int(kept.sum(1).max()) if len(given) else 0
    ranked = total.masked_fill(~kept, -1.0)[:, order].argsort(dim=1, descending=True, stable=True)[:, :most]
    nodes = order[ranked]
    allowed = kept.gather(1, nodes)
    masses = torch.stack([classes.node_probabilities(p).gather(1, nodes) for p in by_size], 2)
    masses = masses * allowed[:, :, None]
    best = root * (whole @ terms(root)) if root else torch.zeros(len(given), dtype=torch.float64)
    taken = torch.zeros(len(given), most, dtype=torch.bool)
    for number in range(1, most + 1):
        k = number + root
        active = allowed.sum(1) >= number
        if prune:
            active &= whole @ (sizes * terms(k)) > best
        rows = active.nonzero()[:, 0]
        gains = masses[rows] @ terms(k)
        first = gains.round(decimals=12).argsort(dim=1, descending=True, stable=True)[:, :number]
        value = gains.gather(1, first).sum(1) + root * (whole[rows] @ terms(k))
        better = value > best[rows] + 1e-12
        best[rows[better]] = value[better]
        taken[rows[better]] = torch.zeros(int(better.sum()), most, dtype=torch.bool).scatter_(
            1, first[better], True
        )
    last = taxonomy.num_nodes
    chosen = torch.where(taken, nodes, last).sort(dim=1).values
    chosen = chosen[:, : int((chosen < last).sum(1).max()) if len(chosen) else 0]
    return chosen.masked_fill(chosen == last, -1), best
