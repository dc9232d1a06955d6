"""`labeltree push`: a model as a repository of the Hugging Face hub."""

from __future__ import annotations

from labeltree.cli.command_parser import make_parser, read_options
from labeltree.options.hub_options import PushOptions

SUMMARY = "send an exported model, or a run, to the Hugging Face hub"


def run(arguments: list[str]) -> None:
    """Send the model that the arguments name; its files and their sizes are printed before."""
    parser = make_parser(
        "push",
        PushOptions,
        description="Send a model to the Hugging Face hub: card, weights, taxonomy, settings, and the graph "
        "if it was exported. A run is exported first. Samples, embeddings of samples and places on this disk "
        "stay here, and the repository is private unless you say --public. Log in first: 'hf auth login'.",
    )
    options = read_options(
        PushOptions, parser.parse_args(arguments), on_plan=lambda plan: print(plan.text(), flush=True)
    )

    from labeltree.api import push

    done = push(options)
    print(f"sent: {done.address} at commit {done.commit}" if done.commit else "nothing was sent: --dry-run")
