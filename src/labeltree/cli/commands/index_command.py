"""`labeltree index`: make an index of a run or of embeddings to search in, or change one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from labeltree.cli.command_parser import Display, make_parser, read_options
from labeltree.options.schema import Option
from labeltree.options.search import ChangeIndexOptions, MakeIndexOptions

if TYPE_CHECKING:
    from labeltree.index import Index
    from labeltree.index.index import IndexInfo

SUMMARY = "make, change or describe an index of embeddings to search"
ELSEWHERE = "--out DIR names another folder"
"""What to do if the place that it writes to is full or read-only."""

_EPILOG = """examples:
  labeltree index runs/photos                            makes runs/photos/index, of all splits
  labeltree index theirs.npz --taxonomy tree.yaml --out theirs.index
  labeltree index theirs.index                           describes it
  labeltree index theirs.index --add more.parquet
  labeltree index theirs.index --delete photo-17 photo-18
  labeltree index theirs.index --move-to new.yaml --mapping changes.yaml

A file of embeddings has columns embeddings, labels (or nodes) and ids, and further ones to filter by."""


@dataclass(frozen=True)
class _Info:
    info: Annotated[bool, Option("describe the index, and change nothing", either="change")] = False


def run(arguments: list[str]) -> None:
    """Make, change or describe the index named by the arguments."""
    parser = make_parser(
        "index",
        MakeIndexOptions,
        ChangeIndexOptions,
        _Info,
        Display,
        description="Make an index of the embeddings of a run, or of any model, to search; change it, or\n"
        "describe it. Each change is one transaction.",
        epilog=_EPILOG,
    )
    words = parser.parse_args(arguments)
    made_of = read_options(MakeIndexOptions, words)
    change = read_options(ChangeIndexOptions, words, index=words.what or "")
    if made_of.embeddings is not None and (change.changes or words.info):
        parser.error("to change an index, or to ask what it is, name it instead of --embeddings")

    from labeltree.api import change_index, make_index
    from labeltree.index import Index
    from labeltree.index.addresses import shown_place
    from labeltree.index.open_store import is_index
    from labeltree.progress import progress_line

    asked = words.what is not None and (change.changes or words.info or is_index(words.what))
    wrong = [name for name in ("out", "geometry", "overwrite") if made_of.is_given(name)]
    if asked and wrong:
        place = shown_place(words.what)
        parser.error(f"--{wrong[0]} is for making an index; '{place}' is one, or shall be changed")
    with progress_line(not words.quiet, only_terminal=True) as progress:
        if not asked:
            print(describe(make_index(replace(made_of, progress=progress))))
            return
        if not change.changes:
            print(describe(Index.open(words.what)))
            return
        told = None if words.quiet else lambda message, done, total: print(message)
        done = change_index(replace(change, progress=told))
        for sentence in done.sentences:
            print(sentence)
        print(describe(done.index))


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
    splits = info.say_splits()
    labels = f"{info.labelled:,} with a label" if info.labelled < info.size else "all with a label"
    release = f", release {info.release}" if info.release else ""
    features = ", features of the encoder" if info.vectors == "features" else ""
    empty = {name for name in KNOWN_COLUMNS if not index.count(where={name: ("!=", "")})}
    facts = {
        "index": info.where,
        "samples": f"{info.size:,}"
        + (f", {labels}" if info.size else "")
        + (f" ({splits})" if splits else ""),
        "vectors": f"{info.dim}-d, {info.geometry}" + features,
        "taxonomy": f"{info.nodes} nodes{release}",
        "columns": ", ".join(name for name in info.columns if name not in empty),
        "model": info.model or "unknown: search by vectors or ids",
        "search": _search(info),
        "version": str(info.version),
    }
    return "\n".join(f"{name:<9} {fact}" for name, fact in facts.items())
