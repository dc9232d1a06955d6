"""``labeltree duplicates``: near duplicates in an index, across splits, labels and groups."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

SUMMARY = "find near duplicates in an index, across splits, labels and groups"
ELSEWHERE = "--out FILE names another file"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Find near duplicates, and print or write them."""
    parser = argparse.ArgumentParser(
        prog="labeltree duplicates",
        description="Find near duplicates: pairs of an index that are closer than a "
        "threshold, and the sets that they make. Pairs between training and test come first, then pairs "
        "with labels that exclude each other.",
    )
    parser.add_argument("index", help="an index, or a run with one ('labeltree index RUN' makes it)")
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="D",
        help="largest distance of a pair; for cosines the chord √(2 − 2·cosine) (default: 0.13 times the "
        "median distance to the nearest neighbour)",
    )
    parser.add_argument("--cosine", type=float, metavar="C", help="or the least cosine of a pair")
    parser.add_argument(
        "--pairs",
        type=int,
        default=100_000,
        metavar="N",
        help="list at most this many, those across splits first (default 100,000)",
    )
    parser.add_argument("--format", choices=["table", "csv", "json"], help="default: by --out, or table")
    parser.add_argument("--out", metavar="FILE", help="write there instead of printing")
    options = parser.parse_args(arguments)
    if options.threshold is not None and options.cosine is not None:
        parser.error("--threshold and --cosine both say what is near; give one")
    if options.cosine is not None and not -1 <= options.cosine <= 1:
        parser.error(f"--cosine is {options.cosine:g}; give a number from -1 to 1")

    from labeltree.curation.duplicates_text import Format, duplicates_text, unlisted
    from labeltree.curation.index_duplicates import index_duplicates
    from labeltree.index import Index

    index = Index.open(options.index)
    threshold = options.threshold
    if options.cosine is not None:
        if index.geometry != "cosine":
            parser.error(f"--cosine does not suit an index that is {index.geometry}; give --threshold")
        threshold = (2.0 - 2.0 * options.cosine) ** 0.5
    duplicates, names = index_duplicates(index, threshold=threshold, most_pairs=options.pairs)
    by_name: dict[str, Format] = {".csv": "csv", ".json": "json"}
    form: Format = options.format or by_name.get(Path(options.out or "").suffix.lower(), "table")
    text = duplicates_text(duplicates, names, form)
    if options.out is None:
        sys.stdout.write(text)
        for sentence in unlisted(duplicates) if form != "table" else ():
            print(sentence, file=sys.stderr)
        return
    from labeltree.atomic import atomic_write

    with atomic_write(options.out) as temporary:
        temporary.write_text(text, "utf-8")
    print(duplicates_text(duplicates, names, "table").split("\n\n")[0].rstrip(), file=sys.stderr)
    print(f"written to {options.out}", file=sys.stderr)
