"""`labeltree info`: what a run or an exported model is, on one screen."""

from __future__ import annotations

from pathlib import Path

from labeltree.cli.command_parser import AsJson, make_parser
from labeltree.cli.print_parts import print_json
from labeltree.options.model_options import InfoOptions

SUMMARY = "describe a run or an exported model on one screen"
ELSEWHERE = "it writes nothing"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Print the facts of the model named by the arguments."""
    parser = make_parser(
        "info",
        InfoOptions,
        AsJson,
        description="Describe a model on one screen: data, training, classifier, calibration, metrics, "
        "digests and files.",
    )
    words = parser.parse_args(arguments)

    from labeltree.inference.info_text import info_text
    from labeltree.inference.model_facts import folder_facts

    facts = folder_facts(words.run)
    if words.json:
        print_json(facts)
    else:
        print(info_text(facts, Path(words.run)), end="")
