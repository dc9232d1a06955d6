"""The options of answers by the names of classes alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated

from labeltree.options.answer_options import NOTHING_NAMED, AnswerFile, AnswerOptions, Promise
from labeltree.options.schema import Option, Place
from labeltree.options.shared import NO_LABELS, NO_TABLE, TableSettings

__all__ = ["ZeroShotOptions"]


@dataclass(frozen=True)
class ZeroShotOptions(AnswerFile):
    """What to answer for by the names of a taxonomy, without a run."""

    images: Annotated[
        Sequence[Place],
        Option("image files, a folder of them, or a table (.csv, .xlsx, .parquet …)", positional=True),
    ] = ()
    _: KW_ONLY
    taxonomy: Annotated[
        Place, Option("the taxonomy whose names answer: a file, a folder, a table or a data set")
    ]
    encoder: Annotated[
        str,
        Option(
            "what reads samples and names: 'minilm' or text:…, or of images a checkpoint with both towers, "
            "open_clip:… or transformers:…",
            metavar="NAME",
        ),
    ]
    texts: Annotated[
        Sequence[str],
        Option("a text; may be given several times", flag="--text", metavar="TEXT", repeat=True),
    ] = ()
    data: Annotated[Place | None, Option("a data set, a folder or a table instead")] = None
    table: TableSettings = None
    labelled: Annotated[bool, Option("with `data`: compare with its labels")] = False
    calibrate: Annotated[
        Place | None,
        Option(
            "labelled samples of the same kind, to calibrate answers at any depth on; without them there "
            "are only guesses",
            metavar="DATA",
        ),
    ] = None
    template: Annotated[
        str | None,
        Option(
            "the text of a node, with {name}, {parent} and {path}, such as 'a photo of a {name}'",
            "By default `labeltree.taxonomy.name_texts.TEXT_TEMPLATE` or `IMAGE_TEMPLATE`",
        ),
    ] = None
    coverage: Annotated[float, Option("with `calibrate`: the share of answers that hold the truth")] = (
        Promise.coverage
    )
    top: Annotated[int, Option("how many probable classes to list", least=0)] = AnswerOptions.top

    def check(self) -> None:
        _ = Promise(self.coverage)
        if sum(given := (bool(self.images), bool(self.texts), self.data is not None)) != 1:
            raise self.refusal(
                f"{'' if any(given) else NOTHING_NAMED}name what to answer for: image files, `texts` or "
                "`data`, and one of them only"
            )
        if self.labelled and self.data is None and self.find_data(self.images, self.images) is None:
            raise self.refusal(f"`labelled` {NO_LABELS}")
        self.require("calibrate", "is calibrated on the samples of `calibrate`; name some", "coverage")

    def with_data(self) -> ZeroShotOptions:
        """The same options, with a folder or a table in place of images as if named by `data`."""
        place = self.find_data(self.images, self.images)
        options = self if place is None else replace(self, images=(), data=place)
        options.require("data", NO_TABLE, "table")
        return options
