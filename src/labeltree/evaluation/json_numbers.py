"""Results to and from JSON, which knows no NaN: None stands in its place."""

from __future__ import annotations

import dataclasses
import math
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

__all__ = ["Bounds", "from_json", "without_nan"]

Bounds = tuple[float, float]
"""Lower and upper end of a confidence interval, NaN where there is none."""

_hints = cache(get_type_hints)


def without_nan(value: Any) -> Any:
    """The same structure with None for every number that is not finite."""
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def from_json(kind: Any, value: Any) -> Any:
    """A value as its annotation says, from what `without_nan` made of `dataclasses.asdict`.

    Where a number is expected, None becomes NaN. What a dataclass does not know, as a newer version wrote it,
    is left out; what it misses has its default.

    Raises:
        KeyError: if a field without a default is missing.
        AttributeError: if something else stands in the place of a structure; or TypeError.

    Example:
        >>> from_json(dict[str, list[float]], {"a": [1.0, None]})
        {'a': [1.0, nan]}
    """
    origin, parts = get_origin(kind), get_args(kind)
    if kind is float:
        return math.nan if value is None else value
    if origin is dict:
        return {key: from_json(parts[1], item) for key, item in value.items()}
    if origin is list:
        return [from_json(parts[0], item) for item in value]
    if origin is tuple:
        return tuple(from_json(part, item) for part, item in zip(parts, value, strict=True))
    if dataclasses.is_dataclass(kind):
        if hasattr(kind, "from_dict"):
            return kind.from_dict(value)
        return from_fields(kind, value)
    return value


def from_fields(kind: Any, content: Any, **given: Any) -> Any:
    """An instance of a dataclass from its fields by name; ``given`` are read already."""
    known = dict(given)
    for field in dataclasses.fields(kind):
        if field.name in known:
            continue
        if field.name in content:
            known[field.name] = from_json(_hints(kind)[field.name], content[field.name])
        elif field.default is field.default_factory is dataclasses.MISSING:
            raise KeyError(field.name)
    return kind(**known)
