"""What is imported when it is first used: torch, and the names of a package that has many modules.

So a taxonomy is read, checked and written without torch, and a command starts with what it needs.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["names_of_stub", "torch"]


class _Module(ModuleType):
    """A module that is imported when one of its names is first looked up."""

    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = getattr(importlib.import_module(self.__name__), name)
        return value


if TYPE_CHECKING:
    import torch
else:
    torch = _Module("torch")


def names_of_stub(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package whose names are imported when they are used.

    Args:
        package: Its `__name__`.
        file: Its `__file__`; the `__init__.pyi` beside it imports all names, as the package would. No
            module of the package has the name of one of them: its import would put it in that name's place.
    """
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text("utf-8"))
    places = {
        alias.name: node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }

    def look_up(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(places[name]), name)
        vars(importlib.import_module(package))[name] = value
        return value

    return look_up, lambda: sorted(places), sorted(places)
