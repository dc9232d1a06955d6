"""``labeltree evaluate``: evaluate a trained run, or embeddings of any model, on a taxonomy."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from labeltree.cli.run_options import add_classifier, add_verify
from labeltree.errors import DataError

if TYPE_CHECKING:
    from labeltree.evaluation import EvaluationResult

SUMMARY = "measure how well embeddings respect a taxonomy, and write a report"
ELSEWHERE = "--out FOLDER names another folder"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Evaluate the given run or table; writes metrics.json and report.html."""
    parser = argparse.ArgumentParser(
        prog="labeltree evaluate",
        usage="labeltree evaluate RUN [options], or labeltree evaluate --embeddings FILE [options]",
        description="Measure how well embeddings respect a taxonomy. A run is compared with raw "
        "pixels and the untrained encoder; embeddings of other models are measured alone. Writes "
        "metrics.json "
        "and report.html.",
    )
    parser.add_argument("run", nargs="?", help="the folder of a trained run")
    parser.add_argument(
        "--beside", nargs="+", default=[], metavar="RUN", help="other runs on the same samples"
    )
    parser.add_argument(
        "--data", help="measure the run on other labelled samples: a folder, a table or a data set"
    )
    parser.add_argument("--data-path", help="with --data NAME: the folder of that data set")
    parser.add_argument(
        "--embeddings",
        metavar="FILE",
        help=".npz or .parquet with embeddings and labels or nodes, or a folder that 'labeltree embed' wrote",
    )
    parser.add_argument(
        "--taxonomy",
        metavar="FILE",
        help="the taxonomy of those labels; for a run, another one to be measured on (tree or DAG)",
    )
    parser.add_argument(
        "--group-column",
        metavar="NAME",
        help="the column of FILE that says which samples belong together (default groups)",
    )
    parser.add_argument(
        "--mapping",
        metavar="FILE",
        help="what became of old nodes, by 'taxonomy map'",
    )
    parser.add_argument("--corrections", nargs="+", metavar="CSV", help="measure on corrected labels")
    parser.add_argument("--split", default="test", help="the split to measure (default test)")
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        help="where to write; default: the run, a folder in it (--taxonomy, --data), or FILE without suffix",
    )
    parser.add_argument(
        "--feature-geometry",
        choices=["sphere", "euclidean"],
        default="sphere",
        help="compare features L2-normalised (sphere, the default) or as they are (euclidean)",
    )
    add_classifier(parser)
    parser.add_argument(
        "--leave-group-out",
        choices=["auto", "always", "never"],
        default="auto",
        help="leave results of the query's own group (its patient's other samples) out of retrieval; "
        "auto, the default, does so unless every group is a class of its own",
    )
    parser.add_argument(
        "--protocols",
        nargs="+",
        default=[],
        metavar="NAME",
        help="further protocols for metrics.json, or 'all'",
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME.OPTION=VALUE",
        help="option of a protocol, such as knn.ks=1,5; repeatable",
    )
    parser.add_argument(
        "--frequency-bounds",
        nargs=2,
        type=int,
        default=(),
        metavar=("FEW", "MANY"),
        help="tail classes have at most FEW training samples, head classes more than MANY (default: thirds)",
    )
    parser.add_argument(
        "--question",
        action="append",
        default=[],
        metavar="NAME=NODE,NODE",
        help="judge a set of nodes as one test, such as malignant=melanoma,carcinoma (protocol node-scores); "
        "repeatable",
    )
    parser.add_argument(
        "--by",
        nargs="+",
        default=[],
        metavar="COLUMN",
        help="also give results by kept columns, such as the site",
    )
    parser.add_argument(
        "--list-protocols", action="store_true", help="list the protocols with their options, and stop"
    )
    parser.add_argument("--title", help="of the report")
    add_verify(parser)
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    options = parser.parse_args(arguments)
    if options.list_protocols:
        from labeltree.evaluation import describe_protocols

        print(describe_protocols())
        return
    if (options.run is None) == (options.embeddings is None):
        raise ValueError("name either a run folder, or --embeddings FILE with --taxonomy FILE")

    from labeltree.api import evaluate
    from labeltree.evaluation import attribute_table, parse_options, protocol_table
    from labeltree.progress import progress_line
    from labeltree.report.tables.main_numbers import raw_is_better
    from labeltree.runs import PartFolder

    if options.question:
        asked = ",".join(question.replace(",", "+") for question in options.question)
        options.option.append(f"node-scores.questions={asked}")
        options.protocols += [] if "node-scores" in options.protocols else ["node-scores"]
    given = options.embeddings
    if given is not None and not Path(given).is_file() and not PartFolder(given).exists():
        raise DataError(f"--embeddings: there is no file '{given}'")

    with progress_line(not options.quiet, only_terminal=True) as progress:
        done = evaluate(
            options.run or options.embeddings,
            options.taxonomy,
            data=options.data,
            data_path=options.data_path,
            mapping=options.mapping,
            corrections=options.corrections,
            group_column=options.group_column,
            beside=options.beside,
            split=options.split,
            out=options.out,
            title=options.title,
            classifier=options.classifier,
            progress=progress,
            verify=options.verify,
            feature_geometry=options.feature_geometry,
            leave_group_out=options.leave_group_out,
            protocols=options.protocols,
            options=parse_options(options.option),
            frequency_bounds=tuple(options.frequency_bounds),
            by=tuple(options.by),
        )
    print(done.headline)
    if options.by:
        print(f"\n{attribute_table(done.result)}")
    if options.protocols:
        print(f"\n{protocol_table(done.result)}")
    print(f"\nmetrics: {done.metrics}\nreport:  {done.report}\n{_next(options, done.metrics.parent)}")
    if options.run is not None and (advice := raw_is_better(done.result)):
        print(f"note:    {advice}")
    refused = _refused(done.result, options.protocols)
    if refused:
        raise DataError(f"{refused} All else was measured and written.")


def _refused(result: EvaluationResult, asked: Sequence[str]) -> str:
    """The protocols that were requested by name and cannot be run on the data, with the reasons."""
    refusals = {name: result.main.protocols[name].refusal for name in asked if name in result.main.protocols}
    return " ".join(f"protocol '{name}': {reason}" for name, reason in refusals.items() if reason)


def _next(options: argparse.Namespace, written: Path) -> str:
    """One line that suggests next commands: a prediction, for a run, and a comparison."""
    from labeltree.runs import RunFolder

    compare = f"labeltree compare {shlex.quote(str(written))} OTHER"
    if options.run is None or Path(options.run).is_file() or RunFolder(options.run).folds.is_file():
        return f"next:    {compare}"
    return f"next:    labeltree predict {shlex.quote(str(options.run))} SAMPLES, or {compare}"
