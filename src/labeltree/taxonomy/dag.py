"""A taxonomy whose nodes may have several parents, and a file of either kind of taxonomy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from labeltree.checks import check_choice
from labeltree.errors import TaxonomyError
from labeltree.lazy import torch
from labeltree.taxonomy.check_nodes import NodesLike
from labeltree.taxonomy.class_embeddings import cholesky_of_dag
from labeltree.taxonomy.description import render, review, review_parents
from labeltree.taxonomy.files.entries import Entries, entries_of_dag, entries_of_tree
from labeltree.taxonomy.files.taxonomy_files import read_taxonomy
from labeltree.taxonomy.html_tree import html_tree
from labeltree.taxonomy.naming import some
from labeltree.taxonomy.project_dag import ProjectionRule, keep_parents, nearest_root, yolo9000
from labeltree.taxonomy.taxonomy_graph import Graph
from labeltree.taxonomy.tree import Taxonomy

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["AnyTaxonomy", "TaxonomyDAG", "check_tree", "load_taxonomy"]


class TaxonomyDAG(Graph):
    """A directed acyclic graph of named nodes with one root, such as WordNet; a label is one of its nodes.

    Metrics accept it. Losses, samplers and the report need a tree, which `project` makes from the DAG: a run
    may train on the tree and be evaluated on the DAG.

    Nodes are numbered so that each comes after its parents; a tree keeps its numbers. Names need to be unique
    only among the children of one parent, and any path of a node identifies it.

    Args:
        names: a name for each node, in any order of nodes.
        parents: For each node, the indices of its parents in `names`; none for the root.

    Its attributes are those of `Graph`: `names`, `main_parent`, `depth`, `height`, `is_leaf`, `leaves`,
    `num_nodes`, `num_edges`, `num_leaves`, `max_depth` (L) and `max_height` (H).

    Raises:
        TaxonomyError: If the nodes do not form a DAG with one root; the message says what is wrong.

    Example:
        >>> edges = [("vehicle", "thing"), ("golf", "thing"), ("car", "vehicle"), ("ball", "golf")]
        >>> dag = TaxonomyDAG.from_edges([*edges, ("golf cart", "vehicle"), ("golf cart", "golf")])
        >>> dag
        TaxonomyDAG(6 nodes, 6 edges, 3 leaves, depth 2)
        >>> cart, car, ball = dag.encode(["golf/golf cart", "car", "ball"])
        >>> dag.decode(dag.lca(cart, [car, ball])), dag.lca_height(car, ball).item()
        (['vehicle', 'golf'], 2)
        >>> tree, nodes = dag.project("odir")
        >>> tree.path_name(nodes[cart].item())
        'golf/golf cart'
    """

    def __init__(self, names: Sequence[str], parents: Sequence[Sequence[int]]) -> None:
        super().__init__(entries_of_dag(names, parents))

    @classmethod
    def from_tree(cls, tree: Taxonomy) -> Self:
        """A tree as a DAG, with the same nodes."""
        return cls._of(tree.entries())

    @cached_property
    def is_tree(self) -> bool:
        """Whether no node has several parents."""
        return self.num_edges == self.num_nodes - 1

    def to_tree(self) -> Taxonomy:
        """The DAG as a `Taxonomy`, with the same nodes.

        Raises:
            TaxonomyError: If a node has several parents.
        """
        if not self.is_tree:
            node = int(np.flatnonzero(self.numbering.num_parents > 1)[0])
            above = some([self.path_name(parent) for parent in self.parents(node)])
            raise TaxonomyError(
                f"node {self.names[node]!r} has several parents, {above}; project() makes a tree of a DAG"
            )
        return Taxonomy._of(self.entries())

    def below(self, node: int) -> tuple[Self, Tensor]:
        """The DAG of the nodes at or below a node, and the new id of each node: (N,), -1 for the others."""
        return self.subgraph(self.descendants(node))

    def project(
        self,
        rule: ProjectionRule = "odir",
        frequencies: NodesLike | None = None,
        classes: NodesLike | None = None,
    ) -> tuple[Taxonomy, Tensor]:
        """Make a tree by a named rule that chooses one parent for each node.

        - `odir`: the parent nearest the root; in a tie the one with more samples at or below it (Section 4.1
          of Climbing the Label Tree), then the first by id, or by name where one has no id.
          All nodes stay.
        - `yolo9000`: classes with a single path to the root come first; each other class adds the path that
          needs the fewest new nodes (Section 3.1 of Barz & Denzler 2019). Nodes on no such path are dropped.

        Every path of the tree is a path of the DAG; projecting a tree returns the same tree.

        Args:
            rule: `odir` or `yolo9000`.
            frequencies: For `odir`, (N,) number of training samples labelled with each node; None means 0 for
                all.
            classes: For `yolo9000`, (C,) nodes that must stay; None means the leaves.

        Returns:
            The tree, and the node in the tree of each node of the DAG, (N,), -1 if it was dropped.

        Raises:
            ValueError: For an unknown rule, or an argument that belongs to the other rule.
        """
        check_choice("rule", rule, ProjectionRule)
        other = ("classes", classes) if rule == "odir" else ("frequencies", frequencies)
        if other[1] is not None:
            raise ValueError(f"{other[0]} is given, which the rule {rule!r} does not use; leave it out")
        kept = keep_parents(
            self, nearest_root(self, frequencies) if rule == "odir" else yolo9000(self, classes)
        )
        aliases = [self.aliases[node] for node in kept.nodes] if self.aliases else ()
        entries = entries_of_tree(kept.names, kept.parents)
        tree = Taxonomy._of(
            entries._replace(aliases=aliases, considered=self.considered, release=self.release)
        )
        place = np.full(len(self), -1)
        place[np.array(kept.nodes)[tree.numbering.order]] = np.arange(len(tree))
        return tree, torch.from_numpy(place)

    def class_embeddings(self, classes: NodesLike | None = None) -> Tensor:
        """Vectors of classes whose inner products are their similarities, if such vectors exist.

        On a DAG they may not exist: a class may be similar to two others that are not similar.

        Args:
            classes: (C,) distinct leaves; all leaves by default.

        Returns:
            (C, C) float64, the lower Cholesky factor of the similarities.

        Raises:
            TaxonomyError: If a class is missing, given twice or not a leaf; or if there are no such vectors
                (the message names the classes that prevent them). They always exist for a tree made by
                `project`.
        """
        return cholesky_of_dag(self, classes)

    def check(self, nodes: Tensor | None = None) -> list[str]:
        """Warnings about what may be unintended, as for a tree; also how many nodes have several parents, and
        which edges are redundant because a longer path implies them.

        Args:
            nodes: Labels of samples `(n,)`, to count those of classes such as `unknown`.
        """
        return [*review_parents(self), *review(self, nodes)]

    def render(self, max_depth: int | None = None, max_children: int | None = None) -> str:
        """The DAG as indented text. A node stands under each parent; its subtree is shown only once.

        Args:
            max_depth: The depth of the finest nodes shown (None: all, down to depth 200).
            max_children: Largest number of children of each node shown (None: all).
        """
        return render(self, max_depth, max_children)

    def _repr_html_(self) -> str:
        return html_tree(self)


def check_tree(what: str, taxonomy: object) -> Taxonomy:
    """Return the taxonomy if it is a tree.

    Args:
        what: What needs one, in the plural.
        taxonomy: What was given.

    Raises:
        TaxonomyError: If it is a DAG.
        TypeError: If it is no taxonomy.
    """
    if isinstance(taxonomy, Taxonomy):
        return taxonomy
    if isinstance(taxonomy, TaxonomyDAG):
        raise TaxonomyError(
            f"{what} need a tree: on a DAG a node may have several parents, and several ancestors at one "
            "depth; project the DAG, and give labels as nodes of the tree"
        )
    given = f"'{taxonomy}'" if isinstance(taxonomy, str) else type(taxonomy).__name__
    file = "; load_taxonomy reads one from a file" if isinstance(taxonomy, str | os.PathLike) else ""
    raise TypeError(f"{what} need a labeltree.Taxonomy, got {given}{file}")


AnyTaxonomy = Taxonomy | TaxonomyDAG
"""A tree or a DAG: what metrics accept."""


def load_taxonomy(path: str | os.PathLike[str], root_name: str | None = "root") -> AnyTaxonomy:
    """Read a taxonomy file: a `Taxonomy` if every node has one parent, else a `TaxonomyDAG`.

    Args:
        path: As for `Taxonomy.from_file` and `TaxonomyDAG.from_file`.
        root_name: The name of the root above nested names or paths; None if they begin with the root.

    Raises:
        TaxonomyError: If the file is missing, unreadable or holds neither.
    """
    return read_taxonomy(path, root_name, tree_or_dag, several_parents=True)


def tree_or_dag(entries: Entries) -> AnyTaxonomy:
    """A tree if every node has one parent, else a DAG."""
    # so many edges are those of a tree; or there are several roots, which both classes refuse
    is_tree = len(entries.parents) < len(entries.names)
    return Taxonomy._of(entries) if is_tree else TaxonomyDAG._of(entries)
