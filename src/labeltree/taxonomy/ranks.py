"""Columns that are ranks of biological names: Darwin Core, GBIF and iNaturalist, in any spelling."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

__all__ = [
    "RANKS",
    "SURE",
    "USUAL_RANKS",
    "Ranks",
    "is_epithet",
    "is_scientific_name",
    "is_vernacular",
    "rank_of",
    "rank_of_value",
    "ranks_of",
    "term_of",
]

RANKS = (
    *("domain", "kingdom", "subkingdom", "phylum", "subphylum", "superclass", "class", "subclass"),
    *("infraclass", "superorder", "order", "suborder", "infraorder", "superfamily", "family", "subfamily"),
    *("tribe", "subtribe", "genus", "subgenus", "species", "subspecies"),
)
"""Ranks, coarse to fine."""

USUAL_RANKS = frozenset(("kingdom", "phylum", "class", "order", "family", "genus", "species"))
"""Ranks that every species has; the others are often left out."""

SURE = frozenset(("kingdom", "phylum", "superfamily", "subfamily", "genus"))
"""Ranks whose names hardly mean anything else, unlike `class`, `order`, `family` and `species`."""

_ALSO = {
    "regnum": "kingdom",
    "divisio": "phylum",
    "classis": "class",
    "ordo": "order",
    "familia": "family",
    "tribus": "tribe",
    "specificepithet": "species",
    "infraspecificepithet": "subspecies",
}
_VALUES = {  # of taxonRank
    "infraspecificname": "subspecies",
    "variety": "subspecies",
    "var": "subspecies",
    "varietas": "subspecies",
    "form": "subspecies",
    "forma": "subspecies",
    "subsp": "subspecies",
    "ssp": "subspecies",
    "cultivar": "subspecies",
    "sp": "species",
    "speciesaggregate": "species",
    "hybrid": "species",
    "genushybrid": "genus",
}
_NAMED_ABOVE = ("genus", "subgenus", "species")  # what an epithet follows
_PLACE = {rank: place for place, rank in enumerate(RANKS)}
_PREFIX = re.compile(r"(?:https?://\S*[/#]|[A-Za-z]{2,8}:|(?:dwc|dcterms)_)(?=[A-Za-z])")
_VERNACULAR = re.compile(r".*(?:common|vernacular|trivial)names?(?:[a-z]{2})?|common|vernacular")
_NOT_LETTERS = re.compile(r"[^a-z]")
_NAME = ("scientificname", "taxonname", "acceptedscientificname")


def _letters(text: str) -> str:
    return _NOT_LETTERS.sub("", term_of(text).lower())


def term_of(column: str) -> str:
    """The name of a column without the prefix of its vocabulary: `order` of `dwc:order` and `col:order`."""
    prefix = _PREFIX.match(column)
    return column if prefix is None else column[prefix.end() :]


def is_scientific_name(column: str) -> bool:
    """Whether a column is Darwin Core's `scientificName`, or iNaturalist's `scientific_name`."""
    return _letters(column).removeprefix("dwc") == "scientificname"


def is_epithet(column: str) -> bool:
    """Whether a column holds the second or third part of names, as `specificEpithet`."""
    return _letters(column).endswith("epithet")


def is_vernacular(column: str) -> bool:
    """Whether a column holds names in everyday language, as `common_name` and `vernacularName`."""
    return _VERNACULAR.fullmatch(_letters(column)) is not None


def ranks_of(columns: Sequence[str]) -> list[str | None]:
    """The ranks that columns of labels mean, coarse to fine.

    `cls` is the class beside other ranks; a column `class` that follows it names the species.
    """
    ranks = [rank_of(column) or ("species" if is_scientific_name(column) else None) for column in columns]
    if any(rank is not None for rank in ranks):
        for place, column in enumerate(columns):
            if column.lower() == "cls":
                ranks[place] = "class"
            elif ranks[place] == "class" and "class" in ranks[:place]:
                ranks[place] = "species"
    return ranks


def rank_of(column: str) -> str | None:
    """The rank that a column's name means; None for other columns.

    Example:
        >>> [rank_of(name) for name in ("Order", "taxon_family_name", "specificEpithet", "price")]
        ['order', 'family', 'species', None]
    """
    letters = _letters(column).removeprefix("dwc")
    for name in (letters, letters.removeprefix("taxon").removesuffix("name")):
        if name in _PLACE or name in _ALSO:
            return _ALSO.get(name, name)
    return None


def rank_of_value(text: str | None) -> str | None:
    """The rank that a cell of `taxonRank` means, such as `SPECIES`; None if it means none of `RANKS`."""
    if text is None:
        return None
    letters = _letters(text)
    rank = _VALUES.get(letters, _ALSO.get(letters, letters))
    return rank if rank in _PLACE else None


class Ranks:
    """How the cells of columns of ranks become the names of a label.

    Args:
        columns: The columns of the labels, coarse to fine.
        others: All columns of the table, among which `taxonRank` is sought.

    Attributes:
        names: The rank of each column; the name of the column where it is no rank.
        are_known: Whether all columns are ranks, in their order.
        depth_column: The column that says how deep a row's label is (Darwin Core's `taxonRank`); None if
            there is none.
    """

    def __init__(self, columns: Sequence[str], others: Sequence[str]) -> None:
        ranks = ranks_of(columns)
        places = [_PLACE[rank] if rank is not None else -1 for rank in ranks]
        self.names = [rank or column for rank, column in zip(ranks, columns, strict=True)]
        self.are_known = len(columns) > 1 and all(ranks) and all(a < b for a, b in itertools.pairwise(places))
        self.depth_column = (
            next((name for name in others if _letters(name).removeprefix("dwc") == "taxonrank"), None)
            if self.are_known
            else None
        )
        self._places = places
        self._epithet = [is_epithet(column) for column in columns]

    def label(self, cells: Sequence[str | None], depth: str | None) -> tuple[str | None, ...]:
        """The names of a row's label, None where a rank is missing.

        Names finer than the row's rank are left out, also where a species only repeats the genus, and so is
        the name `incertae sedis`, which stands for a missing one. Epithets follow the name above: `Parus
        major` of the genus `Parus` and the epithet `major`.

        Args:
            cells: The row's cells of the columns.
            depth: The row's cell of `depth_column`.
        """
        if not self.are_known:
            return tuple(cells)
        rank = rank_of_value(depth)
        deepest = len(RANKS) if rank is None else _PLACE[rank]
        names: list[str | None] = []
        for cell, place, name, epithet in zip(cells, self._places, self.names, self._epithet, strict=True):
            if place > deepest or (cell is not None and cell.casefold() == "incertae sedis"):
                cell = None
            above, above_rank = next(
                (
                    (name, rank)
                    for name, rank in zip(names[::-1], self.names[: len(names)][::-1], strict=True)
                    if name
                ),
                (None, None),
            )
            if cell is not None and epithet:
                cell = f"{above} {cell}" if above is not None and above_rank in _NAMED_ABOVE else None
            if name == "species" and cell is not None and cell in names:
                cell = None
            names.append(cell)
        return tuple(names)

    def label_of(self, columns: Sequence[str], cells: Mapping[str, str]) -> tuple[str | None, ...]:
        """The same of the cells by column."""
        depth = None if self.depth_column is None else cells.get(self.depth_column)
        return self.label([cells.get(column) for column in columns], depth)
