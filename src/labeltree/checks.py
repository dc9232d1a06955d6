"""Checks of arguments, each with one sentence for what is not allowed."""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any, get_args

__all__ = ["check_between", "check_choice", "check_integer", "check_number", "show_signature"]


def check_choice(name: str, value: object, choices: Any) -> None:
    """Check that an argument has one of the values that it may have.

    Args:
        name: Of the argument.
        value: That it has.
        choices: a `Literal` type, or the values.

    Raises:
        ValueError: If it has another one.
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


def check_number(
    name: str, value: object, allowed: str, least: float = -math.inf, most: float = math.inf
) -> None:
    """Raise a ValueError unless an argument of any type is a finite number from `least` to `most`.

    Args:
        name: Of the argument.
        value: That it has.
        allowed: What it may be, after "it must be".
        least: Smallest number.
        most: Largest number.
    """
    if isinstance(value, Real) and not isinstance(value, bool):
        number = float(value)
        if math.isfinite(number) and least <= number <= most:
            return
    raise ValueError(f"{name} is {value!r}; it must be {allowed}")


def check_integer(name: str, value: object, least: int) -> None:
    """Raise a ValueError unless an argument of any type is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise ValueError(f"{name} is {value!r}; it must be an integer of at least {least}")


def show_signature(cls: type) -> None:
    """Let `inspect.signature` of a class be that of its `__init__`, which a `__new__` above it hides."""
    signature = inspect.signature(cls.__init__)  # type: ignore[misc]
    cls.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])  # type: ignore[attr-defined]
