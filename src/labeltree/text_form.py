"""How a table of text is written: what separates and encloses its cells, and the lines above its header."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from labeltree.text_files import find_encoding

__all__ = [
    "GUESSED",
    "START",
    "TextForm",
    "find_text_form",
    "lines_above",
    "list_record_lines",
    "ragged_records",
]

GUESSED = (
    "the text is not UTF-8 and was read as Windows-1252 (cp1252), which is a guess; if letters are wrong, "
    "say its encoding, --table.encoding NAME"
)
"""The note on an encoding that was guessed."""
START = 4 << 20
"""Bytes of a file by which its form is found."""
_LINES = 256  # records that tell what separates cells
_MOST = 1 << 20  # characters of them
_REGULAR = 0.9  # share of the records with as many cells as the header
_SEP = re.compile(r'"?sep=(.)"?[ \t]*[\r\n]+', re.IGNORECASE)
_QUOTED = re.compile(r'(?<![^\t\n])"[^"]*+(?:""[^"]*+)*+"(?=[\t\r\n]|\Z)')
_UNFINISHED = re.compile(r'(?<![^\t\n])"(?:[^"]|""){0,65536}+\Z')
_BY_SUFFIX = {".tsv": "\t", ".tab": "\t", ".psv": "|"}
_NO_TEXT = {
    b"\x1f\x8b": "packed by gzip; let its name end in .gz",
    b"BZh": "packed by bzip2; let its name end in .bz2",
    b"\xfd7zXZ\0": "packed by xz; let its name end in .xz",
    b"\x28\xb5\x2f\xfd": "packed by Zstandard; let its name end in .zst",
    b"PK\x03\x04": "a zip file or a workbook; let its name end in .zip or .xlsx",
    b"\xd0\xcf\x11\xe0": "an old workbook; save it as .xlsx or .csv",
    b"PAR1": "Parquet; let its name end in .parquet",
}
_NUMBER = re.compile(r"[-+]?[\d.,]+%?")
_NAMES_OF_IDS = {"id", "unique id", "code", "parent", "parent id", "parent_id"}
_SHOWN = 40  # characters of a line that a note shows


@dataclass(frozen=True)
class TextForm:
    """How a table of text is written.

    Attributes:
        encoding: The encoding of its text, by a name of Python.
        delimiter: What separates cells.
        quote: What encloses cells; None = nothing does.
        skip: Lines above the header.
        header: The cells of the header, without surrounding white space.
        raw: The same as they stand there.
        single: Whether single quotes enclose cells that double quotes do not; see `unquoted`.
        notes: Sentences on what a person may want to change.
    """

    encoding: str
    delimiter: str
    quote: str | None
    skip: int
    header: tuple[str, ...]
    raw: tuple[str, ...] = ()
    single: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Record:
    """The cells of a record, and the number of the lines above it."""

    above: int
    cells: list[str]


def find_text_form(start: bytes, name: str, encoding: str | None = None) -> TextForm:
    """The form of a table by its first `START` bytes.

    Cells are separated by the character that splits most records into as many cells as the header: comma,
    semicolon, tab or `|`; or by what Excel's line `sep=;` says. The header is the first line that is not
    blank, no comment (`#`) with fewer cells, and no title: a text in the first cell alone, above a
    line of names.

    Args:
        start: The first bytes.
        name: Name of the file; `.tsv` and `.tab` prefer tabs, `.psv` pipes.
        encoding: Its encoding; None = found.

    Raises:
        ValueError: If it is empty, or its header cannot be read; the message is the reason.
    """
    for mark, what in _NO_TEXT.items():
        if start.startswith(mark):
            raise ValueError(f"it is not text, but {what}")
    cut = len(start) >= START
    known = find_encoding(start, cut=cut) if encoding is None else None
    coding = encoding or (known.encoding if known is not None else "")
    notes: list[str] = []
    if known is not None and known.is_guess:
        notes.append(GUESSED)
    try:
        text = codecs.getincrementaldecoder(coding)().decode(start, final=not cut).removeprefix("\ufeff")
    except LookupError:
        raise ValueError(f"the encoding {coding!r} is unknown; utf-8, utf-16 and cp1252 are common") from None
    except UnicodeError as error:
        raise ValueError(f"it is not {coding.removesuffix('-sig')} ({error})") from error
    said = _SEP.match(text)
    if said is not None:
        form = _read_form(text[said.end() :], said[1], '"', cut)
        return replace(_checked(form), encoding=coding, skip=form.skip + 1, notes=(*notes, *form.notes))
    first = next((line for line in io.StringIO(text[:_MOST], newline="") if line.strip()), "")
    if "gbifID" in first.strip().split("\t"):
        form = _read_form(text, "\t", '"' if _has_quoted_cells(text, first.count("\t"), cut) else None, cut)
        return replace(_checked(form), encoding=coding, notes=(*notes, *form.notes))
    form = _best_form(text, first, _BY_SUFFIX.get(name[name.rfind(".") :].casefold()), cut)
    return replace(_checked(form), encoding=coding, notes=(*notes, *form.notes))


def _checked(form: TextForm) -> TextForm:
    if not form.header:
        raise ValueError("it is empty; the first line names the columns")
    return form


def _best_form(text: str, first: str, preferred: str | None, cut: bool) -> TextForm:
    """The form whose separator splits the records most evenly; the usual one unless another is better."""
    usual = next((mark for mark in [preferred, *",;\t"] if mark and mark in first), preferred or ",")
    forms = {mark: _read_form(text, mark, '"', cut) for mark in dict.fromkeys([usual, *",;\t|"])}
    evenness = {mark: _evenness(text, form, cut) for mark, form in forms.items()}
    even = {mark for mark, form in forms.items() if len(form.header) > 1 and evenness[mark] >= _REGULAR}
    least = min((forms[mark].skip for mark in even), default=None)
    if least is not None:  # what needs no titles above the header
        even = {mark for mark in even if forms[mark].skip == least}
        best = usual if usual in even else next(mark for mark in forms if mark in even)
        wider = [mark for mark in forms if mark in even - {"|"} and preferred is None]
        best = max([best, *wider], key=lambda mark: len(forms[mark].header))
    else:
        split = [mark for mark, form in forms.items() if len(form.header) > 1 and evenness[mark] >= 0.5]
        first = usual if len(forms[usual].header) > 1 else next(iter(split), usual)
        best = max([first, *split], key=lambda mark: evenness[mark])
    form = forms[best]
    if not form.single or '"' in text:
        return form
    return _read_form(text, best, "'", cut)


def _evenness(text: str, form: TextForm, cut: bool) -> float:
    """Share of the records below the header that have as many cells as it."""
    below = [
        len(record.cells)
        for record in _records(text, form.delimiter, form.quote, cut)[0]
        if any(record.cells) and record.above > form.skip
    ]
    return sum(count == len(form.header) for count in below) / len(below) if below else 1.0


def _records(text: str, delimiter: str, quote: str | None, cut: bool) -> tuple[list[_Record], bool]:
    """The first records, and whether a cell is too long or not closed."""
    reader = csv.reader(
        io.StringIO(text[:_MOST], newline=""),
        delimiter=delimiter,
        quotechar=quote or '"',
        quoting=csv.QUOTE_NONE if quote is None else csv.QUOTE_MINIMAL,
    )
    records: list[_Record] = []
    above, broken = 0, False
    try:
        for cells in reader:
            records.append(_Record(above, cells))
            above = reader.line_num
            if len(records) >= _LINES:
                break
    except csv.Error:
        broken = True
    if len(records) > 1 and len(records) < _LINES and (cut or len(text) > _MOST):
        records.pop()  # its end is cut off
    return records, broken


def _read_form(text: str, delimiter: str, quote: str | None, cut: bool) -> TextForm:
    """The form of a text whose cells are separated and enclosed so."""
    records, broken = _records(text, delimiter, quote, cut)
    there = [record for record in records if any(cell.strip() for cell in record.cells)]
    if not there and broken:
        raise ValueError("it has a column whose name is too long, or is not closed")
    if not there:
        return TextForm("", delimiter, quote, 0, ())
    place = lines_above([record.cells for record in there])
    header = there[place]
    names = [cell.strip() for cell in header.cells]
    single = quote == '"' and all(_is_single(name) for name in names if name)
    notes = []
    if place:
        lines = [f"'{_shown(record.cells)}'" for record in there[:place]]
        notes.append(
            f"{'a line' if place == 1 else f'{place} lines'} above the header (line {header.above + 1}) "
            f"{'is' if place == 1 else 'are'} not part of the table: {', '.join(lines[:5])}"
        )
    names = [name[1:-1].strip() for name in names] if single else names
    return TextForm(
        "", delimiter, quote, header.above, tuple(names), tuple(header.cells), single, tuple(notes)
    )


def _shown(cells: Sequence[str]) -> str:
    text = " ".join(cell.strip() for cell in cells if cell.strip())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"


def lines_above(rows: Sequence[Sequence[str]]) -> int:
    """How many of the first rows, none of which is blank, are titles or comments above the header.

    A title, which is more than a word, fills the first cell alone in a table of several columns; the header
    below it has a name of its own, and no number, in every cell.
    """
    counts = Counter(len(row) for row in rows)
    width = max(counts, key=lambda count: (counts[count], count))
    comments = 0
    while comments < len(rows) - 1 and rows[comments][0].lstrip().startswith("#"):
        if len(rows[comments]) == width and not _is_title(rows[comments], width):
            break
        comments += 1
    titles = comments
    while titles < len(rows) - 1 and (
        _is_title(rows[titles], width) or _is_over_groups(rows[titles], rows[titles + 1])
    ):
        titles += 1
    header = [cell.strip() for cell in rows[titles]]
    below = [len(row) for row in rows[titles + 1 :]]
    while header and not header[-1]:
        header.pop()
    named = width > 1 and len(header) > 1 and len(rows[titles]) == width and len(set(header)) == len(header)
    named = named and all(header[1:]) and (bool(header[0]) or _names_ids(header))
    regular = sum(count == width for count in below) >= _REGULAR * len(below)
    if titles > comments and named and regular and not any(map(_NUMBER.fullmatch, header)):
        return titles
    return comments


def _is_title(row: Sequence[str], width: int) -> bool:
    text = row[0].strip()
    alone = width > 1 and len(row) in (1, width) and not any(cell.strip() for cell in row[1:])
    return alone and bool(text) and not text.isidentifier()


def _is_over_groups(row: Sequence[str], below: Sequence[str]) -> bool:
    """Whether a row names groups of the columns that the row below it names, ids or parents among them."""
    filled, names = sum(map(bool, map(str.strip, row))), [cell.strip() for cell in below if cell.strip()]
    return 1 < filled < len(names) and len(set(names)) == len(names) and _names_ids(names)


def _names_ids(names: Sequence[str]) -> bool:
    return any(name.casefold() in _NAMES_OF_IDS for name in names)


def _is_single(cell: str) -> bool:
    return len(cell) > 2 and cell[0] == cell[-1] == "'"


def ragged_records(lines: Iterator[str], form: TextForm) -> Iterator[tuple[int, int]]:
    """The line and the number of cells of each record that has not as many as the header.

    Args:
        lines: All lines of the text, with their ends.
        form: Its form.
    """
    for _ in range(form.skip):
        next(lines, None)
    reader = csv.reader(
        lines,
        delimiter=form.delimiter,
        quotechar=form.quote or '"',
        quoting=csv.QUOTE_NONE if form.quote is None else csv.QUOTE_MINIMAL,
    )
    above = 0
    for cells in reader:
        if cells and len(cells) != len(form.header):
            yield form.skip + above + 1, len(cells)
        above = reader.line_num


def list_record_lines(lines: Iterator[str], form: TextForm) -> Iterator[int]:
    """The number of the line on which each record below the header begins; blank lines are no records.

    Args:
        lines: All lines of the text, with their ends.
        form: Its form.
    """
    number, is_header = form.skip, True
    for line in islice(lines, form.skip, None):
        number += 1
        if not line.rstrip("\r\n"):
            continue
        if not is_header:
            yield number
        is_header = False
        if form.quote is not None and form.quote in line:  # a cell may hold line breaks
            reader = csv.reader(
                chain([line], lines), delimiter=form.delimiter, quotechar=form.quote, strict=False
            )
            next(reader, None)
            number += reader.line_num - 1


def _has_quoted_cells(text: str, tabs: int, cut: bool) -> bool:
    """Whether quotes enclose cells in a download of GBIF, in which they are characters like others.

    They do once another program has saved the table again: then each quote stands at the border of a cell or
    is doubled, and some cell has a doubled quote, a tab or a line break, which is why it is enclosed.
    """
    cells = _QUOTED.findall(text)
    rest = _QUOTED.sub("", text)
    lines = text.splitlines()
    if cut:
        rest, lines = _UNFINISHED.sub("", rest), lines[:-1]
    if not cells or '"' in rest:
        return False
    if any(line.count("\t") != tabs for line in lines if line):
        return True
    return any('""' in cell[1:-1] for cell in cells) and not any("\t" in cell for cell in cells)
