"""Ten searches to look at: a query and what lies nearest to it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from labeltree.evaluation import Reading
from labeltree.taxonomy import Taxonomy

__all__ = ["Search", "choose_searches"]

_CANDIDATES = 40


@dataclass(frozen=True)
class Search:
    """A query and its results, as rows of the table.

    Attributes:
        query: row of the query.
        results: ``(k,)`` rows of the results, most similar first.
        dissimilarity: ``(k,)`` LCA-height dissimilarity of each result's label to the query's.
        alike_exist: how many others of the query's class are searched among.
        failure: whether the query was chosen because its results are the worst of its class.
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

    Classes are taken at equal steps in the order of the tree. For each, up to 40 of its samples are
    searched for. The query shown is the one with the median mean dissimilarity of its results; for the third
    of the classes whose worst query is worst, it is that one. Nothing is random.

    Args:
        reading: the representation that is searched.
        nodes: ``(n,)`` labels of all rows of the table.
        rows: ``(m,)`` rows that queries are chosen from, all labelled.
        taxonomy: of the labels.
        gallery: ``(g,)`` rows that are searched among; None = ``rows``.
        groups: ``(n,)`` of all rows, −1 = none: those of the query's own group are left out; None where they
            count.
        count: how many queries.
        results: how many results each.
    """
    if not len(rows):
        return []
    keys = rows if gallery is None else gallery
    labels = nodes[rows]
    classes, sizes = torch.unique(labels, return_counts=True)
    for fewest in (results + 1, 2):  # a class with few samples says little about a search for it
        if int((sizes >= fewest).sum()) >= min(count, len(classes)):
            classes = classes[sizes >= fewest]
            break
    picked = classes[torch.linspace(0, len(classes) - 1, min(count, len(classes))).round().long()].tolist()
    per_class, extra = divmod(count, len(picked))
    found: list[tuple[int, list[Search]]] = []
    for i, node in enumerate(picked):
        members = (labels == node).nonzero().squeeze(1)
        steps = torch.linspace(0, len(members) - 1, min(_CANDIDATES, len(members))).round().long()
        searches = _search(reading, nodes, keys, rows[members[steps]], taxonomy, results, groups)
        if searches:
            found.append((per_class + (i < extra), searches))
    hardest = sorted(range(len(found)), key=lambda i: (-_badness(found[i][1][-1]), i))
    failing = {i for i in hardest[: max(len(found) // 3, 1)] if _badness(found[i][1][-1]) > 0}
    chosen = [
        search
        for i, (wanted, searches) in enumerate(found)
        for search in _pick(searches, wanted, i in failing)
    ]
    return chosen[:count]


def _pick(searches: list[Search], wanted: int, failing: bool) -> list[Search]:
    """Take the worst search if asked for, and others at equal steps from the middle of the rest."""
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
    """Search for each of one class's queries among all rows but itself and its group; the best first."""
    similarity = reading.geometry.pairwise_similarity(reading.points[queries], reading.points[rows])
    out = queries[:, None] == rows[None, :]
    if groups is not None:
        out |= (groups[queries][:, None] == groups[rows][None, :]) & (groups[queries] >= 0)[:, None]
    similarity = similarity.masked_fill(out, -torch.inf)
    order = torch.sort(similarity, dim=1, descending=True, stable=True).indices
    alike = (nodes[rows] == nodes[queries[0]]) & ~out
    found = []
    for i, query in enumerate(queries.tolist()):
        results = rows[order[i, : min(count, len(rows) - int(out[i].sum()))]]
        apart = taxonomy.lca_height_dissimilarity(nodes[queries[i]], nodes[results])
        if len(results):
            found.append(Search(query, results, apart, int(alike[i].sum())))
    return sorted(found, key=lambda search: (_badness(search), search.query))


def _badness(search: Search) -> float:
    return float(search.dissimilarity.mean())
