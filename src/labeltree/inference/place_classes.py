"""Where new classes go in the taxonomy of a run: by their label's path, or by where their samples fall."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.counted_nouns import say_count
from labeltree.errors import TaxonomyError
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.naming import compose, join_path, some
from labeltree.taxonomy.placeholders import plain_name
from labeltree.taxonomy.versions.stable_ids import carry_aliases

__all__ = ["Placed", "extended_taxonomy", "nearest_parent", "path_in_tree", "warn_below_root", "warn_ids"]

Path = tuple[str, ...]

_ID = re.compile(r"([A-Za-z][\w.-]*)[:_]\d+")


@dataclass(frozen=True)
class Placed:
    """The place of a label in the extended taxonomy.

    Attributes:
        path: Its names from depth 1 on.
        reason: Why there; empty where the label's own path says it.
    """

    path: Path
    reason: str = ""


def path_in_tree(
    label: Path, taxonomy: Taxonomy, under: str | None = None, beside: Sequence[str] = ()
) -> Placed:
    """The place of a label by its own path.

    A path begins at depth 1 of the taxonomy, or below `under`. If it is not there, and the label is the name
    or a further name of one node, such as an id or a synonym, it is that node; below `under` only a further
    name is. If its first name is not there, but names one node elsewhere in the tree, it begins at that node.
    Names that differ from those of nodes in case and blanks alone are theirs. One name that is not there at
    all goes `beside` the nodes that are retired, if these have one parent.

    Args:
        label: Names of the label, coarse to fine.
        taxonomy: The taxonomy of the run.
        under: The node below which the label begins; None = the root.
        beside: The nodes that are retired, of which a class with one new name may be a part.

    Raises:
        TaxonomyError: If there is no node `under`, or several nodes have the name.
    """
    text = label[0] if len(label) == 1 else join_path(label)
    if under is not None:
        top = taxonomy.find(under)
        path = (*taxonomy.path(top), *label)
        if taxonomy.follow(path) is None:
            below = set(taxonomy.descendants(top).tolist()) - {top}
            nodes = [node for node in _named(text, taxonomy) if node in below]
            if nodes := [node for node in nodes if not _is_name(text, node, taxonomy)]:
                return Placed(taxonomy.path(_only(nodes, label, taxonomy)), _reason(text, "it"))
            path = (*taxonomy.path(top), *_spelled(label, taxonomy, top))
        return Placed(path, f"below {under}, as was asked for")
    if taxonomy.follow(label) is not None:
        return Placed(label)
    if nodes := _named(text, taxonomy):
        node = _only(nodes, label, taxonomy)
        return Placed(taxonomy.path(node), _reason(text, "it", by_name=_is_name(text, node, taxonomy)))
    if taxonomy.follow(label[:1]) is None and (nodes := _named(label[0], taxonomy)):
        node = _only(nodes, label, taxonomy)
        reason = _reason(label[0], "a node there", by_name=_is_name(label[0], node, taxonomy))
        return Placed((*taxonomy.path(node), *label[1:]), reason)
    if (spelled := _spelled(label, taxonomy)) != label:
        return Placed(spelled, "but for case and blanks")
    parents = {int(taxonomy.numbering.main_parent[taxonomy.find(node)]) for node in beside}
    if len(label) == 1 and len(parents) == 1 and (above := parents.pop()) > 0:
        return Placed((*taxonomy.path(above), *label), f"beside {beside[0]}, which is retired")
    return Placed(label)


def _named(text: str, taxonomy: Taxonomy) -> list[int]:
    """The nodes that have a name or a further name, as labels of a table are looked up to train on."""
    known = compose(text)
    return [
        node
        for node in taxonomy.candidates(text)
        if any(compose(name) == known for name in (taxonomy.names[node], *taxonomy.aliases_of(node)))
    ]


def _spelled(label: Path, taxonomy: Taxonomy, top: int = 0) -> Path:
    """The label with the names of nodes below `top` where its own differ in case and blanks alone.

    A label of one name may be a node anywhere in the tree, if no other has the name.
    """
    names: list[str] = []
    node = top
    for name in label:
        alike = [each for each in taxonomy.children(node) if _alike(taxonomy.names[each], name)]
        exact = [each for each in alike if taxonomy.names[each] == name]
        if len(exact or alike) != 1:
            break
        node = (exact or alike)[0]
        names.append(taxonomy.names[node])
    if names or len(label) > 1 or top:
        return (*names, *label[len(names) :])
    nodes = [each for each in range(1, taxonomy.num_nodes) if _alike(taxonomy.names[each], label[0])]
    return taxonomy.path(nodes[0]) if len(nodes) == 1 else label


def _alike(known: str, name: str) -> bool:
    return plain_name(known) == plain_name(name)


def _is_name(text: str, node: int, taxonomy: Taxonomy) -> bool:
    return compose(taxonomy.names[node]) == compose(text)


def _only(nodes: Sequence[int], label: Path, taxonomy: Taxonomy) -> int:
    if len(nodes) > 1:
        places = some([taxonomy.path_name(node) for node in nodes])
        raise TaxonomyError(
            f"'{join_path(label)}' may begin at {places}: give the whole path, or the node above with --under"
        )
    return nodes[0]


def _reason(text: str, what: str, *, by_name: bool = False) -> str:
    return f"'{text}' is {'the name' if by_name else 'a further name'} of {what}"


def warn_below_root(placed: Sequence[Placed], taxonomy: Taxonomy) -> list[str]:
    """A sentence on labels of one name that become classes below the root of a tree with depth, or none.

    Labels with a reason for their place are left out: the output says it.
    """
    names = [
        each.path[0]
        for each in placed
        if len(each.path) == 1 and not each.reason and taxonomy.follow(each.path) is None
    ]
    if not names or taxonomy.max_depth < 2:
        return []
    what = "are no names, ids or synonyms" if len(names) > 1 else "is no name, id or synonym"
    return [
        f"{some(names)} {what} in the run's taxonomy, and went directly below the root. For another place, "
        "take this back with --undo, and give the full path, such as a/b/c, or the node above with --under."
    ]


def warn_ids(paths: Sequence[Path], taxonomy: Taxonomy) -> list[str]:
    """A sentence on new names that look like ids of the taxonomy, of which it has none such; or none.

    Its ids are further names such as `TEX:0000041`; where nodes have such names themselves, new ones may.
    """

    def prefixes(names: Iterable[str]) -> set[str]:
        return {match[1].casefold() for name in names if (match := _ID.fullmatch(name))}

    further = (name for node in range(taxonomy.num_nodes) for name in taxonomy.aliases_of(node))
    known = prefixes(further) - prefixes(taxonomy.names)
    new = [name for path in paths if taxonomy.follow(path) is None for name in path]
    ids = [name for name in dict.fromkeys(new) if prefixes([name]) & known]
    if not ids:
        return []
    what = "look like ids" if len(ids) > 1 else "looks like an id"
    return [
        f"{some(ids)} {what} of the run's taxonomy, which has no such id, and became the name of a new "
        "class. Take this back with --undo, and label samples by the names or paths of their classes."
    ]


def nearest_parent(
    probabilities: Tensor, classes: Tensor, taxonomy: Taxonomy, label: Path, least: float = 0.5
) -> Placed:
    """The inner node under which the samples of a new class fall, as a run without the class judges.

    The path leads from the root to the child with the largest mean probability, as long as that is at least
    `least` and the child has children. The names of the label that are new to the tree go below its end.

    Args:
        probabilities: Class probabilities `(n, C)` of the samples of the new class.
        classes: `(C,)` nodes of these classes.
        taxonomy: The taxonomy of the run.
        label: Path of the new class by its own label, which is not in the taxonomy.
        least: From 0 to 1.

    Raises:
        TaxonomyError: If another node has its name there.
    """
    there = max(depth for depth in range(len(label)) if taxonomy.follow(label[:depth]) is not None)
    names = label[there:]
    mean = torch.zeros(taxonomy.num_nodes, dtype=torch.float64)
    mean.index_add_(0, classes, probabilities.double().mean(0))
    for node in range(taxonomy.num_nodes - 1, 0, -1):  # preorder: children come after their parents
        mean[int(taxonomy.parent[node])] += mean[node]
    node = 0
    while True:
        inner = [child for child in taxonomy.children(node) if not bool(taxonomy.is_leaf[child])]
        best = max(inner, key=lambda child: float(mean[child]), default=None)
        if best is None or float(mean[best]) < least:
            break
        node = best
    count = say_count(len(probabilities), "sample")
    if node == 0:
        reason = f"its {count} {'falls' if len(probabilities) == 1 else 'fall'} under no one branch"
    else:
        reason = f"mean probability {float(mean[node]):.2f} of its {count}"
    path = (*taxonomy.path(node), *names)
    if taxonomy.follow(path[: len(path) - len(names) + 1]) is not None:
        raise TaxonomyError(
            f"the samples of '{join_path(label)}' fall under '{taxonomy.path_name(node)}', which has a "
            f"'{names[0]}' already: give the class another name, or place it by its path"
        )
    return Placed(path, reason)


def extended_taxonomy(taxonomy: Taxonomy, paths: Sequence[Path]) -> tuple[Taxonomy, Tensor]:
    """The taxonomy with further nodes, and the node in it of each node of the old one, `(N,)`.

    Args:
        taxonomy: The old taxonomy.
        paths: Paths of names from depth 1 on; those that are there already change nothing.

    Returns:
        The new taxonomy, in which the old nodes keep their further names, and the places.
    """
    names = list(taxonomy.names)
    parents = taxonomy.parent.tolist()
    known: dict[Path, int] = {taxonomy.path(node): node for node in range(taxonomy.num_nodes)}
    for path in paths:
        for depth in range(1, len(path) + 1):
            if path[:depth] not in known:
                known[path[:depth]] = len(names)
                parents.append(known[path[: depth - 1]])
                names.append(path[depth - 1])
    new = Taxonomy(names, parents)
    places = places_of(taxonomy, new)
    return carry_aliases(taxonomy, new, [[place] for place in places.tolist()]), places


def places_of(old: Taxonomy, new: Taxonomy) -> Tensor:
    """For each node of a taxonomy the node of the same path in one that holds all its paths, `(N,)`."""
    node_of: Mapping[Path, int] = {new.path(node): node for node in range(new.num_nodes)}
    return torch.tensor([node_of[old.path(node)] for node in range(old.num_nodes)])
