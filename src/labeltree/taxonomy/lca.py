"""Lowest common ancestors of many pairs at once, by range minima over the preorder."""

import torch
from torch import Tensor

__all__ = ["LowestCommonAncestor"]


class LowestCommonAncestor:
    """A sparse table over the parents in preorder: O(N log N) to build, O(1) a pair.

    For u < v in preorder, the lowest common ancestor is the smallest parent among the nodes u+1 ... v: all
    of them lie below it, and one of them is its child. (If u is an ancestor of v, that is u itself.)

    Args:
        parent: parents in preorder, shape (N,), -1 for the root.
    """

    def __init__(self, parent: Tensor) -> None:
        rows = [parent.to(torch.int32)]
        width = 1
        while 2 * width <= len(parent):
            previous = rows[-1]
            row = previous.clone()  # the tail keeps minima of shorter ranges, which no query reads
            row[: len(row) - width] = torch.minimum(previous[:-width], previous[width:])
            rows.append(row)
            width *= 2
        self._minima = torch.stack(rows).flatten()
        self._n = len(parent)
        lengths = torch.arange(len(parent) + 1, dtype=torch.float64)
        # float64 holds every power of two exactly, so frexp gives the exact floor of the binary logarithm
        self._level = (torch.frexp(lengths).exponent - 1).clamp(min=0).to(torch.int64)

    def __call__(self, u: Tensor, v: Tensor) -> Tensor:
        """Return the lowest common ancestors of int64 nodes (no -1), elementwise after broadcasting."""
        first, last = torch.minimum(u, v), torch.maximum(u, v)
        level = self._level[last - first]
        start = level * self._n
        left = self._minima[(start + first + 1).clamp_(max=self._minima.numel() - 1)]
        right = self._minima[start + last + 1 - (1 << level)]
        return torch.where(first == last, first, torch.minimum(left, right).to(torch.int64))
