"""`labeltree suspects`: labels that look wrong, ranked, in a table that a person goes through."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from labeltree.cli.command_parser import AsJson, Display, Full, make_parser, read_options
from labeltree.cli.print_parts import print_json
from labeltree.options.curation import SuspectsOptions
from labeltree.options.schema import Option, Options


@dataclass(frozen=True)
class _Display(Options):
    top: Annotated[
        int | None,
        Option("rows to print (default 10, with --full 20)", metavar="N", least=0, unit="rows"),
    ] = None


SUMMARY = "find labels that look wrong"
ELSEWHERE = "--out FILE names another file"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Write suspects.csv and suspects.json, and print the first."""
    parser = make_parser(
        "suspects",
        SuspectsOptions,
        _Display,
        Full,
        AsJson,
        Display,
        description="Find labels that look wrong: a classifier that has not seen the sample (nor its group) "
        "and the labels of its nearest samples are compared with the label, at every depth of the tree. "
        "Writes suspects.csv, most suspicious first. Write 'accept' into its column 'decision' to take the "
        "suggested node (change it if you know better), 'remove' to leave the sample out, 'no label' to "
        "take its label away; leave it empty to keep the label. 'labeltree train --corrections suspects.csv' "
        "learns from it.",
    )
    words = parser.parse_args(arguments)
    options = read_options(SuspectsOptions, words)
    top = read_options(_Display, words).top

    from labeltree.api import suspects
    from labeltree.progress import progress_line
    from labeltree.runs import RunFolder

    run = None if words.what is None or not RunFolder(words.what).recipe.is_file() else RunFolder(words.what)
    out = Path(options.out or ("suspects.csv" if run is None else run.suspects))
    with progress_line(not words.quiet, only_terminal=True) as progress:
        suspected = suspects(replace(options, out=out, progress=progress))
    if words.json:
        print_json(suspected.to_dict())
        return
    print("\n".join(suspected.verdict()), end="\n\n")
    if words.full:
        parts = [suspected.table(20 if top is None else top), suspected.summary()]
    else:
        parts = [suspected.table(10 if top is None else top, reasons=False), "\n".join(suspected.notes)]
    print("".join(f"{part}\n\n" for part in parts if part), end="")
    print(f"table: {out}\njson:  {out.with_suffix('.json')}")
    if suspected.found and not words.full:
        print("the reasons are in the table; --full prints them, too")
    if suspected.found:
        tables = " ".join(map(shlex.quote, map(str, [*(run.correction_files if run else []), out])))
        print(f"next:  write into the column 'decision', then labeltree train … --corrections {tables}")
