"""``labeltree taxonomy suspects``: places where a tree does not fit the samples of its nodes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

__all__ = ["add_suspects", "suspects"]


def add_suspects(actions: Any) -> None:
    """Add the action to the command's parser."""
    action = actions.add_parser(
        "suspects",
        help="find nodes to move, dissolve, merge or split, by their samples",
        description="Find where a taxonomy does not fit the embeddings of labelled samples: nodes "
        "whose samples lie in "
        "another branch (move), inner nodes whose children are no more alike than random ones (dissolve), "
        "pairs of leaves that cannot be told apart (merge), leaves that fall into two clusters (split). With "
        "--out FILE the changes are written as a mapping, each as a comment: remove the '# ' before those "
        "that are right, and give the file to 'labeltree taxonomy apply'. An encoder that was trained with "
        "this tree has put the nodes where the tree says: take one that was not, or --split test.",
    )
    action.add_argument(
        "embeddings", metavar="RUN|FILE", help="a run, or a table of embeddings with labels (.npz, .parquet)"
    )
    action.add_argument("--taxonomy", metavar="FILE", help="of the labels of FILE, if these are nodes")
    action.add_argument("--split", help="only samples of this split (default: all)")
    action.add_argument(
        "--kinds",
        nargs="+",
        choices=("move", "dissolve", "merge", "split"),
        default=("move", "dissolve", "merge", "split"),
        help="what to look for (default: all four)",
    )
    action.add_argument(
        "--level",
        type=float,
        default=0.05,
        help="largest p value, corrected for many nodes, of what is called significant (default 0.05)",
    )
    action.add_argument(
        "--apart", type=float, default=0.7, help="AUC below which leaves are not told apart (default 0.7)"
    )
    action.add_argument("--only-significant", action="store_true", help="list and write only these")
    action.add_argument(
        "--top", type=int, default=10, help="list at most this many of each kind (default 10)"
    )
    action.add_argument("--seed", type=int, default=0, help="of folds, clusters and draws (default 0)")
    action.add_argument("-o", "--out", metavar="FILE", help="write the changes there, as a mapping (.yaml)")


def suspects(options: argparse.Namespace) -> None:
    """Print what does not fit, and write the changes."""
    from labeltree.cli.taxonomy_actions.taxonomy_suggest import open_table
    from labeltree.curation.tree_suspects import find_tree_suspects
    from labeltree.errors import DataError

    if options.out is not None and Path(options.out).exists():
        raise DataError(
            f"'{options.out}' exists, and somebody may have accepted changes in it; name another file"
        )
    table, taxonomy = open_table(options.embeddings, options.taxonomy)
    if options.split is not None:
        table = table.select(options.split)
    tree_suspects = find_tree_suspects(
        table.features if table.features is not None else table.embeddings,
        table.nodes,
        taxonomy,
        groups=table.groups,
        kinds=tuple(options.kinds),
        level=options.level,
        apart=options.apart,
        seed=options.seed,
    )
    print(tree_suspects.sentence())
    for kind in options.kinds:
        some = [one for one in tree_suspects.of(kind) if one.significant or not options.only_significant]
        for one in some[: options.top]:
            mark = "significant" if one.significant else "not significant"
            print(f"{kind} ({mark}): {taxonomy.path_name(one.node)}: {one.reason}")
        if len(some) > options.top:
            print(f"… and {len(some) - options.top:,} more to {kind}")
    for note in tree_suspects.notes:
        print(note)
    if options.out is not None:
        count = tree_suspects.save_mapping(options.out, only_significant=options.only_significant)
        print(f"{count} changes, each a comment until a person accepts it: {options.out}")
