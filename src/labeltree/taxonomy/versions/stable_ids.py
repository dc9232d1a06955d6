"""Ids and other further names in two versions: nodes are matched by ids, and further names carried over."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from labeltree.taxonomy.name_texts import is_code
from labeltree.taxonomy.numbering import IntArray
from labeltree.taxonomy.taxonomy_graph import Graph
from labeltree.taxonomy.tree import Taxonomy

__all__ = ["carry_aliases", "match_ids"]

_ASKED = 1000  # nodes whose ids show whether ids are kept from version to version
_CHANGED = 0.01  # so many of them may have another id
# Likewise where ids are those of an ontology, which gives an old name to a new class now and then.
_REUSED = 0.2
_FEWEST = 3  # nodes with the same id, beside which one may have another
_ONTOLOGY = re.compile(r"[A-Za-z][\w.]*[:_]\w+")  # DOID:1612, HP_0000118
_SURE = 10  # nodes with the same number, by which numbers are known to be ids


def match_ids(old: Graph, new: Graph, places: IntArray) -> dict[int, int]:
    """The new node of each old one without a place whose id, now or formerly, is that of one new node.

    Ids are aliases that are codes (`is_code`). They count if nodes at the same path have the same ids, at
    least one, or ten if they are plain numbers: the numbers of a list, which change when a line is added, do
    not, nor do those of lists that have nothing to do with each other. The ids of an ontology (`DOID:1612`)
    count before paths: a node at whose path another one is now is the new node of its id.

    Args:
        old: The old version.
        new: The new version.
        places: `(num_nodes,)` new node at the path of each old one, −1 for none.
    """
    left = np.flatnonzero(places < 0).tolist()
    placed = np.flatnonzero(places > 0)
    asked = placed[np.linspace(0, len(placed) - 1, min(_ASKED, len(placed))).astype(int)].tolist()
    ids = {node: _ids(old, node) for node in [*left, *asked]}
    same, differing = 0, list[int]()
    for node in asked:
        if ids[node] and (now := _ids(new, int(places[node]))):
            same += bool(ids[node] & now)
            differing += [] if ids[node] & now else [node]
    ontology = all(_ONTOLOGY.fullmatch(each) for node in differing for each in ids[node])
    most = max(_REUSED * same, float(same >= _FEWEST)) if ontology else _CHANGED * same
    if not same or len(differing) > most:
        return {}
    moved = list[int]()
    for node in placed.tolist() if ontology else ():
        own, now = _ids(old, node), _ids(new, int(places[node]))
        if own and now and not own & now and all(map(_ONTOLOGY.fullmatch, own)):
            ids[node] = own
            moved.append(node)
    owners = _owners(new, {each for several in ids.values() for each in several})
    matched = {}
    for node in [*left, *moved]:
        known = [each for each in ids[node] if owners.get(each, 0) > 0]
        targets = {owners[each] for each in known if same >= _SURE or not each.isdecimal()}
        if len(targets) == 1:
            matched[node] = targets.pop()
    return matched


def _ids(version: Graph, node: int) -> set[str]:
    return {alias for alias in version.aliases_of(node) if is_code(alias)}


def _owners(version: Graph, wanted: set[str]) -> dict[str, int]:
    """The node of each wanted alias; −1 for several nodes."""
    owners: dict[str, int] = {}
    for node in range(len(version)) if wanted else ():
        for alias in version.aliases_of(node):
            if alias in wanted:
                owners[alias] = -1 if alias in owners else node
    return owners


def carry_aliases(old: Taxonomy, new: Taxonomy, targets: Sequence[Sequence[int]]) -> Taxonomy:
    """The new version with the further names of the old nodes that became one node each.

    Those of merged nodes go to the node that they became. Those of split and removed nodes, which have no
    targets or several, name no node any more.

    Args:
        old: The old version.
        new: The new version; what it calls its nodes stays.
        targets: For every old node its new nodes.
    """
    if not old.aliases:
        return new
    names = [dict.fromkeys(new.aliases_of(node)) for node in range(new.num_nodes)]
    for several, further in zip(targets, old.aliases, strict=True):
        if len(several) == 1:
            names[several[0]].update(dict.fromkeys(further))
    return new.with_aliases(
        [[each for each in more if each != name] for name, more in zip(new.names, names, strict=True)]
    )
