"""Search in an index, and what was found as text or as a page."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from labeltree.counted_nouns import say_count
from labeltree.file_kinds import is_table_file
from labeltree.index import Index
from labeltree.index.filters import parse_where
from labeltree.index.queries import Query, array_queries, queries_in, run_queries, vector_queries
from labeltree.index.search_results import Answer, place_of, results_text
from labeltree.inference.answers.answers_html import file_thumbnail
from labeltree.notebooks import html_sentences, html_table
from labeltree.options.choices import SearchFormat
from labeltree.options.schema import as_place
from labeltree.options.search import SearchOptions
from labeltree.taxonomy import Taxonomy

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Searched", "search_index"]

_MOST_QUERIES = 5  # that a notebook shows
_MOST_HITS = 10

_DISTANCES = {"cosine": "1 − cosine", "euclidean": "Euclidean", "poincare": "hyperbolic"}


@dataclass(frozen=True)
class Searched:
    """What was found in an index.

    Attributes:
        answers: The samples found for each query.
        index: The index.
        taxonomy: The taxonomy of the labels shown.
        options: What was searched for.
    """

    answers: list[Answer]
    index: Index
    taxonomy: Taxonomy
    options: SearchOptions

    @property
    def unread(self) -> list[Answer]:
        """The queries that could not be answered."""
        return [answer for answer in self.answers if answer.hits is None]

    @cached_property
    def _pictures(self) -> Mapping[str, str]:
        """The pictures of the samples found, and of those that were searched for, by id."""
        from labeltree.report.shown_samples.sample_pictures import SamplePictures

        ids = [one for answer in self.answers if answer.hits is not None for one in answer.hits.ids]
        ids += [answer.query for answer in self.answers if answer.kind == "id"]
        return SamplePictures(self.index)(list(dict.fromkeys(ids))) if ids else {}

    @property
    def pictures_gone(self) -> str:
        """That pictures are missing on the page, since their files are gone; empty if none is."""
        paths = {
            one: str(path)
            for answer in self.answers
            if answer.hits is not None
            for one, path in zip(answer.hits.ids, answer.hits.rows.get("path", ()), strict=False)
            if path
        }
        gone = [path for one, path in paths.items() if one not in self._pictures and not Path(path).is_file()]
        if not gone:
            return ""
        return (
            f"{say_count(len(gone), 'image')} of {len(paths):,} that were found, such as '{gone[0]}', "
            f"{'is' if len(gone) == 1 else 'are'} no longer there: the page goes without. Put them "
            "back there, or make the index again where they are now"
        )

    def text(self, form: SearchFormat = "table") -> str:
        """The answers as a table, CSV, JSON or a page with a wall of pictures."""
        if form == "html":
            return self._page()
        index = self.index
        about = {
            "index": index.where,
            "samples": len(index),
            "geometry": index.geometry,
            "model": index.model,
        }
        told = results_text(self.answers, self.taxonomy, form, about)
        return f"{told}distance: {_DISTANCES[index.geometry]}\n" if form == "table" else told

    def to_pandas(self) -> pd.DataFrame:
        """A row for each sample found, with the columns of the CSV."""
        import pandas as pd

        return pd.read_csv(io.StringIO(self.text("csv")), dtype={"id": str, "query": str})

    def __repr__(self) -> str:
        """The first answers as `labeltree search` prints them."""
        more = len(self.answers) - _MOST_QUERIES
        shown = replace(self, answers=self.answers[:_MOST_QUERIES]).text().rstrip()
        return shown + (f"\n… {more:,} more searches" if more > 0 else "")

    def _repr_html_(self) -> str:
        shown = Markup("").join(map(self._shown, self.answers[:_MOST_QUERIES]))
        more = len(self.answers) - _MOST_QUERIES
        return str(shown + html_sentences([f"… {more:,} more searches" if more > 0 else None]))

    def _shown(self, answer: Answer) -> Markup:
        """A query and the first samples found for it, with the pictures whose files are there."""
        label = self.taxonomy.path_name(answer.label) if answer.label >= 0 else None
        likely = f" ({answer.likely})" if answer.likely else ""
        said = answer.query if label is None else f"{answer.query}: {label}{likely}"
        if answer.hits is None:
            return html_sentences([f"{answer.query}: no answer, {answer.problem}"])
        hits, rows = answer.hits, []
        paths = hits.rows.get("path", [None] * len(hits))
        for rank, (name, node) in enumerate(zip(hits.ids, hits.nodes.tolist(), strict=True)):
            if rank == _MOST_HITS:
                break
            drawn = file_thumbnail(str(paths[rank] or name))
            sign = place_of(self.taxonomy, answer.label, node).sign
            of_label = self.taxonomy.path_name(node) if node >= 0 else "–"
            rows.append([drawn, f"{hits.distances[rank]:.4f}", sign, of_label, name])
        measure = f"distance ({_DISTANCES[self.index.geometry]})"
        table = html_table(["", measure, "off", "label", "id"], rows, numbers=[1])
        more = len(hits) - _MOST_HITS
        return html_sentences([said]) + table + html_sentences([f"… {more:,} more" if more > 0 else None])

    def _page(self) -> str:
        from labeltree.report.pages.search_page import search_page
        from labeltree.report.shown_samples.sample_pictures import file_picture

        answers = self.answers
        drawn = {one.query: file_picture(one.query) for one in answers if one.kind == "image"}
        distance = _DISTANCES[self.index.geometry]
        gone = [f"{self.pictures_gone}."] if self.pictures_gone else []
        return search_page(
            answers,
            self.taxonomy,
            title=answers[0].query if len(answers) == 1 else f"{len(answers):,} searches",
            about=[f"{self._among()}, nearest first; below each is its distance ({distance}).", *gone],
            pictures=lambda _: self._pictures,
            queries={name: source for name, source in drawn.items() if source is not None},
        )

    def _among(self) -> str:
        """Which samples were searched."""
        asked, samples = self.options, len(self.index)
        conditions = list(asked.where)
        conditions += [f"labelled at or below {' or '.join(asked.within)}"] if asked.within else []
        conditions += [f"not at or below {' or '.join(asked.not_within)}"] if asked.not_within else []
        chosen = self.index.count(
            within=list(asked.within) or None,
            not_within=list(asked.not_within) or None,
            where=parse_where(asked.where, self.index.schema),
        )
        if asked.diverse is not None:
            conditions.append(f"at most one of each node at depth {asked.diverse}")
        if not conditions:
            return f"Among {samples:,} samples"
        return f"Among {chosen:,} of {samples:,} samples ({'; '.join(conditions)})"


def search_index(options: SearchOptions) -> Searched:
    """Search an index; queries that cannot be read have a problem in place of samples.

    Raises:
        LabeltreeError: If there is no index, node or column of that name.
    """
    index = Index.open(as_place(options.index))
    if options.tree is not None or options.instance is not None:
        index = index.with_dials(tree=options.tree, instance=options.instance)
    queries: list[Query] = []
    if options.array is not None:
        queries += array_queries(index, options.array)
    for place in map(str, options.places):
        several = Path(place).is_dir() or is_table_file(place)
        vectors = vector_queries(index, place, options.table)
        queries += vectors or (queries_in(place, options.table) if several else [Query("image", place)])
    queries += [Query("text", text) for text in options.texts]
    queries += [Query("id", name) for name in options.ids]
    queries += [Query("node", node) for node in options.nodes]
    other = None if options.taxonomy is None else Taxonomy.from_file(options.taxonomy)
    answers = run_queries(
        index,
        queries,
        k=options.k,
        within=list(options.within) or None,
        not_within=list(options.not_within) or None,
        where=parse_where(options.where, index.schema),
        diverse=options.diverse,
        exact=True if options.exact else None,
        label=options.label,
        taxonomy=other,
        mapping=options.mapping,
    )
    return Searched(answers, index, index.taxonomy if other is None else other, options)
