"""A taxonomy as HTML for notebooks: a tree that unfolds, without scripts."""

from __future__ import annotations

from collections import deque
from html import escape

from labeltree.taxonomy.taxonomy_graph import Graph

__all__ = ["html_tree"]

_MOST = 300  # nodes, those of coarse depths first
_CHILDREN = 50  # of a node, so that one with many leaves place for others
_OPEN = 30  # nodes that are unfolded at first


def html_tree(graph: Graph) -> str:
    """The taxonomy as nested `<details>`; of a large one the coarse nodes, with how many are left out.

    A node with several parents stands below its main one; elsewhere its path is named.
    """
    shown = _choose(graph)
    main = graph.numbering.main_parent.tolist()
    parts = [f"<div><p><code>{escape(repr(graph))}</code></p>"]
    stack: list[tuple[int, int] | str] = [(0, 0)]
    while stack:
        step = stack.pop()
        if isinstance(step, str):
            parts.append(step)
            continue
        parent, node = step
        name = escape(graph.names[node])
        if node and parent != main[node]:
            parts.append(f"<div>{name} (see {escape(graph.path_name(node))})</div>")
            continue
        children = graph.children(node)
        if not children:
            parts.append(f"<div>{name}</div>")
            continue
        below = shown.get(node, [])
        unfolded = " open" if node == 0 or len(shown) <= _OPEN else ""
        parts.append(f"<details{unfolded}><summary>{name} <small>({len(children)})</small></summary>")
        parts.append('<div style="margin-left:1.2em">')
        left = len(children) - len(below)
        stack.append("</div></details>")
        if left:
            stack.append(f"<div>… {left:,} more</div>")
        stack.extend((node, child) for child in reversed(below))
    return "".join([*parts, "</div>"])


def _choose(graph: Graph) -> dict[int, list[int]]:
    """The children that are shown of each node that is, as far as there is place."""
    main = graph.numbering.main_parent.tolist()
    shown: dict[int, list[int]] = {}
    place, waiting = _MOST, deque([0])
    while waiting and place > 0:
        node = waiting.popleft()
        shown[node] = graph.children(node)[: min(_CHILDREN, place)]
        place -= len(shown[node])
        waiting.extend(child for child in shown[node] if main[child] == node)
    return shown
