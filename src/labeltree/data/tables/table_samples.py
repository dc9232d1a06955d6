"""The samples of a table: its columns of images and texts, and the files that they name."""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from labeltree.data.biology.darwin_core_archive import IMAGE_PREFIX
from labeltree.data.column_roles import list_columns
from labeltree.data.image_rules import ImageRule, RowImages, images_by_rule, is_url
from labeltree.data.images.encoded import ImageParts
from labeltree.data.images.image_files import HOW_TO_SKIP, OnError
from labeltree.data.shards.shard_table import ShardTable
from labeltree.data.source import plain_text
from labeltree.data.table_columns import Cells, DataTable
from labeltree.data.tables.text_columns import find_text_column, list_headings, list_text_columns
from labeltree.data.unused_rows import UnusedRows
from labeltree.data.vectors.choose_vectors import find_vectors
from labeltree.data.vectors.mapped_vectors import VectorStore
from labeltree.data.vectors.read_vector_files import VectorTable
from labeltree.errors import DataError
from labeltree.file_kinds import IMAGE_SUFFIXES, names_image
from labeltree.taxonomy.column_names import IMAGES, SAMPLE_IDS, TEXTS, letters
from labeltree.taxonomy.naming import some
from labeltree.taxonomy.placeholders import PLACEHOLDERS, plain_name

__all__ = [
    "TableSamples",
    "find_samples",
    "has_ids",
    "image_path",
    "join_texts",
    "list_sample_columns",
    "only_addresses",
    "only_vectors",
    "sample_columns",
]

Array = np.ndarray[Any, Any]
_ENDINGS = 20  # names of images that tell whether they have endings
_LONG = 60  # characters of a cell, on average: longer ones are texts
_NAMED_LIKE_IDS = re.compile(
    r"(?:image|img|photo|picture|file|asset|slide|scan)[ _-]?(?:id|number|name)?", re.I
)
# Most names are literally the end of a path; the others are first normalised for the comparison.
_NOT_PLAIN = re.compile(r"^/|(^|/)\.{0,2}(/|$)|\0")
_log = logging.getLogger("labeltree.data")


def has_ids(table: DataTable) -> bool:
    """Whether the rows are occurrences with ids, by which files of images can be found."""
    return table.usual(SAMPLE_IDS) is not None


@dataclass(frozen=True)
class TableSamples:
    """Samples of a table: its images, or its texts if it has no images.

    Attributes:
        rows: Row of each sample `(n,)`, from 0.
        instances: Stable ids `(n,)`: row · `per_row` + column.
        files: Absolute path of each sample's image, or parts of files; None if there are no images.
        texts: Text of each sample; None if there are no texts.
        alike: Integers `(n,)`, equal for samples with the same image or, without images, texts that are
            the same but for case and blanks.
        image_columns: Image columns that were read.
        text_columns: Text columns that were read.
        notes: Sentences about other columns that could have been read.
        unused: Rows without an image or a text.
        places: Place of each sample's image in `files`, `(n,)`, -1 where it has none; None if every
            sample has one, in order.
        per_row: The most samples that a row can have.
        vectors: Vectors of the samples, in order; None if they are images or texts.
        vector_columns: Columns that the vectors were read from.
    """

    rows: Array
    instances: Array
    files: list[str] | ImageParts | None
    texts: list[str] | None
    alike: Array
    image_columns: tuple[str, ...] = ()
    text_columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unused: UnusedRows = field(default_factory=UnusedRows.none)
    places: Array | None = None
    per_row: int = 1
    vectors: VectorStore | None = None
    vector_columns: tuple[str, ...] = ()


def find_samples(
    table: DataTable,
    image_column: Sequence[str] | str | None,
    text_column: Sequence[str] | str | None,
    on_error: OnError,
    place: tuple[str | Path | None, str | None] | None = None,
    *,
    either: bool = False,
    vector_column: Sequence[str] | str | None = None,
    others: Collection[str] = (),
    named: Collection[str] = (),
) -> TableSamples:
    """The samples of a table: each image of a row is one; several texts of a row are one text.

    With `either`, both images and texts are read, and a row may lack one of them. Vectors are read if
    `vector_column` names them, or the table has neither images nor texts; `others` are columns with
    another purpose; where no column has a usual name, one that holds texts is read; see `find_text_column`.
    Those that are `named` for one are not taken for images or texts by their names.

    Raises:
        DataError: If a column is missing, an image lies outside the folder, or, unless `on_error` is
            `skip`, a cell is empty.
    """
    folder, rule = (None, None) if place is None else place
    if vector_column is not None and (image_column is not None or text_column is not None):
        raise DataError("vector_column excludes image_column and text_column; leave either out")
    told = ""
    unknown = vector_column is None and rule is None
    if unknown and only_vectors(table, image_column, text_column, named) and not _image_hint(table):
        text_column, told = find_text_column(table, {*others, *named}) or (None, "")
    if vector_column is not None or (rule is None and only_vectors(table, image_column, text_column, named)):
        return _vectors(table, vector_column, others, on_error)
    unused = UnusedRows.none()
    shown: tuple[list[str] | ImageParts, Array] | None = None
    by_rule: RowImages | None = None
    if rule is not None:
        if image_column is not None:
            raise DataError("image_column and image_name both say which images are read; leave one out")
        images: list[str] = []
        texts_of = [table.find(column, "text_column") for column in list_columns(text_column)]
        where = table.path.parent if folder is None else Path(folder).expanduser()
        by_rule = images_by_rule(table, where, ImageRule(rule))
        unused = by_rule.unused
    else:
        if either and image_column is None and text_column is None:
            image_column = table.usual(IMAGES, named) or _occurrence_columns(table)
            text_column = table.usual(TEXTS, named)
        images, texts_of = sample_columns(table, image_column, text_column, named)
        if text_column is None and texts_of and not images:
            headings = list_headings(table, {*texts_of, *others, *named})
            texts_of = sorted([*texts_of, *headings], key=table.columns.index)
            if headings:
                both = " and ".join(repr(name) for name in texts_of)
                told = f"the texts are those of {both} together; --table.text_column names others"
        if images:
            shown = _files(table, images, None if folder is None else Path(folder).expanduser())
    words = _join_cells(table, texts_of) if texts_of else None
    if either and shown is not None and words is not None:
        return _either(table, images, texts_of, shown, words.codes, words.texts, on_error)
    there = np.ones(table.num_rows, bool)
    there[unused.rows] = False
    for kind, cells in (
        ("image", shown[1] if shown else None),
        ("text", words.codes[:, None] if words else None),
    ):
        if cells is not None:
            empty = np.all(cells < 0, axis=1)
            of_kind = images if kind == "image" else texts_of
            _report_empty(empty, table, kind, of_kind, on_error)
            unused += UnusedRows.because(np.flatnonzero(empty), of_kind, f"it has no {kind}")
            there &= ~empty
    if not there.any():
        raise DataError(f"{table} has no row with both an image and a text")
    rows = np.flatnonzero(there)
    files: list[str] | ImageParts | None = None
    instances, alike, per_row = rows, np.zeros(0, np.int64), 1
    if by_rule is not None:
        kept = there[by_rule.rows]
        rows, alike, per_row = by_rule.rows[kept], by_rule.places[kept], by_rule.most
        instances = rows * per_row + by_rule.numbers[kept]
        files = [by_rule.files[place] for place in alike.tolist()]
    elif shown is not None:
        pictures, codes = shown
        sample, column = np.nonzero(codes[rows] >= 0)
        rows, alike = rows[sample], codes[rows[sample], column]
        per_row = codes.shape[1]
        instances = rows * per_row + column
        files = (
            [pictures[code] for code in alike.tolist()]
            if isinstance(pictures, list)
            else pictures.take(alike)
        )
    elif words is not None:
        alike = _codes_but_for_case(words.texts, words.codes[rows])
    texts = None if words is None else [words.texts[code] for code in words.codes[rows].tolist()]
    notes = [] if image_column or text_column or rule else _also_possible(table, images, texts_of, named)
    notes += [] if image_column or text_column or rule else _vectors_beside(table)
    notes += [told] if told else []
    return TableSamples(
        rows,
        instances,
        files,
        texts,
        alike,
        tuple(images),
        tuple(texts_of),
        tuple(notes),
        unused,
        per_row=per_row,
    )


def _join_cells(table: DataTable, columns: Sequence[str]) -> Cells:
    """The texts of the columns of each row, with a blank between them."""
    if len(columns) == 1:
        return table.cells(columns[0])
    several = [table.cells(column) for column in columns]
    by_column = [np.array([*cells.texts, ""], dtype=object)[cells.codes].tolist() for cells in several]
    places: dict[str, int] = {}
    joined = (join_texts(texts) for texts in zip(*by_column, strict=True))
    codes = [-1 if text is None else places.setdefault(text, len(places)) for text in joined]
    return Cells(list(places), np.array(codes, np.int64))


def join_texts(texts: Iterable[str | None]) -> str | None:
    """The texts of a row as one, without those for a missing text (`n/a`); None if all are missing."""
    return " ".join(text for text in texts if text and plain_name(text) not in PLACEHOLDERS) or None


def only_vectors(
    table: DataTable,
    image_column: Sequence[str] | str | None = None,
    text_column: Sequence[str] | str | None = None,
    named: Collection[str] = (),
) -> bool:
    """Whether a table has no column of images or texts, and is not one of occurrences.

    Columns that are `named` for something else are neither.
    """
    if image_column is not None or text_column is not None or isinstance(table, ShardTable):
        return False
    if isinstance(table, VectorTable):
        return True
    known = table.usual(IMAGES, named) or table.usual(TEXTS, named) or table.usual(SAMPLE_IDS)
    return known is None and _occurrence_columns(table) is None


def _vectors(
    table: DataTable, chosen: Sequence[str] | str | None, others: Collection[str], on_error: OnError
) -> TableSamples:
    """The samples of a table of vectors."""
    unknown = chosen is None and any(_may_be_samples(table, name) for name in {*table.columns} - {*others})
    given = None if unknown else find_vectors(table, chosen, others)
    if given is None:
        raise DataError(
            f"{table} has no column of images ({', '.join(IMAGES)}) or texts "
            f"({', '.join(TEXTS)}) that is known by its name, and nothing but vectors (lists or "
            f"columns of numbers); it has {', '.join(table.columns)}: "
            f"name one as image_column or text_column, or numbers as vector_column{_image_hint(table)}"
            f"{_also_named(table, others)}"
        )
    bad, columns, told = given.store.bad_rows(table.place)
    if len(bad):
        count = f"{len(bad):,} of {table.num_rows:,} rows"
        what = f"{table}, {count} have a number that is missing or not finite: {told}"
        _report_left_out(
            what, "Fill them, such as with the mean of the column", on_error, len(bad) == table.num_rows
        )
    rows = np.setdiff1d(np.arange(table.num_rows), bad)
    unused, names = UnusedRows.none(), given.store.columns
    for column in np.unique(columns).tolist():
        name = given.columns[0] if names is None else names[column]
        unused += UnusedRows.because(bad[columns == column], [name], "a number is missing or not finite")
    return TableSamples(
        rows,
        rows,
        None,
        None,
        np.zeros(0, np.int64),
        notes=given.notes,
        unused=unused,
        vectors=given.store.take(rows),
        vector_columns=given.columns,
    )


def _may_be_samples(table: DataTable, column: str) -> bool:
    """Whether a column has names of image files, or long texts: numbers beside it are not the samples."""
    if isinstance(table, VectorTable) or table.holds_lists(column) or table.holds_numbers(column):
        return False
    texts = table.head(column)
    files = any(map(names_image, texts))
    return files or sum(map(len, texts)) > _LONG * len(texts)


def _codes_but_for_case(texts: Sequence[str], codes: Array) -> Array:
    """The codes of texts, equal for those that differ in case and blanks alone."""
    places: dict[str, int] = {}
    places_of = [places.setdefault(plain_text(text), place) for place, text in enumerate(texts)]
    return np.array(places_of, dtype=codes.dtype)[codes]


def _either(
    table: DataTable,
    images: list[str],
    texts_of: list[str],
    shown: tuple[list[str] | ImageParts, Array],
    words: Array,
    texts: Sequence[str],
    on_error: OnError,
) -> TableSamples:
    """The samples of rows with an image, a text or both; see `find_samples`."""
    files, codes = shown
    there = (codes >= 0).any(axis=1)
    empty = ~there & (words < 0)
    _report_empty(empty, table, "image and no text", [*images, *texts_of], on_error)
    unused = UnusedRows.because(np.flatnonzero(empty), [*images, *texts_of], "it has no image and no text")
    sample, column = np.nonzero((codes >= 0) | (~there & ~empty)[:, None] & (np.arange(codes.shape[1]) == 0))
    of_image = codes[sample, column]
    listed = of_image[of_image >= 0]
    placed = np.full(len(sample), -1)
    placed[of_image >= 0] = np.arange(len(listed))
    # Rows of one text alone are not alike: a title may be that of many products.
    alike = np.where(of_image >= 0, of_image, -1)
    return TableSamples(
        sample,
        sample * codes.shape[1] + column,
        [files[code] for code in listed.tolist()] if isinstance(files, list) else files.take(listed),
        ["" if code < 0 else texts[code] for code in words[sample].tolist()],
        alike,
        tuple(images),
        tuple(texts_of),
        (),
        unused,
        placed,
        codes.shape[1],
    )


def _also_possible(
    table: DataTable, images: list[str], texts_of: list[str], named: Collection[str]
) -> list[str]:
    """Notes on columns with a usual name that were not read."""
    notes = []
    for usual, taken, option in (
        (IMAGES, images, "image_column"),
        (TEXTS, texts_of, "text_column"),
    ):
        called = {*map(letters, usual)}
        others = [c for c in table.columns if letters(c) in called and c not in taken and c not in named]
        if taken and option == "text_column":
            others += list_text_columns(table, {*taken, *named, *others})
        for other in others:
            beside = f" --table.image_column {images[0]}" if images and option == "text_column" else ""
            if option == "text_column" and taken:
                in_order = sorted([*taken, other], key=table.columns.index)
                to_do = f"to read both as one text, set --table.text_column '[{', '.join(in_order)}]'"
            else:
                to_do = f"to read it, set --table.{option} {other}{beside}"
            notes.append(f"the column '{other}' is not read; {to_do}")
    return notes


def _vectors_beside(table: DataTable) -> list[str]:
    """A note on columns of vectors that were not read."""
    if isinstance(table, ShardTable):
        return []
    lists = [name for name in table.columns if table.holds_vectors(name)][:1]
    return [
        f"the column '{name}' holds vectors and is not read; to read them, set --table.vector_column {name}"
        for name in lists
    ]


def list_sample_columns(table: DataTable) -> list[str]:
    """The columns of images and texts; none if the samples lie elsewhere."""
    try:
        images, texts = sample_columns(table, None, None)
    except DataError:
        return []
    return [*images, *texts]


def sample_columns(
    table: DataTable,
    image_column: Sequence[str] | str | None,
    text_column: Sequence[str] | str | None,
    named: Collection[str] = (),
) -> tuple[list[str], list[str]]:
    """The image columns and the text columns: the given ones, or else one with a usual name.

    Columns that are `named` for something else are taken only if they are given.
    """
    if image_column is not None and not image_column:
        raise DataError("image_column is empty; it must name a column, or several")
    if text_column is not None and not text_column:
        raise DataError("text_column is empty; it must name a column, or several")
    if image_column is None and text_column is None:
        image_column = table.usual(IMAGES, named) or _occurrence_columns(table)
        text_column = table.usual(TEXTS, named) if image_column is None else None
        if image_column is None and text_column is None and (key := table.usual(SAMPLE_IDS)) is not None:
            raise DataError(
                f"{table} names no image files; put them into a folder, and say which file belongs to which "
                f"row: {_rule_for(key)}"
            )
        if image_column is None and text_column is None:
            raise DataError(
                f"{table} has no column of images ({', '.join(IMAGES)}) or texts "
                f"({', '.join(TEXTS)}) that is known by its name; it has "
                f"{', '.join(table.columns)}: "
                f"name one as image_column or text_column{_image_hint(table)}{_also_named(table, named)}"
            )
    images = [table.find(column, "image_column") for column in list_columns(image_column)]
    texts = [table.find(column, "text_column") for column in list_columns(text_column)]
    return images, texts


def _also_named(table: DataTable, named: Collection[str]) -> str:
    """The setting that reads a column with a usual name which is named for something else."""
    for usual, option in ((IMAGES, "image_column"), (TEXTS, "text_column")):
        name = table.usual(usual)
        if name is not None and name in named:
            setting = f"--table.{option} {shlex.quote(name)}"
            return f"; '{name}' is named for something else: to read it, too, set {setting}"
    return ""


def _occurrence_columns(table: DataTable) -> list[str] | str | None:
    """The columns of images in a download of occurrences: its multimedia, or else the addresses of images."""
    several = [name for name in table.columns if name.startswith(IMAGE_PREFIX)]
    if several:
        return several
    if table.usual(("gbifid", "occurrenceid", "scientificname", "scientific_name", "taxonrank")) is None:
        return None
    return table.usual(("image_url", "accessuri", "associatedmedia"))


def _report_empty(empty: Array, table: DataTable, kind: str, columns: list[str], on_error: OnError) -> None:
    """Raise an error for rows without an image or a text, or warn with their number."""
    rows = np.flatnonzero(empty)
    if not rows.size:
        return
    where = " and ".join(f"'{column}'" for column in columns)
    what = f"{table}, {rows.size} of {empty.size} rows have no {kind} in {where}: {table.places(rows)}"
    _report_left_out(what, "Fill them", on_error, rows.size == empty.size)


def _report_left_out(what: str, remedy: str, on_error: OnError, is_everything: bool) -> None:
    """Raise an error about rows that cannot be samples, or warn about them."""
    if on_error == "raise":
        raise DataError(f"{what}. {remedy}, or skip them with {HOW_TO_SKIP}")
    if is_everything:
        raise DataError(f"{what}. {remedy}")
    if on_error == "skip":
        _log.warning("%s. They are skipped", what)


def _files(table: DataTable, names: list[str], folder: Path | None) -> tuple[list[str] | ImageParts, Array]:
    """The distinct images, and the index of each cell's image `(rows, columns)`, -1 for none."""
    if isinstance(table, ShardTable):
        return table.images(names)
    root = os.path.abspath(table.path.parent if folder is None else folder)
    places: dict[str, int] = {}
    codes = []
    for name in names:
        cells = table.cells(name)
        addresses = np.array([is_url(text) for text in cells.texts] + [False])
        if addresses.any():
            rows = int(addresses[cells.codes].sum())
            raise only_addresses(table, name, f"{rows:,} of {table.num_rows:,} rows name their images")
        place = [
            places.setdefault(
                image_path(text, root, table, name, partial(_first_place, table, cells)), len(places)
            )
            for text in cells.texts
        ]
        codes.append(np.array([*place, -1], np.int64)[cells.codes])
        first = next(iter(places), None)
        without_ending = not any(os.path.splitext(text)[1] for text in cells.texts[:_ENDINGS])
        if first is not None and without_ending and not os.path.exists(first):
            ending = next((one for one in IMAGE_SUFFIXES if os.path.exists(first + one)), ".jpg")
            place_of = "" if folder is None else f"--table.image_folder {shlex.quote(str(folder))} "
            raise DataError(
                f"{table}: the names in '{name}', such as '{cells.texts[0]}', have no ending; say what the "
                f"files are called, {place_of}--table.image_name '{{{name}}}{ending}'"
            )
    return list(places), np.stack(codes, axis=1)


def only_addresses(table: DataTable, column: str, rows: str) -> DataError:
    """The error for images that would have to be fetched; `rows` says which rows name such."""
    key = table.usual((*SAMPLE_IDS, "id")) or "gbifID"
    return DataError(
        f"{table}: {rows} in '{column}' by addresses (URLs), "
        "which labeltree does not fetch. Download the images into a folder, and say which file belongs to "
        f"which row: {_rule_for(key)}"
    )


def _image_hint(table: DataTable) -> str:
    """The setting that reads the images of a table which names them in columns that are not known."""
    texts = {name: table.head(name) for name in table.columns if not _may_be_numbers(table, name)}
    files = [name for name, cells in texts.items() if cells and all(map(names_image, cells))]
    if files:
        named = files[0] if len(files) == 1 else json.dumps(files, ensure_ascii=False)
        said = f"'{files[0]}' names" if len(files) == 1 else f"{some(files, 3)} name"
        return f"; {said} image files: --table.image_column {shlex.quote(named)}"
    ids = [name for name in table.columns if name and _NAMED_LIKE_IDS.fullmatch(name)]
    if not ids:
        return ""
    return f"; if '{ids[0]}' is the name of a file without its ending, {_rule_for(ids[0])}"


def _may_be_numbers(table: DataTable, name: str) -> bool:
    return isinstance(table, VectorTable | ShardTable) or table.holds_lists(name) or table.holds_numbers(name)


def _rule_for(key: str) -> str:
    """Settings that find images by the ids in a column."""
    rule = f"'{{{key}}}.jpg', or '{{{key}}}_*.jpg' for several"
    return f"--table.image_folder FOLDER --table.image_name {rule}"


def _first_place(table: DataTable, cells: Cells, text: str) -> str:
    return table.place(cells.rows_of(text)[0])


def image_path(text: str, root: str, table: DataTable, column: str, find_place: Callable[[str], str]) -> str:
    """The absolute path of an image that a table names.

    Args:
        text: The name.
        root: Absolute path of the table's folder.
        table: The table, for errors.
        column: The column, for errors.
        find_place: Function that says where a text stands, for errors.

    Raises:
        DataError: If it is no file name, or a relative one that leads out of the folder.
    """
    if _NOT_PLAIN.search(text) is None:
        return _disk_form(f"{root.rstrip(os.sep)}{os.sep}{text}")
    file = os.path.normpath(os.path.join(root, text))
    if "\0" in text or (not os.path.isabs(text) and os.path.commonpath((root, file)) != root):
        why = "is not a file name" if "\0" in text else "lies outside the table's folder"
        raise DataError(
            f"{table}, {find_place(text)}: the image {text!r} {why} (column '{column}'); "
            "write its absolute path, or move the table"
        )
    return _disk_form(file)


def _disk_form(file: str) -> str:
    """The path with its accented letters composed or decomposed as those of the file are."""
    if file.isascii() or os.path.lexists(file):
        return file
    forms = (unicodedata.normalize(form, file) for form in ("NFC", "NFD"))
    return next((form for form in forms if os.path.lexists(form)), file)
