"""The tree with its errors, cut down to the branches where most of them fall."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace

from labeltree.evaluation import NodeErrors, TreeErrors
from labeltree.report.names import NodeNames
from labeltree.report.palette import TreeColours
from labeltree.report.wording import percent, plural
from labeltree.taxonomy import Taxonomy

__all__ = ["ErrorRow", "error_rows"]

_MOST_BRANCHES = 12
_MOST_CHILDREN = 6
_WORTH_UNFOLDING = 0.03
_LARGEST_BUBBLE = 30.0


@dataclass(frozen=True)
class ErrorRow:
    """A row of the drawn tree.

    Attributes:
        name: of the node, or what a row that stands for several says.
        path: full path name, for the tooltip.
        depth: how far to indent.
        guides: one entry a coarser depth: ``line``, ``none``, and for the last ``tee`` or ``elbow``.
        stem: whether rows below hang from this one.
        colour: of the node's branch.
        bubble: diameter of the node's mark, its area in proportion to the errors made here.
        samples: evaluated samples at or below.
        right: share of them that stayed at or below the node (for a class: named correctly).
        sibling: share taken for a sibling; ``further``: for something further away.
        here: share of all errors made at this node, as text; empty for a class.
        inside: what is folded away, as text.
        rest: whether this row stands for the rest of the siblings.
    """

    name: str
    path: str
    depth: int
    guides: tuple[str, ...]
    stem: bool
    colour: str
    bubble: float
    samples: int
    right: float
    sibling: float
    further: float
    here: str
    inside: str
    rest: bool = False

    @property
    def spoken(self) -> str:
        """The bar in words."""
        return (
            f"{percent(self.right)} right, {percent(self.sibling)} taken for a sibling, "
            f"{percent(self.further)} for something further away"
        )


def error_rows(
    errors: TreeErrors, taxonomy: Taxonomy, colours: TreeColours, names: NodeNames, *, limit: int = 44
) -> list[ErrorRow]:
    """Choose and describe the rows: the whole tree if it is small, else its most error-prone branches.

    Args:
        errors: of the evaluated method.
        taxonomy: the tree.
        colours: of its branches.
        names: of its nodes.
        limit: about how many rows to show.
    """
    found = {entry.node: entry for entry in errors.nodes}
    if 0 not in found:
        return []
    children = {
        node: [child for child in taxonomy.children(node) if child in found]
        for node in found
        if not bool(taxonomy.is_leaf[node])
    }
    found[0] = _sum_of_classes(found, children)
    shown = _unfold(found, children, limit)
    rows: list[ErrorRow] = []
    largest = max((entry.errors_here for entry in errors.nodes), default=0)

    def visit(node: int, guides: tuple[str, ...]) -> None:
        entry = found[node]
        below = shown.get(node, [])
        hidden = [child for child in children.get(node, []) if child not in below]
        folded = (
            ""
            if below or not hidden
            else f"{plural(_classes(found, node, taxonomy), 'class', 'classes')} inside"
        )
        rows.append(
            _row(
                entry,
                taxonomy,
                colours,
                names,
                errors.errors,
                largest,
                guides,
                bool(below),
                len(children.get(node, [])) > 1,
                folded,
            )
        )
        below_guides = tuple("line" if g == "tee" else "none" if g == "elbow" else g for g in guides)
        for i, child in enumerate(below):
            last = i == len(below) - 1 and not hidden
            visit(child, (*below_guides, "elbow" if last else "tee"))
        if below and hidden:
            rows.append(_rest([found[child] for child in hidden], errors.errors, (*below_guides, "elbow")))

    visit(0, ())
    return rows


def _unfold(found: dict[int, NodeErrors], children: dict[int, list[int]], limit: int) -> dict[int, list[int]]:
    """Which children to show below which node.

    A tree that fits is shown whole. Of a larger one, branches are unfolded in the order of their errors, as
    far as the rows go and the errors are worth it; of many children only those with most errors are shown.
    """
    if len(found) <= limit:
        return children
    total = max(found[0].wrong, 1)
    shown: dict[int, list[int]] = {}
    queue = [(-found[0].wrong, 0)]
    rows = 1
    while queue:
        errors, node = heapq.heappop(queue)
        below = children.get(node, [])
        if not below or (node and -errors < _WORTH_UNFOLDING * total):
            continue
        worst = sorted(below, key=lambda child: (-found[child].wrong, child))
        few = _MOST_BRANCHES if node == 0 else _MOST_CHILDREN
        if len(below) > few:
            worst = [child for child in worst[: few - 1] if found[child].wrong >= 0.01 * total or node == 0]
        more = len(worst) + (len(worst) < len(below))
        if not worst or (rows + more > limit and rows > 1):
            continue
        rows += more
        shown[node] = sorted(worst)
        for child in worst:
            heapq.heappush(queue, (-found[child].wrong, child))
    return shown


def _row(
    entry: NodeErrors,
    taxonomy: Taxonomy,
    colours: TreeColours,
    names: NodeNames,
    total: int,
    largest: int,
    guides: tuple[str, ...],
    stem: bool,
    forks: bool,
    folded: str,
) -> ErrorRow:
    sibling, further = entry.to_sibling, entry.to_elsewhere
    bubble = _LARGEST_BUBBLE * (entry.errors_here / largest) ** 0.5 if largest else 0.0
    return ErrorRow(
        name=taxonomy.names[entry.node] if entry.node else "All classes",
        path=names.full(entry.node) if entry.node else "",
        depth=entry.depth,
        guides=guides,
        stem=stem,
        colour=colours.colour(entry.node) if entry.node else "",
        bubble=max(bubble, 9.0),
        samples=entry.samples,
        right=(entry.samples - sibling - further) / entry.samples,
        sibling=sibling / entry.samples,
        further=further / entry.samples,
        here=_share(entry.errors_here, total) if forks else "",
        inside=folded,
    )


def _rest(entries: list[NodeErrors], total: int, guides: tuple[str, ...]) -> ErrorRow:
    samples = sum(entry.samples for entry in entries)
    sibling, further = (
        sum(entry.to_sibling for entry in entries),
        sum(entry.to_elsewhere for entry in entries),
    )
    wrong = sum(entry.wrong for entry in entries)
    share = f", with {_share(wrong, total)} of the mistakes" if wrong else ", without mistakes"
    return ErrorRow(
        name=f"and {len(entries)} more{share}",
        path="",
        depth=len(guides),
        guides=guides,
        stem=False,
        colour="",
        bubble=0.0,
        samples=samples,
        right=(samples - sibling - further) / samples,
        sibling=sibling / samples,
        further=further / samples,
        here="",
        inside="",
        rest=True,
    )


def _share(part: int, total: int) -> str:
    if not part:
        return "–"
    return "< 1\u202f%" if part < 0.005 * total else percent(part / total, 0)


def _sum_of_classes(found: dict[int, NodeErrors], children: dict[int, list[int]]) -> NodeErrors:
    """The root's entry; nothing lies beside the root, so its row sums up what happened to the classes."""
    classes = [entry for node, entry in found.items() if node and not children.get(node)]
    return replace(
        found[0],
        to_sibling=sum(entry.to_sibling for entry in classes),
        to_elsewhere=sum(entry.to_elsewhere for entry in classes),
    )


def _classes(found: dict[int, NodeErrors], node: int, taxonomy: Taxonomy) -> int:
    end = int(taxonomy.subtree_end[node])
    return sum(1 for other in found if node <= other < end and bool(taxonomy.is_leaf[other]))
