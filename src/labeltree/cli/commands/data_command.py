"""`labeltree data`: list, download and check data sets."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from labeltree.cli.command_parser import add_action, make_parser
from labeltree.options.schema import Option

Name = Annotated[str, Option("as 'labeltree data list' has it", positional=True)]


@dataclass(frozen=True)
class _Get:
    name: Name


@dataclass(frozen=True)
class _Check:
    name: Name
    path: Annotated[str | None, Option("its folder; by default that in the cache", positional=True)] = None


SUMMARY = "list the data sets, and get one"
ELSEWHERE = "LABELTREE_DATA names another cache folder"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """List the data sets, download one into the cache, or check whether one is complete."""
    parser = make_parser(
        "data",
        description="Data sets are kept in a cache folder: that of the environment variable LABELTREE_DATA, "
        "else the platform's own.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    add_action(
        actions,
        "list",
        help="the data sets by name",
        description="List the data sets that labeltree knows by name.",
    )
    add_action(
        actions,
        "get",
        _Get,
        help="download one into the cache",
        description="Download a data set into the cache.",
    )
    add_action(
        actions,
        "check",
        _Check,
        help="whether one is complete",
        description="Check a data set in a folder: what is missing, how many samples per split and "
        "classes per depth there are, and whether these are the published numbers. Reads every image once.",
    )
    options = parser.parse_args(arguments)

    if options.action == "list":
        _list()
    elif options.action == "get":
        from labeltree.data import fetch, get_dataset
        from labeltree.progress import progress_line

        with progress_line() as progress:
            folder = fetch(options.name, progress=progress)
        if sys.stderr.isatty():  # without a terminal, the progress output already contains this line
            print(f"licence of {options.name}: {get_dataset(options.name).licence}", file=sys.stderr)
        print(f"{options.name}: {folder}")
    else:
        _check(options.name, None if options.path is None else Path(options.path))


def _list() -> None:
    from labeltree.data import get_dataset, list_datasets

    entries = [get_dataset(name) for name in list_datasets()]
    width = max(len(entry.name) for entry in entries)
    fetched = [entry for entry in entries if entry.fetch is not None]
    for title, chosen in (
        ("labeltree data get NAME fetches", [entry for entry in fetched if entry.is_data]),
        ("other downloads", [entry for entry in fetched if not entry.is_data]),
        (
            "bring the files yourself; labeltree data check NAME PATH checks them",
            [e for e in entries if e.fetch is None],
        ),
    ):
        print(f"{title}:")
        for entry in chosen:
            print(f"  {entry.name:<{width}} {entry.summary} [{entry.licence}]")


def _check(name: str, path: Path | None) -> None:
    from labeltree.data import check_layout, get_dataset
    from labeltree.errors import DataError
    from labeltree.progress import progress_line

    entry = get_dataset(name)
    if not entry.is_data:
        entry.open()  # raises an error that describes the problem
    folder = entry.folder if path is None else path.expanduser()
    with progress_line() as progress:
        inventory = check_layout(entry, folder, progress=progress)
    if inventory.samples:
        print("samples: " + ", ".join(f"{count:,} {split}" for split, count in inventory.samples.items()))
        print("classes: " + ", ".join(f"{n:,} at depth {d}" for d, n in enumerate(inventory.labels, 1)))
    if inventory.unlabelled:
        print(f"without a label: {inventory.unlabelled:,}")
    for problem in inventory.problems:
        print(f"problem: {problem}")
    if inventory.problems:
        raise DataError(
            f"'{folder}' is not all of '{name}'; {len(inventory.problems)} problem(s) are listed above"
        )
    against = " and as published" if entry.published is not None else ""
    print(f"'{folder}' is complete{against}")
