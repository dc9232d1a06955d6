"""What an annotator's answer costs, by its depth: a coarse answer takes fewer choices than a fine one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from labeltree.taxonomy import Taxonomy

__all__ = ["COSTS", "answer_costs", "read_costs"]

COSTS = ("levels", "children")


def read_costs(text: str) -> str | tuple[float, ...]:
    """Read `levels`, `children` or numbers for depth 1, 2 … such as `1,1.5,4`.

    Raises:
        ValueError: If the text is anything else.
    """
    if text in COSTS:
        return text
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(
            f"costs are 'levels', 'children', or the cost of an answer at each depth, such as 1,1.5,4; got "
            f"{text!r}"
        ) from None


def answer_costs(taxonomy: Taxonomy, costs: str | Sequence[float] = "levels") -> Tensor:
    """The cost of naming each node, asked from the root on; `(N,)` float64, 0 for the root.

    To refine a known label u to a node v below it costs the difference, cost(v) − cost(u).

    Args:
        taxonomy: The tree from which the annotator chooses, coarse to fine.
        costs: `levels`: 1 for each choice between children; `children`: log2(k + 1) for a choice among k
            children, the time of a choice by the law of Hick and Hyman; or the cost of an answer at depth 1,
            2 … L, ascending.

    Raises:
        ValueError: If a cost is missing, not positive, or less than that of a coarser answer.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths(["animal/dog", "animal/cat", "animal/cow", "plant/oak"])
        >>> answer_costs(taxonomy, "levels")[taxonomy.encode(["animal", "dog"])].tolist()
        [1.0, 2.0]
        >>> answer_costs(taxonomy, (1, 5))[taxonomy.encode(["animal", "dog"])].tolist()
        [1.0, 5.0]
    """
    if costs == "levels":
        return taxonomy.depth.double()
    if costs == "children":
        parent = taxonomy.parent
        children = torch.bincount(parent[1:], minlength=taxonomy.num_nodes).tolist()
        cost_of_node = [0.0] * taxonomy.num_nodes
        for node, above in enumerate(parent.tolist()):
            if node:
                cost_of_node[node] = cost_of_node[above] + math.log2(children[above] + 1)
        return torch.tensor(cost_of_node, dtype=torch.float64)
    if isinstance(costs, str):
        raise ValueError(f"costs are {costs!r}; expected 'levels', 'children' or a number for each depth")
    numbers = [float(cost) for cost in costs]
    if len(numbers) < taxonomy.max_depth:
        raise ValueError(
            f"there are {len(numbers)} costs, and labels lie as deep as {taxonomy.max_depth}; give one for "
            "each depth"
        )
    if not all(math.isfinite(cost) and cost > 0 for cost in numbers) or numbers != sorted(numbers):
        raise ValueError(f"costs are {numbers}; expected positive numbers, none less than one before it")
    return torch.tensor([0.0, *numbers], dtype=torch.float64)[taxonomy.depth]
