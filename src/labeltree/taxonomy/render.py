"""The tree as indented text for people."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labeltree.taxonomy.structure import TreeStructure

__all__ = ["render_lines"]

DEEPEST = 200  # indentation makes the text quadratic in the depth


def render_lines(
    tree: "TreeStructure", names: list[str], max_depth: int | None = None, max_children: int | None = None
) -> Iterator[str]:
    """One line a node; what is left out is counted where it would stand."""
    for argument, value in (("max_depth", max_depth), ("max_children", max_children)):
        if value is not None and value < 1:
            raise ValueError(f"{argument}={value}, expected at least 1, or None for no limit")
    deepest = DEEPEST if max_depth is None else max_depth
    yield names[0]
    stack = [("", child, last) for child, last in _children(tree, 0, max_children)][::-1]
    while stack:
        indent, node, last = stack.pop()
        branch, below = ("└── ", "    ") if last else ("├── ", "│   ")
        if node < 0:
            yield f"{indent}└── … {-node} more"
            continue
        hidden = int(tree.subtree_end[node]) - node - 1 if int(tree.depth[node]) >= deepest else 0
        yield f"{indent}{branch}{names[node]}{f'  ({hidden} below)' if hidden else ''}"
        if not hidden:
            children = _children(tree, node, max_children)
            stack.extend((indent + below, child, end) for child, end in reversed(children))


def _children(tree: "TreeStructure", node: int, limit: int | None) -> list[tuple[int, bool]]:
    """The children with whether each is the last line; -k in place of k children beyond the limit."""
    children = tree.children(node)
    if limit is not None and len(children) > limit:
        children = [*children[:limit], limit - len(children)]
    return [(child, i == len(children) - 1) for i, child in enumerate(children)]
