"""The base of all losses: what it refuses, how it is compiled, how it shows its settings."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from numbers import Real
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from labeltree.checks import show_signature
from labeltree.geometry import Geometry
from labeltree.losses.batch import describe
from labeltree.losses.ranks_agree import watch_parameters
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.dag import check_tree

__all__ = ["LabelSets", "Loss", "shown_settings"]

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

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if sys.version_info < (3, 11, 4):  # which has `__new__` hide an `__init__` that is inherited
            show_signature(cls)

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


def _is_number(value: object) -> bool:
    return value.ndim == 0 if isinstance(value, Tensor) else isinstance(value, Real)
