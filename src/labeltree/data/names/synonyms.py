"""Tables of synonyms: which name is accepted for which other names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from labeltree.data.names.cleaning import Cleaner
from labeltree.data.table_columns import DataTable
from labeltree.errors import DataError
from labeltree.taxonomy.naming import join_path, split_path

__all__ = ["SynonymTable"]

Key = tuple[str, ...]
_SCIENTIFIC = ("scientificname", "scientific_name", "dwc:scientificname")
_ACCEPTED = ("acceptednameusage", "acceptedscientificname", "accepted_name_usage", "accepted_scientific_name")
_IS_ACCEPTED = {"accepted", "valid", "provisionally accepted"}


@dataclass(frozen=True)
class _Accepted:
    """The accepted name of a synonym, and where it is said."""

    names: tuple[str, ...]
    synonym: str
    place: str


class SynonymTable:
    """Synonyms and their accepted names; chains are followed.

    A synonym is a name, or the end of a path, `Oenanthe/Oenanthe lutea`, that tells it from homonyms; the
    longest fitting path counts.

    Args:
        pairs: Synonym and accepted name of each row, each a name or a path; (name, name) says that a name is
            accepted.
        cleaner: How names are cleaned and compared.
        where: What the pairs were read from, for errors.
        places: Where each pair stands, for errors.

    Raises:
        DataError: If a name has several accepted names, or is both accepted and a synonym, and no path tells
            which is meant; or if synonyms form a cycle.

    Example:
        >>> table = SynonymTable([("puma", "mountain lion"), ("mountain lion", "Puma concolor")])
        >>> table.accepted(("cat", "puma"))
        (('puma',), ('Puma concolor',))
    """

    def __init__(
        self,
        pairs: Sequence[tuple[str, str]],
        cleaner: Cleaner | None = None,
        where: str = "the synonyms",
        places: Sequence[str] | None = None,
    ) -> None:
        self._cleaner = cleaner or Cleaner()
        self._where = where
        self._found: dict[Key, _Accepted] = {}
        self._declared: dict[Key, str] = {}
        for number, (synonym, accepted) in enumerate(pairs):
            self._add(synonym, accepted, f"row {number + 1}" if places is None else places[number])
        for key, place in self._declared.items():
            if (other := self._found.get(key)) is not None:
                raise DataError(
                    f"{where}: '{other.synonym}' is an accepted name in {place}, but a synonym of "
                    f"'{join_path(other.names)}' in {other.place}; if they are homonyms, write the "
                    f"synonym as a path with its parent, such as 'Parent/{other.synonym}', or remove one row"
                )
        self._final = {key: self._end(key) for key in self._found}
        self._longest = max(map(len, self._found), default=0)

    @classmethod
    def load(cls, path: str | Path, cleaner: Cleaner | None = None) -> SynonymTable:
        """Read a table with the columns `synonym` and `accepted`, or a Darwin Core table.

        In Darwin Core, GBIF's downloads among it, `scientificName` is the synonym, and
        `acceptedNameUsage` or `acceptedScientificName` the accepted name; or `acceptedNameUsageID`
        refers to a `taxonID`. Rows without an accepted name say nothing; `taxonomicStatus` tells accepted
        names.

        Args:
            path: A CSV, TSV or Parquet file.
            cleaner: How names are cleaned and compared.

        Raises:
            DataError: As for `DataTable.read`; if columns are missing, or a row has only one of `synonym`
                and `accepted`; and as for `SynonymTable`.
        """
        table = DataTable.read(Path(path).expanduser())
        columns = _columns(table)
        first, second = (table.cells(column) for column in columns[:2])
        status = table.cells(columns[2]) if columns[2] is not None else None
        states = np.full(table.num_rows, -1) if status is None else status.codes
        codes = np.stack([first.codes, second.codes, states])
        _, places = np.unique(codes, axis=1, return_index=True)
        ids = _names_by_id(table) if columns[3] else None
        pairs, written = [], []
        for row in np.sort(places).tolist():
            one = first.texts[first.codes[row]] if first.codes[row] >= 0 else None
            other = second.texts[second.codes[row]] if second.codes[row] >= 0 else None
            state = status.texts[states[row]].lower().replace("_", " ") if status and states[row] >= 0 else ""
            if ids is not None and other is not None:
                other = ids.get(other)
            if columns[0].lower() == "synonym" and (one is None) != (other is None):
                empty = columns[1] if other is None else columns[0]
                raise DataError(
                    f"{table}, {table.place(row)}: '{empty}' is empty; fill it, or remove the row"
                )
            if one is not None and state in _IS_ACCEPTED:
                other = one
            elif one == other and state:  # a name that is no more accepted for being equal to itself
                continue
            if one is not None and other is not None:
                pairs.append((one, other))
                written.append(table.place(row))
        return cls(pairs, cleaner, str(table), written)

    def __len__(self) -> int:
        return len(self._found)

    @property
    def synonyms(self) -> Mapping[Key, str]:
        """The synonyms as they are written, by the key that `accepted` returns."""
        return {key: entry.synonym for key, entry in self._found.items()}

    def accepted(self, path: Sequence[str]) -> tuple[Key, tuple[str, ...]] | None:
        """The synonym at the end of a path, and its accepted name or path; None if there is none."""
        key = self._match(tuple(map(self._cleaner.key, path[-self._longest :]))) if self._longest else None
        return None if key is None else (key, self._final[key])

    def _match(self, keys: Key) -> Key | None:
        ends = (keys[start:] for start in range(len(keys)))
        return next((end for end in ends if end in self._found), None)

    def _add(self, synonym: str, accepted: str, place: str) -> None:
        one, other = split_path(synonym), tuple(map(self._cleaner.clean, split_path(accepted)))
        key, target = tuple(map(self._cleaner.key, one)), tuple(map(self._cleaner.key, other))
        if not all(key) or not all(target) or not key or not target:
            raise DataError(f"{self._where}, {place}: '{synonym}' or '{accepted}' has an empty name")
        if key == target:
            if synonym.strip() == accepted.strip():
                self._declared.setdefault(key, place)
            return
        known = self._found.get(key)
        if known is None:
            self._found[key] = _Accepted(other, synonym, place)
        elif tuple(map(self._cleaner.key, known.names)) != target:
            raise DataError(
                f"{self._where}: '{synonym}' is a synonym of '{join_path(known.names)}' in {known.place}, "
                f"and of '{join_path(other)}' in {place}; remove one, or if they are homonyms, write each "
                f"as a path with its parent, such as 'Parent/{synonym}'"
            )

    def _end(self, key: Key) -> tuple[str, ...]:
        """The accepted name at the end of a chain."""
        chain = [key]
        while True:
            entry = self._found[chain[-1]]
            following = self._match(tuple(map(self._cleaner.key, entry.names)))
            if following is None:
                return entry.names
            if following in chain:
                cycle = [*chain[chain.index(following) :], following]
                names = " > ".join(self._found[step].synonym for step in cycle)
                raise DataError(
                    f"{self._where}: the synonyms form a cycle: {names} ({entry.place}); remove "
                    "the row of the name that is accepted"
                )
            chain.append(following)


def _columns(table: DataTable) -> tuple[str, str, str | None, bool]:
    """The columns of synonym, accepted name and status, and whether the accepted name is given by its id."""
    synonym, accepted = table.usual(("synonym",)), table.usual(("accepted",))
    if synonym is not None and accepted is not None:
        return synonym, accepted, None, False
    name, usage = table.usual(_SCIENTIFIC), table.usual(_ACCEPTED)
    status = table.usual(("taxonomicstatus", "taxonomic_status"))
    if name is not None and usage is not None:
        return name, usage, status, False
    by_id = table.usual(("acceptednameusageid",))
    if name is not None and by_id is not None and table.usual(("taxonid",)) is not None:
        return name, by_id, status, True
    raise DataError(
        f"{table} is not a table of synonyms: it needs the columns synonym and accepted, or Darwin Core's "
        f"scientificName and acceptedNameUsage; it has {', '.join(table.columns)}"
    )


def _names_by_id(table: DataTable) -> dict[str, str]:
    ids, names = table.cells(table.usual(("taxonid",)) or ""), table.cells(table.usual(_SCIENTIFIC) or "")
    both = (ids.codes >= 0) & (names.codes >= 0)
    return {
        ids.texts[one]: names.texts[other]
        for one, other in zip(ids.codes[both].tolist(), names.codes[both].tolist(), strict=True)
    }
