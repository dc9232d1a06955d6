"""The nouns of WordNet, read from its dictionary files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from labeltree.errors import TaxonomyError

__all__ = ["Synset", "WordNetNouns"]

HYPERNYM, INSTANCE_HYPERNYM = "@", "@i"


@dataclass(frozen=True, slots=True)
class Synset:
    """A synset: a sense, shared by one or more words.

    Attributes:
        offset: Id in the files; `n` followed by its eight digits is the ImageNet id.
        words: Words as in the files (`golf_cart`); the first one names the synset.
        hypernyms: Offsets of the synsets of which this one is a kind.
        classes: Offsets of the synsets of which this one is an instance.
        gloss: Definition, followed by examples in quotes.
    """

    offset: int
    words: tuple[str, ...]
    hypernyms: tuple[int, ...]
    classes: tuple[int, ...]
    gloss: str


class WordNetNouns:
    """All noun synsets, and the senses of every word.

    Args:
        folder: Folder with `data.noun` and `index.noun`.

    Attributes:
        synsets: Offset → synset, in the order of the file.
        senses: Word in lower case, with `_` for a space → offsets, most frequent sense first.

    Raises:
        TaxonomyError: If a file is missing or damaged; the message gives the line.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.synsets: dict[int, Synset] = {}
        for where, line in _lines(self.folder / "data.noun"):
            synset = _synset(where, line)
            self.synsets[synset.offset] = synset
        self.senses = dict(_senses(where, line) for where, line in _lines(self.folder / "index.noun"))
        self._check()

    def _check(self) -> None:
        """Check that every offset points to a synset."""
        for offset in self.synsets:
            for above in self.hypernyms(offset):
                if above not in self.synsets:
                    raise TaxonomyError(
                        f"{str(self.folder / 'data.noun')!r}: synset {offset:08d} has the hypernym "
                        f"{above:08d}, which is not there"
                    )
        for word, offsets in self.senses.items():
            for offset in offsets:
                if offset not in self.synsets:
                    raise TaxonomyError(
                        f"{str(self.folder / 'index.noun')!r}: {word!r} has the sense {offset:08d}, which "
                        "is not in data.noun"
                    )

    def name(self, offset: int) -> str:
        """Name of a synset, such as `dog.n.01`: its first word and the number of the sense."""
        word = self.synsets[offset].words[0].lower()
        senses = self.senses.get(word, [])
        number = senses.index(offset) + 1 if offset in senses else 0
        return f"{word}.n.{number:02d}"

    def find(self, label: str) -> list[int]:
        """The synsets that a label may stand for: `dog.n.01`, `n02084071`, or a word with all its senses.

        Empty if there are none.
        """
        text = label.strip().replace(" ", "_").lower()
        if re.fullmatch(r"n\d{8}", text) and int(text[1:]) in self.synsets:
            return [int(text[1:])]
        sense = re.fullmatch(r"(.+)\.n\.(\d+)", text)
        if sense:
            offsets = self.senses.get(sense[1], [])
            number = int(sense[2])
            return [offsets[number - 1]] if 1 <= number <= len(offsets) else []
        return list(self.senses.get(text, []))

    def hypernyms(self, offset: int, instances: bool = True) -> tuple[int, ...]:
        """The synsets directly above one; with `instances`, also the classes of an instance."""
        synset = self.synsets[offset]
        return synset.hypernyms + synset.classes if instances else synset.hypernyms


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """The lines of a file with their positions, without the licence, whose lines begin with a space."""
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if not line.startswith(" ") and line.strip():
                    yield f"{path}, line {number}", line
    except FileNotFoundError:
        raise TaxonomyError(
            f"{str(path)!r} does not exist; the folder must hold data.noun and index.noun of WordNet 3 "
            "(Debian: the package wordnet-base, /usr/share/wordnet)"
        ) from None
    except OSError as error:
        raise TaxonomyError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TaxonomyError(f"{str(path)!r} is not text in UTF-8; is it a file of WordNet 3?") from None


def _synset(where: str, line: str) -> Synset:
    """A line of `data.noun` (wndb(5WN)): offset, file, n, words in hex, words, pointers, gloss after `|`."""
    data, _, gloss = line.partition("|")
    fields = data.split()
    try:
        count = int(fields[3], 16)
        words = tuple(fields[4 : 4 + 2 * count : 2])
        at = 5 + 2 * count
        pointers = [(fields[i], int(fields[i + 1])) for i in range(at, at + 4 * int(fields[at - 1]), 4)]
        offset = int(fields[0])
    except (IndexError, ValueError):
        raise TaxonomyError(f"{where}: this is not a line of WordNet's data.noun") from None
    if fields[2] != "n" or not words:
        raise TaxonomyError(f"{where}: this is not a noun synset")
    return Synset(
        offset,
        words,
        tuple(target for symbol, target in pointers if symbol == HYPERNYM),
        tuple(target for symbol, target in pointers if symbol == INSTANCE_HYPERNYM),
        gloss.strip(),
    )


def _senses(where: str, line: str) -> tuple[str, list[int]]:
    """Parse a line of `index.noun`: word, n, number of senses, ..., offsets of the senses at the end."""
    fields = line.split()
    try:
        count = int(fields[2])
        offsets = [int(field) for field in fields[-count:]]
    except (IndexError, ValueError):
        raise TaxonomyError(f"{where}: this is not a line of WordNet's index.noun") from None
    if len(fields) < 6 + count:
        raise TaxonomyError(f"{where}: this is not a line of WordNet's index.noun")
    return fields[0], offsets
