"""Registry of named protocols: registration, selection, options and execution."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import fnmatch
import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

from labeltree.errors import DataError
from labeltree.evaluation.representations import check_roles
from labeltree.evaluation.result import NOT_MEASURED, ProtocolResult
from labeltree.evaluation.sample_columns import Column
from labeltree.evaluation.search_and_answer_columns import Inputs, Second
from labeltree.evaluation.statistics import Statistic
from labeltree.plugins import load_plugins
from labeltree.safe_files import fits

__all__ = [
    "Inputs",
    "NoOptions",
    "ProtocolEntry",
    "ProtocolResult",
    "Second",
    "describe_protocols",
    "get_protocol",
    "list_protocols",
    "parse_options",
    "register",
    "run_protocol",
    "wanted_protocols",
]

Protocol = TypeVar("Protocol", bound=Callable[..., Any])
Returned = ProtocolResult | Column | Statistic | Sequence[Column | Statistic]
"""The return type of a protocol: per-sample outcomes, from which numbers are computed, or final numbers."""

_RESERVED = ("all", "answers", "aspects", "embeddings", "features", "predictions")
_entries: dict[str, ProtocolEntry] = {}
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class NoOptions:
    """Empty options, for a protocol without any."""


@dataclass(frozen=True)
class ProtocolEntry:
    """A registered protocol: a pure function with its description.

    Attributes:
        name: Name of the protocol, as in `--protocols NAME`.
        run: Function of the inputs and an instance of `options`.
        summary: one-line description.
        source: The papers that report the protocol.
        options: Dataclass of the options, each field with a default.
        standard: Whether the protocol runs on every table; its numbers are then in `MethodResult.scores`, by
            role and metric.
    """

    name: str
    run: Callable[[Inputs, Any], Returned]
    summary: str
    source: str
    options: type[Any] = NoOptions
    standard: bool = False

    def choose(self, chosen: Mapping[str, Any]) -> Any:
        """An instance of the options with the user's values.

        Raises:
            ValueError: For an unknown option or an invalid value.
        """
        fields = {field.name: field for field in dataclasses.fields(self.options)}
        for key in chosen:
            if key not in fields:
                hint = difflib.get_close_matches(key, fields, 1)
                known = f"did you mean '{hint[0]}'?" if hint else f"it has: {', '.join(fields) or 'none'}"
                raise ValueError(f"protocol '{self.name}' has no option '{key}'; {known}")
        values = {}
        for key, value in chosen.items():
            many = isinstance(fields[key].default, tuple)
            values[key] = (tuple(value) if isinstance(value, list | tuple) else (value,)) if many else value
        hints = get_type_hints(self.options)
        for key, value in values.items():
            numbers = value if isinstance(value, tuple) else (value,)
            odd = any(isinstance(number, float) and not math.isfinite(number) for number in numbers)
            if odd or not fits(value, hints[key]):
                with contextlib.suppress(TypeError):
                    self._build({key: value})  # the dataclass's own error names the valid values
                given = ", ".join(map(str, value)) if isinstance(value, tuple) else value
                raise ValueError(
                    f"option '{key}' of protocol '{self.name}' is {given}; it must be of the kind of its "
                    f"default, {fields[key].default}"
                )
        try:
            return self._build(values)
        except TypeError as error:
            raise ValueError(f"options of protocol '{self.name}': {error}") from error

    def _build(self, values: dict[str, Any]) -> Any:
        try:
            if "roles" in values and self.run.__module__.startswith("labeltree."):
                check_roles(values["roles"])
            return self.options(**values)
        except ValueError as error:
            raise ValueError(f"options of protocol '{self.name}': {error}") from error


def register(
    name: str,
    *,
    summary: str,
    source: str,
    options: type[Any] = NoOptions,
    standard: bool = False,
) -> Callable[[Protocol], Protocol]:
    """Decorator that registers `function(inputs, options)` as a protocol.

    The function returns one or several `Column` of per-sample outcomes, whose means become the protocol's
    numbers, or `Statistic` for numbers that are not means over samples (NMI, AUROC, a calibration error).
    Both get confidence intervals, and `compare` can compare them. Any other numbers are returned as a
    `ProtocolResult`.

    Args:
        name: Name of the protocol: lower-case letters, digits and `-`, beginning with a letter.
        summary: one-line description.
        source: The papers that report the protocol.
        options: a dataclass with a default for every field; it may raise `ValueError` for invalid values.
        standard: Whether to run the protocol on every table. Its columns and statistics, and further scores
            (`balanced`), must then be named `ROLE.METRIC`, and `accuracy` by depth is reported for the
            classifier that the protocol is named after.

    Raises:
        ValueError: If the name is taken, reserved or has other characters.
    """
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name) or name in _RESERVED:
        raise ValueError(
            f"cannot register protocol '{name}': use a-z, 0-9 and -, and another name than "
            f"{', '.join(map(repr, _RESERVED))}"
        )
    if name in _entries:
        raise ValueError(f"cannot register protocol '{name}': taken")

    def add(run: Protocol) -> Protocol:
        _entries[name] = ProtocolEntry(name, run, summary, source, options, standard)
        return run

    return add


def list_protocols(pattern: str = "*") -> list[ProtocolEntry]:
    """All protocols whose names match a pattern (`*` and `?`), sorted by name."""
    load_plugins("protocols")
    return [_entries[name] for name in sorted(fnmatch.filter(_entries, pattern))]


def get_protocol(name: str) -> ProtocolEntry:
    """The protocol with the given name.

    Raises:
        ValueError: If there is no such protocol; the message suggests the closest name.
    """
    load_plugins("protocols")
    if name not in _entries:
        hint = difflib.get_close_matches(name, _entries, 1)
        known = f"did you mean '{hint[0]}'?" if hint else f"there are {', '.join(sorted(_entries))}"
        raise ValueError(f"there is no protocol '{name}'; {known}")
    return _entries[name]


def wanted_protocols(names: Sequence[str]) -> list[ProtocolEntry]:
    """The standard protocols, followed by the named ones in the given order; `all` adds every protocol."""
    load_plugins("protocols")
    wanted = {name: entry for name, entry in _entries.items() if entry.standard}
    for name in names:
        for entry in list_protocols() if name == "all" else [get_protocol(name)]:
            wanted[entry.name] = entry
    return list(wanted.values())


def run_protocol(entry: ProtocolEntry, inputs: Inputs, *, strict: bool = True) -> ProtocolResult:
    """Run one protocol with its options from the settings.

    Args:
        entry: The protocol.
        inputs: Inputs of the protocol.
        strict: Whether to raise if the protocol fails or is not defined for this table. If False, the result
            is empty with a note that says why, so that other protocols can still run.

    Raises:
        DataError: If `strict`, and the protocol is not defined for this table or comes from another package
            and fails.
        ValueError: For an unknown option, strict or not.
    """
    options = entry.choose(inputs.settings.options.get(entry.name, {}))
    try:
        return _result(entry, inputs, entry.run(inputs, options))
    except DataError as error:
        reason = str(error)
    except Exception as error:
        if strict and entry.run.__module__.startswith("labeltree."):
            raise
        _log.warning("protocol %s failed", entry.name, exc_info=True)
        reason = f"{entry.run.__module__} failed: {type(error).__name__}: {error}"
    if strict:
        raise DataError(f"protocol '{entry.name}': {reason}")
    return ProtocolResult(entry.summary, notes=[f"{NOT_MEASURED}{reason}."])


def _result(entry: ProtocolEntry, inputs: Inputs, returned: Returned) -> ProtocolResult:
    if isinstance(returned, ProtocolResult):
        return returned
    columns = [returned] if isinstance(returned, Column | Statistic) else returned
    if not isinstance(columns, list | tuple) or not all(isinstance(c, Column | Statistic) for c in columns):
        raise DataError(f"it returned {type(returned).__name__}; it must return columns or a ProtocolResult")
    return inputs.summarise(columns, entry.summary)


def parse_options(words: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Parse words of the form `PROTOCOL.OPTION=VALUE`; several values are separated by commas.

    Raises:
        ValueError: If a word has another form, the protocol or option does not exist, or the value does not
            have the type of the option.

    Example:
        >>> parse_options(["knn.ks=1,5", "knn.weights=uniform"])
        {'knn': {'ks': (1, 5), 'weights': 'uniform'}}
    """
    options: dict[str, dict[str, Any]] = {}
    for word in words:
        place, equals, text = word.partition("=")
        name, dot, option = place.partition(".")
        if not equals or not dot or not option:
            raise ValueError(f"option '{word}' must have the form PROTOCOL.OPTION=VALUE, such as knn.ks=1,5")
        entry = get_protocol(name)
        defaults = {field.name: field.default for field in dataclasses.fields(entry.options)}
        if option in defaults:
            options.setdefault(name, {})[option] = _value(word, text, defaults[option])
        else:
            entry.choose({option: text})  # raises and lists the options
    for name, chosen in options.items():
        get_protocol(name).choose(chosen)
    return options


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
    """The output of `labeltree evaluate --list-protocols`: names, sources, options with their defaults."""
    blocks = []
    for entry in list_protocols(pattern):
        always = " (standard: always run)" if entry.standard else ""
        lines = [f"{entry.name}: {entry.summary}{always}", f"    source:  {entry.source}"]
        options = [f"{field.name}={_shown(field.default)}" for field in dataclasses.fields(entry.options)]
        if options:
            lines.append(f"    options: {'  '.join(options)}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
