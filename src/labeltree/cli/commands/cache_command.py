"""`labeltree cache`: what the cache folder holds, and clear what can be made anew."""

from __future__ import annotations

import argparse

from labeltree.counted_nouns import say_count

SUMMARY = "show what the cache folder holds, or clear it"
ELSEWHERE = "LABELTREE_DATA names another cache folder"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Print the folders of the cache with their sizes, or clear some of them."""
    from labeltree.cache import MADE, cache_entries, clear_cache, data_home

    parser = argparse.ArgumentParser(
        prog="labeltree cache",
        description="Show what the cache folder holds: features of frozen encoders, decoded images and "
        "copies of files in object stores, which all runs share and which are made anew where they are "
        "missing, and downloads. The environment variable LABELTREE_DATA names another folder.",
    )
    parser.add_argument(
        "--clear",
        nargs="*",
        choices=MADE,
        metavar="NAME",
        help=f"delete these ({', '.join(MADE)}; without a name, all). Downloads are deleted by hand",
    )
    options = parser.parse_args(arguments)

    if options.clear is not None:
        names = options.clear or MADE
        print(f"deleted {', '.join(names)}: {clear_cache(names) / 1e6:,.1f} MB")
        return
    entries = cache_entries()
    print(f"{data_home()}: {sum(entry.bytes for entry in entries) / 1e6:,.1f} MB")
    width = max((len(entry.name) for entry in entries), default=0)
    for entry in entries:
        made = "made anew if cleared" if entry.name in MADE else "download"
        days = f"{say_count(round(entry.days), 'day')} old"
        files = say_count(entry.files, "file")
        print(f"{entry.name:<{width}}  {entry.bytes / 1e6:>10,.1f} MB in {files}, {days}, {made}")
