"""XML read as a stream of elements that opens no other file: entities are bounded, DTDs are not followed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple
from xml.parsers import expat

from labeltree.errors import TaxonomyError

if TYPE_CHECKING:
    from labeltree.taxonomy.files.opened_file import OpenedFile

__all__ = ["XML_SPACE", "XmlEvent", "xml_events", "xml_root"]

XML_SPACE = "http://www.w3.org/XML/1998/namespace}"
"""What stands before `lang` and `base` in the names of attributes."""
_LONGEST = 16 << 20  # characters of a text, bytes of a tag
_DEEPEST = 100_000
_MOST_ENTITIES, _LONGEST_ENTITY = 1000, 1000
_PROLOG = re.compile(
    r"\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*(?:\[(?:[^\]\"']|\"[^\"]*\"|'[^']*')*\]\s*)?>", re.DOTALL
)
_ROOT = re.compile(r"<(?:[\w.-]+:)?([\w.-]+)")


class XmlEvent(NamedTuple):
    """An element begins or ends.

    Attributes:
        kind: Whether it begins or ends.
        space: Its namespace, empty for none.
        name: Its name without a prefix.
        attributes: By name, those with a namespace as `namespace}name`; empty where it ends.
        text: The text directly within it, where it ends.
        line: The line.
    """

    kind: Literal["start", "end"]
    space: str
    name: str
    attributes: dict[str, str]
    text: str
    line: int


def xml_root(start: str) -> str:
    """The name of the outermost element, without a prefix; empty if the text does not look like XML."""
    at = 0
    while match := _PROLOG.match(start, at):
        at = match.end()
    root = _ROOT.match(start, at)
    return root[1] if root else ""


def xml_events(file: OpenedFile) -> Iterator[XmlEvent]:
    """The elements of an XML file, in order; what was read is not kept.

    Short entities of plain text are replaced, as in files of Protégé. A DTD outside the file is not opened.

    Raises:
        TaxonomyError: If it is not well formed, or has entities that are long, stand for others or lie in
            other files, or an element of more than 16 million characters or more than 100,000 levels deep.
    """
    yield from _Reader(file).events()


class _Reader:
    def __init__(self, file: OpenedFile) -> None:
        self._file = file
        self._waiting: list[XmlEvent] = []
        self._texts: list[list[str]] = []
        self._length = self._entities = 0
        parser = self._parser = expat.ParserCreate(namespace_separator="}")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.EntityDeclHandler = self._check_entity
        parser.SkippedEntityHandler = self._skip_entity

    def events(self) -> Iterator[XmlEvent]:
        given = 0
        for chunk in self._file.chunks():
            given += len(chunk)
            self._parse(chunk, is_last=False)
            if given - self._parser.CurrentByteIndex > _LONGEST:
                self._refuse(f"a tag is longer than {_LONGEST:,} characters")
            yield from self._waiting
            self._waiting.clear()
        self._parse(b"", is_last=True)
        yield from self._waiting

    def _parse(self, data: bytes, *, is_last: bool) -> None:
        try:
            self._parser.Parse(data, is_last)
        except TaxonomyError:
            raise
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise TaxonomyError(f"line {error.lineno}: not readable as XML: {reason}") from None
        except (LookupError, ValueError):
            raise TaxonomyError("not readable as XML: its encoding is unknown; save it as UTF-8") from None

    def _refuse(self, what: str) -> None:
        raise TaxonomyError(f"line {self._parser.CurrentLineNumber}: {what}")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._texts) >= _DEEPEST:
            self._refuse(f"elements are nested more than {_DEEPEST:,} deep")
        space, _, name = tag.rpartition("}")
        self._texts.append([])
        self._length = 0
        self._waiting.append(XmlEvent("start", space, name, attributes, "", self._parser.CurrentLineNumber))

    def _end(self, tag: str) -> None:
        space, _, name = tag.rpartition("}")
        text = "".join(self._texts.pop())
        self._length = 0
        self._waiting.append(XmlEvent("end", space, name, {}, text, self._parser.CurrentLineNumber))

    def _text(self, text: str) -> None:
        self._length += len(text)
        if self._length > _LONGEST:
            self._refuse(f"a text is longer than {_LONGEST:,} characters")
        if self._texts and not text.isspace():
            self._texts[-1].append(text)

    def _check_entity(
        self,
        name: str,
        is_parameter: bool,
        value: str | None,
        base: str | None,
        system: str | None,
        public: str | None,
        notation: str | None,
    ) -> None:
        self._entities += 1
        if value is None or is_parameter:
            self._refuse(f"the entity {name!r} stands for another file or for a DTD, which is not opened")
        elif "&" in value or len(value) > _LONGEST_ENTITY or self._entities > _MOST_ENTITIES:
            self._refuse(f"the entity {name!r} stands for other entities or too much text; write it out")

    def _skip_entity(self, name: str, is_parameter: bool) -> None:
        if not is_parameter:
            self._refuse(f"the entity &{name}; is defined in another file, which is not opened; write it out")
