"""Where an objective comes from: the module that registers it, its package, and a digest of its source."""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from labeltree.plugins import entry_point_of, is_found_everywhere

__all__ = ["LABELTREE", "Origin", "origin_of"]

_KNOWN = ("labeltree", "torch", "builtins")  # packages whose versions a run records
_INSTALLED = {"site-packages", "dist-packages"}


@dataclass(frozen=True)
class Origin:
    """Where an objective comes from.

    Attributes:
        module: The module that registers it; of a script, its file.
        digest: a digest of the files that register and define the loss, and of what they import from
            their own package or folder, as they were when it was registered; None if they cannot be read, or
            if they are labeltree's own.
    """

    module: str
    digest: str | None = None

    @property
    def is_ours(self) -> bool:
        """Whether it is one of labeltree's own."""
        return self.module.split(".")[0] == "labeltree"

    @cached_property
    def _entry_point(self) -> EntryPoint | None:
        return entry_point_of(self.module, "objectives")

    @property
    def package(self) -> str | None:
        """The installed package that declares it by an entry point; None if none does."""
        entry = self._entry_point
        return None if entry is None or entry.dist is None else entry.dist.name

    @property
    def is_found(self) -> bool:
        """Whether every process finds it: it is ours, or of an installed package."""
        return is_found_everywhere(self.module, "objectives")

    def to_dict(self) -> dict[str, str]:
        """As plain values, for a run's record."""
        values = {"module": self.module, "package": self.package, "source": self.digest}
        return {key: value for key, value in values.items() if value is not None}

    def __str__(self) -> str:
        if self.is_ours:
            return "labeltree"
        package = self.package
        return f"'{self.module}'" + (f" (package {package})" if package else "")


LABELTREE = Origin("labeltree")


def origin_of(loss: Callable[..., Any], registers: str) -> Origin:
    """The origin of a loss.

    Args:
        loss: The class or function that builds the loss.
        registers: Name of the module that registers it.
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
        for imported in _imported_beside(modules):
            digest.update(imported.read_bytes())
    except (OSError, TypeError):
        return None
    return digest.hexdigest()[:16]


def _imported_beside(modules: list[str]) -> list[Path]:
    """The files that modules import, also through one another, from their own package or folder."""
    files: dict[Path, None] = {}
    for start in modules:
        home, seen, left = _home_of(start), {start}, [start]
        while home is not None and left:
            for name in _imports_of(left.pop()):
                file = _file_of(name)
                if name in seen or file is None or not _lies_in(home, file):
                    continue
                seen.add(name)
                left.append(name)
                files[file] = None
    return sorted(files.keys() - {_file_of(module) for module in modules})


def _home_of(module: str) -> Path | None:
    """The folder of a module's whole package; of a module outside packages, its own folder."""
    package = getattr(sys.modules.get(module), "__package__", None) or ""
    for folder in getattr(sys.modules.get(package.split(".")[0]), "__path__", ()):
        return Path(folder).absolute()
    file = _file_of(module)
    return None if file is None else file.absolute().parent


def _lies_in(home: Path, file: Path) -> bool:
    """Whether a file lies in a folder, and not among packages that are installed there."""
    file = file.absolute()
    return (
        file.suffix == ".py"
        and file.is_relative_to(home)
        and home.name not in _INSTALLED
        and not _INSTALLED & set(file.relative_to(home).parts)
    )


def _imports_of(module: str) -> set[str]:
    """The names of the loaded modules that a module's text imports, wherever it does."""
    file = _file_of(module)
    if file is None:
        return set()
    package = getattr(sys.modules[module], "__package__", None) or ""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: 1 - node.level or None] if node.level else []
            source = ".".join([*parts, *([node.module] if node.module else [])])
            names |= {source, *(f"{source}.{alias.name}" for alias in node.names)}
    return {name for name in names if name in sys.modules and name.split(".")[0] not in _KNOWN}


def _file_of(module: str) -> Path | None:
    file = getattr(sys.modules.get(module), "__file__", None)
    return None if file is None or not Path(file).is_file() else Path(file)
