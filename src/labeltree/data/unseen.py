"""Classes that training shall not see: which they are, and what becomes of their samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeltree.data.source import UNSEEN, Source
from labeltree.data.views.counters import sample_keys
from labeltree.errors import DataError, TaxonomyError
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.finest import covered_nodes, finest_labels
from labeltree.taxonomy.naming import some

__all__ = ["choose_unseen", "hide_classes", "thin_unseen"]

Array = np.ndarray[Any, Any]
_CLASS_STREAM, _SAMPLE_STREAM = 0x0C1A, 0x05A3


def choose_unseen(
    source: Source,
    wanted: float | str | Sequence[str],
    depth: int | None = None,
    seed: int = 0,
) -> Tensor:
    """Decide which classes training shall not see; each node hides all at and below it.

    A number or a share is drawn among the classes (the finest labels, or with ``depth`` their ancestors
    there) that have samples both inside and outside the test split. Every parent gives its part, as near as
    whole numbers allow (Sainte-Laguë's method), but always keeps one child that is seen: so every node above
    the hidden classes stays seen. Nodes that are named are hidden whatever that leaves of their parents.

    Args:
        source: The samples, with the test split decided.
        wanted: Nodes by path or name, or one of them; how many classes, if an integer; else their share.
        depth: That the drawn classes lie at; labels that end above it stay what they are. None = the finest.
        seed: Of the draw, which goes by the nodes: another number of classes, or other samples of them, move
            as few as possible.

    Returns:
        The nodes ``(k,)`` int64, ascending.

    Raises:
        TaxonomyError: If a name is no node.
        DataError: If so many cannot be hidden, a named node has no sample outside the test split, or the tree
            ends above the depth.
        ValueError: If the number or the share is none.
    """
    if isinstance(wanted, int | float) and not (wanted >= 1 if isinstance(wanted, int) else 0 < wanted < 1):
        raise ValueError(f"unseen_classes is {wanted}; a whole number is 1 or more, a share between 0 and 1")
    outside = np.asarray(source.split) != "test"
    own = source.nodes > 0
    learned = source.nodes[own & torch.from_numpy(outside)]
    tested = source.nodes[own & torch.from_numpy(~outside)]
    if isinstance(wanted, int | float):
        return _drawn(wanted, learned, tested, source.taxonomy, depth, seed)
    return _named([wanted] if isinstance(wanted, str) else list(wanted), learned, source)


def _named(names: list[str], learned: Tensor, source: Source) -> Tensor:
    tree = source.taxonomy
    try:
        nodes = tree.encode(names).unique()  # type: ignore[no-untyped-call]
    except TaxonomyError as error:
        raise TaxonomyError(f"unseen_classes names something that is no node: {error}") from error
    if bool((nodes < 0).any()):
        raise DataError("unseen_classes has an empty name; name nodes by path or name")
    present = covered_nodes(learned, tree)
    if idle := [tree.path_name(node) for node in nodes.tolist() if not present[node]]:
        raise DataError(
            f"unseen_classes names {some(idle)}, of which '{source.name}' has no sample outside the test "
            "split: there is nothing to hide; leave it out"
        )
    return torch.as_tensor(nodes)


def _drawn(
    wanted: float, learned: Tensor, tested: Tensor, tree: Taxonomy, depth: int | None, seed: int
) -> Tensor:
    finest = finest_labels(torch.cat([learned, tested]), tree)
    able = torch.from_numpy(np.intersect1d(learned.numpy(), tested.numpy()))
    able = able[finest[able]]
    if depth is not None:
        if depth > tree.max_depth:
            raise DataError(f"unseen_depth is {depth}, but the tree ends at depth {tree.max_depth}")
        # A class at a depth need not have its finest labels on both sides: items may be new in the test.
        both = [tree.ancestors[part, tree.depth[part].clamp(max=depth)] for part in (learned, tested)]
        coarse = torch.unique(tree.ancestors[:, : depth + 1][finest].amax(1))
        able = coarse[torch.isin(coarse, both[0]) & torch.isin(coarse, both[1])]
    count = wanted if isinstance(wanted, int) else max(1, round(wanted * len(able)))
    parent = tree.parent[able].numpy()
    # children of every node that are seen without anything hidden
    present = covered_nodes(learned, tree)
    present[0] = False
    children = np.bincount(tree.parent[present].numpy(), minlength=tree.num_nodes)
    rank, size = _ranked(parent, sample_keys(seed, 0, _CLASS_STREAM, able).numpy())
    may = np.flatnonzero(rank < children[parent] - 1)
    if count > len(may):
        asked = f"{count} classes" if isinstance(wanted, int) else f"{wanted:g}, {count} classes"
        raise DataError(
            f"unseen_classes is {asked}, but of the {len(able)} that have samples inside and outside the "
            f"test split only {len(may)} can be hidden such that each of their parents keeps one that is "
            "seen; ask for fewer, name the nodes, or draw them at another unseen_depth"
        )
    turn = (rank[may] + 0.5) / size[may]
    order = np.lexsort((sample_keys(seed, 1, _CLASS_STREAM, able[may]).numpy(), turn.round(12)))
    return able[np.sort(may[order[:count]])]


def hide_classes(source: Source, nodes: Tensor) -> Source:
    """Take the samples of some classes out of all splits but the test: their split is ``unseen``.

    Samples labelled above these nodes stay: their label does not say that they are of them.

    Args:
        source: The samples, with the test split decided; others may be.
        nodes: The classes ``(k,)``, each with all below it.

    Raises:
        DataError: If no training sample is left, or no test sample is of a hidden class.
    """
    tree, split = source.taxonomy, np.asarray(source.split, dtype="<U6")
    hidden = torch.zeros(tree.num_nodes, dtype=torch.bool)
    for node in nodes.tolist():
        hidden[node : int(tree.subtree_end[node])] = True
    mine = (hidden[source.nodes.clamp_min(0)] & (source.nodes > 0)).numpy()
    names = some([tree.path_name(node) for node in nodes.tolist()])
    if not (mine & (split == "test")).any():
        raise DataError(
            f"no test sample of '{source.name}' is of the unseen classes ({names}): nothing could be "
            "measured on them; hide others, or leave unseen_classes out"
        )
    left = ~mine & (split == "train")
    if not (left & (source.nodes > 0).numpy()).any():
        raise DataError(
            f"all training samples of '{source.name}' with a label are of the unseen classes ({names}): "
            "nothing is left to train on; hide fewer"
        )
    return source.with_split(np.where(mine & (split != "test"), UNSEEN, split))


def thin_unseen(source: Source, share: float, seed: int, draw: int) -> Source:
    """Keep this share of the samples in the split ``unseen``, of every label alike and at least one.

    So a limit on what training sees leaves hidden classes as many samples as seen ones.
    """
    split = np.asarray(source.split)
    mine = np.flatnonzero(split == UNSEEN)
    keys = sample_keys(seed, draw, _SAMPLE_STREAM, source.instances[torch.from_numpy(mine)]).numpy()
    rank, size = _ranked(source.nodes.numpy()[mine], keys)
    dropped = mine[rank >= np.maximum(np.round(share * size), 1)]
    return source.subset(torch.from_numpy(np.setdiff1d(np.arange(len(split)), dropped)))


def _ranked(kinds: Array, keys: Array) -> tuple[Array, Array]:
    """The place of each key among those of its kind, and how many those are."""
    _, code, counts = np.unique(kinds, return_inverse=True, return_counts=True)
    order = np.lexsort((keys, code))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rank, counts[code]
