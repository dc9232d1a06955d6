"""The whole tree with its errors as data for the page's script, which draws only the rows in sight."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from labeltree.evaluation import TreeErrors
from labeltree.report.names import NodeNames
from labeltree.report.palette import TreeColours, nearness_colour
from labeltree.taxonomy import Taxonomy

__all__ = ["json_in_page", "tree_data"]


def tree_data(
    errors: TreeErrors,
    taxonomy: Taxonomy,
    colours: TreeColours,
    names: NodeNames,
    taken: Mapping[int, tuple[int, int]],
    samples: str,
) -> dict[str, Any]:
    """Columns in the order of the nodes, which is preorder: the script finds parents from the depths.

    Args:
        errors: of the evaluated method.
        taxonomy: the tree.
        colours: of its branches.
        names: of its nodes.
        taken: what each node is most often taken for.
        samples: what samples are called.
    """
    tallest = max(taxonomy.max_height, 1)
    branches = {branch.node: i for i, branch in enumerate(colours.branches)}
    within = [colours.branch_of(entry.node) for entry in errors.nodes]
    found = [taken.get(entry.node) for entry in errors.nodes]
    return {
        "samples_word": samples,
        "names": [taxonomy.names[entry.node] if entry.node else "All classes" for entry in errors.nodes],
        "depths": [entry.depth for entry in errors.nodes],
        "heights": taxonomy.height[[entry.node for entry in errors.nodes]].tolist(),
        "samples": [entry.samples for entry in errors.nodes],
        "wrong": [entry.wrong for entry in errors.nodes],
        "here": [entry.errors_here for entry in errors.nodes],
        "parted": [_without_zeros(entry.parted) for entry in errors.nodes],
        "taken": [[names.short(answer[0]), answer[1]] if answer else 0 for answer in found],
        "branch": [-1 if branch is None else branches[branch.node] for branch in within],
        "colours": [branch.colour for branch in colours.branches],
        "ramp": [nearness_colour(step / tallest) for step in range(tallest + 1)],
    }


def json_in_page(content: dict[str, Any]) -> Markup:
    """JSON that may stand inside a ``<script>``: nothing in it can end the element."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def _without_zeros(counts: list[int]) -> list[int]:
    """Counts without the zeros at their end."""
    end = max((i + 1 for i, count in enumerate(counts) if count), default=0)
    return counts[:end]
