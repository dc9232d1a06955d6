"""``labeltree data``: which data sets there are, and getting one."""

from __future__ import annotations

import argparse


def run(arguments: list[str]) -> None:
    """List the data sets, or bring one into the cache."""
    parser = argparse.ArgumentParser(
        prog="labeltree data",
        description="Data sets are kept in a cache folder: that of the environment variable LABELTREE_DATA, "
        "else the platform's own.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser(
        "list", help="the data sets by name", description="List the data sets that have a name."
    )
    get = actions.add_parser(
        "get", help="bring one into the cache", description="Bring a data set into the cache."
    )
    get.add_argument("name", help="as 'labeltree data list' has it")
    options = parser.parse_args(arguments)

    from labeltree.data import ProgressLine, fetch, get_dataset, list_datasets

    if options.action == "list":
        for entry in map(get_dataset, list_datasets()):
            print(f"{entry.name:<16} {entry.summary} [{entry.licence}]")
    else:
        print(f"{options.name}: {fetch(options.name, progress=ProgressLine())}")
