"""Options of protocols from a command line, and what there is to choose."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from labeltree.evaluation.protocol import get_protocol, list_protocols

__all__ = ["describe_protocols", "parse_options"]


def parse_options(words: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Read ``PROTOCOL.OPTION=VALUE``; several values are divided by commas.

    Raises:
        ValueError: if a word has another form, there is no such protocol or option, or the value is not of
            the kind that the option has.

    Example:
        >>> parse_options(["knn.ks=1,5", "knn.weights=uniform"])
        {'knn': {'ks': (1, 5), 'weights': 'uniform'}}
    """
    found: dict[str, dict[str, Any]] = {}
    for word in words:
        place, equals, text = word.partition("=")
        name, dot, option = place.partition(".")
        if not equals or not dot or not option:
            raise ValueError(f"option '{word}' has another form than PROTOCOL.OPTION=VALUE, as in knn.ks=1,5")
        entry = get_protocol(name)
        defaults = {field.name: field.default for field in dataclasses.fields(entry.options)}
        if option in defaults:
            found.setdefault(name, {})[option] = _value(word, text, defaults[option])
        else:
            entry.choose({option: text})  # says which options there are
    for name, chosen in found.items():
        get_protocol(name).choose(chosen)
    return found


def _value(word: str, text: str, default: Any) -> Any:
    if isinstance(default, tuple):
        return tuple(_number_or_text(part.strip()) for part in text.split(",") if part.strip())
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise ValueError(f"option '{word}' must be true or false")
        return text.lower() == "true"
    if isinstance(default, int | float):
        value = _number_or_text(text)
        if isinstance(value, str) or (isinstance(default, int) and not isinstance(value, int)):
            kind = "a whole number" if isinstance(default, int) else "a number"
            raise ValueError(f"option '{word}' must be {kind}")
        return value
    return text


def _number_or_text(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def describe_protocols(pattern: str = "*") -> str:
    """What ``labeltree evaluate --list-protocols`` prints: names, sources, options with their defaults."""
    blocks = []
    for entry in list_protocols(pattern):
        lines = [f"{entry.name}: {entry.summary}", f"    source:  {entry.source}"]
        options = [f"{field.name}={_shown(field.default)}" for field in dataclasses.fields(entry.options)]
        if options:
            lines.append(f"    options: {'  '.join(options)}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
