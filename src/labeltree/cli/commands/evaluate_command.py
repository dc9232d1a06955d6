"""`labeltree evaluate`: evaluate a trained run, or embeddings of any model, on a taxonomy."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from labeltree.cli.command_parser import Display, make_parser, read_options
from labeltree.errors import DataError
from labeltree.options.evaluation import EvaluateOptions
from labeltree.options.schema import Option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from labeltree.evaluation import EvaluationResult

SUMMARY = "measure how well embeddings respect a taxonomy, and write a report"
ELSEWHERE = "--out FOLDER names another folder"
"""What to do if the place that it writes to is full or read-only."""


@dataclass(frozen=True)
class _Display:
    list_protocols: Annotated[bool, Option("list the protocols with their options, and stop")] = False


def run(arguments: list[str]) -> None:
    """Evaluate the given run or table; writes metrics.json and report.html."""
    parser = make_parser(
        "evaluate",
        EvaluateOptions,
        _Display,
        Display,
        usage="RUN [options], or labeltree evaluate --embeddings FILE [options]",
        description="Measure how well embeddings respect a taxonomy. A run is compared with raw pixels and "
        "the untrained encoder; embeddings of other models are measured alone. Writes metrics.json and "
        "report.html.",
    )
    words = parser.parse_args(arguments)
    if words.list_protocols:
        from labeltree.evaluation import describe_protocols

        print(describe_protocols())
        return
    options = read_options(EvaluateOptions, words, options={})

    from labeltree.api import evaluate
    from labeltree.evaluation import attribute_table, parse_options, protocol_table
    from labeltree.progress import progress_line
    from labeltree.report.compare_answers import raw_is_better

    with progress_line(not words.quiet, only_terminal=True) as progress:
        chosen = parse_options(words.options or ())
        options = replace(options, options=chosen, progress=progress)
        done = evaluate(options)
    protocols = options.settings.protocols
    print(done.headline)
    if options.by:
        print(f"\n{attribute_table(done.result)}")
    if protocols:
        print(f"\n{protocol_table(done.result)}")
    print(f"\nmetrics: {done.metrics}\nreport:  {done.report}\n{_next(options, done.metrics.parent)}")
    if options.what is not None and (advice := raw_is_better(done.result)):
        print(f"note:    {advice}")
    refused = _refused(done.result, protocols)
    if refused:
        raise DataError(f"{refused} All else was measured and written.")


def _refused(result: EvaluationResult, asked: Sequence[str]) -> str:
    """The protocols that were requested by name and cannot be run on the data, with the reasons."""
    refusals = {name: result.main.protocols[name].refusal for name in asked if name in result.main.protocols}
    return " ".join(f"protocol '{name}': {reason}" for name, reason in refusals.items() if reason)


def _next(options: EvaluateOptions, written: Path) -> str:
    """One line that suggests next commands: a prediction, for a run, and a comparison."""
    from labeltree.runs import RunFolder

    compare = f"labeltree compare {shlex.quote(str(written))} OTHER"
    if options.what is None or Path(options.what).is_file() or RunFolder(options.what).folds.is_file():
        return f"next:    {compare}"
    return f"next:    labeltree predict {shlex.quote(str(options.what))} SAMPLES, or {compare}"
