"""``labeltree predict``: answers for images or texts, each at the finest depth that is certain enough."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from labeltree.cli.run_options import (
    add_bulk,
    add_classifier,
    add_verify,
    add_version,
    folder_help,
    run_in_bulk,
)

if TYPE_CHECKING:
    from labeltree.inference.format_answers import Format

SUMMARY = "answer for images or texts, as finely as the run is sure"
ELSEWHERE = "--out FILE names another file; a copy of the run can lie in another folder"
"""What to do if the place that it writes to is full or read-only."""

_OF_ANSWERS = (
    "classifier", "coverage", "method", "confidence", "counted", "by_depth", "cost", "top", "unknown",
    "taxonomy", "mapping",
)  # fmt: skip

_FORMATS: dict[str, Format] = {".csv": "csv", ".json": "json", ".txt": "table"}


def run(arguments: list[str]) -> None:
    """Predict the samples given by the arguments, and print the answers."""
    parser = _parser()
    options = parser.parse_intermixed_args(arguments)
    _name_folder(options)
    given = [bool(options.images), bool(options.text), options.data is not None, options.split is not None]
    if sum(given) != 1 and not (given[:2] == [True, True] and not any(given[2:])):
        raise ValueError(
            "name what to answer for: image files, --text, --data or --split, and one of them only; of a "
            "run on images and texts also image files with a --text for each"
        )

    if options.verify and options.split is None:
        raise ValueError("--verify is about the run's own samples; it goes with --split")

    if run_in_bulk(
        parser,
        options,
        {
            "what": "predict",
            "labelled": options.labelled,
            **{name: getattr(options, name) for name in _OF_ANSWERS},
            "coarse": options.coarse_cost,
        },
        {
            "image files, --text or --split": not options.data,
            "--data-path": options.data_path,
            "--format": options.format,
            "--explain": options.explain,
            "--per": options.per,
        },
        {},
    ):
        return

    form = _form(options.format, options.out, parser)

    from labeltree.processes import import_quickly

    with import_quickly():
        from labeltree.decisions import Promise
        from labeltree.inference.predict import Request, answer

    if options.explain and form == "csv":
        raise ValueError("--explain has no place in a CSV; take --format json or table")
    promise = Promise(options.coverage, options.method, options.confidence, options.counted)
    request = Request(
        images=tuple(options.images),
        texts=tuple(options.text),
        data=options.data,
        data_path=options.data_path,
        split=options.split,
        labelled=options.labelled or options.split is not None,
    )
    done = answer(
        options.run,
        request,
        promise,
        classifier=options.classifier,
        by_depth=options.by_depth,
        cost=options.cost,
        coarse=options.coarse_cost,
        top=options.top,
        unknown=options.unknown,
        explained=options.explain,
        per=options.per,
        taxonomy=options.taxonomy,
        mapping=options.mapping,
        verify=options.verify,
    )
    text = done.text(form)
    if options.out is None:
        sys.stdout.write(text)
    else:
        from labeltree.atomic import atomic_write

        with atomic_write(options.out) as temporary:
            temporary.write_text(text, "utf-8")
    print("\n".join(filter(None, (done.sentence(), done.classifier, done.rests_on))), file=sys.stderr)
    if done.coverage is not None:
        print(done.coverage.text(), file=sys.stderr)
    if done.called_unknown is not None:
        print(done.called_unknown.text(), file=sys.stderr)
    if done.warning is not None:
        print(done.warning, file=sys.stderr)
    if isinstance(done.drift, str):
        print(f"not tested whether these samples are like those of training: {done.drift}", file=sys.stderr)
    elif done.drift is not None and done.drift.alarms():
        print(f"labeltree: {done.drift.sentence()}", file=sys.stderr)
    if done.skipped:
        place, reason = min(done.skipped.items())
        where = f" (in '{options.out}')" if options.out else ""
        print(
            f"labeltree: no answer for {len(done.skipped)} of {len(done.samples)} samples, such as "
            f"'{done.samples[place]}' ({reason}); their rows say why{where}, the others are answered",
            file=sys.stderr,
        )
        raise SystemExit(1)


def _form(given: Format | None, out: str | None, parser: argparse.ArgumentParser) -> Format:
    """The format of the answers: the given one, else that of the file's name, else a table."""
    suffix = Path(out or "").suffix.lower()
    by_name = _FORMATS.get(suffix)
    if suffix == ".parquet":
        parser.error(
            f"--out {out}: a single Parquet file of answers is not written; end the name in / for a folder "
            "of Parquet files (FOLDER/), or in .csv or .json"
        )
    if given is None and suffix and by_name is None:
        parser.error(
            f"--out {out}: '{suffix}' says no format; end the name in .csv, .json or .txt (a table to read), "
            "or in / for a folder of Parquet files (FOLDER/), or add --format"
        )
    if given is not None and by_name not in (None, given):
        parser.error(f"--out {out} is to hold {by_name}, and --format says {given}; leave --format out")
    return given or by_name or "table"


def _name_folder(options: argparse.Namespace) -> None:
    """Read a folder in place of images as if it were named by ``--data``."""
    folders = [place for place in options.images if Path(place).is_dir()]
    if folders and (len(options.images) > 1 or options.text or options.data or options.split):
        raise ValueError(f"'{folders[0]}' is a folder; answer for it alone")
    if folders:
        options.data, options.images = folders[0], []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="labeltree predict",
        usage="labeltree predict RUN [IMAGE ... | FOLDER] [options]",
        description="Answer for images or texts with a node of the taxonomy, as fine as is sure: "
        "'mammal' if dog and wolf are equally likely. A sample that cannot be read gets a row that "
        "says why, and the exit code is 1. " + folder_help("answers"),
    )
    parser.add_argument("run", help="the run folder")
    parser.add_argument("images", nargs="*", help="image files, or a folder of them")
    parser.add_argument("--text", action="append", default=[], help="a text; may be given several times")
    parser.add_argument("--data", help="a data set, a folder or a table instead")
    parser.add_argument("--data-path", metavar="PATH", help="with --data NAME: the folder of that data set")
    parser.add_argument("--labelled", action="store_true", help="with --data: compare with its labels")
    parser.add_argument(
        "--split", choices=["train", "val", "calib", "test"], help="samples of the run's own data instead"
    )
    parser.add_argument(
        "--coverage",
        type=float,
        default=0.9,
        help="the share of answers that contain the truth (default 0.9)",
    )
    parser.add_argument(
        "--method",
        choices=["conformal", "threshold"],
        default="conformal",
        help="guaranteed for new samples (default), or as on those of calibration",
    )
    add_verify(parser, "with --split: ")
    add_classifier(parser)
    add_version(parser)
    parser.add_argument(
        "--confidence",
        type=float,
        metavar="SHARE",
        help="reach it in this share of draws of calibration samples",
    )
    parser.add_argument(
        "--by-depth",
        type=int,
        metavar="DEPTH",
        help="reach it within every node at this depth",
    )
    parser.add_argument(
        "--counted",
        choices=["sample", "group"],
        default="sample",
        help="with groups: the promise is of one of each, or all",
    )
    parser.add_argument(
        "--cost",
        metavar="tree|edges|FILE",
        help="answer at least expected cost instead: by the height of the LCA, by edges, or by a CSV of "
        "answers × truths",
    )
    parser.add_argument(
        "--coarse-cost",
        type=float,
        metavar="SHARE",
        help="what a right but coarse answer costs, relative to a wrong one",
    )
    parser.add_argument(
        "--unknown",
        type=float,
        default=0.05,
        metavar="SHARE",
        help="the share of known samples that may be called unknown (default 0.05; 0: none)",
    )
    parser.add_argument(
        "--per",
        metavar="COLUMN",
        help="one answer for each 'group' or kept lesion, site …",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="name training samples that speak for and against",
    )
    parser.add_argument("--top", type=int, default=3, help="how many probable classes to list (default 3)")
    parser.add_argument("--format", choices=["table", "csv", "json"], help="default: by --out, or table")
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="write there, in the format of .csv, .json or .txt; another --format is refused",
    )
    add_bulk(parser)
    return parser
