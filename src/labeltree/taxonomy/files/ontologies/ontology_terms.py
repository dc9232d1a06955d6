"""Terms of ontologies, each with an id, a name, further names and parents, as entries of a taxonomy."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.files.entries import ROOT, Entries, entries_from_edges
from labeltree.taxonomy.naming import name_siblings_apart

if TYPE_CHECKING:
    from labeltree.taxonomy.files.opened_file import OpenedFile

__all__ = ["Term", "entries_from_terms", "plain_text"]


@dataclass(slots=True)
class Term:
    """A term.

    Attributes:
        name: Its name; empty if it has none, and is called by its id.
        parents: The ids of its parents.
        aliases: What else it is called.
        where: How an error names it.
    """

    name: str = ""
    parents: list[str] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)
    where: str = ""


def plain_text(text: str | None) -> str:
    """The text on one line, with single blanks."""
    return " ".join((text or "").split())


def entries_from_terms(terms: Mapping[str, Term], file: OpenedFile, root_title: str | None = None) -> Entries:
    """A tree or DAG of terms.

    Parents that are no terms are left out, siblings of one name are told apart by their ids, and several
    terms without a parent are put below one root; notes say so.

    Args:
        terms: By their ids.
        file: The file, which says the root's name and takes the notes.
        root_title: A name of the root that the file tells.

    Raises:
        TaxonomyError: If there are no terms, or one has several parents where a tree is expected.
    """
    if not terms:
        raise TaxonomyError("there are no classes in it")
    pairs: list[tuple[str, str | None]] = []
    absent: dict[str, None] = {}
    for id, term in terms.items():
        above = [parent for parent in dict.fromkeys(term.parents) if parent in terms and parent != id]
        absent |= dict.fromkeys(parent for parent in term.parents if parent not in terms)
        pairs += [(id, parent) for parent in above] or [(id, None)]
    if absent:
        many = f"{len(absent):,} parents are" if len(absent) > 1 else "one parent is"
        file.note(f"{many} no classes of this file and left out, such as {next(iter(absent))!r}")
    names: dict[Hashable, object] = {id: term.name or id for id, term in terms.items()}
    aliases = [
        [text for text in dict.fromkeys(term.aliases) if text and text != term.name]
        for term in terms.values()
    ]
    ids = [*terms]
    tops = sum(parent is None for _, parent in pairs)
    if file.root_name is not None and (tops > 1 or root_title is not None):
        pairs = [(id, ROOT if parent is None else parent) for id, parent in pairs]
        names[ROOT] = root_title or file.root_name
        aliases.insert(0, [])
        ids.insert(0, ROOT)
    entries = entries_from_edges(
        pairs,
        names=names,
        where=lambda row: terms[pairs[row][0]].where or f"the class {pairs[row][0]!r}",
        several_parents=file.several_parents,
    )
    named, note = name_siblings_apart(
        entries.names,
        entries.children,
        entries.parents,
        [further[0] if further else ids[node] for node, further in enumerate(aliases)],
    )
    if note:
        file.note(note)
    return entries._replace(names=named, aliases=aliases)
