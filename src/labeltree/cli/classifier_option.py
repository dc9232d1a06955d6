"""``--classifier``: the same option of every command that answers or measures answers."""

from __future__ import annotations

import argparse

__all__ = ["add_classifier"]


def add_classifier(parser: argparse.ArgumentParser) -> None:
    """Add the option to a command; None is what was decided before."""
    parser.add_argument(
        "--classifier",
        choices=("auto", "own", "probe", "prototypes"),  # CLASSIFIERS, without importing torch for the help
        help="what answers from now on: the run's own classifier, a linear probe on its features, the "
        "nearest class mean of its embeddings, or the best of them on validation samples, auto (default: as "
        "decided before, else as the recipe says, else auto)",
    )
