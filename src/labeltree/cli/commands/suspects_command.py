"""``labeltree suspects``: labels that look wrong, ranked, in a table that a person goes through."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path

SUMMARY = "find labels that look wrong"
ELSEWHERE = "--out FILE names another file"
"""What to do if the place that it writes to is full or read-only."""


def run(arguments: list[str]) -> None:
    """Write suspects.csv and suspects.json, and print the first."""
    parser = argparse.ArgumentParser(
        prog="labeltree suspects",
        description="Find labels that look wrong: a classifier that has not seen the sample (nor its group) "
        "and the labels of its nearest samples are compared with the label, at every depth of the tree. "
        "Writes suspects.csv, most suspicious first. Write 'accept' into its column 'decision' to take the "
        "suggested node (change it if you know better), 'remove' to leave the sample out, 'no label' to "
        "take its label away; leave it empty to keep the label. 'labeltree train --corrections suspects.csv' "
        "learns from it.",
    )
    parser.add_argument(
        "what", nargs="?", metavar="RUN|INDEX", help="a trained run, or an index (folder or URL)"
    )
    parser.add_argument("--embeddings", metavar="FILE", help="embeddings of any model with labels, instead")
    parser.add_argument("--taxonomy", metavar="FILE", help="the taxonomy of those labels")
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="where to write (.csv; the .json lies beside it); default: suspects.csv in the run, or in the "
        "current folder",
    )
    parser.add_argument("--split", help="list only samples of this split; all are learned from")
    parser.add_argument("--within", metavar="NODE", help="list only labels at or below this node")
    parser.add_argument(
        "--rank",
        choices=["labels", "branches"],
        default="labels",
        help="what comes first: labels that lose against a rival at their own depth (the default), or "
        "labels that lose at the coarser depths, too: wrong branches rather than wrong leaves",
    )
    parser.add_argument(
        "--least-score",
        type=float,
        default=0.5,
        metavar="S",
        help="list labels with a higher score: the weight of the strongest rival over that of rival and "
        "label together; at 0.5, the default, the rival is as likely as the label",
    )
    parser.add_argument("--top", type=int, default=20, metavar="N", help="rows to print (default 20)")
    parser.add_argument(
        "--neighbours", type=int, default=20, metavar="K", help="nearest samples (default 20)"
    )
    parser.add_argument("--folds", type=int, default=5, help="folds of the cross-validation (default 5)")
    parser.add_argument(
        "--fewest",
        type=int,
        default=3,
        metavar="N",
        help="labels with fewer samples (or groups) are judged at a coarser node (default 3)",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the folds (default 0)")
    parser.add_argument("--json", action="store_true", help="print the JSON instead of the table")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    options = parser.parse_args(arguments)
    if (options.what is None) == (options.embeddings is None):
        raise ValueError("name either a run or an index, or --embeddings FILE with --taxonomy FILE")
    if options.taxonomy is not None and options.embeddings is None:
        raise ValueError("--taxonomy is that of --embeddings; a run and an index have their own")
    if options.top < 0:
        raise ValueError(f"--top is {options.top}; it must be 0 or more rows")

    from labeltree.api import suspects
    from labeltree.errors import DataError
    from labeltree.progress import progress_line
    from labeltree.runs import RunFolder

    what = options.embeddings or options.what
    if options.embeddings is not None and not Path(what).exists():
        raise DataError(f"--embeddings: there is no file '{what}'")
    run = RunFolder(what) if options.embeddings is None and RunFolder(what).recipe.is_file() else None
    out = Path(options.out or ("suspects.csv" if run is None else run.path / "suspects.csv"))
    with progress_line(not options.quiet, only_terminal=True) as progress:
        listed = suspects(
            what,
            options.taxonomy,
            within=options.within,
            split=options.split,
            out=out,
            ranking=options.rank,
            k=options.neighbours,
            folds=options.folds,
            fewest=options.fewest,
            least_score=options.least_score,
            seed=options.seed,
            progress=progress,
        )
    if options.json:
        print(json.dumps(listed.to_dict(), indent=2, ensure_ascii=False))
        return
    print(f"{listed.table(options.top)}\n\n{listed.summary()}\n")
    print(f"table: {out}\njson:  {out.with_suffix('.json')}")
    if listed.found:
        tables = " ".join(map(shlex.quote, map(str, [*(run.correction_files if run else []), out])))
        print(f"next:  write into the column 'decision', then labeltree train … --corrections {tables}")
