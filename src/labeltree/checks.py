"""Checks of arguments, each with one sentence for what is not allowed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, get_args

__all__ = ["check_between", "check_choice"]


def check_choice(name: str, value: object, choices: Any) -> None:
    """Raise a ValueError unless the argument called `name` has a value from `choices`.

    Args:
        name: what the argument is called.
        value: its value.
        choices: a `Literal` type, or a collection of values.
    """
    known = choices if isinstance(choices, Collection) else get_args(choices)
    if value not in known:
        expected = " or ".join(map(repr, known)) if len(known) == 2 else f"one of {', '.join(known)}"
        raise ValueError(f"{name} must be {expected}; got {value!r}")


def check_between(
    name: str, value: float, least: float | None = None, most: float | None = None, unit: str = ""
) -> None:
    """Raise a ValueError unless `least` <= `value` <= `most`; None = no bound; not a number is refused."""
    if (least is None or value >= least) and (most is None or value <= most) and value == value:
        return
    unit = f" {unit}" if unit else ""
    if least is None:
        allowed = f"at most {most:,}{unit}"
    elif most is None:
        allowed = f"at least {least:,}{unit}"
    else:
        allowed = f"from {least:,} to {most:,}{unit}"
    raise ValueError(f"{name} is {value:,}; it must be {allowed}")
