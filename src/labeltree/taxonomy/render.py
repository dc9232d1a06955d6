"""A tree or a DAG as indented text for people."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from labeltree.taxonomy.graph import TaxonomyDAG
    from labeltree.taxonomy.structure import TreeStructure

__all__ = ["graph_lines", "render_lines"]

DEEPEST = 200  # indentation makes the text quadratic in the depth


class _Drawn(NamedTuple):
    """What is drawn of a node that stands under a parent: its text, its children, the number below."""

    text: Callable[[int, int], str]
    children: Callable[[int, int], list[int]]
    below: Callable[[int], int]


def render_lines(
    tree: "TreeStructure", names: list[str], max_depth: int | None = None, max_children: int | None = None
) -> Iterator[str]:
    """One line a node; what is left out is counted where it would stand."""
    drawn = _Drawn(
        text=lambda node, parent: names[node],
        children=lambda node, parent: tree.children(node),
        below=lambda node: int(tree.subtree_end[node]) - node - 1,
    )
    return _lines(drawn, max_depth, max_children)


def graph_lines(
    dag: "TaxonomyDAG", max_depth: int | None = None, max_children: int | None = None
) -> Iterator[str]:
    """One line an edge; what is below a node stands under its `main_parent` alone."""
    main = dag.main_parent.tolist()

    def text(node: int, parent: int) -> str:
        return dag.names[node] if parent == main[node] else f"{dag.names[node]}  (see {dag.path_name(node)})"

    drawn = _Drawn(
        text=text,
        children=lambda node, parent: dag.children(node) if parent == main[node] else [],
        below=lambda node: len(dag.descendants(node)) - 1,
    )
    return _lines(drawn, max_depth, max_children)


def _lines(drawn: _Drawn, max_depth: int | None, max_children: int | None) -> Iterator[str]:
    for argument, value in (("max_depth", max_depth), ("max_children", max_children)):
        if value is not None and value < 1:
            raise ValueError(f"{argument}={value}, expected at least 1, or None for no limit")
    deepest = DEEPEST if max_depth is None else max_depth
    yield drawn.text(0, -1)
    stack = [("", 1, 0, child, last) for child, last in _children(drawn, 0, -1, max_children)][::-1]
    while stack:
        indent, depth, parent, node, last = stack.pop()
        branch, below = ("└── ", "    ") if last else ("├── ", "│   ")
        if node < 0:
            yield f"{indent}└── … {-node} more"
            continue
        text, children = drawn.text(node, parent), _children(drawn, node, parent, max_children)
        if depth >= deepest:
            yield f"{indent}{branch}{text}{f'  ({drawn.below(node)} below)' if children else ''}"
            continue
        yield f"{indent}{branch}{text}"
        stack.extend((indent + below, depth + 1, node, child, end) for child, end in reversed(children))


def _children(drawn: _Drawn, node: int, parent: int, limit: int | None) -> list[tuple[int, bool]]:
    """The children with whether each is the last line; -k in place of k children beyond the limit."""
    children = drawn.children(node, parent)
    if limit is not None and len(children) > limit:
        children = [*children[:limit], limit - len(children)]
    return [(child, i == len(children) - 1) for i, child in enumerate(children)]
