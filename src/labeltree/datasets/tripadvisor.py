"""TripAdvisor: hotel reviews with ratings of seven aspects (Wang, Lu & Zhai 2010)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from labeltree.data.named_data import Needed, Published, register_dataset
from labeltree.data.source import Source
from labeltree.datasets.formats.reviews import TEST, TRAIN, Review, parse_rating, review_source
from labeltree.errors import DataError
from labeltree.progress import Progress, silent

__all__ = ["ASPECTS", "open_tripadvisor", "read_hotel"]

NAME = "tripadvisor"

# Name of an aspect → name in the files. An eighth rating, business service, is mostly missing; the
# paper that uses seven names value, room, location, cleanliness, service and overall.
ASPECTS: dict[str, str] = {
    "value": "Value",
    "rooms": "Rooms",
    "location": "Location",
    "cleanliness": "Cleanliness",
    "service": "Service",
    "check-in": "Check in / front desk",
    "overall": "Overall",
}
_DAT, _JSON = "**/hotel_*.dat", "**/*.json"
_FIELD = re.compile(r"<([^<>]+)>(.*)", re.DOTALL)
_LEFTOVER = re.compile(r"\s*showReview\(\d+, *'full'\);?\s*")  # left over from the crawled page


def read_hotel(path: Path) -> Iterator[Review | str]:
    """Yield the reviews of a hotel; for an unusable review, yield the reason instead.

    Args:
        path: A file `hotel_….dat` of tagged lines, or a JSON file with `Reviews`.
    """
    if path.suffix == ".json":
        yield from _parse_json(path)
    else:
        yield from _parse_lines(path)


def _parse_lines(path: Path) -> Iterator[Review | str]:
    """Parse tagged lines: records begin with `<Author>`; lines without a tag continue the last one."""
    fields: dict[str, str] = {}
    name, start, seen = "", 0, False
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            tagged = _FIELD.match(line.strip())
            if tagged and tagged[1] == "Author":
                if seen:
                    yield _review(path.stem, fields, fields.get("Content"), f"{path}, line {start}")
                fields, start, seen = {}, number, True
            if tagged:
                name = tagged[1]
                fields.setdefault(name, tagged[2])
            elif name == "Content":
                fields[name] += " " + line
    if seen:
        yield _review(path.stem, fields, fields.get("Content"), f"{path}, line {start}")
    else:
        yield f"all of {path}, which has no line with <Author>"


def _parse_json(path: Path) -> Iterator[Review | str]:
    try:
        document = json.loads(path.read_bytes().decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        yield f"all of {path}, which is not JSON ({error})"
        return
    reviews = document.get("Reviews") if isinstance(document, dict) else None
    if not isinstance(reviews, list):
        yield f"all of {path}, which has no list of Reviews"
        return
    for number, review in enumerate(reviews, start=1):
        where = f"{path}, review {number}"
        ratings = review.get("Ratings") if isinstance(review, dict) else None
        if isinstance(ratings, dict):
            yield _review(path.stem, ratings, review.get("Content"), where)
        else:
            yield f"{where} (no Ratings)"


def _review(hotel: str, ratings: Mapping[str, object], content: object, where: str) -> Review | str:
    text = " ".join(_LEFTOVER.sub(" ", content).split()) if isinstance(content, str) else ""
    if not text:
        return f"{where} (no text)"
    try:
        by_aspect = tuple(parse_rating(str(ratings.get(name) or ""), 1) for name in ASPECTS.values())
    except ValueError as error:
        return f"{where} ({error})"
    return Review(hotel, text, by_aspect)


@register_dataset(
    NAME,
    summary="12,000 hotel reviews of the LARA crawl, texts, with ratings of seven aspects",
    licence="for research, as its authors (University of Illinois) say; the texts are their writers'",
    files=(
        Needed(
            (_DAT, _JSON),
            "a file of reviews per hotel, from the archives of the TripAdvisor data set for latent aspect "
            "rating analysis, Review_Texts or json",
        ),
    ),
    published=Published(
        splits={"train": TRAIN, "test": TEST}, classes=(3, 5), source="Ghanooni et al. 2025, Table 1"
    ),
)
def open_tripadvisor(*, path: Path, progress: Progress | None = None) -> Source:
    """Draw 10,000 and 2,000 reviews; see `review_source`. With files of both kinds, only `.dat` is read.

    Raises:
        DataError: If there are no reviews.
    """
    files = sorted(path.glob(_DAT)) or sorted(path.glob(_JSON))
    if not files:
        raise DataError(f"there is no '{path / _DAT}', a file of reviews per hotel")
    report = progress or silent

    def reviews() -> Iterator[Review | str]:
        for number, file in enumerate(files):
            report("reading reviews of hotels", number, len(files))
            try:
                yield from read_hotel(file)
            except OSError as error:
                raise DataError(f"'{file}' cannot be read: {error.strerror or error}") from error
        report("reading reviews of hotels", len(files), len(files))

    return review_source(NAME, reviews(), list(ASPECTS), main="overall", steps=1)
