"""Medical Subject Headings as the National Library of Medicine publishes them: d2025.bin and desc2025.xml."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.files.entries import Entries
from labeltree.taxonomy.files.ontologies.ontology_terms import Term, entries_from_terms, plain_text
from labeltree.taxonomy.files.ontologies.xml_events import xml_events

if TYPE_CHECKING:
    from labeltree.taxonomy.files.opened_file import OpenedFile

__all__ = ["entries_from_mesh", "entries_from_mesh_xml"]


@dataclass
class _Heading:
    """A descriptor: its id, name, further names and places in the tree."""

    id: str = ""
    name: str = ""
    entries: list[str] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)


def entries_from_mesh(file: OpenedFile) -> Entries:
    """Read the ASCII file of descriptors: `MH`, `MN`, `ENTRY` and `UI` of each record; see `_entries`."""
    headings: list[_Heading] = []
    for number, line in file.lines:
        if line.startswith("*NEWRECORD"):
            headings.append(_Heading())
            continue
        tag, sign, value = line.partition(" = ")
        if not headings or not sign:
            if headings and (line.endswith(" =") or "=" not in line):
                continue  # an empty field, or the rest of a long one
            raise TaxonomyError(
                f"line {number}: {line[:60]!r} stands outside a record, which begins with *NEWRECORD"
            )
        heading, value = headings[-1], plain_text(value)
        if tag == "MH":
            heading.name = value
        elif tag == "UI":
            heading.id = value
        elif tag == "MN":
            heading.numbers.append(value)
        elif tag in ("ENTRY", "PRINT ENTRY"):
            heading.entries.append(value.partition("|")[0])
    return _entries(iter(headings), file)


def entries_from_mesh_xml(file: OpenedFile) -> Entries:
    """Read the XML file of descriptors; see `_entries`."""
    return _entries(_headings(file), file)


def _headings(file: OpenedFile) -> Iterator[_Heading]:
    tags: list[str] = []
    heading = _Heading()
    for event in xml_events(file):
        if event.kind == "start":
            tags.append(event.name)
            if event.name == "DescriptorRecord":
                heading = _Heading()
            continue
        tags.pop()
        inside = tags[-2:]
        if event.name == "DescriptorRecord":
            yield heading
        elif event.name == "DescriptorUI" and inside[-1:] == ["DescriptorRecord"]:
            heading.id = plain_text(event.text)
        elif event.name == "TreeNumber":
            heading.numbers.append(plain_text(event.text))
        elif event.name == "String" and inside == ["DescriptorRecord", "DescriptorName"]:
            heading.name = plain_text(event.text)
        elif event.name == "String" and inside[-1:] == ["Term"]:
            heading.entries.append(plain_text(event.text))


def _entries(headings: Iterator[_Heading], file: OpenedFile) -> Entries:
    """A DAG of descriptors by their tree numbers: the parent of A01.236 is what has the number A01.

    Aliases are the id, the tree numbers and the entry terms. A descriptor without a tree number is left out.
    Of two descriptors each of which is above the other somewhere, the later edge is left out.
    """
    placed: dict[str, _Heading] = {}
    without = 0
    for heading in headings:
        if heading.numbers and heading.name:
            placed.setdefault(heading.id or heading.name, heading)
        else:
            without += 1
    owner = {number: id for id, heading in placed.items() for number in heading.numbers}
    terms: dict[str, Term] = {}
    for id, heading in placed.items():
        above = [number.rpartition(".")[0] for number in heading.numbers]
        parents = [owner.get(number, number) for number in above if number]
        aliases = [id, *heading.entries, *heading.numbers]
        terms[id] = Term(heading.name, parents, aliases, f"the descriptor {id}")
    if without:
        file.note(f"{without:,} descriptors without a tree number are left out")
    if left := _break_cycles(terms):
        file.note(f"{left} edges are left out: of two descriptors, each is above the other somewhere")
    return entries_from_terms(terms, file)


def _break_cycles(terms: dict[str, Term]) -> int:
    """Leave out, in place, edges that lead back to a term below; returns how many."""
    left = 0
    state: dict[str, bool] = {}  # True while the way up from a term is being walked
    for start in terms:
        if start in state:
            continue
        state[start] = True
        way = [(start, iter(list(terms[start].parents)))]
        while way:
            id, parents = way[-1]
            parent = next(parents, None)
            if parent is None:
                state[id] = False
                way.pop()
            elif state.get(parent):
                terms[id].parents = [one for one in terms[id].parents if one != parent]
                left += 1
            elif parent in terms and parent not in state:
                state[parent] = True
                way.append((parent, iter(list(terms[parent].parents))))
    return left
