"""``labeltree search``: the samples of an index that are most like an image, a text, a sample or a node."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labeltree.index import Index
    from labeltree.index.queries import Query
    from labeltree.index.search_results import Answer
    from labeltree.taxonomy import Taxonomy

SUMMARY = "find the samples of an index that are most like an image, a text, a sample or a node"
ELSEWHERE = "--out FILE names another file"
"""What to do if the place that it writes to is full or read-only."""

_DESCRIPTION = """Find the samples of an index that are most like images, texts, samples of the index, or
nodes (the mean of what is labelled there). Images and texts are embedded by the run
that the index was made from. 'off' is the number of steps up from the query's label to the
node that it shares with a result's; a query without a label gets the one that its ten nearest
results suggest."""
_EPILOG = """examples:
  labeltree search runs/photos query.jpg
  labeltree search runs/photos query.jpg --within animal/mammal --out wall.html
  labeltree search runs/photos --node animal/mammal --diverse 3
  labeltree search runs/photos queries/ --out found.csv"""


def run(arguments: list[str]) -> None:
    """Search, and print or write what was found."""
    parser = _parser()
    options = parser.parse_intermixed_args(arguments)
    form = _form(options.format, options.out, parser)
    if not (options.queries or options.text or options.id or options.node):
        parser.error("name what to search for: images, a folder or table of queries, --text, --id or --node")
    if options.mapping is not None and options.taxonomy is None:
        parser.error("--mapping leads to another version of the taxonomy; name that with --taxonomy")

    from labeltree.processes import import_quickly

    with import_quickly():
        from labeltree.index import Index
        from labeltree.index.filters import parse_where
        from labeltree.index.queries import Query, queries_in, run_queries
        from labeltree.taxonomy import Taxonomy

    index = Index.open(options.index)
    queries: list[Query] = []
    for place in options.queries:
        batch = Path(place).is_dir() or Path(place).suffix.lower() in (".csv", ".tsv", ".parquet")
        queries += queries_in(place) if batch else [Query("image", place)]
    queries += [Query("text", text) for text in options.text]
    queries += [Query("id", name) for name in options.id] + [Query("node", node) for node in options.node]
    other = None if options.taxonomy is None else Taxonomy.from_file(options.taxonomy)
    where = parse_where(options.where, index.schema)
    answers = run_queries(
        index,
        queries,
        k=options.k,
        within=options.within,
        not_within=options.not_within,
        where=where,
        diverse=options.diverse,
        exact=True if options.exact else None,
        label=options.label,
        taxonomy=other,
        mapping=options.mapping,
    )
    searched = ""
    if form == "html":
        chosen = index.count(within=options.within, not_within=options.not_within, where=where)
        searched = _searched(options, chosen, len(index))
    text = _written(form, answers, index, index.taxonomy if other is None else other, searched)
    if options.out is None:
        sys.stdout.write(text)
    else:
        from labeltree.atomic import atomic_write

        with atomic_write(options.out) as temporary:
            temporary.write_text(text, "utf-8")
        print(f"written to {options.out}", file=sys.stderr)
    unread = [answer for answer in answers if answer.hits is None]
    if unread:
        place = f" (in '{options.out}')" if options.out else ""
        print(
            f"labeltree: no answer for {len(unread)} of {len(answers)} queries, such as '{unread[0].query}' "
            f"({unread[0].problem}); their entries say why{place}",
            file=sys.stderr,
        )
        raise SystemExit(1)


def _searched(options: argparse.Namespace, chosen: int, samples: int) -> str:
    """Which samples were searched, for the page."""
    conditions = list(options.where)
    conditions += [f"labelled at or below {' or '.join(options.within)}"] if options.within else []
    conditions += [f"not at or below {' or '.join(options.not_within)}"] if options.not_within else []
    if options.diverse is not None:
        conditions.append(f"at most one of each node at depth {options.diverse}")
    if not conditions:
        return f"Among {samples:,} samples"
    return f"Among {chosen:,} of {samples:,} samples ({'; '.join(conditions)})"


def _written(form: str, answers: list[Answer], index: Index, taxonomy: Taxonomy, searched: str) -> str:
    """The answers as text of the given form; a page begins with what was searched."""
    distance = {"cosine": "1 − cosine", "euclidean": "Euclidean", "poincare": "hyperbolic"}[index.geometry]
    if form == "html":
        from labeltree.report.pages.search_page import search_page
        from labeltree.report.shown_samples.sample_pictures import SamplePictures, file_picture

        drawn = {one.query: file_picture(one.query) for one in answers if one.kind == "image"}
        return search_page(
            answers,
            taxonomy,
            title=answers[0].query if len(answers) == 1 else f"{len(answers):,} searches",
            about=[f"{searched}, nearest first; below each is its distance ({distance})."],
            pictures=SamplePictures(index),
            queries={name: source for name, source in drawn.items() if source is not None},
        )
    from labeltree.index.search_results import results_text

    about = {"index": index.where, "samples": len(index), "geometry": index.geometry, "model": index.model}
    return results_text(answers, taxonomy, form, about)  # type: ignore[arg-type]


def _form(given: str | None, out: str | None, parser: argparse.ArgumentParser) -> str:
    by_name = {".csv": "csv", ".json": "json", ".html": "html"}.get(Path(out or "").suffix.lower())
    form = str(given or by_name or "table")
    if form == "html" and out is None:
        parser.error("a page needs a file: --out wall.html")
    return form


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="labeltree search",
        usage="labeltree search INDEX [IMAGE|FOLDER|TABLE ...] [options]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("index", help="an index, or a run with one ('labeltree index RUN' makes it)")
    parser.add_argument(
        "queries",
        nargs="*",
        metavar="IMAGE",
        help="images, folders of images, or tables with a column image, text, id or node",
    )
    parser.add_argument("--text", action="append", default=[], help="a text; may be given several times")
    parser.add_argument("--id", action="append", default=[], help="a sample of the index, likewise")
    parser.add_argument("--node", action="append", default=[], help="a node by path or name, likewise")
    parser.add_argument("-k", type=int, default=20, help="how many samples to find (default 20)")
    parser.add_argument(
        "--within", action="append", metavar="NODE", help="only samples labelled there or below"
    )
    parser.add_argument(
        "--not-within", action="append", metavar="NODE", help="no samples labelled there or below"
    )
    parser.add_argument(
        "--where", action="append", default=[], metavar="CONDITION", help="such as split=test or year>=2020"
    )
    parser.add_argument(
        "--diverse", type=int, metavar="DEPTH", help="at most one sample of each node at this depth"
    )
    parser.add_argument("--label", metavar="NODE", help="the label of the images or texts, if you know it")
    parser.add_argument("--taxonomy", metavar="FILE", help="show labels on another version of the taxonomy")
    parser.add_argument(
        "--mapping", metavar="FILE", help="what became of each node in it (default: what is certain)"
    )
    parser.add_argument("--exact", action="store_true", help="compare with every sample, however many")
    parser.add_argument(
        "--format", choices=["table", "csv", "json", "html"], help="default: by --out, or table"
    )
    parser.add_argument(
        "--out", metavar="FILE", help="write there instead of printing; .html is a wall of pictures"
    )
    return parser
