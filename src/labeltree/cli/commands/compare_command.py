"""``labeltree compare``: which of several runs is better, by how much, how sure, and where on the tree."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

SUMMARY = "which of several runs is better, by how much, how sure, and where on the tree"
ELSEWHERE = "--out FOLDER names another folder"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Compare the given runs or tables; writes comparison.json, .md, .csv and .html."""
    parser = argparse.ArgumentParser(
        prog="labeltree compare",
        description="Compare evaluated runs on the test samples that they have in common: every metric with "
        "its interval, differences with p-values corrected for the number of tests, and where on the tree "
        "they are largest. Writes comparison.json, .md, .csv and a page to open, comparison.html. "
        "Embeddings tables are evaluated first and need --taxonomy.",
    )
    parser.add_argument(
        "runs",
        nargs="*",
        metavar="RUN",
        help="folder of an evaluated run, or .npz/.parquet table; the first is the baseline",
    )
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="NAME=RUN,RUN,...",
        help="a method by name, with its runs of different seeds; repeatable",
    )
    parser.add_argument("--baseline", metavar="NAME", help="the method that the others are compared with")
    parser.add_argument(
        "--taxonomy",
        metavar="FILE",
        help="of the labels of embeddings tables; runs on another one are evaluated on it first, RUN/on-FILE",
    )
    parser.add_argument(
        "--mapping",
        action="append",
        default=[],
        metavar="RUN=FILE",
        help="with --taxonomy: what became of a run's classes, from 'labeltree taxonomy map'; repeatable",
    )
    parser.add_argument("--split", default="test", help="of embeddings tables (default test)")
    parser.add_argument(
        "--metrics",
        nargs="+",
        metavar="METRIC",
        help="only these, such as answer_top1 recall_at_1, or knn.features.top1 of a protocol: fewer need "
        "less correction",
    )
    parser.add_argument("--confidence", type=float, default=0.95, help="of the intervals (default 0.95)")
    parser.add_argument("--resamples", type=int, default=2000, help="of the bootstrap (default 2000)")
    parser.add_argument("--permutations", type=int, default=10_000, help="of the tests (default 10000)")
    parser.add_argument("--seed", type=int, default=0, help="of both (default 0)")
    parser.add_argument(
        "--out", default="comparison", metavar="FOLDER", help="where to write (default ./comparison)"
    )
    parser.add_argument(
        "--report", metavar="FILE", help="where the page goes (default comparison.html beside the others)"
    )
    parser.add_argument(
        "--gate",
        metavar="FILE",
        help="rules on what a new run may lose: 'labeltree compare NEW OLD --gate gate.yaml' ends with 1 "
        "unless all of them hold",
    )
    parser.add_argument("--title", help="of the page")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    options = parser.parse_intermixed_args(arguments)
    methods = _methods(options.runs, options.name)
    mapping = _mappings(options.mapping)

    gate = None
    if options.gate is not None:
        from labeltree.evaluation.comparing.gate import read_gate

        gate = read_gate(options.gate)
        if len(methods) != 2:
            raise ValueError(
                f"--gate is about a new run and an old one; there are {len(methods)} runs or methods"
            )
        options.baseline = options.baseline or list(methods)[1]
        options.confidence = gate.confidence

    from labeltree.api import compare
    from labeltree.progress import progress_line
    from labeltree.runs import RunFolder

    page = options.report or RunFolder(options.out).comparison_page
    with progress_line(not options.quiet, only_terminal=True) as progress:
        done = compare(
            methods,
            out=options.out,
            report=page,
            title=options.title,
            taxonomy=options.taxonomy,
            mapping=mapping,
            split=options.split,
            baseline=options.baseline,
            metrics=options.metrics,
            strata_metrics=gate.node_metrics if gate is not None and gate.node_metrics else None,
            min_samples=20 if gate is None else gate.fewest,
            confidence=options.confidence,
            resamples=options.resamples,
            permutations=options.permutations,
            seed=options.seed,
            progress=progress,
        )
    print(done.text)
    print(
        f"report:     {page}\ncomparison: {done.json}\nas text:    {done.markdown}\nas a table: {done.table}"
    )
    if gate is not None:
        from labeltree.evaluation.comparing.gate import by_chance, check_gate

        (new,) = (name for name in methods if name != options.baseline)
        verdicts = check_gate(gate, done.result, new)
        failed = [verdict for verdict in verdicts if not verdict.passed]
        shown = [
            *failed,
            *(verdict for verdict in verdicts if verdict.rule.where == "all" and verdict.passed),
        ]
        print(f"\ngate: {new} against {options.baseline}, {len(verdicts)} checks, {len(failed)} failed")
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
