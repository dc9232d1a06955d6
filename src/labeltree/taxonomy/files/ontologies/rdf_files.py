"""RDF files of ontologies and thesauri: RDF/XML and N-Triples read here, Turtle and JSON-LD by rdflib."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.files.entries import Entries
from labeltree.taxonomy.files.nested import Pairs
from labeltree.taxonomy.files.ontologies.statements import RDF, Statements
from labeltree.taxonomy.files.ontologies.xml_events import XML_SPACE, XmlEvent, xml_events

if TYPE_CHECKING:
    from labeltree.taxonomy.files.opened_file import OpenedFile

__all__ = [
    "entries_from_json_ld",
    "entries_from_n_triples",
    "entries_from_rdf_xml",
    "entries_from_turtle",
    "is_json_ld",
]

_BASE = "file:///"
_LONGEST_LINE = 16 << 20
_TRIPLE = re.compile(
    r'\s*(?:<([^>]*)>|(_:\S+))\s+<([^>]*)>\s+(?:<([^>]*)>|(_:[^\s.]+)|"((?:[^"\\]|\\.)*)"(?:@([\w-]+)|\^\^<[^>]*>)?)'
    r"\s*(?:<[^>]*>\s*|_:\S+\s+)?\.\s*(?:#.*)?"
)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_SIGNS = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f"}


def entries_from_rdf_xml(file: OpenedFile) -> Entries:
    """Read an ontology or thesaurus in RDF/XML, as `.owl` and `.rdf` files are; imports are not opened."""
    statements = Statements()
    reader = _RdfXml(statements)
    for event in xml_events(file):
        reader.take(event)
    return statements.entries(file)


@dataclass
class _Frame:
    """An open element: a node with its subject, a property that waits for its value, or what is skipped."""

    kind: str
    subject: str
    predicate: str = ""
    language: str = ""
    base: str = _BASE
    is_linked: bool = False


class _RdfXml:
    """Turns the elements of RDF/XML into statements."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements
        self._stack: list[_Frame] = []
        self._blank = 0

    def take(self, event: XmlEvent) -> None:
        if event.kind == "end":
            self._close(event.text)
            return
        above = self._stack[-1] if self._stack else _Frame("top", "")
        language = event.attributes.get(f"{XML_SPACE}lang", above.language)
        base = event.attributes.get(f"{XML_SPACE}base", above.base)
        if above.kind == "top" and event.name == "RDF":
            self._stack.append(_Frame("rdf", "", "", language, base))
        elif above.kind in ("skipped", "collection"):
            self._stack.append(_Frame("skipped", ""))
        elif above.kind == "node":
            self._open_property(event, above, language, base)
        else:
            self._open_node(event, above, language, base)

    def _open_node(self, event: XmlEvent, above: _Frame, language: str, base: str) -> None:
        subject = self._id(event.attributes, "about", base) or self._new()
        tag = event.space + event.name
        if tag != f"{RDF}Description":
            self._statements.add(subject, f"{RDF}type", tag)
        for name, value in event.attributes.items():
            predicate = name.replace("}", "")
            if "}" in name and not predicate.startswith(RDF):
                self._statements.add(subject, predicate, value, language)
            elif predicate == f"{RDF}type":
                self._statements.add(subject, predicate, value)
        if above.kind == "property":
            above.is_linked = True
            self._statements.add(above.subject, above.predicate, subject)
        self._stack.append(_Frame("node", subject, "", language, base))

    def _open_property(self, event: XmlEvent, above: _Frame, language: str, base: str) -> None:
        predicate = event.space + event.name
        parse = event.attributes.get(f"{RDF}}}parseType")
        frame = _Frame("property", above.subject, predicate, language, base)
        if parse == "Resource":
            subject = self._new()
            self._statements.add(above.subject, predicate, subject)
            frame = _Frame("node", subject, "", language, base)
        elif parse is not None:
            frame = _Frame("collection" if parse == "Collection" else "skipped", "")
        elif target := self._id(event.attributes, "resource", base):
            frame.is_linked = True
            self._statements.add(above.subject, predicate, target)
        self._stack.append(frame)

    def _close(self, text: str) -> None:
        frame = self._stack.pop()
        if frame.kind == "property" and not frame.is_linked and self._statements.matters(frame.predicate):
            self._statements.add(frame.subject, frame.predicate, text, frame.language)

    def _id(self, attributes: dict[str, str], name: str, base: str) -> str:
        if (iri := attributes.get(f"{RDF}}}{name}", attributes.get(name))) is not None:
            return _resolve(base, iri)
        if (node := attributes.get(f"{RDF}}}nodeID")) is not None:
            return f"_:{node}"
        if (id := attributes.get(f"{RDF}}}ID")) is not None and name == "about":
            return _resolve(base, f"#{id}")
        return ""

    def _new(self) -> str:
        self._blank += 1
        return f"_:#{self._blank}"


def _resolve(base: str, iri: str) -> str:
    if re.match(r"[A-Za-z][\w+.-]*:", iri):
        return iri
    if iri.startswith("#"):
        return base.partition("#")[0] + iri
    try:
        return urljoin(base, iri) if iri else base
    except ValueError:
        return iri


def entries_from_n_triples(file: OpenedFile) -> Entries:
    """Read an ontology or thesaurus in N-Triples or N-Quads, a statement a line."""
    statements = Statements()
    for number, line in _lines(file):
        if line.isspace() or not line or line.lstrip().startswith("#"):
            continue
        match = _TRIPLE.fullmatch(line)
        if match is None:
            raise TaxonomyError(
                f"line {number}: {line[:60]!r} is not a statement of N-Triples, such as <a> <b> <c> ."
            )
        subject, blank, predicate, iri, other, text, language = match.groups()
        if statements.matters(predicate):
            about = subject or blank
            if text is None:
                statements.add(about, predicate, iri if iri is not None else other)
            else:
                statements.add(about, predicate, _ESCAPE.sub(_unescape, text), language or "")
    return statements.entries(file)


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    if code is None:
        return _SIGNS.get(match[3], match[3])
    number = int(code, 16)
    return chr(number) if number < 0x110000 else "\ufffd"


def _lines(file: OpenedFile) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file, one after the other."""
    number, rest = 0, b""
    for chunk in file.chunks():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            number += 1
            yield number, line.decode("utf-8", "replace").removeprefix("\ufeff")
        if len(rest) > _LONGEST_LINE:
            raise TaxonomyError(f"line {number + 1} is longer than {_LONGEST_LINE:,} bytes")
    if rest:
        yield number + 1, rest.decode("utf-8", "replace")


def entries_from_turtle(file: OpenedFile) -> Entries:
    """Read an ontology or thesaurus in Turtle, with rdflib."""
    return _parsed(file, file.text, "turtle")


def is_json_ld(data: Any) -> bool:
    """Whether what was read from JSON has the keys of JSON-LD."""
    objects = data[:1] if isinstance(data, list) and not isinstance(data, Pairs) else [data]
    return any(
        isinstance(one, Pairs) and any(key in ("@context", "@graph", "@id") for key, _ in one)
        for one in objects
    )


def entries_from_json_ld(file: OpenedFile) -> Entries:
    """Read an ontology or thesaurus in JSON-LD, with rdflib; a context elsewhere is not opened.

    Raises:
        TaxonomyError: If its context lies elsewhere, or it holds neither classes nor concepts.
    """
    waiting: list[Any] = [file.json]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Pairs):
            for key, inner in value:
                outside = _outside(inner) if key in ("@context", "@import") else None
                if outside is not None:
                    raise TaxonomyError(
                        f"its context is at {outside[:100]!r}, which is not opened; write the context itself "
                        "into the file"
                    )
                waiting.append(inner)
        elif isinstance(value, list):
            waiting += value
    return _parsed(file, file.text, "json-ld")


def _outside(context: Any) -> str | None:
    """The address in a context; None if it is written out."""
    parts = context if isinstance(context, list) and not isinstance(context, Pairs) else [context]
    return next((part for part in parts if isinstance(part, str)), None)


def _parsed(file: OpenedFile, text: str, form: str) -> Entries:
    try:
        from rdflib import Graph, Literal
        from rdflib.plugins.stores.memory import Memory
    except ImportError:
        raise TaxonomyError(
            f"files of {'Turtle' if form == 'turtle' else 'JSON-LD'} are read with rdflib, which is not "
            "installed: pip install 'labeltree[formats]'; N-Triples and RDF/XML need no library"
        ) from None
    import logging

    statements = Statements()

    class Store(Memory):
        """Keeps nothing but what matters."""

        def add(self, triple: Any, context: Any, quoted: bool = False) -> None:
            subject, predicate, value = triple
            if statements.matters(str(predicate)):
                about, what = (
                    one.n3() if one.n3().startswith("_:") else str(one) for one in (subject, value)
                )
                language = (value.language or "") if isinstance(value, Literal) else None
                statements.add(about, str(predicate), str(value) if language is not None else what, language)

    log = logging.getLogger("rdflib")
    level = log.level
    log.setLevel(logging.CRITICAL)  # of texts that are no dates it says so, one by one
    try:
        Graph(store=Store()).parse(data=text, format=form, publicID=_BASE)
    except RecursionError:
        raise TaxonomyError("nested too deeply; write it as N-Triples, a statement a line") from None
    except Exception as error:  # whatever a parser of others raises about a damaged file
        line = getattr(error, "lines", None)
        where = f"line {line + 1}: " if isinstance(line, int) else ""
        name = "Turtle" if form == "turtle" else "JSON-LD"
        raise TaxonomyError(f"{where}not readable as {name}") from error
    finally:
        log.setLevel(level)
    return statements.entries(file)
