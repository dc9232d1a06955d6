"""Which reviews are drawn, for which side, and what their ratings mean."""

from collections.abc import Iterable

import pytest

from labeltree.data import make_splits
from labeltree.data.source import Source
from labeltree.datasets.formats.reviews import Review, parse_rating, rating_taxonomy, review_source
from labeltree.errors import DataError


def reviews(number: int = 600) -> list[Review]:
    """Sixty groups; every third review lacks a rating."""
    return [
        Review(f"group {i % 60}", f"text {i}", (1 + i % 5, -1 if i % 3 == 0 else 2)) for i in range(number)
    ]


def draw(found: Iterable[Review | str], train: int = 50, test: int = 10) -> Source:
    return review_source("r", found, ["a", "b"], main="a", steps=1, train=train, test=test)


def drawn(source: Source) -> dict[str, str]:
    assert source.split is not None
    return dict(zip(source.read(range(len(source))), source.split.tolist(), strict=True))


def test_the_draw_is_fixed_and_takes_complete_reviews_first() -> None:
    source = draw(reviews())
    sides = drawn(source)
    assert [list(sides.values()).count(side) for side in ("train", "test")] == [50, 10]
    assert source.ratings is not None
    assert int(source.ratings.min()) > 0
    assert drawn(draw(reversed(reviews()))) == sides  # whatever the order
    make_splits(source)
    large = drawn(draw(reviews(), train=500, test=100))
    assert set(sides) <= set(large)
    missing = draw(reviews(), train=500, test=100).ratings
    assert missing is not None
    assert int(missing.min()) == -1  # and others where there are too few


def test_a_text_is_on_one_side() -> None:
    found = [Review(f"group {i}", f"text {i % 7}", (3, 3)) for i in range(200)]
    sides = drawn(draw(found))
    assert len(sides) == 7
    assert set(sides.values()) <= {"train", "test"}


def test_none_can_be_used() -> None:
    for found in ([], ["broken", "broken"], [Review("g", "t", (-1, 4))]):
        with pytest.raises(DataError, match="data set 'r' has no review with a text and a rating for 'a'"):
            draw(found)


@pytest.mark.parametrize(
    ("text", "steps", "rating"),
    [("4", 1, 4), ("4.0", 1, 4), ("", 1, -1), ("-1", 1, -1), ("0", 2, -1), ("1.5", 2, 3), (" 5 ", 2, 10)],
)
def test_ratings(text: str, steps: int, rating: int) -> None:
    assert parse_rating(text, steps) == rating


@pytest.mark.parametrize(
    ("text", "steps"), [("6", 1), ("0.5", 2), ("3.5", 1), ("nan", 1), ("inf", 2), ("x", 1)]
)
def test_what_is_no_rating(text: str, steps: int) -> None:
    with pytest.raises(ValueError, match=r"could not convert|is not a rating"):
        parse_rating(text, steps)


def test_sentiments() -> None:
    tree = rating_taxonomy("taste", 2)
    assert [tree.path_name(leaf) for leaf in tree.leaves.tolist()] == [
        "negative/1", "negative/1.5", "negative/2", "negative/2.5", "neutral/3", "neutral/3.5", "positive/4",
        "positive/4.5", "positive/5",
    ]  # fmt: skip
