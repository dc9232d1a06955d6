"""`labeltree predict`: answers for images or texts, each at the finest depth that is certain enough."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from labeltree.cli.command_parser import make_parser, read_options
from labeltree.cli.print_parts import folder_help, parts_progress, print_parts
from labeltree.options.answer_options import AnswerFile, PredictOptions
from labeltree.options.name_options import ZeroShotOptions
from labeltree.options.schema import Option

if TYPE_CHECKING:
    from labeltree.inference.predict import Answered

SUMMARY = "give the most specific answers that the run is sure of, for images or texts"
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
        usage="RUN [IMAGE ... | FOLDER] [options]",
        description="Answer for images or texts with a node of the taxonomy, as fine as is sure: 'mammal' if "
        "dog and wolf are equally likely. Without a run: 'predict --zero-shot --help'. A sample that cannot "
        "be read gets a row that says why, and the exit code is 1. " + folder_help("answers"),
    )
    options = read_options(PredictOptions, parser.parse_intermixed_args(arguments)).with_folder_as_data()

    from labeltree.processes import import_quickly

    with import_quickly():
        from labeltree.api import predict
        from labeltree.inference.bulk import BulkDone

    with parts_progress(options.data, options.out) as progress:
        done = predict(replace(options, progress=progress))
    if isinstance(done, BulkDone):
        print_parts(done)
    else:
        _print(done, options)


def _answer_by_names(arguments: list[str]) -> None:
    parser = make_parser(
        "predict",
        _ZeroShot,
        ZeroShotOptions,
        usage="--zero-shot --taxonomy TAXONOMY --encoder NAME [IMAGE ... | FOLDER] [options]",
        description="Answer for texts or images by the names of the classes of a taxonomy, without a run and "
        "without training. A sample that cannot be read gets a row that says why, and the exit code is 1.",
    )
    words = parser.parse_intermixed_args(arguments)
    options = read_options(ZeroShotOptions, words).with_folder_as_data()

    from labeltree.processes import import_quickly

    with import_quickly():
        from labeltree.api import zero_shot

    _print(zero_shot(options), options)


def _print(done: Answered, options: AnswerFile) -> None:
    """Print answers, unless they are in a file, and what there is to say of them."""
    if options.out is None:
        sys.stdout.write(done.text(options.format))
    for sentence in filter(None, _sentences(done)):
        print(sentence, file=sys.stderr)
    if done.skipped:
        place, reason = min(done.skipped.items())
        where = f" (in '{options.out}')" if options.out else ""
        print(
            f"labeltree: no answer for {len(done.skipped)} of {len(done.samples)} samples, such as "
            f"'{done.samples[place]}' ({reason}); their rows say why{where}, the others are answered",
            file=sys.stderr,
        )
        raise SystemExit(1)


def _sentences(done: Answered) -> list[str | None]:
    """What there is to say of the answers."""
    said = [done.sentence(), done.classifier, done.rests_on]
    said += [each.text() for each in (done.coverage, done.called_unknown) if each is not None]
    drift = None
    if isinstance(done.drift, str):
        drift = f"not tested whether these samples are like those of training: {done.drift}"
    elif done.drift is not None and done.drift.alarms():
        drift = f"labeltree: {done.drift.sentence()}"
    return [*said, done.warning, drift]
