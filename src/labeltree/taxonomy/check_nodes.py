"""Checks of node ids: conversion to an int64 tensor, and a warning if they look like class numbers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from labeltree.errors import TaxonomyError
from labeltree.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "NodesLike",
    "as_node",
    "as_nodes",
    "last_class_number",
    "moved_nodes",
    "trust_labels",
    "trusted",
    "warn_of_class_numbers",
]

_CALLS_CHECKED = 10  # class 0 is hardly ever missing from ten batches
_SEEN = "_batches_seen_for_class_numbers"

NodesLike: TypeAlias = "Tensor | NDArray[np.integer[Any]] | Sequence[Any] | int"
"""Node ids of any shape: a tensor, an array, a (nested) list or one int. -1 stands for a missing label."""


def as_nodes(nodes: NodesLike, num_nodes: int, argument: str = "nodes") -> Tensor:
    """Return node ids as an int64 tensor of the same shape, on the same device.

    Raises:
        TaxonomyError: If they are not integers, or not between -1 and num_nodes - 1.
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
            f"{argument} holds {wrong}, which is not a node; expected 0 to {num_nodes - 1}, or -1 if missing"
        )
    return tensor


def as_node(node: int, num_nodes: int) -> int:
    """Return one existing node as an int.

    Raises:
        TaxonomyError: If it is not an integer from 0 to num_nodes - 1.
    """
    value = node if type(node) is int else int(as_nodes(node, num_nodes, "node"))
    if not 0 <= value < num_nodes:
        raise TaxonomyError(f"node is {value}, expected 0 to {num_nodes - 1}")
    return value


def moved_nodes(nodes: Tensor, places: Tensor) -> Tensor:
    """Labels as nodes of another taxonomy.

    Args:
        nodes: (n,) labels, -1 where missing; missing ones stay so.
        places: (N,) for each node its node in the other taxonomy, -1 if there is none.
    """
    return torch.where(nodes >= 0, places[nodes.clamp(min=0)], -1)


def trust_labels(owner: object) -> None:
    """Do not look for class numbers in labels of this owner: labeltree itself made them from names."""
    owner.__dict__[_SEEN] = _CALLS_CHECKED


def trusted(owner: object) -> bool:
    """Whether labels of this owner are no longer looked at: enough of them have been, or it was said."""
    seen: int = owner.__dict__.get(_SEEN, 0)
    return seen >= _CALLS_CHECKED


def last_class_number(nodes: Tensor) -> int:
    """The greatest of labels (n,) that are exactly 0, 1, 2, …, as class numbers are; 0 if they are others."""
    distinct = nodes[nodes >= 0].unique()  # type: ignore[no-untyped-call]
    return len(distinct) - 1 if len(distinct) > 1 and int(distinct[-1]) == len(distinct) - 1 else 0


def warn_of_class_numbers(owner: object, name: str, nodes: Tensor) -> None:
    """Warn once if labels contain node 0, the root: class numbers such as `torch.arange(4)` contain 0.

    Only the first calls of an owner are checked, so that later training steps do not wait for their labels.
    Code that `torch.compile` traces is not checked.

    Args:
        owner: The loss or taxonomy whose calls are counted.
        name: Name of the argument.
        nodes: (n,) the labels, -1 where missing.
    """
    if torch.compiler.is_compiling() or trusted(owner):
        return
    owner.__dict__[_SEEN] = owner.__dict__.get(_SEEN, 0) + 1
    if not bool((nodes == 0).any()):
        return
    owner.__dict__[_SEEN] = _CALLS_CHECKED
    last = last_class_number(nodes)
    which = f"are exactly 0 to {last}, as class numbers are" if last else "hold node 0"
    warnings.warn(
        f"{name} {which}, and node 0 is the root, which says nothing about a sample; if these are the class "
        "numbers of a data set, use taxonomy.nodes_of(class_names)[class_numbers], and for names "
        "taxonomy.encode(names). Labels at the root are allowed; this warning is given once",
        stacklevel=3,
    )
