"""``labeltree label-next``: choose what to label next, and how finely, for an annotator."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labeltree.curation.label_next import DepthRule

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
    parser = argparse.ArgumentParser(
        prog="labeltree label-next",
        description="Choose samples without a label, or with a coarse one, whose labels would teach most for "
        "a\nbudget, with the depth to which an answer is needed and a reason. The batch has no copies, and "
        "takes\nfrom groups as evenly as it can.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="RUN|INDEX|FILE", help="a run, an index, or a table of embeddings")
    parser.add_argument("--taxonomy", metavar="FILE", help="of the labels of FILE")
    parser.add_argument(
        "--budget", type=float, default=100.0, help="sum of the expected costs of the answers (default 100)"
    )
    parser.add_argument(
        "--costs",
        default="levels",
        help="of an answer: levels (1 for each choice between children; default), children (log2(k + 1) for "
        "a choice among k), or the cost at depth 1, 2 …, such as 1,1.5,4",
    )
    parser.add_argument(
        "--reliability", help="share of right answers at depth 1, 2 …, such as 1,.98,.9 (default: all right)"
    )
    parser.add_argument(
        "--depth",
        default="finest",
        help="how finely to ask: finest (default), gain (most expected information for its cost), or a depth",
    )
    parser.add_argument(
        "--strategy",
        default=None,
        choices=("random", "entropy", "margin", "gain", "margin+clusters", "coreset", "typiclust", "badge"),
        help="how samples are chosen (default margin+clusters; without any label typiclust)",
    )
    parser.add_argument("--split", help="only samples of this split (default: all)")
    parser.add_argument(
        "--within", metavar="NODE", help="only samples whose coarse label is this node or below"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of all random draws (default 0)")
    parser.add_argument("--out", default="label-next.csv", metavar="FILE", help="(default label-next.csv)")
    options = parser.parse_args(arguments)

    from labeltree.curation.answer_costs import read_costs
    from labeltree.curation.label_next import label_next
    from labeltree.curation.label_requests import may_be_labelled, write_requests
    from labeltree.index.opened_tables import open_table

    samples = open_table(options.source, taxonomy=options.taxonomy)
    names = samples.names
    asked = label_next(
        samples.vectors,
        samples.nodes,
        samples.tree,
        budget=options.budget,
        costs=read_costs(options.costs),
        reliability=_shares(options.reliability),
        depth=_depth(options.depth),
        groups=samples.groups,
        candidates=may_be_labelled(samples, split=options.split, within=options.within),
        seed=options.seed,
        **({} if options.strategy is None else {"strategy": options.strategy}),
    )
    write_requests(asked, samples, options.out)
    for place in range(min(10, len(asked))):
        row = int(asked.rows[place])
        print(f"{names[row]}  to depth {int(asked.depths[place])}: {asked.reasons[place]}")
    if len(asked) > 10:
        print(f"… and {len(asked) - 10:,} more")
    print(
        f"{len(asked):,} of {asked.candidates:,} that could be labelled, by {asked.strategy}, expected "
        f"cost {float(asked.costs.sum()):.4g}: {options.out}"
    )


def _depth(text: str) -> DepthRule | int:
    if text == "finest":
        return "finest"
    if text == "gain":
        return "gain"
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"--depth is {text!r}; expected finest, gain or a number") from None


def _shares(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--reliability is {text!r}; expected numbers such as 1,.98,.9") from None
