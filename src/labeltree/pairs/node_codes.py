"""The relation codes of all pairs of nodes of a small tree: looked up, not computed for every batch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

__all__ = ["MOST_NODES", "NodeCodes"]

MOST_NODES = 1024  # their codes take 2 MB


class NodeCodes:
    """Relation codes of pairs of nodes of one taxonomy.

    Args:
        codes: `(N + 1, N + 1)` int16, row and column N standing for a missing label.
    """

    _kept: WeakIdKeyDictionary = WeakIdKeyDictionary()

    def __init__(self, codes: Tensor) -> None:
        self.codes = codes

    @classmethod
    def kept(cls, taxonomy_paths: Tensor, refined: bool) -> NodeCodes | None:
        """What was kept for a taxonomy's paths, if anything was."""
        found: NodeCodes | None = cls._kept.get(taxonomy_paths, {}).get(refined)
        return found

    @classmethod
    def keep(cls, taxonomy_paths: Tensor, refined: bool, codes: Tensor) -> NodeCodes:
        """Keep codes `(N + 1, N + 1)` for as long as the taxonomy's paths live."""
        with torch.inference_mode(False):  # training goes on with what validation has kept
            found = cls(codes.to(torch.int16, copy=True))
        cls._kept.setdefault(taxonomy_paths, {})[refined] = found
        return found

    def of(self, u: Tensor, v: Tensor) -> Tensor:
        """Codes `(b, c)` int64 of nodes `u (b,)` with `v (c,)`, −1 being a missing label."""
        if not self.codes.is_cuda:
            return torch.from_numpy(self.codes.numpy()[u.numpy()][:, v.numpy()]).long()
        return self.codes[u][:, v].long()
