"""Plug-ins of other installed packages: load them through entry points, and say what is none of them.

A broken one only causes a warning.
"""

from __future__ import annotations

import warnings
from importlib.metadata import EntryPoint, entry_points

__all__ = ["entry_point_of", "is_found_everywhere", "load_plugins"]

_loaded: set[str] = set()


def load_plugins(kind: str) -> None:
    """Import the modules in the entry point group ``labeltree.KIND`` of other packages, once.

    A module registers its additions on import. A module that cannot be imported is skipped with a warning
    that names it and its package.

    Args:
        kind: ``datasets``, ``objectives``, ``encoders`` or ``protocols``.
    """
    if kind in _loaded:  # also during loading: a module may query the registry
        return
    _loaded.add(kind)
    for entry in entry_points(group=f"labeltree.{kind}"):
        try:
            entry.load()
        except (Exception, SystemExit) as error:
            message = " ".join(str(error).split()) or type(error).__name__
            warnings.warn(
                f"the {kind} of '{entry.value}'{_package(entry)} cannot be loaded: {message}", stacklevel=2
            )


def entry_point_of(module: str, kind: str) -> EntryPoint | None:
    """The entry point by which an installed package declares a module, or another one of its package.

    Args:
        module: name of a module that registers something.
        kind: as in `load_plugins`.
    """
    root = module.split(".")[0]
    declared = entry_points(group=f"labeltree.{kind}")
    return next((entry for entry in declared if entry.module.split(".")[0] == root), None)


def is_found_everywhere(module: str, kind: str) -> bool:
    """Whether every process finds what a module registers: it is ours, or of an installed package.

    Args:
        module: name of the module that registers it.
        kind: as in `load_plugins`.
    """
    return module.split(".")[0] == "labeltree" or entry_point_of(module, kind) is not None


def _package(entry: EntryPoint) -> str:
    return "" if entry.dist is None else f" (package {entry.dist.name})"
