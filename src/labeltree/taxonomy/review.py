"""What may be unintended in a valid taxonomy, said in sentences for its author."""

from collections import Counter
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from labeltree.taxonomy.naming import some
from labeltree.taxonomy.placeholders import placeholder_sentences

if TYPE_CHECKING:
    from labeltree.taxonomy.graph import TaxonomyDAG
    from labeltree.taxonomy.tree import Taxonomy

__all__ = ["count_of", "leaf_count", "places", "ragged", "repeated", "review"]


def review(tree: "Taxonomy", nodes: Tensor | None = None) -> list[str]:
    """All warnings, one sentence per kind of finding; see `Taxonomy.check`."""
    findings = (leaf_count, _flat, _single_root_child, _single_children, ragged, repeated, _look_alikes)
    sentences = [sentence for finding in findings if (sentence := finding(tree))]
    return [*sentences, *placeholder_sentences(tree, nodes)]


def leaf_count(tree: "Taxonomy | TaxonomyDAG") -> str:
    """That there is one leaf only, or nothing."""
    return "there is only one leaf: no two labels can differ" if tree.num_leaves == 1 else ""


def _flat(tree: "Taxonomy") -> str:
    flat = tree.max_depth == 1
    return f"the tree is flat: all {tree.num_leaves} leaves are children of the root" if flat else ""


def _single_root_child(tree: "Taxonomy") -> str:
    children = tree.children(0)
    if len(children) > 1 or tree.num_leaves == 1:
        return ""
    return (
        f"the root {tree.names[0]!r} has the single child {tree.names[children[0]]!r}: all labels agree "
        "at depth 1; root_name=None makes the outermost name the root"
    )


def _single_children(tree: "Taxonomy") -> str:
    children = torch.bincount(tree.parent[1:], minlength=tree.num_nodes)
    single = [node for node in torch.nonzero(children == 1).flatten().tolist() if node]
    if not single:
        return ""
    return f"{count_of(len(single), 'node has', 'nodes have')} a single child: {places(tree, single)}"


def ragged(tree: "Taxonomy | TaxonomyDAG") -> str:
    """At which depths the leaves lie, if at several."""
    counts = torch.bincount(tree.depth[tree.leaves]).tolist()
    depths = [depth for depth, count in enumerate(counts) if count]
    if len(depths) == 1:
        return ""
    listed = ", ".join(f"{counts[depth]} at depth {depth}" for depth in depths[:8])
    more = f", and so on down to depth {depths[-1]}" if len(depths) > 8 else ""
    return f"the leaves lie at different depths: {listed}{more}"


def repeated(tree: "Taxonomy | TaxonomyDAG") -> str:
    """Which names occur more than once."""
    counts = Counter(tree.names)
    repeated = [name for name, count in counts.items() if count > 1]
    if not repeated:
        return ""
    example = [node for node, name in enumerate(tree.names) if name == repeated[0]]
    return (
        f"{count_of(len(repeated), 'name occurs', 'names occur')} more than once, {some(repeated)}; "
        f"such labels must be given by path, as {places(tree, example)}"
    )


def _look_alikes(tree: "Taxonomy") -> str:
    seen: dict[tuple[int, str], int] = {}
    pairs = []
    for node, parent in enumerate(tree.parent.tolist()):
        key = (parent, " ".join(tree.names[node].casefold().replace("_", " ").replace("-", " ").split()))
        first = seen.setdefault(key, node)
        if first != node:
            pairs.append(f"{tree.path_name(first)!r} and {tree.path_name(node)!r}")
    if not pairs:
        return ""
    more = f", and {len(pairs) - 3} more pairs" if len(pairs) > 3 else ""
    return f"siblings differ only in case, spaces or hyphens: {', '.join(pairs[:3])}{more}"


def count_of(number: int, one: str, several: str) -> str:
    """A number with the words for one or several."""
    return f"{number} {one if number == 1 else several}"


def places(tree: "Taxonomy | TaxonomyDAG", nodes: list[int]) -> str:
    """The first few nodes by path, and how many more."""
    shown = ", ".join(repr(tree.path_name(node)) for node in nodes[:5])
    return f"{shown} and {len(nodes) - 5} more" if len(nodes) > 5 else shown
