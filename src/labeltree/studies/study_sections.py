"""The sections of a study file, checked before anything else is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from labeltree.errors import LabeltreeError
from labeltree.safe_files import Reader, read_yaml

__all__ = ["StudyError", "check_sections", "read_sections", "shown"]


class StudyError(LabeltreeError, ValueError):
    """A study file is not valid."""


_STUDY = Reader("a study", "docs/studies.md has an example", StudyError)
_NEEDED = ("title", "shared", "methods", "seeds")
_OF_TRIALS = ("trial_seed", "select")  # needed if methods have trials
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "title": ((str,), "text"),
    "shared": ((dict,), "settings by name"),
    "methods": ((dict,), "methods by name"),
    "seeds": ((list,), "a list of whole numbers"),
    "trial_seed": ((int,), "a whole number"),
    "select": ((str,), "a column of the history"),
    "evaluation": ((dict,), "settings by name"),
    "baselines": ((list,), "a list"),
    "grid": ((dict, type(None)), "axes by name"),
    "columns": ((list,), "a list such as [features/top1]"),
    "transfer": ((dict,), "settings by name"),
    "claim": ((str,), "text"),
    "paper": ((list, type(None)), "a list of tables"),
    "margins": ((dict,), "margins by column, such as {features/top1: 0.01}"),
}


def read_sections(path: str | Path) -> dict[str, Any]:
    """Read the sections of a study file (YAML).

    Raises:
        StudyError: If a section is missing, unknown, or of another type.
    """
    content = read_yaml(path, _STUDY)
    try:
        check_sections(content)
    except ValueError as error:
        raise StudyError(f"study '{path}' is not understood: {error}") from error
    return content


def check_sections(content: Mapping[str, Any]) -> None:
    """Check that a study has all sections that it needs, each of its type; raises ValueError."""
    for name, value in content.items():
        if name not in _KINDS:
            near = get_close_matches(name, _KINDS, 1)
            raise ValueError(f"it has '{name}'; " + (f"did you mean '{near[0]}'?" if near else _sections()))
        kinds, words = _KINDS[name]
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise ValueError(f"{name} is {shown(value)}; it must be {words}")
    if missing := [name for name in _NEEDED if name not in content]:
        raise ValueError(_lacking(missing))
    for name, entry in content["methods"].items():
        _check_method(str(name), entry)
    for name in ("baselines", "columns"):
        if not all(isinstance(item, str) for item in content.get(name, ())):
            raise ValueError(f"{name} is {shown(content[name])}; it must be a list of texts")
    has_trials = any(len((entry or {}).get("trials") or []) > 1 for entry in content["methods"].values())
    if has_trials and (missing := [name for name in _OF_TRIALS if name not in content]):
        raise ValueError(f"methods have trials, and {_lacking(missing)}")
    for seed in [*content["seeds"], content.get("trial_seed", 0)]:
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**32:
            raise ValueError(f"a seed is {shown(seed)}; seeds are whole numbers from 0 to 2^32 - 1")
    _check_names("shared", content["shared"])


def _lacking(missing: Sequence[str]) -> str:
    listed = [f"'{name}', which must be {_KINDS[name][1]}" for name in missing]
    return f"it has no {'; and no '.join(listed)}"


def _check_method(name: str, entry: Any) -> None:
    if entry is not None and not isinstance(entry, dict):
        raise ValueError(f"method '{name}' is {shown(entry)}; it must be recipe, settings, trials and grid")
    entry = entry or {}
    if not isinstance(entry.get("recipe", ""), str):
        raise ValueError(f"method '{name}' has the recipe {shown(entry['recipe'])}; it must be a path")
    trials = entry.get("trials")
    if not isinstance(trials, list | None):
        raise ValueError(f"method '{name}' has the trials {shown(trials)}; they must be a list of settings")
    for settings in [entry.get("settings"), *(trials or [])]:
        _check_names(f"a part of method '{name}'", {} if settings is None else settings)
    if not isinstance(entry.get("grid"), list | bool | None):
        raise ValueError(f"method '{name}' has the grid {shown(entry['grid'])}; it must be a list of axes")


def _check_names(what: str, settings: Any) -> None:
    if not isinstance(settings, dict) or not all(isinstance(name, str) for name in settings):
        raise ValueError(f"{what} is {shown(settings)}; it must be settings by name")


def _sections() -> str:
    return f"it may have {', '.join(_KINDS)}"


def shown(value: Any) -> str:
    """Format a value for an error message."""
    text = repr(value)
    return "empty" if value is None else text if len(text) <= 60 else f"{text[:60]}…"
