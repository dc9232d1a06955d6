"""A taxonomy as indented text for people."""

from __future__ import annotations

from collections.abc import Iterator

from labeltree.taxonomy.graph import Graph

__all__ = ["render"]

DEEPEST = 200  # indentation makes the text quadratic in the depth


def render(graph: Graph, max_depth: int | None, max_children: int | None) -> str:
    """One line an edge; what is below a node stands under its `main_parent` alone. See `Taxonomy.render`."""
    for argument, value in (("max_depth", max_depth), ("max_children", max_children)):
        if value is not None and value < 1:
            raise ValueError(f"{argument}={value}, expected at least 1, or None for no limit")
    return "\n".join(_lines(graph, DEEPEST if max_depth is None else max_depth, max_children))


def _lines(graph: Graph, max_depth: int, max_children: int | None) -> Iterator[str]:
    main = graph.main_parent.tolist()
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
            hidden = f"  ({len(graph.descendants(node)) - 1} below)" if children else ""
            yield f"{indent}{branch}{graph.names[node]}{hidden}"
            continue
        yield f"{indent}{branch}{graph.names[node]}"
        stack.extend((indent + below, depth + 1, node, child, end) for child, end in reversed(children))


def _children(graph: Graph, node: int, limit: int | None) -> list[tuple[int, bool]]:
    """The children with whether each is the last line; -k in place of k children beyond the limit."""
    children = graph.children(node)
    if limit is not None and len(children) > limit:
        children = [*children[:limit], limit - len(children)]
    return [(child, i == len(children) - 1) for i, child in enumerate(children)]
