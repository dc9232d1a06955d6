"""Relation codes: how two labels are related, as an integer that indexes the tables of losses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.taxonomy.relations import APART, INSTANCE, SAME, RelationTable, num_relations

__all__ = ["RelationCodes", "Rho", "relation_codes"]

Rho = Literal["max_depth", "own_depth", "same_one"]


@dataclass(frozen=True, eq=False)
class RelationCodes:
    """The relation codes of a tree of depth L, and the meaning of each code.

    Nearly everything that a loss needs about a pair of labels follows from its relation code. The exception
    is the depth of the shallower label, which `rho="own_depth"` needs for pairs that are apart. The *refined*
    codes therefore number `APART(d)` once per depth m > d of the shallower label, behind the taxonomy's own
    codes: `APART(d, m) = R + d·L + m − 1`. A table over the R codes becomes one over the refined codes by
    indexing it with `base`.

    Attributes:
        relations: The taxonomy's R codes.
        base: `(size,)` the taxonomy's code of each code.
        shallower: `(size,)` depth of the shallower label; for codes that do not fix it, the depth of the LCA.
        refined: Whether `APART` is numbered per depth of the shallower label.
    """

    relations: RelationTable
    base: Tensor
    shallower: Tensor
    refined: bool

    @cached_property
    def view_codes(self) -> Tensor:
        """The code of two views of one sample, for each code of their labels, `(size,)`."""
        with torch.inference_mode(False):  # cached, and used in training as well
            width = self.relations.max_depth + 1
            return INSTANCE * width + self.base % width

    @property
    def size(self) -> int:
        """Number of codes. An excluded pair (a sample with itself) has the code `size`."""
        return int(self.base.numel())

    def refined_apart(self, depth: Tensor, shallower: Tensor | int) -> Tensor:
        """The refined codes of pairs with an LCA at `depth`, from the depth of the shallower label."""
        return num_relations(self.relations.max_depth) + depth * self.relations.max_depth + shallower - 1

    def spread(self, table: Tensor) -> Tensor:
        """A table over the taxonomy's codes `(..., R)` as one over these codes `(..., size)`."""
        return table[..., self.base]

    def rho(self, kind: Rho = "max_depth") -> Tensor:
        """ρ of each code, `(size,)` float64 in [0, 1]: how much of the tree two labels share.

        - `"max_depth"`: depth(lca) / L (Eq. 4 of Climbing the Label Tree). Two samples of one leaf have ρ <
          1 if that leaf is shallower than L.
        - `"same_one"`: the same, but ρ(y, y) = 1, as the sentence after Eq. 4 has it.
        - `"own_depth"`: depth(lca) / depth of the shallower label, so that ρ(y, y) = 1 follows. Only a
          refined numbering has it.

        A pair with a missing label has ρ = 0.
        """
        check_choice("rho", kind, Rho)
        if kind == "own_depth" and not self.refined:
            raise ValueError("rho='own_depth' needs a refined numbering: relation_codes(..., refined=True)")
        rho = self.spread(self.relations.rho)
        depth, kinds = self.spread(self.relations.depth), self.spread(self.relations.kind)
        if kind == "own_depth":
            rho = torch.where(self.shallower > 0, depth.double() / self.shallower.clamp(min=1).double(), 0.0)
        elif kind == "same_one":
            same = (kinds == SAME) | ((kinds == INSTANCE) & (depth > 0))
            rho = torch.where(same, 1.0, rho)
        return rho


@lru_cache(maxsize=32)
def relation_codes(max_depth: int, refined: bool = False) -> RelationCodes:
    """The relation codes of a tree of depth `max_depth` (0: no labels, only instances).

    Example:
        >>> relation_codes(2).size, relation_codes(2, refined=True).size
        (13, 17)
    """
    with torch.inference_mode(False):  # cached, and used in training as well
        return _relation_codes(max_depth, refined)


def _relation_codes(max_depth: int, refined: bool) -> RelationCodes:
    relations = RelationTable(max_depth)
    base = torch.arange(num_relations(max_depth))
    shallower = relations.depth.clone()
    if refined and max_depth > 0:
        depth = torch.arange(max_depth).repeat_interleave(max_depth)
        base = torch.cat([base, APART * (max_depth + 1) + depth])
        shallower = torch.cat([shallower, torch.arange(1, max_depth + 1).repeat(max_depth)])
    return RelationCodes(relations, base, shallower, refined)
