"""Ten example searches: a query and the samples nearest to it, as cards with pictures, texts or names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor

from labeltree.evaluation import Reading
from labeltree.report.charts.node_names import NodeNames
from labeltree.report.charts.tree_colours import nearness_colour
from labeltree.report.shown_samples.encode_pictures import ShownSamples
from labeltree.report.wording import say_far_off
from labeltree.taxonomy import Taxonomy

__all__ = ["Card", "Search", "SearchRow", "choose_searches", "search_legend", "search_rows"]

_CANDIDATES = 40


@dataclass(frozen=True)
class Search:
    """A query and its results, as rows of the table.

    Attributes:
        query: Row of the query.
        results: `(k,)` rows of the results, most similar first.
        dissimilarity: `(k,)` LCA-height dissimilarity of each result's label to the query's.
        alike_exist: How many others of the query's class there are to find.
        failure: Whether the query was chosen because its results are the worst of its class.
    """

    query: int
    results: Tensor
    dissimilarity: Tensor
    alike_exist: int
    failure: bool = False


def choose_searches(
    reading: Reading,
    nodes: Tensor,
    rows: Tensor,
    taxonomy: Taxonomy,
    *,
    gallery: Tensor | None = None,
    groups: Tensor | None = None,
    count: int = 10,
    results: int = 8,
) -> list[Search]:
    """Choose queries evenly over the tree, most of them typical of their class and some of them failures.

    Classes are taken at equal steps in the order of the tree. For each, up to 40 of its samples are queries.
    The one shown has the median mean dissimilarity of its results; for the third of the classes with the
    worst results, it is the worst query, unless it finds all that are alike. Nothing is random.

    Args:
        reading: The representation that is searched.
        nodes: `(n,)` labels of all rows of the table.
        rows: `(m,)` rows that queries are chosen from, all labelled.
        taxonomy: Of the labels.
        gallery: `(g,)` rows that are searched; None = `rows`.
        groups: `(n,)` of all rows, −1 = none: the query's own group is left out; None leaves out none.
        count: How many queries.
        results: How many results each.
    """
    if not len(rows):
        return []
    keys = rows if gallery is None else gallery
    labels = nodes[rows]
    classes, sizes = torch.unique(labels, return_counts=True)
    for fewest in (results + 1, 2):  # a search for a class with few samples says little
        if int((sizes >= fewest).sum()) >= min(count, len(classes)):
            classes = classes[sizes >= fewest]
            break
    picked = classes[torch.linspace(0, len(classes) - 1, min(count, len(classes))).round().long()].tolist()
    per_class, extra = divmod(count, len(picked))
    rated: list[tuple[int, list[Search]]] = []
    for i, node in enumerate(picked):
        members = (labels == node).nonzero().squeeze(1)
        steps = torch.linspace(0, len(members) - 1, min(_CANDIDATES, len(members))).round().long()
        searches = _search(reading, nodes, keys, rows[members[steps]], taxonomy, results, groups)
        if searches:
            rated.append((per_class + (i < extra), searches))
    hardest = sorted(range(len(rated)), key=lambda i: (-_badness(rated[i][1][-1]), i))
    failing = {i for i in hardest[: max(len(rated) // 3, 1)] if _badness(rated[i][1][-1]) > 0}
    chosen = [
        search
        for i, (wanted, searches) in enumerate(rated)
        for search in _pick(searches, wanted, i in failing)
    ]
    return chosen[:count]


def _pick(searches: list[Search], wanted: int, failing: bool) -> list[Search]:
    """The worst search if asked for, and others at equal steps from the rest."""
    wanted = min(wanted, len(searches))
    worst = searches[-1]
    picked = [replace(worst, failure=True)] if failing else []
    rest = searches[:-1] if failing else searches
    typical = wanted - len(picked)
    places = [round((j + 1) * len(rest) / (typical + 1) - 0.5) for j in range(typical)]
    return [rest[min(max(place, 0), len(rest) - 1)] for place in places if rest] + picked


def _search(
    reading: Reading,
    nodes: Tensor,
    rows: Tensor,
    queries: Tensor,
    taxonomy: Taxonomy,
    count: int,
    groups: Tensor | None,
) -> list[Search]:
    """Search for each query of one class among all rows except itself and its group; the best first."""
    similarity = reading.geometry.pairwise_similarity(reading.points[queries], reading.points[rows])
    out = queries[:, None] == rows[None, :]
    if groups is not None:
        out |= (groups[queries][:, None] == groups[rows][None, :]) & (groups[queries] >= 0)[:, None]
    similarity = similarity.masked_fill(out, -torch.inf)
    order = torch.sort(similarity, dim=1, descending=True, stable=True).indices
    alike = (nodes[rows] == nodes[queries[0]]) & ~out
    hits = []
    for i, query in enumerate(queries.tolist()):
        results = rows[order[i, : min(count, len(rows) - int(out[i].sum()))]]
        apart = taxonomy.lca_height_dissimilarity(nodes[queries[i]], nodes[results])
        if len(results):
            hits.append(Search(query, results, apart, int(alike[i].sum())))
    return sorted(hits, key=lambda s: (_badness(s), float(s.dissimilarity.mean()), s.query))


def _badness(search: Search) -> float:
    """How far off the results are on average; 0 if all that are alike are among them."""
    alike, possible = int((search.dissimilarity == 0).sum()), min(search.alike_exist, len(search.results))
    return 0.0 if 0 < possible <= alike else float(search.dissimilarity.mean())


@dataclass(frozen=True)
class Card:
    """A query or a result: its picture or text if any, its class, and how far that is from the query's."""

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
        """Style of the frame: `own` class, `near` (shares the smallest branch) or `far`."""
        return ("own", "near", "far")[min(self.steps, 2)]


@dataclass(frozen=True)
class SearchRow:
    """A query with its results, most similar first."""

    query: Card
    results: list[Card]
    failure: bool
    alike: str


def search_rows(
    searches: Sequence[Search], samples: ShownSamples, taxonomy: Taxonomy, names: NodeNames
) -> list[SearchRow]:
    """Describe the searches.

    Args:
        searches: Queries and results as rows of the table.
        samples: Of the table.
        taxonomy: Of the labels.
        names: What to call them.
    """
    nodes = samples.table.nodes
    pictures, texts = samples.draw(row for each in searches for row in (each.query, *each.results.tolist()))

    @cache  # a few pairs of classes are asked for again and again
    def meeting(node: int, wanted: int) -> tuple[int, int]:
        pair = torch.tensor(node), torch.tensor(wanted)
        return int(taxonomy.lca(*pair)), int(taxonomy.lca_height(*pair))

    def card(row: int, query: int) -> Card:
        node, wanted = int(nodes[row]), int(nodes[query])
        meet, height = meeting(node, wanted)
        steps = height if node != wanted else 0
        words = "same class" if node == wanted else f"meets the query at {names.short(meet)}"
        return Card(
            source=pictures.get(row),
            text=texts.get(row),
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
        words = say_far_off(steps, tallest) if steps in (1, tallest) or tallest <= 4 else ""
        legend.append((nearness_colour(steps / tallest), f"{steps}\u2009↑", words))
    return legend
