"""Where on the tree a classifier errs, as plain numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from labeltree.evaluation.plain import number

__all__ = ["Confusion", "NodeErrors", "TreeErrors"]


@dataclass(frozen=True)
class NodeErrors:
    """How the samples labelled at or below one node were classified.

    Attributes:
        node: of the taxonomy.
        path: its path name; ``/`` for the root.
        depth: of the node.
        samples: evaluated samples labelled at or below it.
        wrong: those of them that got a wrong class.
        errors_here: errors whose LCA (of true and predicted class) is this node: it is here that the
            classifier took a wrong turn.
        parted: of its samples, ``parted[d]`` were predicted outside this node and have their LCA at depth d,
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
        share: of the true class's samples.
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

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> TreeErrors:
        """Read what `dataclasses.asdict` made of it; what a newer version added is left out."""
        return cls(
            samples=content["samples"],
            errors=content["errors"],
            by_depth=list(content["by_depth"]),
            nodes=[NodeErrors(**_known(NodeErrors, item)) for item in content["nodes"]],
            confusions=[Confusion(**_known(Confusion, item)) for item in content["confusions"]],
        )


def _known(kind: type, item: Mapping[str, Any]) -> dict[str, Any]:
    names = [entry.name for entry in fields(kind)]
    return {name: number(item[name]) if item[name] is None else item[name] for name in names}
