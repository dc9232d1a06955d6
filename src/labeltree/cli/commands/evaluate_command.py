"""`labeltree evaluate`: evaluate a trained run, or embeddings of any model, on a taxonomy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from labeltree.cli.command_parser import AsJson, Display, Full, make_parser, read_options
from labeltree.cli.print_parts import print_json
from labeltree.errors import DataError
from labeltree.options.evaluation import EvaluateOptions
from labeltree.options.schema import Option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from labeltree.evaluation import EvaluationResult
    from labeltree.report.evaluation_case import Evaluated

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
        Full,
        AsJson,
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
    from labeltree.evaluation import parse_options
    from labeltree.progress import progress_line

    with progress_line(not words.quiet, only_terminal=True) as progress:
        chosen = parse_options(words.options or ())
        options = replace(options, options=chosen, progress=progress)
        done = evaluate(options)
    protocols = options.settings.protocols
    refused = _refused(done.result, protocols)
    if words.json:
        print_json(done.result.to_dict())
    else:
        _print(done, options, full=words.full)
    if refused:
        raise DataError(f"{refused} All else was measured and written.")


def _print(done: Evaluated, options: EvaluateOptions, *, full: bool) -> None:
    """The verdict, the numbers, and what may follow."""
    from labeltree.evaluation import attribute_table, protocol_table
    from labeltree.report.next_steps import steps_text

    print("\n".join(done.verdict), end="\n\n")
    print(done.headline if full else done.short)
    if options.by:
        print(f"\n{attribute_table(done.result)}")
    if options.settings.protocols:
        print(f"\n{protocol_table(done.result)}")
    print(f"\nmetrics: {done.metrics}\nreport:  {done.report}")
    if options.what is not None and done.advice:
        print(f"note:    {done.advice}")
    if not full:
        print("all numbers are in the report; --full prints them, too")
    print(f"\nnext:\n{steps_text(done.steps)}")


def _refused(result: EvaluationResult, asked: Sequence[str]) -> str:
    """The protocols that were requested by name and cannot be run on the data, with the reasons."""
    refusals = {name: result.main.protocols[name].refusal for name in asked if name in result.main.protocols}
    return " ".join(f"protocol '{name}': {reason}" for name, reason in refusals.items() if reason)
