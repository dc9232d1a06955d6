"""What is wrong with a setting, in a sentence for people, from what the parser says."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

__all__ = ["explain"]

_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "NoneType": "null",
    "list": "a list",
    "dict": "settings by name",
}


def explain(message: str, known: Sequence[str]) -> str:
    """The parser's message in plain words; for an unknown setting, with the nearest that there is.

    Args:
        message: of the parser.
        known: the names of all settings, dotted.

    Example:
        >>> explain('Parser key "epochs":   Expected a int. Got value: many', [])
        'epochs: expected a whole number; got many'
        >>> explain("unrecognized arguments: --epocs", ["epochs", "seed"])
        "unknown setting 'epocs'; did you mean 'epochs'?"
    """
    message = re.sub(r"<class '([\w.]+)'>", r"\1", " ".join(message.split()))
    unknown = _unknown(message)
    if unknown is not None:
        return f"unknown setting '{unknown}'; {_hint(unknown, known)}"
    if (key := re.match(r'Parser key "([\w.-]+)": ', message)) is None:
        return message
    name = key[1]
    if "Unable to load config" in message:
        members = [setting for setting in known if setting.startswith(f"{name}.")][:2]
        return f"'{name}' is a group of settings; set {' or '.join(members) or 'those'} instead"
    union = re.search(r"Subtypes: \[(.+)\] Errors: .*Given value:\s?(.*)$", message)
    single = re.search(r"Expected an? (.+?)\. Got value:\s?(.*)$", message)
    if (found := union or single) is None:
        return f"{name}: {message.removeprefix(key[0])}"
    expected = [_in_words(text) for text in re.split(r", (?![^\[]*\])", found[1])]
    return f"{name}: expected {' or '.join(expected)}; got {found[2] or 'nothing'}"


def _unknown(message: str) -> str | None:
    """The name that the parser does not know, if that is what it says."""
    group = re.search(r"Group '([\w.+-]+)' does not accept option '([\w.-]+)'", message)
    if group is not None:
        return ".".join(group.groups())
    option = re.search(r"unrecognized arguments: --([\w.-]+)|Option '([\w.+-]+)' is not accepted", message)
    return None if option is None else option[1] or option[2]


def _hint(unknown: str, known: Sequence[str]) -> str:
    name = unknown.replace("-", "_")
    inner = [setting for setting in known if setting.endswith(f".{name}")]
    near = inner[:1] or difflib.get_close_matches(name, known, 1, cutoff=0.4)
    return f"did you mean '{near[0]}'?" if near else "see 'labeltree train --help' for all settings"


def _in_words(kind: str) -> str:
    """A type as the parser writes it, in words."""
    kind = kind.removeprefix("typing.").removeprefix("collections.abc.")
    if kind.startswith("Literal["):
        return " or ".join(kind.removeprefix("Literal[").removesuffix("]").split(", "))
    many = re.fullmatch(r"(?:list|Sequence)\[(\w+)\]", kind)
    if many is not None:
        return f"a list such as {'[a, b]' if many[1] == 'str' else '[1, 2]'}"
    return _TYPES.get(kind, kind)
