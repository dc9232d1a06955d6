"""The tree of errors: rows of the branches with most errors, and the whole tree as data for the script."""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from labeltree.counted_nouns import say_count
from labeltree.evaluation import NodeErrors, TreeErrors
from labeltree.evaluation.fewest_samples import FEW_CASES
from labeltree.report.charts.node_names import NodeNames
from labeltree.report.charts.tree_colours import TreeColours, nearness_colour
from labeltree.report.wording import percent
from labeltree.taxonomy import Taxonomy

__all__ = ["ErrorRow", "ErrorTree", "Fate", "json_in_page", "tree_data"]

_ROOT = "All classes (exact)"
"""The name of the first row, whose share is that of the samples that stayed inside their own class."""
_MOST_BRANCHES = 12
_MOST_CHILDREN = 6
_WORTH_UNFOLDING = 0.03
_LARGEST_BUBBLE = 30
_SMALLEST_BUBBLE = 9


@dataclass(frozen=True)
class Fate:
    """A part of a bar: the share of samples whose answer is off by a number of steps; 0 = right."""

    steps: int
    share: float
    colour: str


@dataclass(frozen=True)
class ErrorRow:
    """A row of the drawn tree.

    Attributes:
        name: Name of the node, or a description if the row sums up several nodes.
        path: Full path name, for the tooltip.
        depth: Indentation level.
        guides: One entry per coarser depth: `line` or `none`; for the last one `tee` or `elbow`.
        stem: True if the row has children below it.
        colour: Colour of the node's branch.
        bubble: Diameter of the node's mark, whose area is proportional to the errors made here; 0 = no mark.
        samples: Number of evaluated samples at or below the node.
        fates: Shares of these samples, from those that stayed at or below the node to the worst mistakes.
        severity: Mean height of the LCA of answer and truth over the mistakes, as text.
        taken: The node that this node is most often taken for.
        here: Share of all errors made at this node, as text; empty if it has fewer than two children.
        folded: Description of the folded rows.
    """

    name: str
    path: str
    depth: int
    guides: tuple[str, ...]
    stem: bool
    colour: str
    bubble: int
    samples: int
    fates: list[Fate]
    severity: str = ""
    taken: str = ""
    here: str = ""
    folded: str = ""

    @property
    def inside(self) -> float:
        """Share of the samples whose answer is at or below the node; for a class, its accuracy."""
        return self.fates[0].share

    @property
    def few(self) -> bool:
        """Whether the samples are so few that their shares are uncertain."""
        return self.samples < FEW_CASES

    @property
    def spoken(self) -> str:
        """The bar in words."""
        wrong = [f"{percent(fate.share)} wrong by {say_count(fate.steps, 'step')}" for fate in self.fates[1:]]
        return ", ".join([f"{percent(self.inside)} inside", *wrong])


class ErrorTree:
    """Chooses and describes the rows: the whole tree if it is small, else its most error-prone branches.

    Args:
        errors: Errors of the evaluated method.
        taxonomy: The tree.
        colours: Colours of the branches.
        names: Names of the nodes.
        taken: The most frequent confusion of each node, from `taken_for`.
        limit: Approximate number of rows to show.
    """

    def __init__(
        self,
        errors: TreeErrors,
        taxonomy: Taxonomy,
        colours: TreeColours,
        names: NodeNames,
        taken: Mapping[int, tuple[int, int]] | None = None,
        *,
        limit: int = 44,
    ) -> None:
        self._errors = errors
        self._taxonomy = taxonomy
        self._colours = colours
        self._names = names
        self._taken = taken or {}
        self._found = {entry.node: entry for entry in errors.nodes}
        self._children = {
            node: [child for child in taxonomy.children(node) if child in self._found] for node in self._found
        }
        self._most_here = max((entry.errors_here for entry in errors.nodes), default=0)
        self._shown = self._children if len(self._found) <= limit else self._unfold(limit)

    def rows(self) -> list[ErrorRow]:
        """All rows, from the root down; none if nothing was classified."""
        return list(self._visit(0, ())) if self._found else []

    def _unfold(self, limit: int) -> dict[int, list[int]]:
        """The children to show below each unfolded node of a large tree.

        Branches are unfolded in the order of their errors, as long as rows and enough errors are left; of
        many children, only those with the most errors are shown.
        """
        total = max(self._errors.errors, 1)
        shown: dict[int, list[int]] = {}
        queue = [(-total, 0)]
        rows = 1
        while queue:
            errors, node = heapq.heappop(queue)
            below = self._children[node]
            if not below or (node and -errors < _WORTH_UNFOLDING * total):
                continue
            worst = sorted(below, key=lambda child: (-self._found[child].wrong, child))
            few = _MOST_CHILDREN if node else _MOST_BRANCHES
            if len(below) > few:
                worst = [c for c in worst[: few - 1] if not node or self._found[c].wrong >= 0.01 * total]
            more = len(worst) + (len(worst) < len(below))
            if not worst or (rows + more > limit and rows > 1):
                continue
            rows += more
            shown[node] = sorted(worst)
            for child in worst:
                heapq.heappush(queue, (-self._found[child].wrong, child))
        return shown

    def _visit(self, node: int, guides: tuple[str, ...]) -> Iterator[ErrorRow]:
        below = self._shown.get(node, [])
        hidden = [child for child in self._children[node] if child not in below]
        yield self._row(node, guides)
        further = tuple(
            "line" if guide == "tee" else "none" if guide == "elbow" else guide for guide in guides
        )
        for i, child in enumerate(below):
            last = i == len(below) - 1 and not hidden
            yield from self._visit(child, (*further, "elbow" if last else "tee"))
        if below and hidden:
            yield self._rest(hidden, (*further, "elbow"))

    def _row(self, node: int, guides: tuple[str, ...]) -> ErrorRow:
        entry, children = self._found[node], self._children[node]
        stem = bool(self._shown.get(node))
        size = _LARGEST_BUBBLE * (entry.errors_here / self._most_here) ** 0.5 if self._most_here else 0.0
        classes = self._classes(node)
        return ErrorRow(
            name=self._taxonomy.names[node] if node else _ROOT,
            path=self._names.full(node) if node else "",
            depth=entry.depth,
            guides=guides,
            stem=stem,
            colour=self._colours.colour(node) if node else "",
            bubble=max(2 * round(size / 2), _SMALLEST_BUBBLE),
            samples=entry.samples,
            fates=self._fates([entry] if node else classes),  # the root's row sums up the classes
            severity=self._severity(classes),
            taken=self._names.short(self._taken[node][0]) if node in self._taken else "",
            here=_share(entry.errors_here, self._errors.errors) if len(children) > 1 else "",
            folded=self._folded(entry, len(classes)) if children and not stem else "",
        )

    def _folded(self, entry: NodeErrors, classes: int) -> str:
        errors = f", {_share(entry.wrong, self._errors.errors)} of the mistakes" if entry.wrong else ""
        return f"{say_count(classes, 'class', 'classes')} inside{errors}"

    def _rest(self, nodes: list[int], guides: tuple[str, ...]) -> ErrorRow:
        entries = [self._found[node] for node in nodes]
        wrong = sum(entry.wrong for entry in entries)
        share = f"with {_share(wrong, self._errors.errors)} of the mistakes" if wrong else "without mistakes"
        return ErrorRow(
            name=f"and {len(entries)} more, {share}",
            path="",
            depth=len(guides),
            guides=guides,
            stem=False,
            colour="",
            bubble=0,
            samples=sum(entry.samples for entry in entries),
            fates=self._fates(entries),
            severity=self._severity([leaf for node in nodes for leaf in self._classes(node)]),
        )

    def _severity(self, classes: list[NodeErrors]) -> str:
        """Mean steps of the mistakes of classes; a dash without mistakes."""
        fates = self._fates(classes)
        lost = [(fate.steps, fate.share) for fate in fates if fate.steps]
        wrong = sum(share for _, share in lost)
        return f"{sum(steps * share for steps, share in lost) / wrong:.1f}" if wrong else "–"

    def _fates(self, entries: list[NodeErrors]) -> list[Fate]:
        """The shares of the nodes' samples whose answer stayed there, and was off by 1, 2, … steps."""
        tallest = max(self._taxonomy.max_height, 1)
        counts = Counter({0: sum(entry.stayed for entry in entries)})
        for entry in entries:
            for ancestor, lost in zip(self._taxonomy.ancestors_of(entry.node), entry.parted, strict=True):
                counts[int(self._taxonomy.height[ancestor])] += lost
        samples = sum(entry.samples for entry in entries)
        return [
            Fate(steps, counts[steps] / samples, nearness_colour(steps / tallest))
            for steps in sorted(counts)
            if counts[steps] or steps == 0
        ]

    def _classes(self, node: int) -> list[NodeErrors]:
        """The entries at or below a node that have no entries below them."""
        end = int(self._taxonomy.subtree_end[node])
        return [
            entry for other, entry in self._found.items() if node <= other < end and not self._children[other]
        ]


def _share(part: int, total: int) -> str:
    if not part:
        return "–"
    return "< 1\u202f%" if part < 0.005 * total else percent(part / total, 0)


def tree_data(
    errors: TreeErrors,
    taxonomy: Taxonomy,
    colours: TreeColours,
    names: NodeNames,
    taken: Mapping[int, tuple[int, int]],
    samples: str,
) -> dict[str, Any]:
    """Data of the tree for the page's script: columns in node order (preorder; depths imply the parents).

    Args:
        errors: Errors of the evaluated method.
        taxonomy: The tree.
        colours: Colours of the branches.
        names: Names of the nodes.
        taken: The most frequent confusion of each node, from `taken_for`.
        samples: The word for samples, such as "images".
    """
    tallest = max(taxonomy.max_height, 1)
    branches = {branch.node: i for i, branch in enumerate(colours.branches)}
    within = [colours.branch_of(entry.node) for entry in errors.nodes]
    taken_as = [taken.get(entry.node) for entry in errors.nodes]
    return {
        "samples_word": samples,
        "few": FEW_CASES,
        "names": [taxonomy.names[entry.node] if entry.node else _ROOT for entry in errors.nodes],
        "depths": [entry.depth for entry in errors.nodes],
        "heights": taxonomy.height[[entry.node for entry in errors.nodes]].tolist(),
        "samples": [entry.samples for entry in errors.nodes],
        "wrong": [entry.wrong for entry in errors.nodes],
        "here": [entry.errors_here for entry in errors.nodes],
        "parted": [_without_zeros(entry.parted) for entry in errors.nodes],
        "taken": [[names.short(answer[0]), answer[1]] if answer else 0 for answer in taken_as],
        "branch": [-1 if branch is None else branches[branch.node] for branch in within],
        "colours": [branch.colour for branch in colours.branches],
        "ramp": [nearness_colour(step / tallest) for step in range(tallest + 1)],
    }


def json_in_page(content: dict[str, Any]) -> Markup:
    """JSON that is safe inside a `<script>`, since nothing in it can end the element."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def _without_zeros(counts: list[int]) -> list[int]:
    """Counts without trailing zeros."""
    end = max((i + 1 for i, count in enumerate(counts) if count), default=0)
    return counts[:end]
