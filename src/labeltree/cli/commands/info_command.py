"""``labeltree info``: what a run or an exported model is, on one screen."""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "describe a run or an exported model on one screen"
ELSEWHERE = "it writes nothing"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Print the facts of the model named by the arguments."""
    parser = argparse.ArgumentParser(
        prog="labeltree info",
        description="Describe a model on one screen: data, training, classifier, calibration, metrics, "
        "digests and files.",
    )
    parser.add_argument("run", help="the run folder, or the folder of an exported model")
    options = parser.parse_args(arguments)

    from labeltree.inference.facts import folder_facts
    from labeltree.inference.info_text import info_text

    print(info_text(folder_facts(options.run), Path(options.run)), end="")
