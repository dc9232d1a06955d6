"""The file in which a user says which sense of a name is meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.files import write_text
from labeltree.taxonomy.suggest import near_names
from labeltree.taxonomy.wordnet import WordNetNouns
from labeltree.taxonomy.wordnet_names import gloss_of

__all__ = ["add_to_senses", "read_senses"]

_HEAD = """\
# Which sense each name has: remove the '#' at the beginning of one line of each name.
# A synset that is not listed may be given too, as crane.n.04 or n02012849.
"""
_GLOSS = 100


def read_senses(path: Path) -> dict[str, str]:
    """Read lines `name = synset`; what follows a `#` is left out. Empty if there is no file.

    Raises:
        TaxonomyError: if a line is none, or a name has two; with the line.
    """
    if not path.exists():
        return {}
    senses: dict[str, str] = {}
    for number, line in enumerate(_read(path).splitlines(), 1):
        text = line.partition(" #")[0].strip()
        if not text or text.startswith("#"):
            continue
        name, equals, synset = (part.strip() for part in text.rpartition("="))
        if not (equals and name and synset):
            raise TaxonomyError(f"{path}, line {number}: expected 'name = synset', found {text!r}")
        if senses.setdefault(name, synset) != synset:
            raise TaxonomyError(
                f"{path}, line {number}: {name!r} is {senses[name]} and {synset}; leave one of them"
            )
    return senses


def add_to_senses(path: Path, nouns: WordNetNouns, unclear: Mapping[str, Sequence[int]]) -> list[str]:
    """Write all senses of unclear names to the file, to choose from; what it says already stays.

    Args:
        path: Of the file; it is made if it is not there.
        nouns: WordNet's.
        unclear: name → offsets of what it may mean; none if WordNet does not know it.

    Returns:
        The names that were added: those that the file did not list yet.
    """
    before = _read(path) if path.exists() else _HEAD
    listed = {line.lstrip("# ").partition(" = ")[0] for line in before.splitlines()}
    added = [name for name in unclear if name not in listed]
    blocks = []
    for name in added:
        offsets = list(unclear[name]) or [
            offset
            for near in near_names(name.replace(" ", "_"), nouns.senses)
            for offset in nouns.senses[near]
        ]
        title = (
            f"# {name}:" if unclear[name] else f"# {name}: no noun of WordNet; the nearest by spelling are"
        )
        lines = [f"#{name} = {nouns.name(o)}  # {gloss_of(nouns, o, _GLOSS)}" for o in offsets]
        blocks.append("\n".join(["", title, *(lines or [f"#{name} = "]), ""]))
    if added:
        write_text(path, (before if before.endswith("\n") else before + "\n") + "".join(blocks))
    return added


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise TaxonomyError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TaxonomyError(f"{str(path)!r} is not text in UTF-8") from None
