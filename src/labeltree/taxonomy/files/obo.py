"""Ontologies in OBO format (1.2 and 1.4), such as the Cell Ontology: a DAG of terms."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.files.entries import ROOT, Entries, below_one_root, entries_from_edges
from labeltree.taxonomy.naming import clean_name, nearest_hint
from labeltree.taxonomy.version_history import checked_release

__all__ = ["entries_from_obo"]

_ID = re.compile(r"(\S+)\s*(\{.*\})?\s*(!.*)?")
_NAME_END = re.compile(r"\s+!.*$|\s*(?<!\\)\{[^{}]*=[^{}]*\}\s*(!.*)?$")  # a comment, trailing modifiers
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(\w*)')
_ESCAPED = re.compile(r"\\(.)")
_SPACES = {"n": " ", "t": " ", "W": " "}


@dataclass
class _Term:
    """What a stanza `[Term]` says, with the line of each parent."""

    line: int
    id: str = ""
    name: str = ""
    other_ids: list[str] = field(default_factory=list)
    synonyms: list[str] = field(default_factory=list)
    parents: dict[str, int] = field(default_factory=dict)
    replaced_by: list[str] = field(default_factory=list)
    consider: list[str] = field(default_factory=list)
    is_obsolete: bool = False


def entries_from_obo(text: str, root_name: str | None, several_parents: bool) -> Entries:
    """Read the terms of an ontology and what each is (`is_a`); other relations, as `part_of`, are ignored.

    A node has the name of its term. Its aliases are the id, former ids (`alt_id`, and ids of obsolete terms
    that it replaces) and exact synonyms. Obsolete terms are no nodes; what to consider instead of them is
    kept by their ids (`consider`, and `replaced_by` where there are several). A parent in another ontology,
    of which the file holds no term, is left out. Several terms without a parent are put below one root. The
    version (`data-version`) becomes the release.

    Args:
        text: The file.
        root_name: Name of a root that the ontology does not have.
        several_parents: Whether a node may have more than one parent.

    Raises:
        TaxonomyError: If the text is no such file, a term is defined twice, or a parent is obsolete or not in
            the file; the message gives the line.
    """
    terms, release = _read_terms(text)
    current = {id: term for id, term in terms.items() if not term.is_obsolete}
    prefixes = {id.partition(":")[0] for id in terms}
    for term in terms.values():
        for id in term.replaced_by if term.is_obsolete else ():
            if replacement := _replacement(id, terms):
                current[replacement].other_ids += [term.id, *term.other_ids]
    pairs: list[tuple[Hashable, Hashable]] = []
    lines: list[int] = []
    for term in current.values():
        here = {parent: line for parent, line in term.parents.items() if not _is_elsewhere(parent, prefixes)}
        for parent, line in here.items():
            if parent not in current:
                raise TaxonomyError(f"line {line}: {term.id} is_a {parent}, {_why_no_parent(parent, terms)}")
        pairs += [(term.id, parent) for parent in here or [None]]
        lines += here.values() or [term.line]
    names: dict[Hashable, object] = {id: term.name or id for id, term in current.items()}
    names[ROOT] = root_name
    entries = entries_from_edges(
        below_one_root(pairs, root_name),
        names=names,
        where=lambda row: f"line {lines[row]}",
        several_parents=several_parents,
        aliases={id: _aliases(term) for id, term in current.items()},
    )
    return entries._replace(release=release, considered=_considered(terms))


def _read_terms(text: str) -> tuple[dict[str, _Term], str | None]:
    """The terms by their ids, and the version of the ontology."""
    terms: dict[str, _Term] = {}
    term: _Term | None = None
    release, stanza, read = None, "", []
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip()
        if not line or line.startswith("!"):
            continue
        if line.startswith("["):
            stanza = line
            term = _Term(number) if stanza == "[Term]" else None
            read += [term] if term else []
            continue
        tag, colon, value = line.partition(":")
        if not colon:
            raise TaxonomyError(
                f"line {number}: {line[:60]!r} is neither 'tag: value' nor a stanza such as [Term]"
            )
        if term is not None:
            _read_tag(term, tag.strip(), value.strip(), f"line {number}", number)
        elif not stanza and tag == "data-version" and value.strip():
            release = checked_release(value)
    for term in read:
        if not term.id:
            raise TaxonomyError(f"line {term.line}: a [Term] has no id")
        if (first := terms.setdefault(term.id, term)) is not term:
            raise TaxonomyError(f"line {term.line}: {term.id} is defined in line {first.line}; remove one")
    if not any(not term.is_obsolete for term in read):
        raise TaxonomyError("there is no stanza [Term] of a term that is not obsolete")
    return terms, release


def _read_tag(term: _Term, tag: str, value: str, where: str, line: int) -> None:
    if tag == "id":
        if term.id:
            raise TaxonomyError(f"{where}: a second id in a [Term]; the first is {term.id}")
        term.id = _id(value, tag, where)
    elif tag == "name":
        term.name = clean_name(_plain(_NAME_END.sub("", value)), where)
    elif tag == "alt_id":
        term.other_ids.append(_id(value, tag, where))
    elif tag == "replaced_by":
        term.replaced_by.append(_id(value, tag, where))
    elif tag == "consider":
        term.consider.append(_id(value, tag, where))
    elif tag == "is_a":
        term.parents.setdefault(_id(value, tag, where), line)
    elif tag == "is_obsolete":
        term.is_obsolete = value.split("!")[0].strip() == "true"
    elif tag in ("synonym", "exact_synonym"):
        match = _QUOTED.match(value)
        if match is None:
            raise TaxonomyError(f"{where}: {tag} has no text in double quotes: {value[:60]!r}")
        if (match[2] == "EXACT" or tag == "exact_synonym") and (synonym := _plain(match[1]).strip()):
            term.synonyms.append(synonym)


def _id(value: str, tag: str, where: str) -> str:
    match = _ID.fullmatch(value)
    if match is None:
        raise TaxonomyError(f"{where}: {tag} is {value[:60]!r}, expected one id, such as CL:0000540")
    return clean_name(_plain(match[1]), where)


def _plain(text: str) -> str:
    """A text without the escapes of the format."""
    return _ESCAPED.sub(lambda match: _SPACES.get(match[1], match[1]), text)


def _replacement(id: str, terms: Mapping[str, _Term]) -> str | None:
    """The term that is not obsolete at the end of a chain of replacements; None if there is no single one."""
    seen: set[str] = set()
    while id in terms and terms[id].is_obsolete and id not in seen and len(terms[id].replaced_by) == 1:
        seen.add(id)
        id = terms[id].replaced_by[0]
    return id if id in terms and not terms[id].is_obsolete else None


def _considered(terms: Mapping[str, _Term]) -> dict[str, tuple[str, ...]]:
    """The ids of terms that may be meant by obsolete ids without one successor, and by obsolete names."""
    considered: dict[str, tuple[str, ...]] = {}
    current = {term.name for term in terms.values() if not term.is_obsolete}
    for term in terms.values() if len(current) < len(terms) else ():
        if not term.is_obsolete:
            continue
        name = (term.name or "").removeprefix("obsolete ")
        former = [name] if name and name not in current else []
        if (single := _replacement(term.id, terms)) is not None:
            considered |= dict.fromkeys(former, (single,))
            continue
        instead = [_replacement(id, terms) for id in (*term.replaced_by, *term.consider)]
        if there := tuple(dict.fromkeys(id for id in instead if id is not None)):
            considered |= dict.fromkeys([term.id, *term.other_ids, *former], there)
    return considered


def _aliases(term: _Term) -> list[str]:
    texts = dict.fromkeys([term.id, *term.other_ids, *term.synonyms])
    return [text for text in texts if text != term.name]


def _is_elsewhere(id: str, prefixes: set[str]) -> bool:
    """Whether an id, such as GO:0005737, belongs to an ontology of which the file holds no term."""
    prefix, colon, _ = id.partition(":")
    return bool(colon) and prefix not in prefixes


def _why_no_parent(parent: str, terms: Mapping[str, _Term]) -> str:
    if parent in terms:
        better = terms[parent].replaced_by
        return "which is obsolete" + (f"; it is replaced by {', '.join(better)}" if better else "")
    hint = nearest_hint(parent, terms)
    return f"which no [Term] of the file defines ({hint})"
