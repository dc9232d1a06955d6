"""The searches of the report as cards: pictures or texts where there are any, names always."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labeltree.report.names import NodeNames
from labeltree.report.palette import nearness_colour
from labeltree.report.pictures import fetch, picture
from labeltree.report.retrieval_rows import Search
from labeltree.report.wording import plural
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

_LONGEST = 160  # characters

__all__ = ["Card", "SearchRow", "search_legend", "search_rows"]


@dataclass(frozen=True)
class Card:
    """A query or a result: its picture or text if it has one, its class, how far that is from the query's."""

    source: str | None
    text: str | None
    name: str
    path: str
    colour: str
    sign: str
    words: str
    steps: int = 0

    @property
    def kind(self) -> str:
        """Style of the frame: ``own`` class, ``near`` (shares the smallest branch) or ``far``."""
        return ("own", "near", "far")[min(self.steps, 2)]


@dataclass(frozen=True)
class SearchRow:
    """A query with its results, most similar first."""

    query: Card
    results: list[Card]
    failure: bool
    alike: str


def search_rows(
    searches: Sequence[Search],
    table: EmbeddingTable,
    taxonomy: Taxonomy,
    names: NodeNames,
    images: Callable[[Tensor], Tensor] | None,
    texts: Callable[[Tensor], list[str]] | None = None,
) -> list[SearchRow]:
    """Describe the searches.

    Args:
        searches: queries and results as rows of the table.
        table: gives labels and instances.
        taxonomy: of the labels.
        names: what to call them.
        images: gives the ``(m, c, h, w)`` uint8 images of ``(m,)`` instances; None for no pictures.
        texts: gives the texts of ``(m,)`` instances; None for none.
    """
    pictures = {row: picture(image) for row, image in _shown(searches, table, images, "images").items()}
    shown = {row: _shortened(text) for row, text in _shown(searches, table, texts, "texts").items()}

    def card(row: int, query: int) -> Card:
        node, wanted = int(table.nodes[row]), int(table.nodes[query])
        steps = int(taxonomy.lca_height(torch.tensor(node), torch.tensor(wanted))) if node != wanted else 0
        meet = int(taxonomy.lca(torch.tensor(node), torch.tensor(wanted)))
        words = "same class" if node == wanted else f"meets the query at {names.short(meet)}"
        return Card(
            source=pictures.get(row),
            text=shown.get(row),
            name=names.short(node),
            path=names.full(node),
            colour=nearness_colour(steps / max(taxonomy.max_height, 1)),
            sign="✓" if node == wanted else f"{steps}\u2009↑",
            words=words,
            steps=steps,
        )

    rows = []
    for search in searches:
        results = [card(row, search.query) for row in search.results.tolist()]
        alike = sum(result.sign == "✓" for result in results)
        possible = min(search.alike_exist, len(results))
        text = (
            f"{alike} of {possible} alike"
            if possible == len(results)
            else f"finds {alike} of the {possible} alike"
        )
        rows.append(SearchRow(card(search.query, search.query), results, search.failure, text))
    return rows


def search_legend(taxonomy: Taxonomy) -> list[tuple[str, str, str]]:
    """What the frames mean: colour, sign and words, from the same class to the other end of the tree."""
    tallest = max(taxonomy.max_height, 1)
    legend = [(nearness_colour(0.0), "✓", "same class")]
    for steps in range(1, tallest + 1):
        words = "1 step off: in the same smallest group" if steps == 1 else ""
        words = f"{steps} steps off" if steps > 1 and tallest <= 4 else words
        words = f"{plural(steps, 'step')} off: nothing in common" if steps == tallest else words
        legend.append((nearness_colour(steps / tallest), f"{steps}\u2009↑", words))
    return legend


def _shown(
    searches: Sequence[Search],
    table: EmbeddingTable,
    samples: Callable[[Tensor], Any] | None,
    what: str,
) -> dict[int, Any]:
    """The sample of every row that is a query or a result."""
    if samples is None or not searches:
        return {}
    rows = sorted({row for s in searches for row in (s.query, *s.results.tolist())})
    return fetch(rows, table.instances, samples, what)


def _shortened(text: str) -> str:
    """The beginning of a text, up to a word's end."""
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST].rsplit(' ', 1)[0]} …"
