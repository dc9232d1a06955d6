"""What a loss shows of itself when printed: every argument that it was made with."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from torch import Tensor, nn

from labeltree.geometry import Geometry

__all__ = ["shown_settings"]

_MOST = 16  # entries of a tensor that are shown


def shown_settings(loss: nn.Module, names: Iterable[str] | None = None) -> str:
    """`temperature=0.1, geometry=sphere, …`: the constructor's arguments, as the attributes of their names.

    An argument without such an attribute, or whose attribute is no plain value, is left out: a taxonomy, a
    layer, which is printed by itself.

    Args:
        loss: to be shown.
        names: of the arguments; None: all.
    """
    names = inspect.signature(type(loss).__init__).parameters if names is None else names
    values = {name: _shown(getattr(loss, name)) for name in names if hasattr(loss, name)}
    return ", ".join(f"{name}={value}" for name, value in values.items() if value is not None)


def _shown(value: object) -> str | None:
    if isinstance(value, Geometry):
        curvature = getattr(value, "curvature", None)
        return value.name if curvature is None else f"{value.name}(curvature={curvature:g})"
    if isinstance(value, Tensor):
        return _shown(value.tolist()) if value.numel() <= _MOST else None
    if isinstance(value, list | tuple):
        entries = [_shown(entry) for entry in value]
        return None if None in entries else f"[{', '.join(map(str, entries))}]"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value) if value is None or isinstance(value, bool | int | str) else None
