"""Reviews with a rating per aspect: a fixed sample of them, with sentiments and ratings as labels."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from labeltree.data.source import Source
from labeltree.data.stratified import group_ids
from labeltree.datasets.formats.hash_splits import hash_fraction, hash_number
from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy

__all__ = ["TEST", "TRAIN", "Review", "parse_rating", "rating_taxonomy", "review_source"]

TRAIN, TEST = 10_000, 2_000
"""Reviews drawn for training and test (Ghanooni et al. 2025, Table 1)."""

_log = logging.getLogger("labeltree.data")


@dataclass(frozen=True, slots=True)
class Review:
    """A text and how its author rated what it is about.

    Attributes:
        group: The reviewed item.
        text: Text of the review.
        ratings: One rating per aspect, in steps from 0 (`parse_rating`); -1 where there is none.
    """

    group: str
    text: str
    ratings: tuple[int, ...]


def parse_rating(text: str, steps: int) -> int:
    """A rating from 1 to 5 as a number of steps; -1 where it is missing: empty, 0 or negative.

    Args:
        text: Text of the rating.
        steps: Steps per point: 1 for whole points, 2 for half points.

    Raises:
        ValueError: If the text is not such a rating.

    Example:
        >>> parse_rating("4.5", 2), parse_rating("4.0", 1), parse_rating("-1", 1)
        (9, 4, -1)
    """
    points = float(text) if text.strip() else 0.0
    if points <= 0:
        return -1
    if not (1 <= points <= 5 and (points * steps).is_integer()):
        raise ValueError(f"{text!r} is not a rating from 1 to 5")
    return int(points * steps)


def rating_taxonomy(name: str, steps: int) -> Taxonomy:
    """Sentiments, and the ratings below them.

    Four and five points are positive, three neutral, fewer negative (section 4.1 of Ghanooni et al.); a half
    point more does not change the sentiment.

    Args:
        name: Name of the root: the aspect.
        steps: Rating steps per point.

    Example:
        >>> print(rating_taxonomy("service", 1).render())
        service
        ├── negative
        │   ├── 1
        │   └── 2
        ├── neutral
        │   └── 3
        └── positive
            ├── 4
            └── 5
    """
    return Taxonomy.from_paths(
        [_path(rating, steps) for rating in range(steps, 5 * steps + 1)], root_name=name
    )


def _path(rating: int, steps: int) -> tuple[str, str]:
    points = rating / steps
    return "positive" if points >= 4 else "neutral" if points >= 3 else "negative", f"{points:g}"


def review_source(
    name: str,
    reviews: Iterable[Review | str],
    aspects: Sequence[str],
    *,
    main: str,
    steps: int,
    train: int = TRAIN,
    test: int = TEST,
) -> Source:
    """Draw reviews for training and test, and make them a source.

    What is reviewed goes to one side by the hash of its name, in proportion to the sizes wanted. On each side
    those reviews are drawn that lack the fewest ratings, of equal ones by the hash of their text. So the
    draw does not depend on the order of the reviews, and grows no larger than what is drawn. A text is drawn
    once; the instance id is its place among all reviews.

    Args:
        name: Name of the data set.
        reviews: Reviews as they are read, and in the place of one that cannot be used a few words on why.
        aspects: Names of the ratings.
        main: The aspect whose label is the sample's own; reviews without it are not drawn.
        steps: Rating steps per point.
        train: Number of training reviews to draw.
        test: Number of test reviews to draw.

    Raises:
        DataError: If there are no reviews.
    """
    at = aspects.index(main)
    sides: dict[str, bool] = {}
    draws = {False: _Draw(train + test), True: _Draw(test)}  # some of training may be in the test too
    broken: list[str] = []
    unusable = position = 0
    for position, review in enumerate(reviews):
        if isinstance(review, str):
            unusable += 1
            broken = broken or [review]
        elif review.ratings[at] >= 0:
            if review.group not in sides:
                sides[review.group] = hash_fraction(review.group) < test / (train + test)
            draws[sides[review.group]].offer(position, review)
    if unusable:
        _log.warning(
            "%s: %s of %s reviews are left out, as they cannot be read or lack a text; the first is %s",
            name, f"{unusable:,}", f"{position + 1:,}", broken[0],
        )  # fmt: skip
    tested = draws[True].drawn()[:test]
    texts = {review.text for _, review in tested}
    learned = [pair for pair in draws[False].drawn() if pair[1].text not in texts][:train]
    chosen = sorted([(*pair, "test") for pair in tested] + [(*pair, "train") for pair in learned])
    if not chosen:
        raise DataError(f"data set '{name}' has no review with a text and a rating for '{main}'")
    trees = tuple(rating_taxonomy(aspect, steps) for aspect in aspects)
    node = torch.full((5 * steps + 2,), -1)  # its last entry, -1, is for missing ratings
    for rating in range(steps, 5 * steps + 1):
        node[rating] = trees[0].find(_path(rating, steps))
    ratings = torch.tensor([review.ratings for _, review, _ in chosen])
    return Source(
        name=name,
        taxonomy=trees[at],
        nodes=node[ratings[:, at]],
        instances=torch.tensor([position for position, _, _ in chosen]),
        store=None,
        rows=torch.arange(len(chosen)),
        groups=group_ids([review.group for _, review, _ in chosen]),
        split=np.array([side for _, _, side in chosen]),
        aspect_taxonomies=trees,
        aspects=node[ratings],
        ratings=ratings,
        texts=[review.text for _, review, _ in chosen],
    )


class _Draw:
    """The reviews with the fewest missing ratings, then the lowest hashes, as they come by."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._heap: list[tuple[int, int, int, Review]] = []  # the worst first: all numbers are negative
        self._keys: set[int] = set()

    def offer(self, position: int, review: Review) -> None:
        key = hash_number(review.text)
        entry = (-sum(rating < 0 for rating in review.ratings), -key, -position, review)
        if key in self._keys or (len(self._heap) == self._size and entry < self._heap[0]):
            return
        self._keys.add(key)
        if len(self._heap) < self._size:
            heapq.heappush(self._heap, entry)
        else:
            self._keys.discard(-heapq.heappushpop(self._heap, entry)[1])

    def drawn(self) -> list[tuple[int, Review]]:
        """Positions and reviews, the best first."""
        return [(-position, review) for _, _, position, review in sorted(self._heap, reverse=True)]
