"""The results of searches as a wall of pictures, framed by how far off they are on the tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from labeltree.counted_nouns import say_count
from labeltree.index.search_results import Answer, Place, place_of
from labeltree.options.search import HOW_FAR_OFF
from labeltree.report.charts.node_names import NodeNames
from labeltree.report.charts.tree_colours import nearness_colour
from labeltree.report.pages.template import render_page
from labeltree.report.shown_samples.encode_pictures import shorten
from labeltree.report.wording import say_far_off
from labeltree.taxonomy import Taxonomy

__all__ = ["Pictures", "search_page"]

Pictures = Callable[[Sequence[str]], Mapping[str, str]]


@dataclass(frozen=True)
class _Card:
    """A result: its picture or text if any, its label, and its place on the tree."""

    source: str | None
    text: str | None
    id: str
    name: str
    path: str
    place: Place
    colour: str
    kind: str
    near: int
    distance: str
    rank: int


@dataclass(frozen=True)
class _Wall:
    """A query and its cards."""

    answer: Answer
    source: str | None
    label: str | None
    cards: list[_Card]
    summary: str


@dataclass(frozen=True)
class _Group:
    """Cards that are equally far off: a part of the legend that shows or hides them."""

    near: int
    colour: str
    kind: str
    sign: str
    words: str
    count: int


def search_page(
    answers: Sequence[Answer],
    taxonomy: Taxonomy,
    *,
    title: str = "Search",
    about: Sequence[str] = (),
    pictures: Pictures | None = None,
    queries: Mapping[str, str] | None = None,
) -> str:
    """The page as a string of HTML: one file that works offline.

    Args:
        answers: Queries with their hits.
        taxonomy: Of the labels.
        title: Of the page.
        about: Sentences on what was searched and how.
        pictures: From ids of samples to pictures as data URIs, as far as there are any; without, the texts
            or the labels of the samples are shown.
        queries: Pictures of queries, by name.
    """
    names = NodeNames(taxonomy)
    ids = list(dict.fromkeys(one for answer in answers if answer.hits for one in answer.hits.ids))
    ids += [answer.query for answer in answers if answer.kind == "id"]
    shown = pictures(list(dict.fromkeys(ids))) if pictures is not None and ids else {}
    walls = [_wall(answer, taxonomy, names, shown, queries or {}) for answer in answers]
    count = Counter(card.near for wall in walls for card in wall.cards)
    return render_page(
        "wall",
        title,
        walls=walls,
        about=list(about),
        how_far_off=HOW_FAR_OFF,
        groups=[_group(near, taxonomy, count[near]) for near in sorted(count)],
        total=sum(count.values()),
        style="pictures" if shown else "words texts" if _has_texts(answers) else "words",
        likely=any(answer.likely for answer in answers),
    )


def _has_texts(answers: Sequence[Answer]) -> bool:
    return any(any(answer.hits.rows.get("text", ())) for answer in answers if answer.hits is not None)


def _near(place: Place, taxonomy: Taxonomy) -> int:
    """Steps off, or one more than there are for a place that is not known."""
    return taxonomy.max_height + 1 if place.steps is None else place.steps


def _look(near: int, taxonomy: Taxonomy) -> tuple[str, str]:
    """Colour and style of a frame."""
    if near > taxonomy.max_height:
        return "var(--muted)", "unknown"
    return nearness_colour(near / max(taxonomy.max_height, 1)), ("own", "near", "far")[min(near, 2)]


def _group(near: int, taxonomy: Taxonomy, count: int) -> _Group:
    colour, kind = _look(near, taxonomy)
    tallest = taxonomy.max_height
    if near > tallest:
        words = "not known: a label is missing or coarser"
    elif near == 0:
        words = "same label"
    else:
        words = say_far_off(near, tallest)
    sign = "?" if near > tallest else "✓" if near == 0 else f"{near}\u2009↑"
    return _Group(near, colour, kind, sign, words, count)


def _wall(
    answer: Answer,
    taxonomy: Taxonomy,
    names: NodeNames,
    pictures: Mapping[str, str],
    queries: Mapping[str, str],
) -> _Wall:
    cards = []
    if answer.hits is not None:
        texts = answer.hits.rows.get("text", [None] * len(answer.hits))
        for rank, (one, node) in enumerate(zip(answer.hits.ids, answer.hits.nodes.tolist(), strict=True)):
            place = place_of(taxonomy, answer.label, node)
            near = _near(place, taxonomy)
            colour, kind = _look(near, taxonomy)
            cards.append(
                _Card(
                    source=pictures.get(one),
                    text=None if texts[rank] is None else shorten(str(texts[rank])),
                    id=one,
                    name=names.short(node) if node >= 0 else "no label",
                    path=names.full(node) if node >= 0 else "no label",
                    place=place,
                    colour=colour,
                    kind=kind,
                    near=near,
                    distance=f"{answer.hits.distances[rank]:.4f}",
                    rank=rank + 1,
                )
            )
    source = queries.get(answer.query) or (pictures.get(answer.query) if answer.kind == "id" else None)
    return _Wall(
        answer, source, names.full(answer.label) if answer.label >= 0 else None, cards, _summary(cards)
    )


def _summary(cards: Sequence[_Card]) -> str:
    known = [card for card in cards if card.place.steps is not None]
    if not known:
        return say_count(len(cards), "result")
    alike = sum(card.place.steps == 0 for card in known)
    return f"{alike} of {say_count(len(cards), 'result')} with the same label"
