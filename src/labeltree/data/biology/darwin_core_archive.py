"""Downloads of occurrences: zipped tables of GBIF and iNaturalist, and Darwin Core archives."""

from __future__ import annotations

import csv
import io
import re
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

import numpy as np

from labeltree.errors import DataError
from labeltree.safe_files import Reader, check_unpacked
from labeltree.system_files import is_system_file
from labeltree.taxonomy.files.archive_description import META, ArchiveFile, read_description
from labeltree.text_tables import TextTable

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["IMAGE_PREFIX", "is_archive", "read_archive"]

IMAGE_PREFIX = "multimedia "
"""What the columns of an archive's images begin with: `multimedia 1`, `multimedia 2` and so on."""

_READER = Reader("a download of occurrences", "download it again, or give the table that is in it")
_TABLES = (".csv", ".tsv", ".txt")
_LONGEST_META = 4 << 20  # bytes
_LONGEST_CELL = 1 << 17  # characters
_LONGEST_LINE = 1 << 20  # characters
_BLOCK = 64 << 20
_MOST_IMAGES = 1000  # of one occurrence


def is_archive(path: Path) -> bool:
    """Whether a file is a zip file, by its name."""
    return path.suffix.lower() == ".zip"


def read_archive(path: Path, encoding: str | None = None) -> tuple[pa.Table, tuple[str, ...], Sequence[int]]:
    """Read the table of a zip file, without unpacking it; with sentences on how, and the line of each row.

    A Darwin Core archive has a `meta.xml` that describes its files: the occurrences become the rows, and
    the images of an extension `multimedia` (Simple Multimedia, Audubon Media) the columns `multimedia 1`,
    `multimedia 2` and so on, as many as the occurrence with the most images has. Other zip files have one
    table, as GBIF's simple downloads and iNaturalist's exports.

    Raises:
        DataError: If the file is damaged, would unpack to an excessive size, or has no table or several.
    """
    with _READER.reading(path, "it is damaged, or no zip file"), zipfile.ZipFile(path) as archive:
        check_unpacked(path, archive)
    try:
        with zipfile.ZipFile(path) as archive:
            return _read_members(path, archive, encoding)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise _READER.failure(path, "it is damaged, or packed in an unusual way") from error


def _read_members(
    path: Path, archive: zipfile.ZipFile, encoding: str | None
) -> tuple[pa.Table, tuple[str, ...], Sequence[int]]:
    members = [member for member in archive.infolist() if not member.is_dir()]
    if any(member.flag_bits & 1 for member in members):
        raise DataError(f"'{path}' is encrypted; unpack it, and give the table that is in it")
    metas = [member for member in members if PurePosixPath(member.filename).name == META]
    if metas:
        rows, skip = _darwin_core(path, archive, min(metas, key=lambda member: len(member.filename)))
        return rows, (), range(skip + 1, skip + 1 + rows.num_rows)
    tables = [member for member in members if _is_table(member.filename)]
    if len(tables) != 1:
        names = ", ".join(repr(member.filename[:80]) for member in tables[:5])
        what = f"{len(tables)} tables ({names})" if tables else "no table (.csv, .tsv, .txt)"
        raise DataError(f"'{path}' holds {what}, and no {META}; unpack it, and give the table of samples")
    table = TextTable(tables[0].filename, lambda: archive.open(tables[0]), encoding)
    rows = table.read()
    return rows, table.form.notes, table.row_lines(rows.num_rows)


def _is_table(name: str) -> bool:
    path = PurePosixPath(name)
    hidden = any(map(is_system_file, path.parts))
    read_me = path.stem.lower() in ("citations", "rights", "readme", "licence", "license")
    return path.suffix.lower() in _TABLES and not hidden and not read_me


def _read_rows(file: IO[bytes], delimiter: str, quote: str | None, names: list[str], skip: int) -> pa.Table:
    """The rows of a table as text; only an empty cell is missing.

    Args:
        file: The open file.
        delimiter: What separates cells.
        quote: What encloses cells; None = nothing does.
        names: The columns.
        skip: Number of lines of header.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    try:
        return arrow_csv.read_csv(
            pa.PythonFile(file, mode="r"),
            arrow_csv.ReadOptions(block_size=_BLOCK, column_names=names, skip_rows=skip, use_threads=False),
            arrow_csv.ParseOptions(
                delimiter=delimiter, quote_char=quote or False, newlines_in_values=quote is not None
            ),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
            ),
        )
    except pa.ArrowInvalid as error:
        uneven = re.search(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)", str(error))
        if uneven is None:
            raise ValueError("it is not a table in UTF-8: a cell is not closed, or a row too long") from error
        row, expected, cells = uneven.groups()
        raise ValueError(f"row {row} has {cells} cells where the first line has {expected}") from error


def _darwin_core(path: Path, archive: zipfile.ZipFile, meta: zipfile.ZipInfo) -> tuple[pa.Table, int]:
    """The occurrences, and the number of lines above them."""
    if meta.file_size > _LONGEST_META:
        raise DataError(
            f"'{path}': {META} has {meta.file_size:,} bytes; it is not a description of an archive"
        )
    folder = str(PurePosixPath(meta.filename).parent)
    core, extensions = read_description(path, archive.read(meta))
    occurrences = _read_file(path, archive, folder, core)
    media = next((one for one in extensions if one.kind in ("Multimedia", "Image", "AudubonMedia")), None)
    if media is None or core.key is None or media.key is None:
        return occurrences, core.skip
    joined = _join_images(occurrences, core, _read_file(path, archive, folder, media), media)
    return joined, core.skip


def _read_file(path: Path, archive: zipfile.ZipFile, folder: str, described: ArchiveFile) -> pa.Table:
    import pyarrow as pa

    name = described.name if folder == "." else f"{folder}/{described.name}"
    if name not in archive.namelist():
        raise DataError(f"'{path}' has no file '{described.name[:80]}', which its {META} describes")
    with archive.open(name) as file:
        table = _read_rows(
            file, described.delimiter, described.quote, _wide(path, archive, name, described), described.skip
        )
    for column, text in described.constants.items():
        table = table.append_column(column, pa.array([text] * table.num_rows, pa.string()))
    return table


def _wide(path: Path, archive: zipfile.ZipFile, name: str, described: ArchiveFile) -> list[str]:
    """The columns, with those at the end that meta.xml does not describe."""
    with archive.open(name) as file:
        for _ in range(described.skip):
            file.readline(_LONGEST_LINE)
        lines = io.TextIOWrapper(file, "utf-8", "replace", newline="")
        rows = csv.reader(
            iter(lambda: lines.readline(_LONGEST_LINE), ""),
            delimiter=described.delimiter,
            quotechar=described.quote,
            quoting=csv.QUOTE_NONE if described.quote is None else csv.QUOTE_MINIMAL,
        )
        try:
            row = next((row for row in rows if row), [])
            if any(len(cell) > _LONGEST_CELL for cell in row):
                raise csv.Error("a cell is too long")
        except csv.Error as error:
            raise DataError(
                f"'{path}': in the first row of '{described.name[:80]}' a cell is too long, or not closed; "
                f"correct how {META} says that cells are separated and enclosed"
            ) from error
    extra = [f"column {place + 1}" for place in range(len(described.columns), len(row))]
    return [*described.columns, *extra]


def _join_images(
    occurrences: pa.Table, core: ArchiveFile, media: pa.Table, described: ArchiveFile
) -> pa.Table:
    """The occurrences with a column for their first image, their second and so on."""
    import pandas as pd
    import pyarrow as pa

    names = media.column_names
    place = next((name for name in ("accessURI", "identifier") if name in names), None)
    if place is None or core.key is None or described.key is None:
        return occurrences
    table = pd.DataFrame(
        {"key": media.column(described.key).to_pandas(), "file": media.column(place).to_pandas()}
    )
    if "type" in names:
        kind = media.column("type").to_pandas().fillna("")
        table = table[kind.str.lower().isin(["", "stillimage", "image"])]
    table = table.dropna()
    number = table.groupby("key").cumcount()
    most = int(number.max()) + 1 if len(number) else 0
    if most > _MOST_IMAGES:
        raise DataError(
            f"the occurrence '{table['key'].iloc[int(number.argmax())]}' has {most:,} images; "
            f"{_MOST_IMAGES:,} are the most"
        )
    keys = occurrences.column(core.key).to_pandas()
    for image in range(most):
        of_row = table[number.to_numpy() == image].set_index("key")["file"]
        files = np.array(keys.map(of_row).astype(object))
        cells = [None if pd.isna(file) else str(file) for file in files]
        occurrences = occurrences.append_column(f"{IMAGE_PREFIX}{image + 1}", pa.array(cells, pa.string()))
    return occurrences
