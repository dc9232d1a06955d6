"""Where an objective comes from: the module that registers it, its package, and a digest of its source."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

__all__ = ["LABELTREE", "Origin", "origin_of"]

_KNOWN = ("labeltree", "torch", "builtins")  # packages whose versions a run records


@dataclass(frozen=True)
class Origin:
    """Where an objective comes from.

    Attributes:
        module: the module that registers it; of a script, its file.
        digest: a digest of the files that register and define the loss, as they were when it was registered;
            None if they cannot be read, or if they are labeltree's own.
    """

    module: str
    digest: str | None = None

    @property
    def is_ours(self) -> bool:
        """Whether it is one of labeltree's own."""
        return self.module.split(".")[0] == "labeltree"

    @cached_property
    def _entry_point(self) -> EntryPoint | None:
        root = self.module.split(".")[0]
        known = (e for e in entry_points(group="labeltree.objectives") if e.module.split(".")[0] == root)
        return next(known, None)

    @property
    def package(self) -> str | None:
        """The installed package that declares it by an entry point; None if none does."""
        entry = self._entry_point
        return None if entry is None or entry.dist is None else entry.dist.name

    @property
    def is_found(self) -> bool:
        """Whether every process finds it: it is ours, or of an installed package."""
        return self.is_ours or self._entry_point is not None

    def to_dict(self) -> dict[str, str]:
        """As plain values, for a run's record."""
        found = {"module": self.module, "package": self.package, "source": self.digest}
        return {key: value for key, value in found.items() if value is not None}

    def __str__(self) -> str:
        if self.is_ours:
            return "labeltree"
        package = self.package
        return f"'{self.module}'" + (f" (package {package})" if package else "")


LABELTREE = Origin("labeltree")


def origin_of(loss: Callable[..., Any], registers: str) -> Origin:
    """The origin of a loss.

    Args:
        loss: the class or function that builds the loss.
        registers: name of the module that registers it.
    """
    if registers.split(".")[0] == "labeltree":
        return Origin(registers)
    parents = inspect.getmro(loss) if isinstance(loss, type) else (loss,)
    modules = {registers, *(str(getattr(parent, "__module__", registers)) for parent in parents)}
    own = sorted(module for module in modules if module.split(".")[0] not in _KNOWN)
    script = _file_of("__main__") if registers == "__main__" else None
    return Origin(registers if script is None else str(script), _digest(own, loss))


def _digest(modules: list[str], loss: Callable[..., Any]) -> str | None:
    """A digest of the modules' files; of a notebook, which has none, of the loss alone."""
    digest = hashlib.sha256()
    try:
        for module in modules:
            file = _file_of(module)
            digest.update(file.read_bytes() if file is not None else inspect.getsource(loss).encode())
    except (OSError, TypeError):
        return None
    return digest.hexdigest()[:16]


def _file_of(module: str) -> Path | None:
    file = getattr(sys.modules.get(module), "__file__", None)
    return None if file is None or not Path(file).is_file() else Path(file)
