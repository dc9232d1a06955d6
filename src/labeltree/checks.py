"""Checks of arguments, each with one sentence for what is not allowed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, get_args

__all__ = ["check_between", "check_choice"]


def check_choice(name: str, value: object, choices: Any) -> None:
    """Check that an argument has one of the values that it may have.

    Args:
        name: of the argument.
        value: that it has.
        choices: a `Literal` type, or the values.

    Raises:
        ValueError: if it has another one.
    """
    known: Collection[object] = choices if isinstance(choices, Collection) else get_args(choices)
    if value in known:
        return
    listed = [repr(choice) for choice in known]
    expected = " or ".join(listed) if len(listed) < 3 else f"one of {', '.join(listed)}"
    raise ValueError(f"{name} is {value!r}; expected {expected}")


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
