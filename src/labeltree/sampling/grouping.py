"""Samples grouped by class; sorting and shuffling by group, in time proportional to the number of entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from labeltree.counted_nouns import say_count
from labeltree.sampling.batch_sampler import IntArray
from labeltree.taxonomy.naming import some

if TYPE_CHECKING:
    from labeltree.taxonomy import Taxonomy

__all__ = [
    "SampleClasses",
    "classes_at_depth",
    "describe_unused",
    "key_dtype",
    "shuffle_within",
    "stable_order",
]

LARGE_GROUP = 64  # entries; mean group size from which shuffling group by group is faster


@dataclass(frozen=True)
class SampleClasses:
    """The classes that have samples.

    Attributes:
        nodes: (c,) the node of each class, ascending.
        members: (m,) the samples with a class, class by class.
        firsts: (c,) index in `members` of the first sample of each class.
        sizes: (c,) number of samples of each class.
    """

    nodes: IntArray
    members: IntArray
    firsts: IntArray
    sizes: IntArray


def classes_at_depth(taxonomy: Taxonomy, nodes: IntArray, depth: int) -> SampleClasses:
    """The samples by the node of their label at a depth; a leaf above it is a class too.

    Samples whose label is missing or coarser than the depth have no class.

    Args:
        taxonomy: The tree.
        nodes: (n,) the label of every sample, -1 where it is missing.
        depth: Depth of the classes, 1 (coarsest) to the depth of the tree.

    Raises:
        ValueError: If the tree has no such depth, or no such node.
    """
    if not 1 <= depth <= taxonomy.max_depth:
        raise ValueError(f"depth is {depth}, expected 1 to {taxonomy.max_depth}, the depth of the taxonomy")
    if len(nodes) and nodes.max() >= taxonomy.num_nodes:
        most = taxonomy.num_nodes - 1
        raise ValueError(f"nodes holds {nodes.max()}, expected at most {most}, the last of the taxonomy")
    column = taxonomy.paths[:, depth - 1].numpy()
    classes = np.where(nodes < 0, -1, column[nodes])
    order = np.argsort(classes, kind="stable")
    members = order[np.searchsorted(classes[order], 0) :]
    present, firsts, sizes = np.unique(classes[members], return_index=True, return_counts=True)
    return SampleClasses(present, members, firsts, sizes)


def describe_unused(
    taxonomy: Taxonomy, depth: int, without_class: int, small: SampleClasses | None = None, fewest: int = 1
) -> str:
    """A sentence on samples that a sampler never uses; empty if there are none.

    Args:
        taxonomy: The tree.
        depth: Depth of the classes.
        without_class: Number of samples whose label is missing or coarser than the depth.
        small: The classes with fewer than `fewest` samples.
        fewest: See `small`.
    """
    parts = []
    if small is not None and len(small.nodes):
        names = some((taxonomy.path_name(int(node)) for node in small.nodes), 3)
        classes = f"{len(small.nodes):,} class{'es' * (len(small.nodes) > 1)}"
        parts.append(f"{classes} with fewer than {fewest} samples ({names}; {small.sizes.sum():,} in all)")
    if without_class:
        parts.append(f"{say_count(without_class, 'sample')} without a label at depth {depth}")
    return f"the sampler never uses {' and '.join(parts)}" if parts else ""


def key_dtype(num_keys: int) -> type[np.unsignedinteger]:
    """The unsigned type in which `stable_order` sorts keys 0 ... num_keys - 1 fastest."""
    return np.uint16 if num_keys <= 2**16 else np.uint32


def stable_order(keys: NDArray[np.unsignedinteger]) -> NDArray[np.intp]:
    """The stable order of unsigned keys; numpy sorts 16-bit ones by radix, so wider ones go in two passes."""
    if keys.dtype.itemsize <= 2:
        return np.argsort(keys, kind="stable")
    order = np.argsort((keys & 0xFFFF).astype(np.uint16), kind="stable")
    return order[np.argsort((keys >> 16).astype(np.uint16)[order], kind="stable")]


def shuffle_within(
    values: NDArray[np.int64], first: NDArray[np.int64], size: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Concatenate ranges of `values`, each in random order.

    Args:
        values: (n,) values.
        first: (g,) start of each range; ranges may overlap.
        size: (g,) length of each range.
        rng: The source of randomness.

    Returns:
        (sum of sizes,) the first range's values shuffled, then the second's, ...
    """
    begin, total = np.cumsum(size) - size, int(size.sum())
    if LARGE_GROUP * len(size) > total:
        index: NDArray[np.int64] = np.arange(total) + np.repeat(first - begin, size)
        group = np.repeat(np.arange(len(size), dtype=key_dtype(len(size))), size)
        order = rng.permutation(total)
        index = index[order[stable_order(group[order])]]
        return values[index]
    shuffled = np.empty(total, dtype=np.int64)  # few large groups: one at a time, to stay in the cache
    for source, target, length in zip(first.tolist(), begin.tolist(), size.tolist(), strict=True):
        part = shuffled[target : target + length]
        part[:] = values[source : source + length]
        rng.shuffle(part)
    return shuffled
