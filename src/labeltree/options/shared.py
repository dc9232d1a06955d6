"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

from labeltree.options.choices import ClassifierChoice
from labeltree.options.schema import Option, Place, RunPlace, argument
from labeltree.progress import Progress

__all__ = [
    "OWN_SAMPLES",
    "WHERE_DATA",
    "AnswerMapping",
    "AnswerTaxonomy",
    "Classifier",
    "DataPath",
    "OfSplit",
    "Quiet",
    "Run",
    "Seed",
    "ShownProgress",
    "Verify",
    "VerifySplit",
]


Run = Annotated[RunPlace, Option("the run folder", positional=True)]
DataPath = Annotated[Place | None, Option("with `data` NAME: the folder of that data set", metavar="PATH")]
Classifier = Annotated[
    ClassifierChoice | None,
    Option(
        "what answers from now on: class means of features or of embeddings (prototypes), discriminants "
        "(lda), a linear probe, the run's own classifier, or the best of them on validation samples, auto "
        "(default: as decided before, else as the recipe says, else auto)"
    ),
]
AnswerTaxonomy = Annotated[
    Place | None, Option("answer on this version of the taxonomy", "None = the run's own", metavar="FILE")
]
AnswerMapping = Annotated[
    Place | None,
    Option(
        "with `taxonomy`: what became of the run's classes, by 'labeltree taxonomy map'",
        "None = what is certain",
        metavar="FILE",
    ),
]
_VERIFY = (
    "read all files of the run's samples again, even those whose size and modification time have not changed"
)
Verify = Annotated[bool, Option(_VERIFY)]
VerifySplit = Annotated[bool, Option(f"with `split`: {_VERIFY}")]
WHERE_DATA = "says where the data set of `data` lies; name one"
OWN_SAMPLES = "`verify` is about the run's own samples; leave out `data`, or `verify`"

OfSplit = Annotated[str | None, Option("only samples of this split (default: all)")]
ShownProgress = Annotated[Progress | None, argument("called as `progress(message, done, total)`")]
Seed = Annotated[int, Option("seed of all random draws")]
Quiet = Annotated[bool, Option("show no progress")]
