"""Node arguments: whatever holds node ids, as one checked int64 tensor."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.errors import TaxonomyError

__all__ = ["NodesLike", "as_node", "as_nodes"]

NodesLike = Tensor | NDArray[np.integer[Any]] | Sequence[Any] | int
"""Node ids of any shape: a tensor, an array, a (nested) list or one int. -1 stands for a missing label."""


def as_nodes(nodes: NodesLike, num_nodes: int, argument: str = "nodes") -> Tensor:
    """Return node ids as an int64 tensor of the same shape, on the same device.

    Raises:
        TaxonomyError: if they are not integers, or not between -1 and num_nodes - 1.
    """
    tensor = torch.as_tensor(nodes)
    if tensor.numel() == 0:
        return tensor.to(torch.int64)
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise TaxonomyError(
            f"{argument} has dtype {tensor.dtype}, expected integers: node ids, -1 where missing"
        )
    tensor = tensor.to(torch.int64)
    least, largest = (int(x) for x in torch.aminmax(tensor))
    if least < -1 or largest >= num_nodes:
        wrong = least if least < -1 else largest
        raise TaxonomyError(
            f"{argument} holds {wrong}, which is no node; expected 0 to {num_nodes - 1}, or -1 where missing"
        )
    return tensor


def as_node(node: int, num_nodes: int) -> int:
    """Return one existing node as an int.

    Raises:
        TaxonomyError: if it is not an integer from 0 to num_nodes - 1.
    """
    value = node if type(node) is int else int(as_nodes(node, num_nodes, "node"))
    if not 0 <= value < num_nodes:
        raise TaxonomyError(f"node is {value}, expected 0 to {num_nodes - 1}")
    return value
