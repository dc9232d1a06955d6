"""Results from JSON, in which None replaces NaN."""

from __future__ import annotations

import dataclasses
import math
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

__all__ = ["Bounds", "from_json"]

Bounds = tuple[float, float]
"""Lower and upper end of a confidence interval; NaN if there is none."""

_hints = cache(get_type_hints)


def from_json(kind: Any, value: Any) -> Any:
    """Restore a value of the annotated type from the output of `plain_json` on `dataclasses.asdict`.

    None becomes NaN if a number is expected. Unknown fields of a dataclass, written by a newer version, are
    ignored; missing fields get their defaults.

    Raises:
        KeyError: If a field without a default is missing.
        AttributeError: If the value does not have the structure of the type.
        TypeError: Likewise.

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
    """An instance of a dataclass from a mapping of its fields; fields in `given` are used as they are."""
    known = dict(given)
    for field in dataclasses.fields(kind):
        if field.name in known:
            continue
        if field.name in content:
            known[field.name] = from_json(_hints(kind)[field.name], content[field.name])
        elif field.default is field.default_factory is dataclasses.MISSING:
            raise KeyError(field.name)
    return kind(**known)
