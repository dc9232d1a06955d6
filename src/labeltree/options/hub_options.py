"""The options of `push` and `pull`, which send models to the Hugging Face hub and fetch them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

from labeltree.options.choices import ExportFormat
from labeltree.options.model_options import AModel
from labeltree.options.schema import Option, Options, Place, argument
from labeltree.options.shared import ShownProgress

__all__ = ["PullOptions", "PushOptions"]


@dataclass(frozen=True)
class PushOptions(Options):
    """What is sent to a hub, where to, and who may see it."""

    run: AModel
    repository: Annotated[
        str,
        Option(
            "the repository; it is made if there is none of that name", metavar="OWNER/NAME", positional=True
        ),
    ]
    _: KW_ONLY
    public: Annotated[
        bool, Option("everybody may see the repository; without it, you alone or your organisation")
    ] = False
    dry_run: Annotated[bool, Option("show what would be sent, and send nothing")] = False
    formats: Annotated[
        Sequence[ExportFormat] | None,
        Option(
            "of a run: what is exported, as by 'labeltree export' (default: safetensors)", flag="--format"
        ),
    ] = None
    license: Annotated[
        str | None,
        Option("name of the licence on the card, such as apache-2.0 (default: as it is)", metavar="NAME"),
    ] = None
    on_plan: Annotated[
        Callable[[Any], object] | None,
        argument("called with the files and their sizes, before they are sent"),
    ] = None


@dataclass(frozen=True)
class PullOptions(Options):
    """What is fetched from a hub, and where to."""

    repository: Annotated[
        str, Option("the repository, or OWNER/NAME@REVISION", metavar="OWNER/NAME", positional=True)
    ]
    _: KW_ONLY
    revision: Annotated[str | None, Option("a branch, a tag or a commit (default: the main branch)")] = None
    out: Annotated[
        Place | None, Option("the new folder (default: named as the repository)", metavar="FOLDER")
    ] = None
    replace: Annotated[bool, Option("replace an exported model that is there")] = False
    progress: ShownProgress = None
