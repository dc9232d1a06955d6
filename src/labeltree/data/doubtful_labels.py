"""Labels that contradict one another: of copies, and of a name below two parents, hardly ever below one."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np

from labeltree.data.source import Source
from labeltree.lazy import torch
from labeltree.taxonomy.naming import some
from labeltree.taxonomy.placeholders import PLACEHOLDERS, REMAINDERS, plain_name

__all__ = ["warn_of_copies", "warn_of_strays"]

Array = np.ndarray[Any, Any]
_SHOWN = 3  # samples, or names, that a sentence has
_FEWEST = 10  # samples below the usual parent of a name, from which on another parent is doubted
_STRAYS = 0.03  # share of them that may be below others; at least one below each


def warn_of_copies(source: Source) -> list[str]:
    """A sentence on copies of a sample that have different labels, neither of which is coarser.

    Texts such as `n/a` are no copies: another sentence counts them.
    """
    if source.label_sets is not None or not len(source):
        return []
    if (source.digests is None and source.texts is None) or getattr(source.store, "unchecked", None):
        return []  # digests of pixels take long, and those of parts of files may be equal by chance
    digests = np.ascontiguousarray(source.copy_digests()[:, -1])
    content = np.unique(digests.view(f"V{digests.shape[1]}")[:, 0], return_inverse=True)[1]
    nodes, ends = source.nodes.numpy(), source.taxonomy.subtree_end.numpy()
    empty = _placeholder_texts(source)
    said = _say_placeholders(source, empty)
    labelled = np.flatnonzero((nodes > 0) & digests.any(1) & ~empty)
    kinds, labels = np.unique(np.stack([content[labelled], nodes[labelled]]), axis=1)
    apart = (kinds[1:] == kinds[:-1]) & (labels[1:] >= ends[labels[:-1]])  # in the order of subtrees
    wrong = np.unique(kinds[1:][apart])
    if not len(wrong):
        return said
    what = "texts" if source.store is None and source.vectors is None else "files"
    what = "vectors" if source.vectors is not None else what
    rows = labelled[np.isin(content[labelled], wrong)]
    names = source.sample_names()
    shown = []
    for first in rows[np.sort(np.unique(content[rows], return_index=True)[1])][:_SHOWN]:
        pair = _first_apart(rows[content[rows] == content[first]], nodes, ends)
        one, two = (f"'{names[row]}' ({source.taxonomy.path_name(int(nodes[row]))})" for row in pair)
        shown.append(f"{one} and {two}")
    more = f", and {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else ""
    are = f"{len(rows):,} samples are copies (equal {what}) with different labels"
    return [f"{are}: {'; '.join(shown)}{more}; correct those that are wrong, or leave one of each", *said]


def _placeholder_texts(source: Source) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether each sample `(n,)` is nothing but a text such as `n/a`."""
    if source.texts is None or source.store is not None or source.vectors is not None:
        return np.zeros(len(source), bool)
    longest = max(map(len, PLACEHOLDERS))
    texts = (source.texts[row] for row in source.rows.tolist())
    short = (text if len(text) <= longest else "" for text in texts)
    return np.array([plain_name(text) in PLACEHOLDERS for text in short], bool)


def _say_placeholders(source: Source, empty: np.ndarray[Any, np.dtype[np.bool_]]) -> list[str]:
    """A sentence on texts that stand for a missing text; none without any."""
    if source.texts is None or not empty.any():
        return []
    kinds = Counter(source.texts[row].strip() for row in source.rows.numpy()[empty].tolist())
    count = int(empty.sum())
    are = "text stands for a missing one" if count == 1 else "texts stand for missing ones"
    return [
        f"{count:,} {are} ({some([kind for kind, _ in kinds.most_common()], 3)}), and teach nothing: empty "
        "these cells, so that their rows are left out"
    ]


def warn_of_strays(source: Source) -> list[str]:
    """Sentences on names that lie below one parent, but for very few samples below another."""
    tree = source.taxonomy
    alike = [name for name, count in Counter(tree.names).items() if count > 1]
    if not alike:
        return []
    labels = source.every_label
    counts = torch.bincount(labels[labels > 0], minlength=tree.num_nodes).numpy()
    below = np.concatenate([[0], counts.cumsum()])
    counts = below[tree.subtree_end.numpy()] - below[: tree.num_nodes]
    parents, ends = tree.parent.tolist(), tree.subtree_end.tolist()
    strays: dict[int, int] = {}
    for name in alike:
        if (plain := plain_name(name)) in PLACEHOLDERS or plain in REMAINDERS:
            continue
        nodes = sorted(tree.candidates(name), key=lambda node: -counts[node])
        usual, most = nodes[0], counts[nodes[0]]
        rare = [node for node in nodes[1:] if 0 < counts[node] <= max(1, _STRAYS * most)]
        rare = [  # but for those within one another, as nominate taxa are
            node for node in rare if not (usual < node < ends[usual] or node < usual < ends[node])
        ]
        if most >= _FEWEST and counts[rare].sum() <= max(_SHOWN, _STRAYS * most):
            strays |= dict.fromkeys(rare, usual)
    first = [node for node in sorted(strays) if parents[node] not in strays]
    shown = [_describe_stray(source, node, strays[node], counts) for node in first[:_SHOWN]]
    if len(first) > _SHOWN:
        names = some(dict.fromkeys(tree.names[node] for node in first[_SHOWN:]), _SHOWN)
        shown.append(f"the same holds for {len(first) - _SHOWN:,} more names: {names}")
    return shown


def _describe_stray(source: Source, node: int, usual: int, counts: Array) -> str:
    tree, end = source.taxonomy, int(source.taxonomy.subtree_end[node])
    here = ((source.nodes >= node) & (source.nodes < end)).nonzero()[:, 0].tolist()
    names = source.sample_names() if here else []
    places = f" ({some([names[row] for row in here], _SHOWN)})" if here else ""
    above = (int(tree.parent[each]) for each in (usual, node))
    one, two = (f"'{tree.path_name(parent)}'" if parent else "the root" for parent in above)
    return (
        f"'{tree.names[node]}' lies below {one} in {counts[usual]:,} samples, and below {two} in "
        f"{counts[node]:,}{places}: probably a mistake; correct it, or leave it if both are meant"
    )


def _first_apart(rows: Array, nodes: Array, ends: Array) -> tuple[int, int]:
    """The first two of some rows of whose labels none is an ancestor of the other."""
    distinct = rows[np.sort(np.unique(nodes[rows], return_index=True)[1])].tolist()
    return next(
        (one, two)
        for one, two in itertools.combinations(distinct, 2)
        if max(nodes[one], nodes[two]) >= ends[min(nodes[one], nodes[two])]
    )
