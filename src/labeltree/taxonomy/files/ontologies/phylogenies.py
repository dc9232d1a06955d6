"""Trees of phylogenetics that are not plain Newick: NEXUS, PhyloXML and NeXML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.files.entries import Entries, entries_of_tree
from labeltree.taxonomy.files.newick import entries_from_newick, fill_names
from labeltree.taxonomy.files.ontologies.ontology_terms import plain_text
from labeltree.taxonomy.files.ontologies.xml_events import xml_events

if TYPE_CHECKING:
    from labeltree.taxonomy.files.opened_file import OpenedFile

__all__ = ["entries_from_nexml", "entries_from_nexus", "entries_from_phyloxml"]

_PIECE = re.compile(r"'(?:[^']|'')*'|\[[^\]]*\]|;|[^'\[;]+|['\[]")
_WORD = re.compile(r"'(?:[^']|'')*'|\[[^\]]*\]|,|[^\s,'\[]+")
_TREE = re.compile(r"U?TREE\b[^=]*=", re.IGNORECASE)


def entries_from_nexus(file: OpenedFile) -> Entries:
    """Read the tree of a NEXUS file, with the names that TRANSLATE gives; data and other blocks are ignored.

    Names are kept as they are written; one with underscores has the one with blanks as an alias.

    Raises:
        TaxonomyError: If there is no tree, or more than one.
    """
    names: dict[str, str] = {}
    tree: str | None = None
    is_trees = False
    for line, command in _commands(file.text):
        word = command.split(maxsplit=1)[0].upper() if command else ""
        if word == "BEGIN":
            is_trees = (command.split()[1:2] and command.split()[1].upper() == "TREES") or False
        elif word in ("END", "ENDBLOCK"):
            is_trees = False
        elif is_trees and word == "TRANSLATE":
            names |= _translation(command[len(word) :], line)
        elif is_trees and (match := _TREE.match(command)):
            if tree is not None:
                raise TaxonomyError(f"line {line}: a second tree begins; a taxonomy is one")
            tree = "\n" * (line - 1) + command[match.end() :] + ";"
    if tree is None:
        raise TaxonomyError("there is no tree in it: a command TREE in a block BEGIN TREES")
    entries = entries_from_newick(tree, file.root_name, names)
    return entries._replace(
        aliases=[[name.replace("_", " ")] if "_" in name else [] for name in entries.names]
    )


def _commands(text: str) -> Iterator[tuple[int, str]]:
    """The commands, each with its line; they end with a semicolon, comments before them are left out."""
    line, began, parts = 1, 1, list[str]()
    for match in _PIECE.finditer(text):
        piece = match[0]
        if piece == ";":
            yield began, "".join(parts).strip()
            parts = []
        else:
            if not parts:
                piece = piece.lstrip()
                piece = piece[6:].lstrip() if piece[:6].upper() == "#NEXUS" else piece
                began = line + match[0][: len(match[0]) - len(piece)].count("\n")
            if piece and (parts or not piece.startswith("[")):
                parts.append(piece)
        line += match[0].count("\n")


def _translation(text: str, line: int) -> dict[str, str]:
    """The names that stand for the words of a tree."""
    names: dict[str, str] = {}
    words: list[str] = []
    for match in _WORD.finditer(text + ","):
        if match[0] != ",":
            word = match[0]
            if not word.startswith("["):
                words.append(word[1:-1].replace("''", "'") if word.startswith("'") else word)
            continue
        if words and len(words) != 2:
            raise TaxonomyError(
                f"line {line}: TRANSLATE has {' '.join(words)[:60]!r} where a word and a name belong"
            )
        if words:
            names[words[0]] = words[1]
        words = []
    return names


def entries_from_phyloxml(file: OpenedFile) -> Entries:
    """Read the tree of a PhyloXML file: a clade has its name, or else that of its taxonomy.

    Raises:
        TaxonomyError: If there is no tree, or more than one, or a leaf has no name.
    """
    names, parents, lines = list[str](), list[int](), list[int]()
    known: list[dict[str, str]] = []
    clades: list[int] = []
    tags: list[str] = []
    trees = 0
    for event in xml_events(file):
        if event.kind == "start":
            tags.append(event.name)
            if event.name == "phylogeny":
                trees += 1
                if trees > 1:
                    raise TaxonomyError(f"line {event.line}: a second tree begins; a taxonomy is one")
            elif event.name == "clade":
                parents.append(clades[-1] if clades else -1)
                clades.append(len(parents) - 1)
                known.append({})
                lines.append(event.line)
            continue
        tags.pop()
        if event.name == "clade":
            clades.pop()
        elif clades and tags[-1] in ("clade", "taxonomy") and (text := plain_text(event.text)):
            known[clades[-1]].setdefault(event.name, text)
    if parents.count(-1) != 1:
        raise TaxonomyError("there is no tree in it: one outermost clade in a phylogeny")
    kinds = ("name", "scientific_name", "common_name", "code")
    names = [next((texts[kind] for kind in kinds if kind in texts), "") for texts in known]
    aliases = [
        [text for kind in (*kinds, "synonym", "id") if (text := texts.get(kind, "")) and text != name]
        for texts, name in zip(known, names, strict=True)
    ]
    entries = entries_of_tree(fill_names(names, parents, lines, file.root_name), parents)
    return entries._replace(aliases=aliases)


def entries_from_nexml(file: OpenedFile) -> Entries:
    """Read the tree of a NeXML file: a node has its label, or else that of its taxon (`otu`).

    Raises:
        TaxonomyError: If there is no tree, or more than one, or a leaf has no name.
    """
    otus: dict[str, str] = {}
    labels: dict[str, tuple[str, str, int]] = {}
    below: dict[str, list[str]] = {}
    children: set[str] = set()
    trees = 0
    for event in xml_events(file):
        given = event.attributes
        if event.kind == "end":
            continue
        if event.name == "otu":
            otus[given.get("id", "")] = plain_text(given.get("label") or given.get("id"))
        elif event.name == "tree":
            trees += 1
            if trees > 1:
                raise TaxonomyError(f"line {event.line}: a second tree begins; a taxonomy is one")
        elif event.name == "node" and trees:
            labels[given.get("id", "")] = plain_text(given.get("label")), given.get("otu", ""), event.line
        elif event.name == "edge" and trees:
            source, target = given.get("source", ""), given.get("target", "")
            if target in children:
                raise TaxonomyError(f"line {event.line}: the node {target!r} has two parents")
            below.setdefault(source, []).append(target)
            children.add(target)
    unknown = next((id for id in [*below, *children] if id not in labels), None)
    roots = [id for id in labels if id not in children]
    if unknown is not None or len(roots) != 1:
        what = (
            f"an edge names the node {unknown!r}, which there is not"
            if unknown
            else f"it has {len(roots)} roots"
        )
        raise TaxonomyError(f"there is no tree in it: {what}")
    names, parents, lines = list[str](), list[int](), list[int]()
    waiting = [(roots[0], -1)]
    while waiting:
        id, parent = waiting.pop()
        label, otu, line = labels[id]
        names.append(label or otus.get(otu, ""))
        parents.append(parent)
        lines.append(line)
        waiting += [(child, len(names) - 1) for child in reversed(below.get(id, ()))]
    if len(names) < len(labels):
        raise TaxonomyError("there is no tree in it: some edges form a circle")
    return entries_of_tree(fill_names(names, parents, lines, file.root_name), parents)
