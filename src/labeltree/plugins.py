"""Parts that are found by entry points: labeltree's own, and those of other installed packages.

A broken part of another package only causes a warning.
"""

from __future__ import annotations

import warnings
from importlib.metadata import EntryPoint, distribution, entry_points
from typing import Any

from labeltree.errors import LabeltreeError

__all__ = [
    "entry_point_of",
    "is_found_everywhere",
    "load_each",
    "load_own",
    "load_plugins",
    "named_parts",
    "own_parts",
]

_loaded: set[str] = set()


def own_parts(kind: str) -> dict[str, EntryPoint]:
    """labeltree's own entry points of a group, by name.

    Raises:
        LabeltreeError: If the installation is older than the source.
    """
    group = f"labeltree.{kind}"
    parts = {entry.name: entry for entry in distribution("labeltree").entry_points if entry.group == group}
    if not parts:
        raise LabeltreeError(
            f"the {kind} of labeltree are not registered: its installation is older than its source; install "
            "it again, 'pip install -e .' in its folder"
        )
    return parts


def named_parts(kind: str) -> dict[str, EntryPoint]:
    """All entry points of a group by name; nobody takes a name of labeltree's own.

    Args:
        kind: `commands` or `stores`.
    """
    parts = own_parts(kind)
    for entry in entry_points(group=f"labeltree.{kind}"):
        if entry.name not in parts:
            parts[entry.name] = entry
        elif entry.value != parts[entry.name].value:
            warnings.warn(
                f"'{entry.name}' of the {kind} in '{entry.value}'{_package(entry)} is not used: there is one "
                "already",
                stacklevel=2,
            )
    return parts


def load_each(kind: str) -> dict[str, Any]:
    """What the entry points of a group name; of other packages, what cannot be loaded only warns."""
    own, loaded = own_parts(kind), dict[str, Any]()
    for name, entry in named_parts(kind).items():
        try:
            loaded[name] = entry.load()
        except (Exception, SystemExit) as error:
            if name in own:
                raise
            _warn(kind, entry, error)
    return loaded


def load_own(kind: str) -> None:
    """Import labeltree's own modules of a group, which register their parts."""
    for entry in own_parts(kind).values():
        entry.load()


def load_plugins(kind: str) -> None:
    """Import the modules in the entry point group `labeltree.KIND` of other packages, once.

    A module registers its additions on import. A module that cannot be imported is skipped with a warning
    that names it and its package.

    Args:
        kind: `datasets`, `objectives`, `encoders` or `protocols`.
    """
    if kind in _loaded:  # also during loading: a module may query the registry
        return
    _loaded.add(kind)
    for entry in entry_points(group=f"labeltree.{kind}"):
        try:
            entry.load()
        except (Exception, SystemExit) as error:
            _warn(kind, entry, error)


def entry_point_of(module: str, kind: str) -> EntryPoint | None:
    """The entry point by which an installed package declares a module, or another one of its package.

    Args:
        module: Name of a module that registers something.
        kind: As in `load_plugins`.
    """
    root = module.split(".")[0]
    declared = entry_points(group=f"labeltree.{kind}")
    return next((entry for entry in declared if entry.module.split(".")[0] == root), None)


def is_found_everywhere(module: str, kind: str) -> bool:
    """Whether every process finds what a module registers: it is ours, or of an installed package.

    Args:
        module: Name of the module that registers it.
        kind: As in `load_plugins`.
    """
    return module.split(".")[0] == "labeltree" or entry_point_of(module, kind) is not None


def _warn(kind: str, entry: EntryPoint, error: BaseException) -> None:
    message = " ".join(str(error).split()) or type(error).__name__
    warnings.warn(f"the {kind} of '{entry.value}'{_package(entry)} cannot be loaded: {message}", stacklevel=3)


def _package(entry: EntryPoint) -> str:
    return "" if entry.dist is None else f" (package {entry.dist.name})"
