"""Load plug-ins of other installed packages through entry points; a broken one only causes a warning."""

from __future__ import annotations

import warnings
from importlib.metadata import EntryPoint, entry_points

__all__ = ["load_plugins"]

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


def _package(entry: EntryPoint) -> str:
    return "" if entry.dist is None else f" (package {entry.dist.name})"
