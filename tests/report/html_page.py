"""Reads a page as tests look at it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import combinations

VOID = {"meta", "img", "br", "link", "hr", "input"}


class Page(HTMLParser):
    """Collects the text, the tags and their attributes, and complains about tags that do not match."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self.seen: list[str] = []
        self._folded: list[bool] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
            self._folded.append(self._is_folded(tag, dict(attrs)))

    def _is_folded(self, tag: str, attributes: dict[str, str | None]) -> bool:
        """Whether a reader sees what is in an element only after a click."""
        inside = self._folded[-1] if self._folded else False
        if tag == "summary" and self.open[-2] == "details":
            return self._folded[-2] if len(self._folded) > 1 else False
        closed = tag == "details" and "open" not in attributes
        return inside or closed or "hidden" in attributes or "data-folded" in attributes

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self._folded.pop()

    def handle_data(self, data: str) -> None:
        if "script" in self.open:
            self.scripts.append(data)
        elif "style" not in self.open:
            self.words.append(data)
            if "title" not in self.open and self._folded[-1:] != [True]:
                self.seen.append(data)

    @property
    def words_seen(self) -> int:
        """The number of words that are there without a click."""
        return len(" ".join(self.seen).split())

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def images(self) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == "img"]

    def ids(self) -> set[str]:
        return {attributes["id"] or "" for _, attributes in self.tags if "id" in attributes}


def text_boxes(drawing: str, size: float) -> dict[str, tuple[float, float, float, float]]:
    """Left, top, right and bottom of every text of a drawing whose letters have this size."""
    boxes = {}
    for tag, text in re.findall(r"<text ([^>]*)>([^<]*)<", drawing):
        held = dict(re.findall(r'([\w-]+)="([^"]*)"', tag))
        x, y, width = float(held["x"]), float(held["y"]), 0.5 * size * len(text)
        css = held["class"].split()
        left = x - width if "end" in css else x - width / 2 if "mid" in css else x
        boxes[text] = (left, y - 0.7 * size, left + width, y)
    return boxes


def overlaps(boxes: dict[str, tuple[float, float, float, float]]) -> list[tuple[str, str]]:
    """The texts that lie on one another."""
    return [
        (one, other)
        for (one, a), (other, b) in combinations(boxes.items(), 2)
        if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
    ]
