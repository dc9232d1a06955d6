"""Answers of least expected cost, with costs from the taxonomy, of a metric, or from a CSV file."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.decisions.class_nodes import ClassNodes
from labeltree.errors import DataError, TaxonomyError
from labeltree.options.choices import Optimised
from labeltree.safe_files import Reader, read_text
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.naming import some

__all__ = ["METRIC_COSTS", "TreeCost", "cheapest", "cost_matrix", "expected_costs", "read_costs"]

Distance = Literal["height", "edges", "top1", "hierarchical_f1", "wu_palmer"]


@dataclass(frozen=True)
class TreeCost:
    """Cost of an answer, from distances in the tree.

    A wrong answer costs its distance from the truth, which is one of

    - `height`: the height of the LCA relative to the root's, in [0, 1] (Barz & Denzler 2019, Eq. 1);
    - `edges`: the length of the path between them;
    - `top1`: 1 for all but the truth itself;
    - `hierarchical_f1`: 1 − F1 of the ancestor sets without the root, as in the metric;
    - `wu_palmer`: the same with the root, on a tree 1 − the similarity of Wu & Palmer (1994),
      2·depth(lca) / (depth(answer) + depth(truth)), the root having depth 1.

    An answer that is right but coarse (an ancestor of the truth) costs `coarse` times its distance. With
    `coarse` 0 the root is always answered; with `height` and `coarse` 1, always a leaf.

    Attributes:
        distance: See above.
        coarse: Factor for right but coarse answers, in [0, 1]; None: 0.5 for `height`, and 1 for the others.
            `edges` already charges coarse answers less: with 1, a step down pays off if it is right with
            probability above 1/2.
    """

    distance: Distance = "height"
    coarse: float | None = None

    def __post_init__(self) -> None:
        check_choice("distance", self.distance, Distance)
        if self.coarse is not None and not 0 <= self.coarse <= 1:
            raise ValueError(f"coarse is {self.coarse!r}; expected a number from 0 to 1")

    @property
    def share(self) -> float:
        """Cost of a right but coarse answer, relative to a wrong answer at the same distance."""
        if self.coarse is not None:
            return self.coarse
        return 0.5 if self.distance == "height" else 1.0

    @property
    def root(self) -> int:
        """1 if the root counts in the ancestor sets that are compared, else 0."""
        return int(self.distance == "wu_palmer")


METRIC_COSTS: dict[Optimised, TreeCost] = {
    "top1": TreeCost("top1"),
    "hierarchical_f1": TreeCost("hierarchical_f1"),
    "tree_distance": TreeCost("edges"),
    "wu_palmer": TreeCost("wu_palmer"),
}
"""Metric → the cost whose least expectation is the best expected value of the metric.

Mistake severity is not among them: it is a mean over mistakes alone, and so no cost of a sample."""


def cost_matrix(classes: ClassNodes, cost: TreeCost) -> Tensor:
    """Cost matrix (N, C) float64: the cost of answering each node if each class is the truth."""
    taxonomy = classes.taxonomy
    answers, truths = torch.arange(taxonomy.num_nodes)[:, None], classes.nodes
    if cost.distance == "height":
        table = taxonomy.lca_height_dissimilarity(answers, truths)
    elif cost.distance == "edges":
        table = taxonomy.path_length(answers, truths).double()
    elif cost.distance == "top1":
        table = (answers != truths).double()
    else:
        sizes = taxonomy.ancestor_count - (1 - cost.root)
        common = taxonomy.common_ancestor_count(answers, truths) - (1 - cost.root)
        table = 1 - 2.0 * common.double() / (sizes[answers] + sizes[truths]).clamp(min=1)
    holds = torch.from_numpy(classes.above.toarray() > 0)
    return torch.where(holds, cost.share * table, table)


def expected_costs(probabilities: Tensor, classes: ClassNodes, cost: TreeCost | Tensor) -> Tensor:
    """Expected cost of answering each node, (n, N) float64.

    With a `TreeCost` on a tree this takes O(N) per sample, from the root down: with P the probabilities of
    nodes and h their heights, a step from v to its child c changes the expected cost of wrong answers by
    `h(v)·(P(v) − P(c))`; the classes at or below the answer a add `coarse·h(a)·P(a)`. For `edges`, each step
    is one edge nearer to the truth with probability P(c), and one farther otherwise. `hierarchical_f1` and
    `wu_palmer` take O(N) for each depth that classes have. On a DAG, or with a given matrix, it is the
    product with the matrix, O(N·C).

    Args:
        probabilities: Class probabilities of shape (n, C).
        classes: The classes, on a tree or a DAG.
        cost: a `TreeCost`, or a cost matrix (N, C) of answers by true classes; infinite = never answered.
    """
    of_nodes = classes.node_probabilities(probabilities)
    if isinstance(cost, Tensor):
        return _costs_from_matrix(probabilities, cost)
    if not isinstance(classes.taxonomy, Taxonomy):
        return _costs_from_matrix(probabilities, cost_matrix(classes, cost))
    if cost.distance == "height":
        return _costs_from_heights(of_nodes, classes.taxonomy, cost.share)
    if cost.distance == "edges":
        return _costs_from_edges(probabilities, of_nodes, classes, classes.taxonomy, cost.share)
    if cost.distance == "top1":
        return _costs_from_classes(probabilities, of_nodes, classes, cost.share)
    return _costs_from_ancestors(probabilities, classes, classes.taxonomy, cost)


def cheapest(probabilities: Tensor, classes: ClassNodes, cost: TreeCost | Tensor) -> tuple[Tensor, Tensor]:
    """The node of least expected cost for each sample, and its cost; ties go to the first, coarsest node.

    Nodes with no class at or below them are never answered, unless a matrix gives them a finite cost.

    Returns:
        (n,) int64 nodes, and (n,) float64 expected costs.
    """
    if isinstance(cost, TreeCost) and not isinstance(classes.taxonomy, Taxonomy):
        cost = cost_matrix(classes, cost).masked_fill(classes.counts[:, None] == 0, torch.inf)  # once for all
    nodes, least = [], []
    for part in classes.parts(probabilities):
        costs = expected_costs(part, classes, cost)
        if not isinstance(cost, Tensor):
            costs = costs.masked_fill(classes.counts == 0, torch.inf)
        lowest = costs.min(1)
        nodes.append(lowest.indices)
        least.append(lowest.values)
    return torch.cat(nodes), torch.cat(least)


def _costs_from_matrix(probabilities: Tensor, matrix: Tensor) -> Tensor:
    matrix = matrix.double()
    allowed = torch.isfinite(matrix).all(1)
    costs = probabilities.detach().double() @ matrix.masked_fill(~allowed[:, None], 0.0).T
    return costs.masked_fill(~allowed, torch.inf)


def _down(steps: Tensor, tree: Taxonomy) -> Tensor:
    """Sums of the steps (n, N) from the root's children down to each node."""
    sums = steps.numpy().T.copy()
    parent, depth = tree.parent.numpy(), tree.depth.numpy()
    sums[0] = 0.0
    for level in range(1, tree.max_depth + 1):
        nodes = np.flatnonzero(depth == level)
        sums[nodes] += sums[parent[nodes]]
    return torch.from_numpy(np.ascontiguousarray(sums.T))


def _costs_from_heights(of_nodes: Tensor, tree: Taxonomy, share: float) -> Tensor:
    height = tree.height.double() / tree.max_height
    above = tree.parent.clamp(min=0)
    lost = _down(height[above] * (of_nodes[:, above] - of_nodes), tree)
    return lost + share * height * of_nodes


def _costs_from_edges(
    probabilities: Tensor, of_nodes: Tensor, classes: ClassNodes, tree: Taxonomy, share: float
) -> Tensor:
    depth = tree.depth.double()
    deep = torch.from_numpy(
        np.ascontiguousarray(
            (classes.above @ (probabilities.detach().double() * depth[classes.nodes]).numpy().T).T
        )
    )
    shared = _down(of_nodes, tree)  # expected depth of the LCA with the truth
    edges = depth * of_nodes[:, :1] + deep[:, :1] - 2 * shared
    return edges - (1 - share) * (deep - depth * of_nodes)


def _costs_from_classes(probabilities: Tensor, of_nodes: Tensor, classes: ClassNodes, share: float) -> Tensor:
    own = torch.zeros_like(of_nodes)
    own[:, classes.nodes] = probabilities.detach().double()
    return of_nodes[:, :1] - own - (1 - share) * (of_nodes - own)


def _costs_from_ancestors(
    probabilities: Tensor, classes: ClassNodes, tree: Taxonomy, cost: TreeCost
) -> Tensor:
    """Expected 1 − F1 of ancestor sets: for classes of one depth, the size of both sets is known."""
    depth, given = tree.depth.double() + cost.root, probabilities.detach().double()
    costs = torch.zeros(len(given), tree.num_nodes, dtype=torch.float64)
    for level in torch.unique(tree.depth[classes.nodes]).tolist():
        of_level = torch.where(tree.depth[classes.nodes] == level, given, 0.0)
        below = torch.from_numpy(np.ascontiguousarray((classes.above @ of_level.numpy().T).T))
        share = 2 / (depth + level + cost.root).clamp(min=1)
        costs += below[:, :1] - share * (_down(below, tree) + cost.root * below[:, :1])
        if cost.share < 1:
            costs -= (1 - cost.share) * below * (1 - share * depth)
    return costs


_COSTS = Reader(
    "a table of costs", "write a first row of truths, then a row for each answer: its name and what it costs"
)


def read_costs(path: str | Path, classes: ClassNodes) -> Tensor:
    """Read a cost matrix (N, C) float64 from a CSV file; infinite where a node is never answered.

    The first row names the true classes, the first column the answers, by name or by path (`/` is the root);
    a node without a row is never answered.

    Raises:
        DataError: If the file cannot be read, a number is missing, negative or not a number, or a class has
            no column.
        TaxonomyError: If a name is not in the taxonomy.
    """
    path, taxonomy = Path(path), classes.taxonomy
    with _COSTS.reading(path, "it is not a table (.csv)"):
        lines = io.StringIO(read_text(path, _COSTS), newline="")
        rows = [row for row in csv.reader(lines) if any(cell.strip() for cell in row)]
    if len(rows) < 2 or len(rows[0]) < 2:
        raise DataError(
            f"'{path}' is not a table of costs: a first row of truths, then a row for each answer"
        )
    try:
        truths = taxonomy.encode(rows[0][1:]).tolist()
        answers = taxonomy.encode([row[0] for row in rows[1:]]).tolist()
    except TaxonomyError as error:
        raise TaxonomyError(f"'{path}': {error}") from error
    for what, nodes in (("a column", truths), ("a row", answers)):
        if min(nodes) < 0 or len(set(nodes)) < len(nodes):
            raise DataError(f"'{path}' has {what} without a name, or two of the same node")
    column = {node: place for place, node in enumerate(truths, start=1)}
    missing = [taxonomy.path_name(node) for node in classes.nodes.tolist() if node not in column]
    if missing:
        raise DataError(f"'{path}' has no column for {len(missing)} of the classes: {some(missing)}")
    table = torch.full((taxonomy.num_nodes, len(classes)), math.inf, dtype=torch.float64)
    for number, (answer, row) in enumerate(zip(answers, rows[1:], strict=True), start=2):
        for place, node in enumerate(classes.nodes.tolist()):
            table[answer, place] = _number(path, number, row, column[node])
    return table


def _number(path: Path, line: int, row: list[str], column: int) -> float:
    text = row[column].strip() if column < len(row) else ""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise DataError(
            f"'{path}', row {line}, column {column + 1}: the cost is '{text}', not a number of at least 0"
        )
    return value
