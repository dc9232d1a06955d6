"""`labeltree compare`: say which of several runs is better, how sure that is, and where on the tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from labeltree.cli.command_parser import Display, make_parser, read_options
from labeltree.options.comparison_options import CompareOptions
from labeltree.options.schema import Option

if TYPE_CHECKING:
    from labeltree.evaluation import Comparison
    from labeltree.evaluation.comparing.gate import Gate, Verdict


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
        Display,
        description="Compare evaluated runs on the test samples that they have in common: every metric with "
        "its interval, differences with p-values corrected for the number of tests, and where on the tree "
        "they are largest. Writes comparison.json, .md, .csv and a page to open, comparison.html. "
        "Embeddings tables are evaluated first and need --taxonomy.",
    )
    words = parser.parse_intermixed_args(arguments)
    methods = _methods(words.runs, words.name or [])
    options = read_options(CompareOptions, words, methods=methods, mapping=_mappings(words.mapping or []))

    from labeltree.api import compare
    from labeltree.progress import progress_line

    with progress_line(not words.quiet, only_terminal=True) as progress:
        done = compare(replace(options, progress=progress))
    print(done.text)
    files = f"comparison: {done.json}\nas text:    {done.markdown}\nas a table: {done.table}"
    print(f"report:     {done.page}\n{files}")
    if done.gate is not None:
        _print_verdicts(done.gate, done.verdicts or (), done.result)


def _print_verdicts(gate: Gate, verdicts: Sequence[Verdict], result: Comparison) -> None:
    """What the gate says; ends the program with 1 unless all rules hold."""
    from labeltree.evaluation.comparing.gate import by_chance

    old = result.baseline
    (new,) = (name for name in result.methods if name != old)
    failed = [verdict for verdict in verdicts if not verdict.passed]
    shown = [*failed, *(verdict for verdict in verdicts if verdict.rule.where == "all" and verdict.passed)]
    print(f"\ngate: {new} against {old}, {len(verdicts)} checks, {len(failed)} failed")
    said = [verdict.sentence() for verdict in shown] + by_chance(gate, verdicts)
    print("".join(f"  {sentence}\n" for sentence in said), end="")
    if failed:
        raise SystemExit(1)


def _methods(runs: list[str], named: list[str]) -> dict[str, list[str]]:
    """Paths by method name; single runs are named after the last part of their path if that is unique."""
    last = Counter(_last(path) for path in runs)
    methods: dict[str, list[str]] = {}
    for path in runs:
        name = _last(path) if last[_last(path)] == 1 else path
        if name in methods:
            raise ValueError(f"'{path}' is named twice; a run is compared with other runs")
        methods[name] = [path]
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


def _last(path: str) -> str:
    place = Path(path)
    return place.stem if place.suffix in (".npz", ".parquet") else place.resolve().name
