"""Options that several commands on runs share."""

from __future__ import annotations

import argparse

__all__ = ["add_classifier", "add_verify"]


def add_classifier(parser: argparse.ArgumentParser) -> None:
    """Add ``--classifier`` to a command; None means the classifier chosen before."""
    parser.add_argument(
        "--classifier",
        choices=("auto", "own", "probe", "prototypes"),  # CLASSIFIERS, without importing torch for the help
        help="what answers from now on: the run's own classifier, a linear probe on its features, the "
        "nearest class mean of its embeddings, or the best of them on validation samples, auto (default: as "
        "decided before, else as the recipe says, else auto)",
    )


def add_verify(parser: argparse.ArgumentParser, when: str = "") -> None:
    """Add ``--verify`` to a command that reads a run's own samples; `when` says in which case it does."""
    parser.add_argument(
        "--verify",
        action="store_true",
        help=f"{when}read all files of the run's samples again, also those whose size and time of change are "
        "as they were",
    )
