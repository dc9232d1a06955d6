"""Settings in nested dataclasses, by dotted name: types, numbers and defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, get_type_hints

from labeltree.safe_files import matcher

__all__ = ["check_idle", "check_kinds", "flatten", "numbers", "value_of"]


@cache
def _kinds(settings: type[Any]) -> list[tuple[dataclasses.Field[Any], Callable[[Any], bool] | None]]:
    """Every setting, and what says whether a value has its type; None: it has settings of its own."""
    hints = get_type_hints(settings)
    return [
        (entry, None if dataclasses.is_dataclass(hints[entry.name]) else matcher(hints[entry.name]))
        for entry in dataclasses.fields(settings)
    ]


def value_of(settings: Any, name: str) -> Any:
    """The value of a setting by its dotted name, such as `optimizer.lr`."""
    for part in name.split("."):
        settings = getattr(settings, part)
    return settings


def flatten(nested: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested settings to dotted names."""
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat


def check_kinds(settings: Any, prefix: str = "") -> None:
    """Check that every value has its setting's type: the parser lets a null in a file pass anywhere.

    Raises:
        ValueError: Naming the setting and its value.
    """
    for entry, matches in _kinds(settings.__class__):
        value = getattr(settings, entry.name)
        if matches is None:
            check_kinds(value, f"{prefix}{entry.name}.")
        elif not matches(value):
            given = "null" if value is None else repr(value)
            default = "" if entry.default is dataclasses.MISSING else f"; its default is {entry.default!r}"
            raise ValueError(f"{prefix}{entry.name} is {given}, which has the wrong type{default}")


def numbers(settings: Any, prefix: str = "") -> Iterator[tuple[str, float]]:
    """Every number among the settings, including lists and schedules, with the name of its setting.

    The options of objectives are left out: each loss checks its own.
    """
    for entry in dataclasses.fields(settings):
        name, value = f"{prefix}{entry.name}", getattr(settings, entry.name)
        if dataclasses.is_dataclass(value):
            yield from numbers(value, f"{name}.")
        elif name == "schedules":
            yield from ((name, x) for points in value.values() for point in points for x in point)
        else:
            for number in value if isinstance(value, list) else [value]:
                if isinstance(number, int | float) and not isinstance(number, bool):
                    yield name, number


def check_idle(settings: Any, names: list[str], idle: bool, because: str) -> None:
    """Refuse settings that nothing reads: a setting you pass must have an effect.

    Args:
        settings: All settings.
        names: Dotted names of the settings that may have no effect.
        idle: Whether they have no effect.
        because: Completion of the sentence "it has no effect …".

    Raises:
        ValueError: If they have no effect and one of them differs from its default.
    """
    for name in names if idle else ():
        group, _, field_name = name.rpartition(".")
        owner = value_of(settings, group) if group else settings
        field = next(f for f in dataclasses.fields(owner) if f.name == field_name)
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        value = getattr(owner, field_name)
        if value != default:
            raise ValueError(f"{name} is {value}, which has no effect {because}; leave it at {default}")
