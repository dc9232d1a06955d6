"""Where new classes go in the taxonomy of a run: by their label's path, or by where their samples fall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.errors import TaxonomyError
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.naming import join_path, some

__all__ = ["Placed", "extended_taxonomy", "nearest_parent", "path_in_tree"]

Path = tuple[str, ...]


@dataclass(frozen=True)
class Placed:
    """The place of a label in the extended taxonomy.

    Attributes:
        path: Its names from depth 1 on.
        reason: Why there; empty where the label's own path says it.
    """

    path: Path
    reason: str = ""


def path_in_tree(label: Path, taxonomy: Taxonomy, under: str | None = None) -> Placed:
    """The place of a label by its own path.

    A path begins at depth 1 of the taxonomy, or below `under`. If its first name is not there, but is the
    name of one node elsewhere in the tree, it begins at that node.

    Args:
        label: Names of the label, coarse to fine.
        taxonomy: The taxonomy of the run.
        under: The node below which the label begins; None = the root.

    Raises:
        TaxonomyError: If there is no node `under`, or several nodes have the first name.
    """
    if under is not None:
        return Placed((*taxonomy.path(taxonomy.find(under)), *label), f"below {under}, as was asked for")
    if taxonomy.follow(label[:1]) is not None:
        return Placed(label)
    nodes = [node for node in taxonomy.candidates(label[0]) if taxonomy.names[node] == label[0]]
    if len(nodes) > 1:
        places = some([taxonomy.path_name(node) for node in nodes])
        raise TaxonomyError(
            f"'{join_path(label)}' may begin at {places}: give the whole path, or the node above with --under"
        )
    if not nodes:
        return Placed(label)
    whole = (*taxonomy.path(nodes[0]), *label[1:])
    return Placed(whole, f"'{label[0]}' is the name of a node there")


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
    count = f"{len(probabilities):,} sample{'s' if len(probabilities) != 1 else ''}"
    if node == 0:
        reason = f"its {count} fall under no one branch"
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
    return new, places_of(taxonomy, new)


def places_of(old: Taxonomy, new: Taxonomy) -> Tensor:
    """For each node of a taxonomy the node of the same path in one that holds all its paths, `(N,)`."""
    node_of: Mapping[Path, int] = {new.path(node): node for node in range(new.num_nodes)}
    return torch.tensor([node_of[old.path(node)] for node in range(old.num_nodes)])
