"""The taxonomy that an evaluation measures against; for a DAG, also the tree that it is projected to."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from labeltree.errors import DataError
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import AnyTaxonomy, Taxonomy, match_nodes
from labeltree.taxonomy.naming import some

__all__ = ["JudgingTaxonomy", "translate"]


@dataclass(frozen=True)
class JudgingTaxonomy:
    """The taxonomy of an evaluation.

    What is defined on a DAG (hierarchical F1, tree accuracy, severity, HP and AHP, pair violations) is judged
    by it; what needs a tree (accuracy by depth, prototypes, the error tree, the report) by its projection by
    the ODIR rule, in which every node stays.

    Attributes:
        tree: tree of the labels as protocols hold them.
        judge: the taxonomy that was given.
        judged: ``(num_nodes,)`` the judge's node of each node of the tree.
        placed: ``(num_nodes,)`` the tree's node of each node of the judge.
    """

    tree: Taxonomy
    judge: AnyTaxonomy
    judged: Tensor
    placed: Tensor

    @classmethod
    def of(cls, taxonomy: AnyTaxonomy) -> JudgingTaxonomy:
        """What a taxonomy is judged by; a tree is its own judge."""
        if isinstance(taxonomy, Taxonomy):
            same = torch.arange(taxonomy.num_nodes)
            return cls(taxonomy, taxonomy, same, same)
        tree, placed = taxonomy.project("odir")
        return cls(tree, taxonomy, torch.argsort(placed), placed)

    def in_judge(self, nodes: Tensor) -> Tensor:
        """Nodes of the tree, none missing, as nodes of the judge."""
        return self.judged[nodes]

    def table(self, table: EmbeddingTable) -> EmbeddingTable:
        """A table with labels and answers of the judge as one with those of the tree."""
        if self.tree is self.judge:
            return table
        return _with_nodes(table, self.placed)

    def notes(self) -> list[str]:
        """Sentences that say which of the two is read for what."""
        if self.tree is self.judge:
            return []
        return [
            "The taxonomy is a DAG. Hierarchical F1, tree accuracy, severity of mistakes, AHP and pair "
            "violations are measured on it; what needs a tree, on the one in which each class keeps the "
            "parent nearest the root (the ODIR rule)."
        ]


def translate(table: EmbeddingTable, source: AnyTaxonomy, target: AnyTaxonomy, where: str) -> EmbeddingTable:
    """A table whose labels and answers are nodes of one taxonomy as one of another.

    Nodes are matched by path, else by name. An answer that is not there is no answer (-1).

    Args:
        table: with nodes of ``source``.
        source: the taxonomy of its nodes.
        target: the taxonomy that they should belong to.
        where: what to call ``target`` in an error.

    Raises:
        DataError: if a label of the table is not in ``target``, or not certainly.
    """
    matching = match_nodes(source, target)
    used = torch.unique(table.nodes[table.nodes >= 0])
    lost = used[matching.nodes[used] < 0].tolist()
    if lost:
        ambiguous = set(matching.ambiguous)
        names = some([source.path_name(node) for node in lost])
        twice = [source.names[node] for node in lost if node in ambiguous]
        hint = f" ({some(twice, 2)} occurs there several times)" if twice else ""
        raise DataError(
            f"{len(lost)} of {len(used)} labels are not in {where}: {names}{hint}; labels are matched by "
            "path, else by name: call them alike"
        )
    return _with_nodes(table, matching.nodes)


def _with_nodes(table: EmbeddingTable, places: Tensor) -> EmbeddingTable:
    answers = table.predictions
    return replace(
        table,
        nodes=_look_up(places, table.nodes),
        predictions=None if answers is None else _look_up(places, answers),
    )


def _look_up(places: Tensor, nodes: Tensor) -> Tensor:
    return torch.where(nodes >= 0, places[nodes.clamp(min=0)], -1)
