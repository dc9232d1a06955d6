"""The taxonomy that an evaluation measures against and, for a DAG, its projection to a tree."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeltree.decisions.classifiers import ClassScores, classify, merging_temperature, remap_classes
from labeltree.errors import DataError
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import AnyTaxonomy, Taxonomy
from labeltree.taxonomy.check_nodes import moved_nodes, trust_labels
from labeltree.taxonomy.label_index import LabelIndex
from labeltree.taxonomy.naming import some
from labeltree.taxonomy.versions.between_versions import VersionChange
from labeltree.taxonomy.versions.matching import match_labels

__all__ = ["JudgingTaxonomy", "carry_over", "translate"]


@dataclass(frozen=True)
class JudgingTaxonomy:
    """The taxonomy of an evaluation and, if it is a DAG, its projection to a tree.

    Metrics that are defined on a DAG (hierarchical F1, tree accuracy, severity, HP and AHP, pair violations)
    use the given taxonomy; whatever needs a tree (accuracy by depth, prototypes, the error tree, the report)
    uses its projection by the ODIR rule, which keeps every node.

    Attributes:
        tree: The tree whose nodes are the labels in protocols.
        judge: The taxonomy that was given.
        judged: `(num_nodes,)` node of `judge` for each node of `tree`.
        placed: `(num_nodes,)` node of `tree` for each node of `judge`.
    """

    tree: Taxonomy
    judge: AnyTaxonomy
    judged: Tensor
    placed: Tensor

    @classmethod
    def of(cls, taxonomy: AnyTaxonomy) -> JudgingTaxonomy:
        """From a tree, which is its own projection, or a DAG, which is projected to a tree."""
        if isinstance(taxonomy, Taxonomy):
            same = torch.arange(taxonomy.num_nodes)
            return cls(taxonomy, taxonomy, same, same)
        tree, placed = taxonomy.project("odir")
        return cls(tree, taxonomy, torch.argsort(placed), placed)

    def in_judge(self, nodes: Tensor) -> Tensor:
        """Nodes of `tree`, none missing, as nodes of `judge`."""
        return self.judged[nodes]

    def table(self, table: EmbeddingTable) -> EmbeddingTable:
        """A table whose labels and answers are nodes of `judge`, with nodes of `tree` instead."""
        if self.tree is self.judge:
            return table
        return _replace_nodes(table, self.placed)

    def table_of_judge(self, table: EmbeddingTable) -> EmbeddingTable:
        """A table whose labels and answers are nodes of `tree`, with nodes of `judge` instead."""
        return table if self.tree is self.judge else _replace_nodes(table, self.judged)

    def reading_every_path(self) -> Taxonomy:
        """`tree`, which finds a node by every path that it has in `judge`."""
        if self.tree is self.judge:
            return self.tree
        tree, placed = self.tree, self.placed.numpy()
        children, parents = (placed[ends] for ends in self.judge.numbering.edges)
        paths = LabelIndex(
            tree.names, tree.numbering.main_parent, parents, children, lambda: tree.aliases, tree.considered
        )
        return tree.reading(paths)

    def notes(self) -> list[str]:
        """Sentences on which measures use the DAG and which its projection; empty for a tree."""
        if self.tree is self.judge:
            return []
        return [
            "The taxonomy is a DAG. Hierarchical F1, tree accuracy, severity of mistakes, AHP and pair "
            "violations are measured on it; what needs a tree, on the one in which each class keeps the "
            "parent nearest the root (the ODIR rule)."
        ]


def translate(table: EmbeddingTable, source: AnyTaxonomy, target: AnyTaxonomy, where: str) -> EmbeddingTable:
    """Translate the labels and answers of a table from one taxonomy to another.

    Nodes are matched by path, else by name, else by the ids and synonyms of `target`. An answer that `target`
    does not have becomes −1 (no answer).

    Args:
        table: Table with nodes of `source`.
        source: Taxonomy of the table's nodes.
        target: Taxonomy to translate to.
        where: Name of `target` in error messages.

    Raises:
        DataError: If a label of the table has no match in `target`, or more than one.
    """
    matching = match_labels(source, target)
    used = torch.unique(table.nodes[table.nodes >= 0])
    lost = used[matching.nodes[used] < 0].tolist()
    if lost:
        ambiguous = set(matching.ambiguous)
        names = some([source.path_name(node) for node in lost])
        twice = [source.names[node] for node in lost if node in ambiguous]
        hint = f" ({some(twice, 2)} occurs there several times)" if twice else ""
        raise DataError(
            f"{len(lost)} of {len(used)} labels are not in {where}: {names}{hint}; labels are matched by "
            "path, else by name, id or synonym: call them alike"
        )
    return _replace_nodes(table, matching.nodes)


def carry_over(
    table: EmbeddingTable, change: VersionChange, where: str, own: ClassScores | None = None
) -> EmbeddingTable:
    """Carry the labels and answers of a table over to another version of its taxonomy.

    A label whose node was removed becomes the node above, one whose node was split the node above the parts.

    Args:
        table: Table with nodes of the old taxonomy.
        change: The step to the new one.
        where: Name of the new taxonomy in error messages.
        own: The classifier that gave the table's answers, with classes in the old taxonomy, if it has scores.
            Where classes of it are merged, their probabilities are added up before the best is taken.

    Raises:
        DataError: If no label is left below the root.
    """
    trust_labels(change.mapping.new)  # labels of a removed class may be at the root
    moved = _replace_nodes(table, change.places)
    used = torch.unique(table.nodes[table.nodes > 0])
    if len(used) and not bool((moved.nodes > 0).any()):
        old = change.mapping.old
        raise DataError(
            f"none of the {len(used)} labels is in {where}: "
            f"{some([old.path_name(node) for node in used.tolist()])}; a mapping says what became of them, "
            "see 'labeltree taxonomy map'"
        )
    if own is None or table.features is None or table.predictions is None or not len(table):
        return moved
    places = change.places[own.classes]
    if len(torch.unique(places)) == len(places):
        return moved
    split = np.full(len(table), "") if table.split is None else np.asarray(table.split)
    held = table.rows(torch.from_numpy(np.flatnonzero(split == "val")))
    merged = remap_classes(own, places, merging_temperature(own, held, change.mapping.old))
    answers = torch.where(table.predictions >= 0, classify(merged, table), -1)
    return replace(moved, predictions=answers)


def _replace_nodes(table: EmbeddingTable, places: Tensor) -> EmbeddingTable:
    columns = {name: getattr(table, name) for name in ("label_sets", "predictions")}
    moved: dict[str, Any] = {
        name: moved_nodes(nodes, places) for name, nodes in columns.items() if nodes is not None
    }
    # answers of other depths have no place among those of this tree
    return replace(table, nodes=moved_nodes(table.nodes, places), depth_predictions=None, **moved)
