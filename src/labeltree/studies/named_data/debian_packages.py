"""Debian's package lists as records: tags, section, source and description of each tagged package."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from labeltree.atomic import atomic_write
from labeltree.errors import DataError

__all__ = ["Package", "flowing_text", "read_lists", "read_packages", "stanzas", "write_packages"]

_FORMAT = "labeltree debtags 1"
_TAG = re.compile(r"[a-z0-9-]+::[A-Za-z0-9+.-]+(:[A-Za-z0-9+.-]+)*")


@dataclass(frozen=True, slots=True)
class Package:
    """A tagged binary package.

    Attributes:
        name: Name of the package.
        source: Name of the source package that it is built from.
        section: As in the list, `games`.
        tags: `facet::tag` or `facet::tag:finer`, sorted.
        text: Its short description, and below it the long one.
    """

    name: str
    source: str
    section: str
    tags: tuple[str, ...]
    text: str


def stanzas(path: Path) -> Iterator[dict[str, str]]:
    """The stanzas of a control file: field → value, lines of long ones with the space that they begin with.

    Bytes that are not UTF-8 are replaced, lines that belong to no field are left out.
    """
    fields: dict[str, str] = {}
    name = ""
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            line = line.rstrip("\n")
            if not line.strip():
                if fields:
                    yield fields
                fields, name = {}, ""
            elif line[0] in " \t":
                if name:
                    fields[name] += "\n" + line
            else:
                name, colon, value = line.partition(":")
                if colon:
                    fields[name] = value.strip()
                else:
                    name = ""
    if fields:
        yield fields


def flowing_text(description: str) -> str:
    """A description as Debian's lists have it, as text: paragraphs on one line, other lines as they are.

    Example:
        >>> print(flowing_text("a game\\n A game of\\n patience.\\n .\\n Has:\\n  * cards"))
        a game
        A game of patience.
        <BLANKLINE>
        Has:
        * cards
    """
    first, *rest = description.split("\n")
    lines, runs_on = [first.strip()], False
    for line in rest:
        content = line.strip()
        plain = not line[1:2].isspace() and content != "."
        if runs_on and plain:
            lines[-1] += " " + content
        else:
            lines.append("" if content == "." else content)
        runs_on = plain
    return "\n".join(lines).strip()


def read_lists(folder: Path) -> list[Package]:
    """The tagged packages of the lists in a folder, by name.

    Of a package in several lists the first is taken, in the order of the lists' names. Packages without a
    description are left out; without a long one, the short one is the text.

    Args:
        folder: Folder with `*_Packages` and, where descriptions are kept apart, `*_Translation-en`.

    Raises:
        DataError: If there is no tagged package.
    """
    translated = {
        (fields.get("Package", ""), fields.get("Description-md5", "")): fields["Description-en"]
        for path in sorted(folder.glob("*_Translation-en"))
        for fields in stanzas(path)
        if "Description-en" in fields
    }
    packages: dict[str, Package] = {}
    for path in sorted(folder.glob("*_Packages")):
        for fields in stanzas(path):
            name, tags = fields.get("Package", ""), _tags(fields.get("Tag", ""))
            if not name or not tags or name in packages:
                continue
            short = fields.get("Description", "")
            text = flowing_text(translated.get((name, fields.get("Description-md5", "")), short))
            if text:
                source = (fields.get("Source", "").split() or [name])[0]
                packages[name] = Package(name, source, fields.get("Section", ""), tags, text)
    if not packages:
        raise DataError(
            "the package lists of this machine's sources have no package with tags; Debian's have them"
        )
    return [packages[name] for name in sorted(packages)]


def _tags(field: str) -> tuple[str, ...]:
    tags = {tag.strip() for tag in field.replace("\n", " ").split(",")}
    return tuple(sorted(tag for tag in tags if _TAG.fullmatch(tag)))


def write_packages(path: Path, packages: list[Package]) -> None:
    """Write packages as a compressed file of JSON lines, whole or not at all."""
    records = [{"format": _FORMAT, "packages": len(packages)}, *map(asdict, packages)]
    lines = [json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records]
    with atomic_write(path) as temporary:
        temporary.write_bytes(gzip.compress(b"".join(lines), mtime=0))  # equal packages make equal files


def read_packages(path: Path) -> list[Package]:
    """Read what `write_packages` wrote.

    Raises:
        DataError: If it is something else or damaged; with the line.
    """
    packages: list[Package] = []
    number = 1
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            header = json.loads(file.readline())
            if not isinstance(header, dict) or header.get("format") != _FORMAT:
                raise ValueError("its first line is another")
            for line in file:
                number += 1
                record = json.loads(line)
                package = Package(**record | {"tags": tuple(record["tags"])})
                if not all(
                    isinstance(value, str) for value in (*record["tags"], package.text, package.source)
                ):
                    raise ValueError("a value is not text")
                packages.append(package)
            if len(packages) != header.get("packages"):
                raise ValueError(
                    f"it has {len(packages)} packages where {header.get('packages')} were expected"
                )
    except (EOFError, KeyError, OSError, TypeError, ValueError) as error:
        raise DataError(
            f"'{path}', line {number}: this is not a list of tagged packages ({error}); "
            "'labeltree data get debtags' makes a new one"
        ) from error
    return packages
