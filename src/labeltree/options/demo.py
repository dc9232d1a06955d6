"""The options of `demo`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from labeltree.options.schema import Option, Options, Place

__all__ = ["DemoOptions"]


@dataclass(frozen=True)
class DemoOptions(Options):
    """Where the demonstration goes, and whether it is shown."""

    out: Annotated[Place, Option("a new folder for pictures and run", metavar="FOLDER")] = "labeltree-demo"
    no_open: Annotated[bool, Option("do not open the report in the browser")] = False
