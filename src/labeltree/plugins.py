"""Load what other installed packages add through entry points; a broken package only causes a warning."""

from __future__ import annotations

import warnings
from importlib.metadata import EntryPoint, entry_points

__all__ = ["load_plugins"]

_loaded: set[str] = set()


def load_plugins(kind: str) -> None:
    """Import the modules that other packages name under the entry point group ``labeltree.KIND``, once.

    A module registers what it adds when it is imported. One that cannot be imported is left out with a
    warning that names it and its package.

    Args:
        kind: ``datasets``, ``objectives``, ``encoders`` or ``protocols``.
    """
    if kind in _loaded:  # also while loading: a module may ask for what is registered
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
