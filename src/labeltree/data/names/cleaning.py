"""The names of labels as they are compared and as they are shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from labeltree.data.names.scientific import ScientificName, parse_scientific, plain_text
from labeltree.options.choices import NameReading as Names

__all__ = ["Cleaner", "Names", "merge_spellings"]

Label = tuple[str | None, ...]


class Cleaner:
    """Cleans names by one of the settings of `names`; every distinct text is read once.

    Args:
        names: `exact`: names are as they are; `plain`: in composed Unicode, with single spaces, compared
            without regard to case; `scientific`: in their canonical form, see `parse_scientific`.
    """

    def __init__(self, names: Names = "exact") -> None:
        self.names = names
        self._binomials: set[str] = set()
        self._parsed: dict[str, ScientificName | None] = {}
        self._keys: dict[str, str] = {}

    def learn(self, texts: Sequence[str]) -> None:
        """Note the species among names, so that `Parus Major` is known as one if `Parus major` occurs."""
        for text in dict.fromkeys(texts):
            name = self.parse(text)
            if name is not None and len(name.path) > 1:
                self._binomials.add(name.path[1].lower())
        self._parsed = {
            text: name
            for text, name in self._parsed.items()
            if name is None or len(name.path) != 1 or name.uncertain
        }

    def parse(self, text: str) -> ScientificName | None:
        """A scientific name; None if the text is not one."""
        if text not in self._parsed:
            parsed = self._parsed[text] = parse_scientific(text, self._binomials)
            for name in () if parsed is None else parsed.path:  # canonical names need not be parsed again
                self._keys.setdefault(name, _comparison_key(name))
        return self._parsed[text]

    def clean(self, text: str) -> str:
        """A name as it is shown, as far as it is certain."""
        if self.names == "exact":
            return text.strip()
        name = self.parse(text) if self.names == "scientific" else None
        return plain_text(text) if name is None or not name.path or name.uncertain else name.path[-1]

    def key(self, text: str) -> str:
        """A name as it is compared: signs of hybrids make no difference between scientific names."""
        if self.names == "exact":
            return text.strip()
        if text not in self._keys:
            name = self.clean(text)
            self._keys[text] = folded(name) if self.names == "plain" else _comparison_key(folded(name))
        return self._keys[text]


def _comparison_key(name: str) -> str:
    return name.casefold().replace("× ", "")


def folded(name: str) -> str:
    """A name without regard to case."""
    return plain_text(name).casefold()


def merge_spellings(
    labels: Sequence[Label], rows: Sequence[int], cleaner: Cleaner
) -> tuple[list[Label], int]:
    """Make spellings of one name under the same parent one: the most frequent, with the sign of a hybrid.

    Returns:
        The labels, and the number of rows whose label changed.
    """

    def key(name: str | None) -> str | None:
        return None if name is None else cleaner.key(name)

    counts: defaultdict[Label, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    paths = [tuple(map(key, label)) for label in labels]
    for label, path, count in zip(labels, paths, rows, strict=True):
        for place, name in enumerate(label):
            if name is not None:
                counts[path[: place + 1]][name] += count
    chosen = {
        path: min(
            spellings,
            key=lambda name: (cleaner.names == "scientific" and "×" not in name, -spellings[name], name),
        )
        for path, spellings in counts.items()
    }
    merged: list[Label] = [
        tuple(None if name is None else chosen[path[: place + 1]] for place, name in enumerate(label))
        for label, path in zip(labels, paths, strict=True)
    ]
    changed = sum(count for label, new, count in zip(labels, merged, rows, strict=True) if label != new)
    return merged, int(changed)
