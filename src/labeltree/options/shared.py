"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from labeltree.options.choices import ClassifierChoice
from labeltree.options.schema import Option, Options, Place, RunPlace, argument
from labeltree.progress import Progress

__all__ = [
    "NO_LABELS",
    "NO_TABLE",
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
    "TableSettings",
    "Verify",
    "VerifySplit",
    "choose_form",
]

Form = TypeVar("Form", bound=str)


Run = Annotated[RunPlace, Option("the run folder", positional=True)]
DataPath = Annotated[Place | None, Option("with `data` NAME: the folder of that data set", metavar="PATH")]
Classifier = Annotated[
    ClassifierChoice | None,
    Option(
        "what answers from now on: class means of features or of embeddings (prototypes), LDA (lda), "
        "a linear probe, the run's own classifier, or the best of them on validation samples, auto "
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
_VERIFY = "read all files of the run's samples again, even those whose size and time are the same"
Verify = Annotated[bool, Option(_VERIFY)]
VerifySplit = Annotated[bool, Option(f"with `split`: {_VERIFY}")]
WHERE_DATA = "says where the data set of `data` lies; name one"
OWN_SAMPLES = "`verify` is about the run's own samples; leave out `data`, or `verify`"

OfSplit = Annotated[str | None, Option("only samples of this split (default: all)")]
ShownProgress = Annotated[Progress | None, argument("called as `progress(message, done, total)`")]
Seed = Annotated[int, Option("seed of all random draws")]
TableSettings = Annotated[
    Mapping[str, Any] | None,
    Option(
        "of a table: sheet, text_column … as for 'train'",
        "Those that differ from training, by name: `{'sheet': 'New'}`",
        flag="--table.SETTING",
        metavar="V",
    ),
]
NO_LABELS = "is about the samples of `data`; name a folder or a table with labels"
NO_TABLE = "is about the table of `data`; name one"
Quiet = Annotated[bool, Option("show no progress")]


def choose_form(
    options: Options, out: Place | None, form: Form | None, known: Mapping[str, Form], more: str = ""
) -> Form | None:
    """The format of a file: the given one, else that of its name; None if neither says it.

    Args:
        options: What is asked, for errors; it has `out` and `form`.
        out: The file.
        form: The given format.
        known: The formats by suffix.
        more: What else `out` may be.

    Raises:
        OptionError: If the name says no format, or another than the given one.
    """
    suffix = Path(out or "").suffix.lower()
    by_name = known.get(suffix)
    if form is None and suffix and by_name is None:
        *others, last = known
        raise options.refusal(
            f"`out` {out}: '{suffix}' says no format; end the name in {', '.join(others)} or {last}{more}, "
            "or add `form`"
        )
    if form is not None and by_name not in (None, form):
        raise options.refusal(f"`out` {out} is to hold {by_name}, and `form` says {form}; leave `form` out")
    return form or by_name
