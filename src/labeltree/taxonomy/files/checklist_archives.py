"""Zipped checklists: Darwin Core archives of taxa, and the Catalogue of Life's ColDP."""

import csv
import io
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath

from labeltree.errors import TaxonomyError
from labeltree.safe_files import Reader, check_unpacked
from labeltree.taxonomy.files.archive_description import META, ArchiveFile, read_description
from labeltree.taxonomy.files.entries import Entries
from labeltree.taxonomy.files.opened_file import FileTable, OpenedFile, table_of_text
from labeltree.taxonomy.files.taxon_tables import entries_from_checklist
from labeltree.text_files import decode_text

__all__ = ["entries_from_checklist_archive", "is_checklist_archive"]

_NAME_USAGES = "nameusage"  # ColDP's file of names and taxa in one
_VERNACULAR = "vernacularname"
_READER = Reader("a zipped checklist", "unpack it, and give the table of taxa", TaxonomyError)


def is_checklist_archive(file: OpenedFile) -> bool:
    """Whether a zip file is a Darwin Core archive of taxa, or ColDP."""
    try:
        with zipfile.ZipFile(file.path) as archive:
            if _member(archive, _NAME_USAGES) or (_member(archive, "taxon") and _member(archive, "name")):
                return True
            meta = _meta(archive)
            return meta is not None and b"/Taxon" in archive.read(meta)[: 1 << 16]
    except (OSError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError):
        return False


def entries_from_checklist_archive(file: OpenedFile) -> Entries:
    """Read the taxa of an archive; vernacular names are aliases.

    Raises:
        TaxonomyError: If it is damaged, or its taxa do not form a tree.
        DataError: If it would unpack to an excessive size, or its `meta.xml` is not readable.
    """
    with _opened(file) as archive:
        with _READER.reading(file.path, "it is damaged"):
            check_unpacked(file.path, archive)
        meta = _meta(archive)
        if meta is None:
            file.table = _name_usages(archive)
            vernacular = _plain_table(archive, _VERNACULAR) if _member(archive, _VERNACULAR) else None
            key, name = "taxonid", "name"
        else:
            core, extensions = read_description(file.path, archive.read(meta))
            folder = PurePosixPath(meta).parent
            file.table = _described_table(archive, folder, core)
            described = next((one for one in extensions if one.kind.casefold() == _VERNACULAR), None)
            vernacular = None if described is None else _described_table(archive, folder, described)
            key, name = "id", "vernacularname"
    return entries_from_checklist(file, {} if vernacular is None else _names_by_id(vernacular, key, name))


@contextmanager
def _opened(file: OpenedFile) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(file.path) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise TaxonomyError(f"it is damaged, encrypted or no zip file: {error}") from None
    except OSError as error:
        raise TaxonomyError(f"it cannot be read: {error.strerror or error}") from None


def _meta(archive: zipfile.ZipFile) -> str | None:
    names = [name for name in archive.namelist() if PurePosixPath(name).name == META]
    return min(names, key=len) if names else None


def _member(archive: zipfile.ZipFile, stem: str) -> str | None:
    """The name of the table of that name in an archive."""
    for name in archive.namelist():
        path = PurePosixPath(name)
        letters = re.sub("[^a-z]", "", path.stem.casefold())
        if letters == stem and path.suffix.casefold() in (".tsv", ".csv", ".txt"):
            return name
    return None


def _text(archive: zipfile.ZipFile, name: str) -> str:
    try:
        return decode_text(archive.read(name)).text
    except KeyError:
        raise TaxonomyError(f"there is no {name!r} in it, which its {META} describes") from None
    except ValueError as error:
        raise TaxonomyError(f"{name}: {error}") from None


def _plain_table(archive: zipfile.ZipFile, stem: str) -> FileTable:
    name = _member(archive, stem)
    if name is None:
        raise TaxonomyError(f"there is neither a {META} in it nor the tables of ColDP: no {stem}")
    return table_of_text(_text(archive, name), name)[0]


def _name_usages(archive: zipfile.ZipFile) -> FileTable:
    """The taxa and synonyms of ColDP: one file of both, or taxa whose names are in a file of their own."""
    if _member(archive, _NAME_USAGES):
        return _plain_table(archive, _NAME_USAGES)
    taxa, names = _columns(archive, "taxon"), _columns(archive, "name")
    synonyms = _columns(archive, "synonym") if _member(archive, "synonym") else {}
    for stem, table, needed in (("taxon", taxa, ("id", "nameid")), ("name", names, ("id", "scientificname"))):
        if missing := [column for column in needed if column not in table]:
            raise TaxonomyError(f"its table of {stem}s has no column {missing[0]!r}")
    name_of = dict(zip(names["id"], names["scientificname"], strict=True))
    parents = taxa.get("parentid", [""] * len(taxa["id"]))
    rows = [
        [id, parent, "accepted", name_of.get(name, "")]
        for id, parent, name in zip(taxa["id"], parents, taxa["nameid"], strict=True)
    ]
    pairs = zip(synonyms.get("taxonid", []), synonyms.get("nameid", []), strict=True)
    rows += [[f"synonym {name} of {taxon}", taxon, "synonym", name_of.get(name, "")] for taxon, name in pairs]
    return FileTable(
        ["ID", "parentID", "status", "scientificName"],
        [row for row in rows if row[3]],
        [at + 2 for at, row in enumerate(rows) if row[3]],
    )


def _columns(archive: zipfile.ZipFile, stem: str) -> dict[str, list[str]]:
    """The cells of each column of a table, by its name in lower case."""
    header, rows, *_ = _plain_table(archive, stem)
    folded = [column.casefold().rpartition(":")[2] for column in header]
    return {column: [row[place] for row in rows] for place, column in enumerate(folded)}


def _described_table(archive: zipfile.ZipFile, folder: PurePosixPath, described: ArchiveFile) -> FileTable:
    text = _text(archive, str(folder / described.name))
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=described.delimiter,
        quotechar=described.quote or '"',
        quoting=csv.QUOTE_MINIMAL if described.quote else csv.QUOTE_NONE,
    )
    header = [*described.columns, *described.constants]
    constants = list(described.constants.values())
    width = len(described.columns)
    rows, lines = [], []
    try:
        for number, cells in enumerate(reader):
            if number >= described.skip and any(cells):
                row = [cell.strip() for cell in cells[:width]]
                rows.append([*row, *[""] * (width - len(row)), *constants])
                lines.append(reader.line_num)
    except csv.Error as error:
        raise TaxonomyError(f"{described.name}, line {reader.line_num}: {error}") from None
    if described.key is not None and header[described.key] != "id":
        header[described.key] = "taxonID" if described.kind == "Taxon" else "id"
    if not rows:
        raise TaxonomyError(f"{described.name!r} in it has no rows")
    return FileTable(header, rows, lines)


def _names_by_id(table: FileTable, key: str, name: str) -> dict[str, Sequence[str]]:
    folded = [column.casefold().rpartition(":")[2] for column in table.header]
    if key not in folded or name not in folded:
        return {}
    ids, names = folded.index(key), folded.index(name)
    by_id: dict[str, list[str]] = {}
    for row in table.rows:
        if row[names]:
            by_id.setdefault(row[ids], []).append(row[names])
    return {id: list(dict.fromkeys(texts)) for id, texts in by_id.items()}
