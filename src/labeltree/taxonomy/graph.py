"""The taxonomy whose nodes may have several parents."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.graph_build import GraphEntries
from labeltree.taxonomy.graph_embeddings import cholesky_of_graph
from labeltree.taxonomy.graph_numbering import number_graph
from labeltree.taxonomy.graph_review import review_graph
from labeltree.taxonomy.graph_sources import GraphSources
from labeltree.taxonomy.graph_structure import GraphStructure
from labeltree.taxonomy.labels import LabelIndex
from labeltree.taxonomy.named import NamedNodes
from labeltree.taxonomy.naming import clean_name, some, tidy
from labeltree.taxonomy.nodes import NodesLike
from labeltree.taxonomy.numbering import number
from labeltree.taxonomy.projection import PROJECTIONS, ProjectionRule, keep, mapping, nearest_root, yolo9000
from labeltree.taxonomy.render import graph_lines
from labeltree.taxonomy.tree import Taxonomy

__all__ = ["TaxonomyDAG"]


class TaxonomyDAG(GraphSources, NamedNodes, GraphStructure):
    """A directed acyclic graph of named nodes with one root, as WordNet is one; a label is one of its nodes.

    Metrics accept it. What needs a tree (losses, samplers, the report) runs on one that `project` makes of
    it: a run may train on the tree and be evaluated on the DAG.

    Nodes are numbered so that each comes after its parents; a tree keeps its numbers. Names need be unique
    under one parent only, and a node may be named by any of its paths.

    Args:
        names: a name for each node, in any order of nodes.
        parents: for each node, the indices of its parents in `names`; none for the root.

    Raises:
        TaxonomyError: if this is no DAG of named nodes with one root; the message says what is wrong.

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
        _check_entries(names, parents)
        names = [tidy(name) or clean_name(name, f"node {i}") for i, name in enumerate(names)]
        numbering = number_graph(names, parents)
        if len(names) < 2:
            raise TaxonomyError("the taxonomy has no node below the root; give it at least one")
        GraphStructure.__init__(self, numbering)
        self.__dict__["names"] = [names[i] for i in numbering.order]
        self._check_siblings()

    def entries(self) -> GraphEntries:
        """Names and parents of the nodes: what the DAG was made of, in its own order."""
        return GraphEntries(list(self.names), [self.parents(node) for node in range(len(self))])

    @cached_property
    def _labels(self) -> LabelIndex:
        edges = ((parent, node) for node in range(len(self)) for parent in self.parents(node))
        return LabelIndex(self.names, self.main_parent.tolist(), edges)

    @cached_property
    def is_tree(self) -> bool:
        """Whether no node has several parents."""
        return self.num_edges == self.num_nodes - 1

    def to_tree(self) -> Taxonomy:
        """The DAG as a `Taxonomy`, with the same nodes.

        Raises:
            TaxonomyError: if a node has several parents.
        """
        if not self.is_tree:
            node = next(node for node in range(len(self)) if len(self.parents(node)) > 1)
            above = some([self.path_name(parent) for parent in self.parents(node)])
            raise TaxonomyError(
                f"node {self.names[node]!r} has several parents, {above}; project() makes a tree of a DAG"
            )
        return Taxonomy(self.names, self.main_parent.tolist())

    def below(self, node: int) -> tuple[Self, Tensor]:
        """The DAG of the nodes at or below a node, and where each node went: (N,), -1 for the others."""
        nodes = self.descendants(node)
        place = torch.full((len(self),), -1)
        place[nodes] = torch.arange(len(nodes))
        parents = [[int(place[p]) for p in self.parents(n) if place[p] >= 0] for n in nodes.tolist()]
        parents[0] = []
        found = type(self)([self.names[n] for n in nodes.tolist()], parents)
        place[nodes[torch.from_numpy(found._numbering.order)]] = torch.arange(len(nodes))
        return found, place

    def project(
        self,
        rule: ProjectionRule = "odir",
        frequencies: NodesLike | None = None,
        classes: NodesLike | None = None,
    ) -> tuple[Taxonomy, Tensor]:
        """Make a tree by a named rule that chooses one parent for each node.

        - `odir`: the parent nearest the root, of equally near ones the one with more samples at or below it,
          then the first by name (Section 4.1 of Climbing the Label Tree). All nodes stay.
        - `yolo9000`: classes with a single path to the root come first; each other one adds the path that
          adds the fewest nodes (Section 3.1 of Barz & Denzler 2019). Nodes on no such path fall out.

        Every path of the tree is a path of the DAG, and a tree is projected to itself.

        Args:
            rule: `odir` or `yolo9000`.
            frequencies: for `odir`, (N,) training samples labelled with each node; None counts none.
            classes: for `yolo9000`, (C,) nodes that must stay; None takes the leaves.

        Returns:
            The tree, and for each node of the DAG, (N,), its node in the tree, -1 if it fell out.

        Raises:
            ValueError: for an unknown rule, or an argument of the other one.
        """
        if rule not in PROJECTIONS:
            raise ValueError(f"rule is {rule!r}; expected {' or '.join(map(repr, PROJECTIONS))}")
        other = ("classes", classes) if rule == "odir" else ("frequencies", frequencies)
        if other[1] is not None:
            raise ValueError(f"{other[0]} is given, which the rule {rule!r} does not use; leave it out")
        parent = nearest_root(self, frequencies) if rule == "odir" else yolo9000(self, classes)
        kept = keep(self, parent)
        tree = Taxonomy(*kept.entries)
        return tree, mapping(len(self), kept, number(*kept.entries).order)

    def class_embeddings(self, classes: NodesLike | None = None) -> Tensor:
        """Vectors of classes whose inner products are their similarities, if there are any.

        On a DAG there need be none: a class may be like two others that are not alike.

        Args:
            classes: (C,) distinct leaves; all by default.

        Returns:
            (C, C) float64, the lower Cholesky factor of the similarities.

        Raises:
            TaxonomyError: if a class is missing, given twice or no leaf; or if there are no such vectors,
                naming the classes that are to blame. A tree that `project` makes always has them.
        """
        return cholesky_of_graph(self, classes)

    def check(self) -> list[str]:
        """Warnings about what may be unintended, one sentence each, as of a tree; and how many nodes have
        several parents, and which edges say nothing because a finer path says it too.
        """
        return review_graph(self)

    def render(self, max_depth: int | None = None, max_children: int | None = None) -> str:
        """The DAG as indented text. A node stands under each of its parents; what is below it stands once.

        Args:
            max_depth: the depth of the finest nodes shown (None: all, down to depth 200).
            max_children: how many children of each node are shown (None: all).
        """
        return "\n".join(graph_lines(self, max_depth, max_children))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TaxonomyDAG):
            return NotImplemented
        return self.names == other.names and self._key == other._key

    @cached_property
    def _key(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        numbering = self._numbering
        return tuple(numbering.parent_start.tolist()), tuple(numbering.parents.tolist())

    @cached_property
    def _hash(self) -> int:
        return hash((tuple(self.names), self._key))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self.entries())

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.num_nodes} nodes, {self.num_edges} edges, "
            f"{self.num_leaves} leaves, depth {self.max_depth})"
        )

    def _check_siblings(self) -> None:
        for node in range(len(self)):
            seen: set[str] = set()
            for child in self.children(node):
                name = self.names[child]
                if name in seen:
                    above = repr(self.path_name(node)) if node else "the root"
                    raise TaxonomyError(
                        f"{above} has two children named {name!r}; names may repeat, but not under one parent"
                    )
                seen.add(name)


def _check_entries(names: Sequence[str], parents: Sequence[Sequence[int]]) -> None:
    if len(names) != len(parents):
        raise TaxonomyError(
            f"there are {len(names)} names for {len(parents)} lists of parents; every node needs one of each"
        )
    for node, above in enumerate(parents):
        for parent in above:
            if not 0 <= parent < len(names):
                raise TaxonomyError(
                    f"node {names[node]!r} has the unknown parent {parent}: there are {len(names)} nodes"
                )
        if len(set(above)) < len(above):
            raise TaxonomyError(f"node {names[node]!r} has the same parent twice; remove one of the edges")
