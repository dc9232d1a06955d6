"""The base class of the losses: printing, checks of arguments and batches, the device of buffers."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from numbers import Real
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from labeltree.geometry import Geometry
from labeltree.losses.ranks_agree import watch_parameters
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.check_nodes import trusted, warn_of_class_numbers
from labeltree.taxonomy.dag import check_tree

__all__ = [
    "LabelSets",
    "Loss",
    "check_batch",
    "check_dim",
    "check_width",
    "describe",
    "follow_device",
    "shown_settings",
]

LabelSets = Literal["relation", "rows"]
_MOST = 16  # entries of a tensor that are shown
_FUNCTORCH = (
    "functorch transforms",
    "Tensor that doesn't have storage",
)  # in torch's errors under torch.func


class Loss(nn.Module):
    """Base of the losses: `repr` shows the settings; parameters must be the same on all ranks.

    In a function that `torch.compile` compiles, losses run as they are: most of their work is done by
    hand-written kernels and gradients, which the compiler would cut into dozens of graphs.

    Attributes:
        label_sets: How training gives the loss samples with several labels. `"relation"`: as `nodes (n, k)`,
            for pairs to be related as their closest two labels (`labeltree.pairs.SetRelation`). `"rows"`: a
            row for each label of a sample, so that all of its labels are targets alike; the
            pick-all-labels reduction of Menon et al. 2019, Multilabel reductions: what is my loss optimising?
            None: with the common ancestor of its labels as its label.
        reads_names: Whether training gives a loss of images and texts the names of nodes as texts.
    """

    label_sets: LabelSets | None = None
    reads_names: bool = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Raise an error if the first argument is a taxonomy where a number belongs, or the reverse."""
        first = next(iter(inspect.signature(cls).parameters.values()), None)
        if first is not None and (args or first.name in kwargs):
            given = args[0] if args else kwargs[first.name]
            if first.annotation in ("Taxonomy", Taxonomy):
                check_tree(f"losses such as {cls.__name__}", given)
            elif first.annotation in ("float", "int") and not _is_number(given):
                raise TypeError(f"{cls.__name__} takes {first.name}, a number, first; got {describe(given)}")
        return super().__new__(cls)

    def __init__(self) -> None:
        super().__init__()
        watch_parameters(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The loss; arguments as those of `forward`.

        Raises:
            RuntimeError: Under `torch.func.grad` or `vmap`, where the gradients are hand-written.
        """
        if torch.compiler.is_compiling():
            as_it_is: Any = torch.compiler.disable(super().__call__)  # type: ignore[no-untyped-call]
            return as_it_is(*args, **kwargs)
        try:
            return super().__call__(*args, **kwargs)
        except RuntimeError as error:
            if not any(words in str(error) for words in _FUNCTORCH):
                raise
            raise RuntimeError(
                f"{type(self).__name__} has hand-written gradients, which torch.func (grad, vmap, jacrev) "
                "cannot see; use backward() or torch.autograd.grad, and a loop in place of vmap"
            ) from error

    def extra_repr(self) -> str:
        """The number of classes of the loss, and its settings."""
        classes = getattr(self, "classes", None)
        shown = f"classes={len(classes)}" if isinstance(classes, Tensor) else ""
        return ", ".join(filter(None, [shown, shown_settings(self)]))


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


def _is_number(value: object) -> bool:
    return value.ndim == 0 if isinstance(value, Tensor) else isinstance(value, Real)


def describe(value: object) -> str:
    """A tensor's type and shape, or the type of anything else, for error messages."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} of shape {tuple(value.shape)}"
    return type(value).__name__


def shown_settings(loss: nn.Module, names: Iterable[str] | None = None) -> str:
    """The constructor's arguments as `temperature=0.1, geometry=sphere, …`, read from the attributes.

    Arguments without an attribute of that name, or with one that is not a plain value (a taxonomy, a layer),
    are left out.

    Args:
        loss: The loss to show.
        names: The arguments to show; None: all.
    """
    names = inspect.signature(type(loss).__init__).parameters if names is None else names
    values = {name: _show(getattr(loss, name)) for name in names if hasattr(loss, name)}
    return ", ".join(f"{name}={value}" for name, value in values.items() if value is not None)


def _show(value: object) -> str | None:
    if isinstance(value, Geometry):
        curvature = getattr(value, "curvature", None)
        return value.name if curvature is None else f"{value.name}(curvature={curvature:g})"
    if isinstance(value, Tensor):
        return _show(value.tolist()) if value.numel() <= _MOST else None
    if isinstance(value, list | tuple):
        entries = [_show(entry) for entry in value]
        return None if None in entries else f"[{', '.join(map(str, entries))}]"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value) if value is None or isinstance(value, bool | int | str) else None
