"""``labeltree index``: make an index of a run or of embeddings to search in, or change one."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from labeltree.index import Index
    from labeltree.index.index import IndexInfo
    from labeltree.taxonomy import TaxonomyMapping

SUMMARY = "make, change or describe an index of embeddings to search"
ELSEWHERE = "--out DIR names another folder"
"""What to do if the place that it writes to is full or read-only."""

_EPILOG = """examples:
  labeltree index runs/photos                            makes runs/photos/index, of all splits
  labeltree index --embeddings theirs.npz --taxonomy tree.yaml --out theirs.index
  labeltree index theirs.index                           describes it
  labeltree index theirs.index --add more.parquet
  labeltree index theirs.index --delete photo-17 photo-18
  labeltree index theirs.index --move-to new.yaml --mapping changes.yaml

A file of embeddings has columns embeddings, labels (or nodes) and ids, and further ones to filter by."""


def run(arguments: list[str]) -> None:
    """Make, change or describe the index named by the arguments."""
    parser = argparse.ArgumentParser(
        prog="labeltree index",
        description="Make an index of the embeddings of a run, or of any model, to search; change it, or\n"
        "describe it. Each change is one transaction.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("place", nargs="?", metavar="RUN|INDEX", help="a trained run, or an index to change")
    parser.add_argument(
        "--embeddings", metavar="FILE", help="make an index of these instead: .npz, .parquet, or parts"
    )
    parser.add_argument("--taxonomy", metavar="FILE", help="with --embeddings: the tree of their labels")
    parser.add_argument(
        "--out",
        metavar="DIR|URL",
        help="a new folder, postgresql://... or qdrant+http://...; default: RUN/index, or FILE.index",
    )
    parser.add_argument(
        "--geometry",
        choices=["cosine", "euclidean", "poincare"],
        help="distance by which samples are compared; default: that of the embeddings",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing index")
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument("--add", metavar="FILE", help="add samples, whose ids must be new")
    actions.add_argument(
        "--replace", metavar="FILE", help="write samples over those of the same ids; others are added"
    )
    actions.add_argument("--delete", nargs="+", metavar="ID", help="delete samples")
    actions.add_argument("--move-to", metavar="FILE", help="read all labels on this version of the taxonomy")
    actions.add_argument("--compact", action="store_true", help="tidy up after many changes")
    actions.add_argument(
        "--tune", action="store_true", help="make the approximate index anew, and measure what it finds"
    )
    actions.add_argument("--info", action="store_true", help="describe the index, and change nothing")
    parser.add_argument(
        "--mapping",
        metavar="FILE",
        help="with --move-to: what became of each node, from 'labeltree taxonomy map' (default: what is "
        "certain)",
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    options = parser.parse_args(arguments)
    changes = any(
        (options.add, options.replace, options.delete, options.move_to, options.compact, options.tune)
    )
    if (options.place is None) == (options.embeddings is None):
        parser.error("name a run or an index, or --embeddings FILE")
    if options.embeddings is not None and (changes or options.info):
        parser.error("to change an index, or to ask what it is, name it instead of --embeddings")
    if options.taxonomy is not None and options.embeddings is None:
        parser.error("--taxonomy is that of --embeddings; a run has its own (--move-to changes an index)")
    if options.mapping is not None and options.move_to is None:
        parser.error("--mapping says how to get to another taxonomy; name that with --move-to")

    from labeltree.index import Index
    from labeltree.index.addresses import shown_place
    from labeltree.index.open_store import is_index

    makes = {"--out": options.out, "--geometry": options.geometry, "--overwrite": options.overwrite}
    asked = options.place is not None and (changes or options.info or is_index(options.place))
    if asked:
        if wrong := [name for name, value in makes.items() if value]:
            place = shown_place(options.place)
            parser.error(f"{wrong[0]} is for making an index; '{place}' is one, or shall be changed")
        index = Index.open(options.place)
        _change(index, options)
        print(describe(index))
        return
    print(describe(_make(options)))


def _make(options: argparse.Namespace) -> Index:
    from labeltree.index.index_sources import index_embeddings, index_run
    from labeltree.progress import progress_line

    made = {"geometry": options.geometry, "overwrite": options.overwrite}
    if options.embeddings is not None:
        return index_embeddings(options.embeddings, options.out, taxonomy=options.taxonomy, **made)
    with progress_line(not options.quiet, only_terminal=True) as progress:
        return index_run(options.place, options.out, progress=progress, **made)


def _change(index: Index, options: argparse.Namespace) -> None:
    """Make the requested change and say what it was."""
    from labeltree.cli.taxonomy_actions.taxonomy_reading import open_tree
    from labeltree.index.index_sources import rows_to_add
    from labeltree.taxonomy import TaxonomyMapping

    if options.add:
        rows = rows_to_add(options.add, index)
        index.add(rows)
        print(f"{len(rows)} samples added")
    elif options.replace:
        rows = rows_to_add(options.replace, index)
        replaced, added = index.replace(rows)
        print(f"{replaced} samples replaced, {added} added")
    elif options.delete:
        index.delete(options.delete)
        print(f"{len(set(options.delete))} samples deleted")
    elif options.move_to:
        new = open_tree(options.move_to)
        if options.mapping:
            mapping = TaxonomyMapping.load(options.mapping, old=index.taxonomy, new=new)
        else:
            mapping, _ = TaxonomyMapping.between(index.taxonomy, new)
        on_server = "://" in index.where
        labels = None if on_server else index.labels()
        index.move(new, mapping)
        print(f"labels moved to '{options.move_to}'; {_coarser(mapping, labels)}")
        if on_server and "prediction" in index.info().columns:
            print("the column 'prediction' keeps the names of the old version")
    elif options.compact:
        index.compact()
    elif options.tune:
        index.tune(progress=None if options.quiet else print)


def _coarser(mapping: TaxonomyMapping, labels: np.ndarray[Any, Any] | None) -> str:
    """How many of the labels ``(n,)`` of the old version became coarser, and which; None: not counted."""
    exact = mapping.exact.tolist()
    if labels is None:
        return f"{exact.count(False)} of {mapping.old.num_nodes} nodes are read coarser"
    counts = Counter(node for node in labels.tolist() if node > 0 and not exact[node])
    if not counts:
        return "no label became coarser"
    named = ", ".join(f"'{mapping.old.path_name(node)}' ({count:,})" for node, count in counts.most_common(5))
    more = f" and {len(counts) - 5} more" if len(counts) > 5 else ""
    return (
        f"{counts.total():,} labels became coarser, those of {named}{more}: moving back does not restore them"
    )


def _search(info: IndexInfo) -> str:
    """How the index is searched, and what that finds."""
    from labeltree.index.approximate import Tuning

    tuning = Tuning.of(info.approximate)
    if tuning is None:
        return "exact" if not info.approximate else f"approximate above {info.exact_up_to} samples"
    recall_text = (
        f"recall@10 {tuning.recall:.3f}, {tuning.recall_low:.3f} at least, measured on {tuning.queries} of "
        f"{tuning.rows} samples"
    )
    if not tuning.reached:
        return f"exact; approximate only with exact=False: {recall_text}, is too little"
    how = f"{tuning.kind}, {tuning.probes} of {tuning.partitions} partitions, {tuning.candidates} candidates"
    return f"approximate above {info.exact_up_to} samples: {recall_text} ({how})"


def describe(index: Index) -> str:
    """What an index is, as a few lines of text; columns without a value are not named."""
    from labeltree.index.index_rows import KNOWN_COLUMNS

    info = index.info()
    splits = ", ".join(f"{name} {count}" for name, count in info.splits.items())
    labels = f"{info.labelled} with a label" if info.labelled < info.size else "all with a label"
    release = f", release {info.release}" if info.release else ""
    features = ", features of the encoder" if info.vectors == "features" else ""
    empty = {name for name in KNOWN_COLUMNS if not index.count(where={name: ("!=", "")})}
    facts = {
        "index": info.where,
        "samples": f"{info.size}" + (f", {labels}" if info.size else "") + (f" ({splits})" if splits else ""),
        "vectors": f"{info.dim}-d, {info.geometry}" + features,
        "taxonomy": f"{info.nodes} nodes{release}",
        "columns": ", ".join(name for name in info.columns if name not in empty),
        "model": info.model or "unknown: search by vectors or ids",
        "search": _search(info),
        "version": str(info.version),
    }
    return "\n".join(f"{name:<9} {fact}" for name, fact in facts.items())
