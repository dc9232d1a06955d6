"""SNOMED CT's release format 2: one relationship or description a line, each perhaps in several states."""

from collections.abc import Hashable, Mapping, Sequence

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.files.entries import Entries, entries_from_edges

__all__ = ["is_rf2", "rf2_edges", "rf2_names"]

IS_A = "116680003"
FULL_NAME = "900000000000003001"  # the type of a description that is the fully specified name


def is_rf2(columns: Sequence[str]) -> bool:
    """Whether these are the columns of an RF2 relationship file."""
    return {"sourceid", "destinationid", "typeid"} <= {name.casefold() for name in columns}


def rf2_edges(text: str, names: Mapping[str, str] | None, several_parents: bool) -> Entries:
    """Read the active is-a relations (typeId 116680003) of an RF2 relationship file.

    In a full release, the latest state of a relationship counts.

    Args:
        text: The file, tab-separated.
        names: The name of each concept, from `rf2_names`; concepts without one have their id.
        several_parents: Whether a node may have more than one parent.

    Raises:
        TaxonomyError: If no relation is active, or a line is short.
    """
    edges: dict[tuple[str, str], int] = {}
    for line, row in _latest(text, ("sourceid", "destinationid", "typeid")):
        if row["typeid"] == IS_A and row.get("active", "1") == "1":
            edges.setdefault((row["sourceid"], row["destinationid"]), line)
    if not edges:
        raise TaxonomyError(f"it has no active is-a relation (typeId {IS_A})")
    lines = list(edges.values())
    name_of: dict[Hashable, object] = {end: (names or {}).get(end, end) for edge in edges for end in edge}
    return entries_from_edges(
        list(edges), names=name_of, where=lambda row: f"line {lines[row]}", several_parents=several_parents
    )


def rf2_names(text: str) -> dict[str, str]:
    """The names of concepts in an RF2 description file: the fully specified name, else the first term.

    Raises:
        TaxonomyError: If it is no description file.
    """
    terms: dict[str, str] = {}
    full: dict[str, str] = {}
    for _, row in _latest(text, ("conceptid", "typeid", "term")):
        if row.get("active", "1") == "1":
            terms.setdefault(row["conceptid"], row["term"])
            if row["typeid"] == FULL_NAME:
                full.setdefault(row["conceptid"], row["term"])
    return terms | full


def _latest(text: str, needed: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    """The latest state of each row, with its line; RF2 knows no quotes."""
    lines = (line.rstrip("\r").split("\t") for line in text.split("\n"))
    header = [name.strip().casefold() for name in next(lines)]
    if missing := [name for name in needed if name not in header]:
        raise TaxonomyError(
            f"it has no column {', '.join(missing)}: this is not the file of RF2 it should be"
        )
    rows: dict[object, tuple[int, dict[str, str]]] = {}
    for number, cells in enumerate(lines, start=2):
        if cells == [""]:
            continue
        if len(cells) < len(header):
            raise TaxonomyError(f"line {number} has {len(cells)} cells for {len(header)} columns")
        row = {name: cell.strip() for name, cell in zip(header, cells, strict=False)}
        key = row.get("id") or number
        if key not in rows or row.get("effectivetime", "") >= rows[key][1].get("effectivetime", ""):
            rows[key] = (number, row)
    return list(rows.values())
