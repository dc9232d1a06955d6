"""The description of a Darwin Core archive, `meta.xml`: its files, their columns and separators."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labeltree.errors import DataError

__all__ = ["META", "ArchiveFile", "read_description"]

META = "meta.xml"
_ESCAPES = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\\\": "\\"}


@dataclass(frozen=True)
class ArchiveFile:
    """A file of a Darwin Core archive, as meta.xml describes it.

    Attributes:
        name: Its name.
        kind: What its rows are: the last part of the row type, such as `Occurrence`.
        key: Column of the ids by which files are joined; None if there is none.
        columns: Names of its columns, the last part of each term.
        constants: Columns with the same text in every row.
        delimiter: What separates cells.
        quote: What encloses cells, or None.
        skip: Number of lines of header.
    """

    name: str
    kind: str
    key: int | None
    columns: list[str]
    constants: dict[str, str]
    delimiter: str
    quote: str | None
    skip: int


def read_description(path: Path, content: bytes) -> tuple[ArchiveFile, list[ArchiveFile]]:
    """The core and the extensions that meta.xml describes; it may declare no entities."""
    from xml.etree import ElementTree
    from xml.parsers import expat

    def refuse(*_: object) -> None:
        raise DataError(f"'{path}': {META} declares a document type, which may hide anything; remove that")

    guard = expat.ParserCreate()
    guard.StartDoctypeDeclHandler = refuse
    guard.EntityDeclHandler = refuse
    try:
        guard.Parse(content, True)
        root = ElementTree.fromstring(content)
    except (expat.ExpatError, ElementTree.ParseError) as error:
        raise DataError(f"'{path}': {META} is not XML ({error})") from error
    files: dict[str, list[ArchiveFile]] = {"core": [], "extension": []}
    for element in root:
        kind = element.tag.rpartition("}")[2]
        if kind in files:
            files[kind].append(_file(path, element))
    if len(files["core"]) != 1:
        raise DataError(f"'{path}': {META} describes {len(files['core'])} core files; it must be one")
    return files["core"][0], files["extension"]


def _file(path: Path, element: Any) -> ArchiveFile:
    def option(name: str, usual: str) -> str:
        text = str(element.get(name, usual))
        return _ESCAPES.get(text, text)

    locations = [one.text or "" for one in element.iter() if one.tag.rpartition("}")[2] == "location"]
    terms: dict[int, str] = {}
    constants: dict[str, str] = {}
    key: int | None = None
    for one in element:
        kind = one.tag.rpartition("}")[2]
        if kind not in ("field", "id", "coreid"):
            continue
        name = re.split(r"[/#]", one.get("term", ""))[-1]
        index = one.get("index")
        if index is None:
            if kind == "field" and one.get("default"):
                constants[name] = one.get("default")
            continue
        if not index.isdecimal() or int(index) > 10_000:
            raise DataError(f"'{path}': {META} has the column number {index!r:.40}")
        if kind == "field":
            terms[int(index)] = name
        else:
            key = int(index)
    delimiter, quote = option("fieldsTerminatedBy", ","), option("fieldsEnclosedBy", '"')
    encoding = element.get("encoding", "UTF-8")
    if (
        len(locations) != 1
        or len(delimiter) != 1
        or len(quote) > 1
        or encoding.upper() not in ("UTF-8", "UTF8")
    ):
        raise DataError(
            f"'{path}': {META} describes a file that is not one table in UTF-8 whose cells one character "
            "separates; unpack the archive, and save the table as CSV"
        )
    width = max([*terms, *([] if key is None else [key])], default=-1) + 1
    columns: list[str] = []
    for place in range(width):
        name = terms.get(place, "id" if place == key else f"column {place + 1}")
        columns.append(name if name not in columns else f"{name} ({place + 1})")
    skip = element.get("ignoreHeaderLines", "0")
    return ArchiveFile(
        name=locations[0].strip(),
        kind=re.split(r"[/#]", element.get("rowType", ""))[-1],
        key=key,
        columns=columns,
        constants={name: text for name, text in constants.items() if name not in columns},
        delimiter=delimiter,
        quote=quote or None,
        skip=int(skip) if skip.isdecimal() else 0,
    )
