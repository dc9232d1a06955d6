"""`labeltree label-next`: choose what to label next, and how finely, for an annotator."""

from __future__ import annotations

from labeltree.cli.command_parser import make_parser, read_options
from labeltree.options.curation import LabelNextOptions

SUMMARY = "choose what to label next, and how finely"
ELSEWHERE = "--out FILE names another file"
"""What to do if the place that it writes to is full or read-only."""

_EPILOG = """examples:
  labeltree label-next runs/photos --budget 200
  labeltree label-next theirs.npz --taxonomy tree.yaml --depth gain --costs 1,1.5,4
  labeltree train ... --corrections label-next.csv       once 'decision' is filled in

In the CSV the column 'suggested' holds the likeliest answer at the depth that is asked for. Where it is
right, write 'accept' into 'decision'; where it is not, write the right node over it, and 'accept'. A
coarser or finer node is an answer, too. Rows without a decision stay as they are."""


def run(arguments: list[str]) -> None:
    """Write the samples to label next."""
    parser = make_parser(
        "label-next",
        LabelNextOptions,
        description="Choose samples without a label, or with a coarse one, whose labels would teach most for "
        "a\nbudget, with the depth to which an answer is needed and a reason. The batch has no copies, and "
        "takes\nfrom groups as evenly as it can.",
        epilog=_EPILOG,
    )
    options = read_options(LabelNextOptions, parser.parse_args(arguments))

    from labeltree.api import label_next

    done = label_next(options)
    asked, ids = done.requests, done.samples.names
    for place in range(min(10, len(asked))):
        row = int(asked.rows[place])
        print(f"{ids[row]}  to depth {int(asked.depths[place])}: {asked.reasons[place]}")
    if len(asked) > 10:
        print(f"… and {len(asked) - 10:,} more")
    print(
        f"{len(asked):,} of {asked.candidates:,} that could be labelled, by {asked.strategy}, expected "
        f"cost {float(asked.costs.sum()):.4g}: {options.out}"
    )
