"""The samples of a table: the image files and the texts that its rows name, and what keeps them together."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.data.images.files import OnError
from labeltree.data.sources.columns import Cells, cells_of, find_column, usual_column
from labeltree.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TableSamples", "joined", "sample_columns", "table_samples"]

Array = np.ndarray[Any, Any]
_IMAGE_COLUMNS = ("image", "path", "file", "filename", "file_name", "image_path", "filepath", "file_path")
_TEXT_COLUMNS = ("text", "description", "sentence", "review", "document", "abstract")
# Most names are the end of a path as they are; the others are brought into a form that can be compared.
_NOT_PLAIN = re.compile(r"^/|(^|/)\.{0,2}(/|$)|\0")
_log = logging.getLogger("labeltree.data")


@dataclass(frozen=True)
class TableSamples:
    """Samples of a table: its images, or its texts where it has no images.

    Attributes:
        rows: Row of each sample ``(n,)``, from 0.
        instances: Stable ids ``(n,)``: row · columns of images + column.
        files: Absolute path of each sample's image; None where there are no images.
        texts: Text of each sample; None where there are no texts.
        alike: Equal for samples of the same image, or of the same text where there are no images ``(n,)``.
        image_columns: That were taken.
        text_column: That was taken.
        notes: Which others might have been, in sentences.
    """

    rows: Array
    instances: Array
    files: list[str] | None
    texts: list[str] | None
    alike: Array
    image_columns: tuple[str, ...] = ()
    text_column: str | None = None
    notes: tuple[str, ...] = ()


def table_samples(
    table: pa.Table,
    path: Path,
    image_column: Sequence[str] | str | None,
    text_column: str | None,
    on_error: OnError,
) -> TableSamples:
    """The samples of a table; a row with several images is several.

    Raises:
        DataError: If a column is missing, an image lies outside the folder, or, unless ``on_error`` is
            ``skip``, a cell is empty.
    """
    images, text = sample_columns(table, path, image_column, text_column)
    cells = [cells_of(table, path, column) for column in images]
    words = None if text is None else cells_of(table, path, text)
    there = np.ones(table.num_rows, bool)
    for kind, columns in (("image", cells), ("text", [words] if words else [])):
        if columns:
            empty = np.all([column.codes < 0 for column in columns], axis=0)
            _report_empty(empty, path, kind, images if kind == "image" else [text or ""], on_error)
            there &= ~empty
    if not there.any():
        raise DataError(f"the table '{path}' has no row with both an image and a text")
    rows = np.flatnonzero(there)
    instances, files, alike = rows, None, np.zeros(0, np.int64)
    if images:
        named, codes = _files(cells, path, images)
        sample, column = np.nonzero(codes[rows] >= 0)
        rows, alike = rows[sample], codes[rows[sample], column]
        instances = rows * len(images) + column
        files = [named[code] for code in alike.tolist()]
    elif words is not None:
        alike = words.codes[rows]
    texts = None if words is None else [words.texts[code] for code in words.codes[rows].tolist()]
    notes = [] if image_column or text_column else _also_possible(table, images, text)
    return TableSamples(rows, instances, files, texts, alike, tuple(images), text, tuple(notes))


def _also_possible(table: pa.Table, images: list[str], text: str | None) -> list[str]:
    """Columns with a usual name that were not taken."""
    notes = []
    for usual, taken, option in (
        (_IMAGE_COLUMNS, images, "image_column"),
        (_TEXT_COLUMNS, [text] if text else [], "text_column"),
    ):
        others = [c for c in table.column_names if c.lower() in usual and c not in taken]
        for other in others:
            and_images = f" --table.image_column {images[0]}" if images and option == "text_column" else ""
            notes.append(
                f"the column '{other}' is not read; to read it, set --table.{option} {other}{and_images}"
            )
    return notes


def joined(*keys: Array) -> Array | None:
    """Groups ``(n,)`` of samples that have the same value in any of the keys, directly or by way of others.

    Args:
        keys: ``(n,)`` each; -1 is like nothing else.

    Returns:
        Groups, -1 for a sample that is alone; None where all are alone.

    Example:
        >>> joined(np.array([0, 0, 1, -1, 2]), np.array([5, 6, 6, 8, 9])).tolist()
        [0, 0, 0, -1, -1]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = len(keys[0])
    edges, values = [], 0
    for key in keys:
        _, code, counts = np.unique(key, return_inverse=True, return_counts=True)
        shared = np.flatnonzero((key >= 0) & (counts[code] > 1))
        edges.append(np.stack([shared, n + values + code[shared]]))
        values += len(counts)
    samples, nodes = np.concatenate(edges, axis=1)
    if not len(samples):
        return None
    graph = coo_array((np.ones(len(samples), bool), (samples, nodes)), shape=(n + values, n + values))
    component = connected_components(graph, directed=False)[1][:n]
    _, first, code, counts = np.unique(component, return_index=True, return_inverse=True, return_counts=True)
    place = np.full(len(first), -1)
    several = np.flatnonzero(counts > 1)
    place[several[np.argsort(first[several])]] = np.arange(len(several))
    return place[code]


def sample_columns(
    table: pa.Table, path: Path, image_column: Sequence[str] | str | None, text_column: str | None
) -> tuple[list[str], str | None]:
    """The columns of the images, and that of the texts: those named, else one with a usual name."""
    if image_column is not None and not image_column:
        raise DataError("image_column is empty; it must name a column, or several")
    if image_column is None and text_column is None:
        image_column = usual_column(table, _IMAGE_COLUMNS)
        text_column = usual_column(table, _TEXT_COLUMNS) if image_column is None else None
        if image_column is None and text_column is None:
            raise DataError(
                f"the table '{path}' has no column of images ({', '.join(_IMAGE_COLUMNS)}) or texts "
                f"({', '.join(_TEXT_COLUMNS)}) that is known by its name; it has "
                f"{', '.join(table.column_names)}: name one as image_column or text_column"
            )
    images = [image_column] if isinstance(image_column, str) else list(image_column or ())
    images = [find_column(table, path, column, (), "the image files", "image_column") for column in images]
    if text_column is not None:
        text_column = find_column(table, path, text_column, (), "the texts", "text_column")
    return images, text_column


def _report_empty(empty: Array, path: Path, kind: str, columns: list[str], on_error: OnError) -> None:
    """Rows without an image or a text: an error, or a warning that counts them."""
    rows = np.flatnonzero(empty) + 1
    if not rows.size:
        return
    shown = ", ".join(map(str, rows[:5])) + (" …" if rows.size > 5 else "")
    where = " and ".join(f"'{column}'" for column in columns)
    what = f"the table '{path}', {rows.size} of {empty.size} rows have no {kind} in {where}: row {shown}"
    if on_error == "raise" or rows.size == empty.size:
        raise DataError(f'{what}. Fill them, or skip them with on_error="skip"')
    _log.warning("%s. They are skipped", what)


def _files(cells: list[Cells], path: Path, columns: list[str]) -> tuple[list[str], Array]:
    """The distinct image files, and which of them each cell names ``(rows, columns)``, -1 for none."""
    root = os.path.abspath(path.parent)
    places: dict[str, int] = {}
    codes = []
    for column, name in zip(cells, columns, strict=True):
        place = [
            places.setdefault(_file(text, root, column, path, name), len(places)) for text in column.texts
        ]
        codes.append(np.array([*place, -1], np.int64)[column.codes])
    return list(places), np.stack(codes, axis=1)


def _file(text: str, root: str, cells: Cells, path: Path, column: str) -> str:
    if _NOT_PLAIN.search(text) is None:
        return f"{root.rstrip(os.sep)}{os.sep}{text}"
    file = os.path.normpath(os.path.join(root, text))
    if "\0" in text or (not os.path.isabs(text) and os.path.commonpath((root, file)) != root):
        row = cells.rows_of(text)[0]
        why = "is no file name" if "\0" in text else "lies outside the table's folder"
        raise DataError(
            f"the table '{path}', row {row}: the image {text!r} {why} (column '{column}'); "
            "write its absolute path, or move the table"
        )
    return file
