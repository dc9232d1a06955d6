"""`labeltree predict`: answers for images or texts, each at the finest depth that is certain enough."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from labeltree.cli.command_parser import Full, make_parser, read_options
from labeltree.cli.print_parts import end_incomplete, folder_help, parts_progress, print_parts
from labeltree.options.answer_options import AnswerFile, PredictOptions
from labeltree.options.name_options import ZeroShotOptions
from labeltree.options.schema import Option

if TYPE_CHECKING:
    from labeltree.inference.answers.answered import Answered

SUMMARY = "give the most specific answers that the run is sure of, for images or texts"
_NAMES = ("sample", "samples", "row", "rows")
ELSEWHERE = "--out FILE names another file; a copy of the run can lie in another folder"
"""What to do if the place that it writes to is full or read-only."""


@dataclass(frozen=True)
class _ZeroShot:
    zero_shot: Annotated[
        bool,
        Option("without a run: by names alone"),
    ] = False


def run(arguments: list[str]) -> None:
    """Predict the samples given by the arguments, and print the answers."""
    if "--zero-shot" in arguments:
        _answer_by_names(arguments)
        return
    parser = make_parser(
        "predict",
        PredictOptions,
        Full,
        usage="RUN [IMAGE ... | FOLDER | TABLE] [options]",
        description="Answer for images or texts with a node of the taxonomy, as fine as is sure: 'mammal' if "
        "dog and wolf are equally likely. It is found step by step and may miss the most "
        "probable class. Without a run: --zero-shot --help. A row says why a sample cannot be read; the exit "
        "code is then 1, or 2 if none can. " + folder_help("answers"),
    )
    words = parser.parse_intermixed_args(arguments)
    options = read_options(PredictOptions, words).with_data()

    from labeltree.processes import import_quickly

    with import_quickly():
        from labeltree.api import predict
        from labeltree.inference.bulk import BulkDone

    with parts_progress(options.data, options.out) as progress:
        done = predict(replace(options, progress=progress))
    if isinstance(done, BulkDone):
        print_parts(done)
    else:
        _print(done, options, full=words.full)


def _answer_by_names(arguments: list[str]) -> None:
    parser = make_parser(
        "predict",
        _ZeroShot,
        ZeroShotOptions,
        Full,
        usage="--zero-shot --taxonomy TAXONOMY --encoder NAME [IMAGE ... | FOLDER | TABLE] [options]",
        description="Answer for texts or images by the names of the classes of a taxonomy, without a run and "
        "without training. A sample that cannot be read gets a row that says why, and the exit code is 1, "
        "or 2 if none can be read.",
    )
    words = parser.parse_intermixed_args(arguments)
    options = read_options(ZeroShotOptions, words).with_data()

    from labeltree.processes import import_quickly

    with import_quickly():
        from labeltree.api import zero_shot

    # of labelled guesses, how often the first is right is all that there is to say
    guessed = options.labelled and options.calibrate is None
    _print(zero_shot(options), options, full=words.full or guessed)


def _print(done: Answered, options: AnswerFile, *, full: bool) -> None:
    """Say how the answers are, print them unless they are in a file, and say what limits them."""
    told = full or len(done.answers) > 0
    if told:
        _say([*done.promises(), *done.sentences(options.format)])
    if options.out is None:
        sys.stdout.write(done.text(options.format))
        sys.stdout.flush()
    if told:
        _say(done.caveats(full=full))
    if done.skipped:
        example = ""
        if options.out is not None:  # what is printed says it
            place, reason = min(done.skipped.items())
            example = f", such as '{done.samples[place]}' ({reason})"
        end_incomplete(_NAMES, len(done.skipped), len(done.samples), options.out, example)
    if done.unreadable:
        raise SystemExit(1)


def _say(sentences: Iterable[str | None]) -> None:
    """Print sentences where they are in nobody's way."""
    for sentence in filter(None, sentences):
        print(sentence, file=sys.stderr, flush=True)
