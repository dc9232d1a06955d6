"""The options of `study`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated

from labeltree.options.schema import Option, Options, Place, argument

__all__ = ["StudyOptions"]


@dataclass(frozen=True)
class StudyOptions(Options):
    """Which runs of a study to do."""

    file: Annotated[Place, Option("the study, a YAML file", positional=True)]
    _: KW_ONLY
    jobs: Annotated[
        int | None,
        Option(
            "runs at a time, one process each; by default one for every four cores",
            "It is 1 if an objective, encoder, data set or protocol is registered by a script, which other "
            "processes do not import",
            metavar="N",
            least=1,
        ),
    ] = None
    only: Annotated[
        Sequence[str],
        Option(
            "only this method, or all its points of the grid; * stands for anything; may be repeated",
            metavar="METHOD",
            repeat=True,
        ),
    ] = ()
    progress_bar: Annotated[bool, argument("show a progress bar; only with one job")] = False
