"""Checks of the batches and arguments that losses are given."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labeltree.taxonomy.check_nodes import trusted, warn_of_class_numbers

__all__ = ["check_batch", "check_dim", "check_width", "describe", "follow_device"]


def check_batch(
    embeddings: Tensor,
    nodes: Tensor | None,
    instances: Tensor | None,
    num_nodes: int | None,
    loss: nn.Module | None = None,
    *,
    sets: bool = False,
) -> tuple[Tensor | None, Tensor | None]:
    """Check the shapes, types and range of a batch.

    Args:
        embeddings: `(n, d)` floating point.
        nodes: `(n,)` node ids from −1 (missing) to `num_nodes` − 1, or None.
        instances: `(n,)` instance ids, or None.
        num_nodes: Number of nodes of the taxonomy; None if the loss does not use node labels.
        loss: The loss to name in a warning, given once, if the labels look like class numbers; None: no
            warning.
        sets: Whether `nodes` may also be `(n, k)`, k ≥ 2 labels of each row, −1 where there is no further
            one.

    Returns:
        Nodes and instances as int64, on the device of the embeddings.

    Raises:
        ValueError: a bad argument; the message names it, its value and what was expected. On a GPU only
            the labels of a loss's first batches are read, at most ten; a bad one in a later batch fails on
            the device.
    """
    if not isinstance(embeddings, Tensor) or embeddings.dim() != 2 or not embeddings.is_floating_point():
        raise ValueError(
            f"embeddings must be a floating-point tensor of shape (n, d); got {describe(embeddings)}"
        )
    nodes = _ids("nodes", nodes, embeddings, sets)
    instances = _ids("instances", instances, embeddings)
    if nodes is not None and num_nodes is not None and nodes.numel():
        least, greatest = nodes.aminmax()
        if nodes.is_cuda and loss is not None and trusted(loss):  # to read them waits for all work before
            inside = (least >= -1) & (greatest < num_nodes)
            torch._assert_async(inside, f"nodes must lie between -1 (missing) and {num_nodes - 1}")
        elif int(least) < -1 or int(greatest) >= num_nodes:
            place = tuple(((nodes < -1) | (nodes >= num_nodes)).nonzero()[0].tolist())
            raise ValueError(
                f"nodes must lie between -1 (missing) and {num_nodes - 1}, the last node of the taxonomy; "
                f"got {int(nodes[place])} in row {place[0]}. Class numbers of a data set are not node ids: "
                "use taxonomy.nodes_of(class_names)[class_numbers], or taxonomy.encode(names)"
            )
        if loss is not None:
            warn_of_class_numbers(loss, "nodes", nodes.flatten())
    return nodes, instances


def check_width(embeddings: Tensor, dim: int, why: str = "", *, name: str = "embeddings") -> None:
    """Raise a ValueError unless `embeddings` is a floating-point tensor `(n, dim)`.

    Args:
        embeddings: What was given.
        dim: d.
        why: Where the width comes from, for the message; empty: it is the argument `dim`.
        name: Of the argument.
    """
    if not isinstance(embeddings, Tensor) or embeddings.dim() != 2 or not embeddings.is_floating_point():
        raise ValueError(
            f"{name} must be a floating-point tensor of shape (n, {dim}); got {describe(embeddings)}"
        )
    if embeddings.shape[1] != dim:
        raise ValueError(
            f"{name} must have shape (n, {dim}), {why or f'as dim={dim}'}; got {tuple(embeddings.shape)}"
        )


def check_dim(dim: int) -> None:
    """Raise a ValueError unless it can be the dimension of the embeddings."""
    if not (isinstance(dim, int) and dim > 0):
        raise ValueError(f"dim must be the dimension of the embeddings, a whole number above 0; got {dim!r}")


def follow_device(loss: nn.Module, buffer: Tensor, device: torch.device) -> None:
    """Move a loss to the device of its batch.

    This is done outside inference mode, so that buffers moved during validation can be used in training.
    """
    if buffer.device != device:
        with torch.inference_mode(False):
            loss.to(device)


def _ids(name: str, ids: Tensor | None, embeddings: Tensor, sets: bool = False) -> Tensor | None:
    if ids is None:
        return None
    n = len(embeddings)
    if not isinstance(ids, Tensor) or ids.dtype == torch.bool or ids.is_floating_point() or ids.is_complex():
        raise ValueError(f"{name} must be an integer tensor of shape ({n},); got {describe(ids)}")
    if ids.shape != (n,) and not (sets and ids.ndim == 2 and len(ids) == n and ids.shape[1] > 1):
        raise ValueError(
            f"{name} must have shape ({n},), one per row of embeddings {tuple(embeddings.shape)}; "
            f"got {tuple(ids.shape)}"
        )
    return ids.to(embeddings.device, torch.int64)


def describe(value: object) -> str:
    """A tensor's type and shape, or the type of anything else, for error messages."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} of shape {tuple(value.shape)}"
    return type(value).__name__
