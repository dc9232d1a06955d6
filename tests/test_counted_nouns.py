"""Counts with their nouns are written by one function, with a comma between thousands."""

import re
from pathlib import Path

from labeltree.counted_nouns import say_count

SOURCE = Path(__file__).parents[1] / "src"


def test_counts_with_their_nouns():
    assert [say_count(count, "sample") for count in (0, 1, 2, 1234)] == [
        *("0 samples", "1 sample", "2 samples", "1,234 samples"),
    ]
    assert [say_count(count, "class", "classes") for count in (1, 2)] == ["1 class", "2 classes"]


def test_nothing_else_writes_the_plural_of_a_count():
    by_hand = re.compile(r"\}[ a-z]*\w\{'s' (?:\* \(|if )[^{}]*(?:!= 1|> 1)")
    places = [
        f"{path.name}: {line.strip()}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if by_hand.search(line)
    ]
    assert not places
