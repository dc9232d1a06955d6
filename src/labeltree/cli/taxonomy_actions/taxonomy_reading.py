"""Options of how the taxonomy of a table is read."""

from __future__ import annotations

import argparse

__all__ = ["add_column", "add_names"]


def add_column(action: argparse.ArgumentParser) -> None:
    """Add the setting of the column of paths to the parser of an action on a table."""
    action.add_argument(
        "--column", metavar="NAME", help="the column of a .csv or .tsv that holds whole paths, A > B > C"
    )


def add_names(action: argparse.ArgumentParser) -> None:
    """Add the settings of names to the parser of an action on a table."""
    action.add_argument(
        "--names",
        choices=("exact", "plain", "scientific"),
        help="how names in a table are read (default: exact)",
    )
    action.add_argument("--synonyms", metavar="FILE", help="a table with the columns synonym and accepted")
