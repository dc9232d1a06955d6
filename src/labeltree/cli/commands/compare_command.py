"""`labeltree compare`: say which of several runs is better, how sure that is, and where on the tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from labeltree.cli.command_parser import AsJson, Display, Full, make_parser, read_options
from labeltree.cli.print_parts import print_json
from labeltree.options.comparison_options import CompareOptions, name_runs
from labeltree.options.schema import Option

if TYPE_CHECKING:
    from labeltree.evaluation.comparing.compare_runs import Compared
    from labeltree.evaluation.comparing.gate import Verdict


@dataclass(frozen=True)
class _Runs:
    runs: Annotated[
        Sequence[str],
        Option(
            "folder of an evaluated run, or .npz/.parquet table; the first is the baseline",
            metavar="RUN",
            positional=True,
        ),
    ] = ()
    name: Annotated[
        Sequence[str],
        Option(
            "a method by name, with its runs of different seeds; repeatable",
            metavar="NAME=RUN,RUN,...",
            repeat=True,
        ),
    ] = ()


SUMMARY = "say which of several runs is better, by how much, how sure that is, and where on the tree"
ELSEWHERE = "--out FOLDER names another folder"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Compare the given runs or tables; writes comparison.json, .md, .csv and .html."""
    parser = make_parser(
        "compare",
        _Runs,
        CompareOptions,
        Full,
        AsJson,
        Display,
        description="Compare evaluated runs on the test samples that they have in common: every metric with "
        "its interval, differences with p-values corrected for the number of tests, and where on the tree "
        "they are largest. Writes comparison.json, .md, .csv and a page to open, comparison.html, and "
        "prints which is better, by how much and where; --full prints all numbers. "
        "Embeddings tables are evaluated first and need --taxonomy.",
    )
    words = parser.parse_intermixed_args(arguments)
    methods = _methods(words.runs, words.name or [])
    options = read_options(CompareOptions, words, methods=methods, mapping=_mappings(words.mapping or []))

    from labeltree.api import compare
    from labeltree.progress import progress_line

    with progress_line(not words.quiet, only_terminal=True) as progress:
        done = compare(replace(options, progress=progress))
    verdicts = done.verdicts or ()
    failed = [verdict for verdict in verdicts if not verdict.passed]
    if words.json:
        print_json(done.result.to_dict() | ({} if done.gate is None else {"gate": _gate_facts(verdicts)}))
    else:
        _print(done, full=words.full)
        if done.gate is not None:
            from labeltree.evaluation.comparing.gate import gate_text

            print(f"\n{gate_text(done.gate, verdicts, done.result)}")
    if failed:
        raise SystemExit(1)


def _print(done: Compared, *, full: bool) -> None:
    """The verdict, the main numbers, and the files."""
    if done.verdict:  # one run alone is not compared
        print("\n".join(done.verdict), end="\n\n")
    print(done.text if full else f"{done.short}\n")
    files = f"comparison: {done.json}\nas text:    {done.markdown}\nas a table: {done.table}"
    print(f"report:     {done.page}\n{files}")
    if not full:
        print("all numbers are in the report; --full prints them, too")


def _gate_facts(verdicts: Sequence[Verdict]) -> list[dict[str, object]]:
    """What the gate says of every rule, as plain values."""
    return [
        {
            "metric": verdict.rule.metric,
            "place": verdict.place,
            "units": verdict.units,
            "difference": verdict.difference.value,
            "low": verdict.difference.low,
            "high": verdict.difference.high,
            "at_most": verdict.rule.at_most,
            "passed": verdict.passed,
        }
        for verdict in verdicts
    ]


def _methods(runs: list[str], named: list[str]) -> dict[str, list[str]]:
    """Paths by method name; single runs are named after the last part of their path if that is unique."""
    methods: dict[str, list[str]] = {name: [str(run)] for name, run in name_runs(runs).items()}
    for text in named:
        name, equals, paths = text.partition("=")
        listed = [path for path in paths.split(",") if path]
        if not equals or not name or not listed:
            raise ValueError(f"--name is '{text}'; expected NAME=RUN or NAME=RUN,RUN,...")
        if name in methods:
            raise ValueError(f"--name names '{name}' twice; give one of them another name")
        if len(set(listed)) < len(listed):
            raise ValueError(f"--name '{text}' has a run twice: runs of a method must be independent")
        methods[name] = listed
    if len(methods) < 2:
        raise ValueError("compare needs at least two runs or methods: labeltree compare RUN RUN")
    return methods


def _mappings(given: list[str]) -> dict[str, str]:
    """The mapping files by run."""
    mappings: dict[str, str] = {}
    for text in given:
        run, equals, file = text.rpartition("=")
        if not equals or not run or not file:
            raise ValueError(f"--mapping is '{text}'; expected RUN=FILE")
        if Path(run).resolve() in {Path(other).resolve() for other in mappings}:
            raise ValueError(f"--mapping is given twice for '{run}'; one mapping leads to the taxonomy")
        mappings[run] = file
    return mappings
