"""A taxonomy described for people: as indented text, and warnings about what may be unintended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from labeltree.taxonomy.naming import some
from labeltree.taxonomy.placeholders import placeholder_sentences
from labeltree.taxonomy.taxonomy_graph import Graph

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["render", "review", "review_parents"]

DEEPEST = 200  # indentation makes the text quadratic in the depth


def render(graph: Graph, max_depth: int | None, max_children: int | None) -> str:
    """One line per edge; what is below a node appears only under its `main_parent`. See `Taxonomy.render`."""
    for argument, value in (("max_depth", max_depth), ("max_children", max_children)):
        if value is not None and value < 1:
            raise ValueError(f"{argument}={value}, expected at least 1, or None for no limit")
    return "\n".join(_lines(graph, DEEPEST if max_depth is None else max_depth, max_children))


def _lines(graph: Graph, max_depth: int, max_children: int | None) -> Iterator[str]:
    main = graph.numbering.main_parent.tolist()
    yield graph.names[0]
    stack = [("", 1, 0, child, last) for child, last in _children(graph, 0, max_children)][::-1]
    while stack:
        indent, depth, parent, node, last = stack.pop()
        branch, below = ("└── ", "    ") if last else ("├── ", "│   ")
        if node < 0:
            yield f"{indent}└── … {-node} more"
            continue
        if parent != main[node]:
            yield f"{indent}{branch}{graph.names[node]}  (see {graph.path_name(node)})"
            continue
        children = _children(graph, node, max_children)
        if depth >= max_depth:
            hidden = f"  ({graph.num_below(node)} below)" if children else ""
            yield f"{indent}{branch}{graph.names[node]}{hidden}"
            continue
        yield f"{indent}{branch}{graph.names[node]}"
        stack.extend((indent + below, depth + 1, node, child, end) for child, end in reversed(children))


def _children(graph: Graph, node: int, limit: int | None) -> list[tuple[int, bool]]:
    """The children, each with whether it is the last line; -k in place of k children beyond the limit."""
    children = graph.children(node)
    if limit is not None and len(children) > limit:
        children = [*children[:limit], limit - len(children)]
    return [(child, i == len(children) - 1) for i, child in enumerate(children)]


def review(tree: Graph, nodes: Tensor | None = None) -> list[str]:
    """All warnings, one sentence per kind of finding; see `Taxonomy.check`."""
    findings = (
        _leaf_count,
        _flat,
        _single_root_child,
        _single_children,
        _warn_of_ragged,
        _warn_of_repeated,
        _look_alikes,
    )
    sentences = [sentence for finding in findings if (sentence := finding(tree))]
    return [*sentences, *placeholder_sentences(tree, nodes)]


def review_parents(dag: Graph) -> list[str]:
    """Which nodes of a DAG have several parents, and which edges are redundant; see `TaxonomyDAG.check`."""
    several = np.flatnonzero(dag.numbering.num_parents > 1).tolist()
    if not several:
        return ["every node has one parent: this is a tree, which Taxonomy can read"]
    sentences = [
        f"{_count_of(len(several), 'node has', 'nodes have')} several parents: {_places(dag, several)}; "
        "losses need a tree, which project() makes"
    ]
    needless = []
    for node in several:
        above = dag.parents(node)
        beyond = {a for parent in above for a in dag.ancestors_of(parent)}
        needless += [(node, parent) for parent in above if parent in beyond]
    if needless:
        node, parent = needless[0]
        edges = _count_of(len(needless), "edge repeats", "edges repeat")
        sentences.append(
            f"{edges} a longer path, such as the edge from {dag.path_name(node)!r} to "
            f"{dag.path_name(parent)!r}, which is above another of its parents"
        )
    return sentences


def _leaf_count(tree: Graph) -> str:
    """A warning if there is only one leaf."""
    return "there is only one leaf: no two labels can differ" if tree.num_leaves == 1 else ""


def _flat(tree: Graph) -> str:
    flat = tree.num_leaves == tree.num_nodes - 1
    return f"the tree is flat: all {tree.num_leaves} leaves are children of the root" if flat else ""


def _single_root_child(tree: Graph) -> str:
    children = tree.children(0)
    if len(children) > 1 or tree.num_leaves == 1:
        return ""
    return (
        f"the root {tree.names[0]!r} has the single child {tree.names[children[0]]!r}: all labels agree "
        "at depth 1; root_name=None makes the outermost name the root"
    )


def _single_children(tree: Graph) -> str:
    single = [node for node in np.flatnonzero(tree.numbering.num_children == 1).tolist() if node]
    if not single:
        return ""
    return f"{_count_of(len(single), 'node has', 'nodes have')} a single child: {_places(tree, single)}"


def _warn_of_ragged(tree: Graph) -> str:
    """A warning with the depths of the leaves, if there are several."""
    counts = np.bincount(tree.numbering.depth[tree.numbering.is_leaf]).tolist()
    depths = [depth for depth, count in enumerate(counts) if count]
    if len(depths) == 1:
        return ""
    listed = ", ".join(f"{counts[depth]} at depth {depth}" for depth in depths[:8])
    more = f", and so on down to depth {depths[-1]}" if len(depths) > 8 else ""
    return f"the leaves lie at different depths: {listed}{more}"


def _warn_of_repeated(tree: Graph) -> str:
    """A warning with the names that occur more than once."""
    counts = Counter(tree.names)
    repeated = [name for name, count in counts.items() if count > 1]
    if not repeated:
        return ""
    example = [node for node, name in enumerate(tree.names) if name == repeated[0]]
    return (
        f"{_count_of(len(repeated), 'name occurs', 'names occur')} more than once, {some(repeated)}; "
        f"such labels must be given by path, {_places(tree, example)}"
    )


def _look_alikes(tree: Graph) -> str:
    start, children = (values.tolist() for values in (tree.numbering.child_start, tree.numbering.children))
    alike = []
    for parent in np.flatnonzero(tree.numbering.num_children > 1).tolist():
        seen: dict[str, int] = {}
        for node in children[start[parent] : start[parent + 1]]:
            plain = " ".join(tree.names[node].casefold().replace("_", " ").replace("-", " ").split())
            first = seen.setdefault(plain, node)
            if first != node:
                alike.append((node, parent, first))
    pairs = [f"{tree.path_name(first)!r} and {tree.path_name(node)!r}" for node, _, first in sorted(alike)]
    if not pairs:
        return ""
    more = f", and {len(pairs) - 3} more pairs" if len(pairs) > 3 else ""
    return f"siblings differ only in case, spaces or hyphens: {', '.join(pairs[:3])}{more}"


def _count_of(number: int, one: str, several: str) -> str:
    """A number with the words for one or several."""
    return f"{number} {one if number == 1 else several}"


def _places(tree: Graph, nodes: list[int]) -> str:
    """The first few nodes by path, and how many more."""
    shown = ", ".join(repr(tree.path_name(node)) for node in nodes[:5])
    return f"{shown} and {len(nodes) - 5} more" if len(nodes) > 5 else shown
