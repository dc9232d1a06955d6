"""The relation codes of all pairs of nodes of a small tree: looked up, not computed for every batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

__all__ = ["NodeCodes"]

_MOST_NODES, _TYPE = 1024, torch.int32  # their codes take 4 MB; int16 is too short for refined ones


class NodeCodes:
    """Relation codes of pairs of nodes of one taxonomy.

    Args:
        codes: `(N + 1, N + 1)` int32, row and column N standing for a missing label.
    """

    _kept: ClassVar[WeakIdKeyDictionary] = WeakIdKeyDictionary()

    def __init__(self, codes: Tensor) -> None:
        self.codes = codes

    @classmethod
    def of_taxonomy(
        cls, paths: Tensor, refined: bool, compute: Callable[[Tensor], Tensor]
    ) -> NodeCodes | None:
        """The codes of a taxonomy, kept for as long as its `paths (N, L)` live; None of a large one.

        Args:
            paths: rows of `Taxonomy.paths`.
            refined: which numbering the codes have.
            compute: gives the codes `(m, m)` of m nodes with each other.
        """
        kept: dict[bool, NodeCodes] = cls._kept.get(paths, {})  # type: ignore[no-untyped-call]
        if refined not in kept and 0 < len(paths) <= _MOST_NODES:
            with torch.inference_mode(False):  # training goes on with what validation has kept
                every = torch.arange(-1, len(paths), device=paths.device).roll(-1)
                kept[refined] = cls(compute(every).to(_TYPE))
            cls._kept[paths] = kept
        return kept.get(refined)

    def among(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Codes `(m, m)` of m nodes with each other."""
        return self.codes.cpu().numpy().take(nodes, axis=0).take(nodes, axis=1).astype(np.int64)

    def of(self, u: Tensor, v: Tensor) -> Tensor:
        """Codes `(b, c)` int64 of nodes `u (b,)` with `v (c,)`, −1 being a missing label."""
        if self.codes.device.type == "cpu":
            return torch.from_numpy(self.codes.numpy()[u.numpy()][:, v.numpy()]).long()
        return self.codes[u][:, v].long()
