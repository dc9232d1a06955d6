"""Relation codes: what a pairwise loss knows about a pair of labels, as one small integer.

A code is `kind * (L + 1) + depth`, where depth is the depth of the pair's lowest common ancestor and L the
largest depth of a leaf. One more code stands for pairs with a missing label.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from labeltree.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor


__all__ = [
    "ANCESTOR",
    "APART",
    "INSTANCE",
    "SAME",
    "UNKNOWN",
    "RelationTable",
    "num_relations",
    "relation_code",
    "relation_from_paths",
    "unknown_relation",
]

APART: Final = 0
"""The labels agree down to the depth and differ below."""
ANCESTOR: Final = 1
"""One label is an inner node of this depth, the other is below it or equal: undecided at finer depths."""
SAME: Final = 2
"""The same leaf of this depth; a leaf continues itself, so the labels agree at every depth."""
INSTANCE: Final = 3
"""Two views of one sample, whose label has this depth (0 if missing): they agree at every depth."""
UNKNOWN: Final = 4
"""A label is missing: nothing is known at any depth."""


def num_relations(max_depth: int) -> int:
    """The number of codes, including INSTANCE and UNKNOWN: R = 4 (L + 1) + 1."""
    return 4 * (max_depth + 1) + 1


def unknown_relation(max_depth: int) -> int:
    """The code of a pair with a missing label: the last one."""
    return UNKNOWN * (max_depth + 1)


def relation_code(kind: int, depth: int, max_depth: int) -> int:
    """The code of one kind of relation at one depth of the lowest common ancestor.

    Raises:
        ValueError: If there is no such code.
    """
    if kind == UNKNOWN and depth == 0:
        return unknown_relation(max_depth)
    if kind not in (APART, ANCESTOR, SAME, INSTANCE) or not 0 <= depth <= max_depth:
        raise ValueError(
            f"no relation has kind={kind} and depth={depth}; expected a kind from {APART} to {INSTANCE} "
            f"and a depth from 0 to {max_depth}, or kind {UNKNOWN} and depth 0"
        )
    return kind * (max_depth + 1) + depth


def relation_from_paths(paths_u: Tensor, nodes_u: Tensor, paths_v: Tensor, nodes_v: Tensor) -> Tensor:
    """Relation codes of labels from rows of `Taxonomy.paths`, on any device, elementwise after broadcasting.

    Takes rows rather than a taxonomy so that a loss can keep `Taxonomy.paths` as a buffer on its device.
    For all pairs of a batch, `rows = paths[nodes]; relation_from_paths(rows[:, None], nodes[:, None], rows,
    nodes)`.

    Args:
        paths_u: Rows of `Taxonomy.paths`, shape (..., L); the row of a missing label may hold anything.
        nodes_u: The labels themselves, shape (...); only whether they are missing (negative) matters.
        paths_v: As paths_u, for the other side.
        nodes_v: As nodes_u, for the other side.

    Returns:
        Codes, int64, of the broadcast shape; never INSTANCE.
    """
    max_depth = paths_u.shape[-1]
    shape = torch.broadcast_shapes(paths_u.shape[:-1], paths_v.shape[:-1])  # type: ignore[no-untyped-call]
    depth = torch.zeros(shape, dtype=torch.int64, device=paths_u.device)
    apart = torch.zeros(shape, dtype=torch.bool, device=paths_u.device)
    for level in range(max_depth):  # one depth at a time, to avoid a (..., L) table of pairs
        at_u, at_v = paths_u[..., level], paths_v[..., level]
        equal = at_u == at_v
        decided = (at_u >= 0) & (at_v >= 0)
        depth += equal & decided
        apart |= ~equal & decided
    kind = torch.where(depth == max_depth, SAME, ANCESTOR).masked_fill_(apart, APART)
    if max_depth:
        # A shallow leaf agrees with itself at all L depths; its own depth is where its row stops changing.
        own_depth = 1 + (paths_u[..., 1:] != paths_u[..., :-1]).sum(dim=-1)
        depth = torch.minimum(depth, own_depth)
    missing = (nodes_u < 0) | (nodes_v < 0)
    return (kind * (max_depth + 1) + depth).masked_fill_(missing, unknown_relation(max_depth))


@dataclass(frozen=True)
class RelationTable:
    """The meaning of each relation code, as tensors of shape (R,), R = `num_relations(max_depth)`.

    Attributes:
        max_depth: L, the largest depth of a leaf.
        kind: The kind of each code: APART, ANCESTOR, SAME, INSTANCE or UNKNOWN.
        depth: The depth of the lowest common ancestor (0 for UNKNOWN).

    Example:
        >>> table = RelationTable(max_depth=2)
        >>> code = relation_code(ANCESTOR, 1, max_depth=2)
        >>> [bool(table.agrees(depth)[code]) for depth in (1, 2)]
        [True, False]
        >>> bool(table.undecided(2)[code])
        True
    """

    max_depth: int
    kind: Tensor = field(init=False, repr=False, compare=False)
    depth: Tensor = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.max_depth < 0:
            raise ValueError(f"max_depth={self.max_depth}, expected at least 0")
        codes = torch.arange(num_relations(self.max_depth))
        object.__setattr__(self, "kind", codes // (self.max_depth + 1))
        object.__setattr__(self, "depth", codes % (self.max_depth + 1))

    def __len__(self) -> int:
        return num_relations(self.max_depth)

    @property
    def rho(self) -> Tensor:
        """Depth of the LCA over L, float64 (ρ, Eq. 4 of Climbing the Label Tree); 0 for UNKNOWN."""
        return self.depth.to(torch.float64) / max(self.max_depth, 1)

    def agrees(self, depth: int) -> Tensor:
        """Mask of the relations whose labels agree at a depth from 1 to L, bool."""
        self._check(depth)
        whole = (self.kind == SAME) | (self.kind == INSTANCE)
        return whole | (self.depth >= depth)  # the depth of UNKNOWN is 0

    def differs(self, depth: int) -> Tensor:
        """Mask of the relations whose labels differ at a depth from 1 to L, bool."""
        self._check(depth)
        return (self.kind == APART) & (self.depth < depth)

    def undecided(self, depth: int) -> Tensor:
        """Mask of the relations that leave open whether the labels agree at a depth from 1 to L, bool."""
        return ~(self.agrees(depth) | self.differs(depth))

    def _check(self, depth: int) -> None:
        if not 1 <= depth <= self.max_depth:
            raise ValueError(f"depth={depth}, expected 1 (coarsest) to {self.max_depth} (finest)")
