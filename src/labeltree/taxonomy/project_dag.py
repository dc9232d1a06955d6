"""Projection of a DAG to a tree: rules for the parent that each node keeps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labeltree.errors import TaxonomyError
from labeltree.lazy import torch
from labeltree.options.choices import ProjectionRule
from labeltree.taxonomy.check_nodes import NodesLike, as_nodes
from labeltree.taxonomy.taxonomy_graph import Graph

__all__ = [
    "Choice",
    "KeptTree",
    "ProjectionRule",
    "keep_parents",
    "list_choices",
    "nearest_root",
    "yolo9000",
]

_OUT = -2
_ID = re.compile(r"[A-Za-z][\w.-]*[:_]\w+")


class KeptTree(NamedTuple):
    """A tree among the nodes of a DAG: names, the index of each node's parent, and the node in the DAG."""

    names: list[str]
    parents: list[int]
    nodes: list[int]


def keep_parents(dag: Graph, parent: Sequence[int]) -> KeptTree:
    """The tree in which each node keeps one parent; -2 leaves a node out."""
    nodes = [node for node in range(len(dag)) if parent[node] != _OUT]
    place = {node: i for i, node in enumerate(nodes)}
    names = [dag.names[node] for node in nodes]
    return KeptTree(names, [place.get(parent[node], -1) for node in nodes], nodes)


class Choice(NamedTuple):
    """A node of a DAG with several parents, in the tree that was made of it.

    Attributes:
        node: The node.
        kept: The parent that it keeps.
        dropped: Its other parents.
    """

    node: int
    kept: int
    dropped: tuple[int, ...]


def list_choices(dag: Graph, tree: Graph, places: NodesLike) -> list[Choice]:
    """The nodes of a tree that had several parents in its DAG, with the parent that each kept.

    Args:
        dag: The DAG.
        tree: The tree.
        places: (N,) node in the tree of each node of the DAG, -1 if it was left out.
    """
    place: list[int] = torch.as_tensor(places).tolist()
    back = {at: node for node, at in enumerate(place) if at >= 0}
    choices = []
    for node in np.flatnonzero(dag.numbering.num_parents > 1).tolist():
        if place[node] < 0:
            continue
        kept = back[int(tree.numbering.main_parent[place[node]])]
        choices.append(Choice(node, kept, tuple(p for p in dag.parents(node) if p != kept)))
    return choices


def nearest_root(dag: Graph, frequencies: NodesLike | None) -> list[int]:
    """The ODIR rule: of several parents each node keeps the one nearest the root (Section 4.1 of Climbing the
    Label Tree).

    Ties go to the parent with more samples at or below it, then to the first by id if all have one, else by
    name: the order of a file changes no tree, nor does a new name of a node that has an id.

    Args:
        dag: The DAG to project.
        frequencies: (N,) number of training samples labelled with each node; None means 0 for all.
    """
    weight = np.zeros(len(dag))
    several = np.flatnonzero(dag.numbering.num_parents > 1).tolist()
    if frequencies is not None:
        weight = _below(dag, _check(dag, frequencies), {p for node in several for p in dag.parents(node)})
    main_parent: list[int] = dag.numbering.main_parent.tolist()
    depth = dag.numbering.depth.tolist()
    for node in several:
        ids = {parent: _id_of(dag, parent) for parent in dag.parents(node)}
        called = ids if all(ids.values()) else {parent: dag.names[parent] for parent in ids}
        main_parent[node] = min(called, key=lambda p: (depth[p], -weight[p], called[p], p))
    return main_parent


def _id_of(dag: Graph, node: int) -> str:
    """The id of a node among its further names, such as `CL:0000540`; empty without one."""
    return next((name for name in dag.aliases_of(node) if _ID.fullmatch(name)), "")


def _check(dag: Graph, frequencies: NodesLike) -> NDArray[np.float64]:
    given = torch.as_tensor(frequencies)
    if given.shape != (len(dag),) or given.dtype == torch.bool or not bool((given >= 0).all()):
        raise ValueError(
            f"frequencies has shape {tuple(given.shape)} and dtype {given.dtype}; expected a number of "
            f"samples, at least 0, for each of the {len(dag)} nodes"
        )
    return given.double().numpy()


def _below(dag: Graph, counts: NDArray[np.float64], wanted: set[int]) -> NDArray[np.float64]:
    """Number of samples at or below each wanted node, each counted once however many paths lead to it."""
    total = np.zeros(len(dag))
    for node in wanted:
        total[node] = counts[dag.descendants(node).numpy()].sum()
    return total


def yolo9000(dag: Graph, classes: NodesLike | None) -> list[int]:
    """The YOLO9000 rule: classes with one path to the root come first, the others add as few nodes as
    possible (Section 4 of YOLO9000; Section 3.1 of Barz & Denzler 2019).

    The others come in node order. Each gets the path that adds the fewest nodes to the tree built so far;
    ties go to the path that is shortest to the root, then to the one whose nodes, from the tree down, have
    the smallest numbers. Nodes on no added path are left out.

    Args:
        dag: The DAG to project.
        classes: (C,) nodes that the tree must contain; None means the leaves.
    """
    if classes is None:
        wanted = np.flatnonzero(dag.numbering.is_leaf)
    else:
        wanted = as_nodes(classes, len(dag), "classes").flatten().numpy()
    if (wanted < 0).any():
        raise TaxonomyError(f"classes[{int(np.argmax(wanted < 0))}] is a missing label, no class")
    parent, depth = [_OUT] * len(dag), [0] * len(dag)
    parent[0] = -1
    single = _has_one_path(dag)
    order = np.unique(wanted).tolist()
    for node in [*(n for n in order if single[n]), *(n for n in order if not single[n])]:
        path = _shortest_way_in(dag, node, parent, depth)
        for below, above in pairwise(path):
            parent[below] = above
        for below in reversed(path[:-1]):
            depth[below] = depth[parent[below]] + 1
    return parent


def _has_one_path(dag: Graph) -> list[bool]:
    single = [True] * len(dag)
    for node in range(1, len(dag)):
        above = dag.parents(node)
        single[node] = len(above) == 1 and single[above[0]]
    return single


def _shortest_way_in(dag: Graph, node: int, parent: list[int], depth: list[int]) -> list[int]:
    """The shortest path from a node up to the first node that is in the tree, including both."""
    if parent[node] != _OUT:
        return [node]
    layers, seen = [{node}], {node}
    while True:
        above = {p for n in layers[-1] for p in dag.parents(n)}
        arrived = [p for p in above if parent[p] != _OUT]
        if arrived:
            break
        layers.append(above - seen)
        seen |= above
    way = [min(arrived, key=lambda p: (depth[p], p))]
    for layer in reversed(layers):
        way.append(min(n for n in layer if way[-1] in dag.parents(n)))
    return way[::-1]
