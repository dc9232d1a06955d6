"""Samples of any number, one after the other: folders, tables and shards in constant memory."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from labeltree.data.column_roles import list_columns
from labeltree.data.folders import left_out, walk_images
from labeltree.data.image_rules import FileNames, ImageRule, is_url, list_files
from labeltree.data.images.decode import decode
from labeltree.data.images.encoded import read_part
from labeltree.data.images.image_files import OnError
from labeltree.data.shards.parquet import (
    image_bytes,
    image_column_of,
    open_parquet,
    parquet_batches,
)
from labeltree.data.shards.shard_files import Shards, find_shards
from labeltree.data.shards.tar import TarSample, read_fields, tar_samples
from labeltree.data.source import printable
from labeltree.data.table_columns import cell_text, place_below, placed_batches, read_header
from labeltree.data.tables.table_samples import image_path, join_texts, only_addresses, sample_columns
from labeltree.errors import DataError
from labeltree.file_kinds import PARQUET, TABLE_SUFFIXES, is_table_file
from labeltree.preprocessing import Preprocessing

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["StreamedSample", "count_samples", "stream_samples"]

_Places: TypeAlias = Callable[[int], str]
_ROWS = 1024  # of a table without the bytes of images that are read at once
_log = logging.getLogger("labeltree.data")


@dataclass(frozen=True, slots=True)
class StreamedSample:
    """An image or a text that is not read yet, unless it lies in a table. Can be sent to another process.

    Attributes:
        name: The name that `open_source` gives the sample: the path relative to the folder,
            `SHARD/KEY.jpg`, `SHARD/row 7`, or the place of the row in its table, such as `line 7`. Printable.
        content: The path of an image; the path, offset and size of its part of a tar file; its bytes; the
            text; or, where there is none, a DataError that says why.
        is_text: Whether it is a text.
        fields: The values asked for, such as labels, by name; without those that are missing.
    """

    name: str
    content: Path | tuple[str, int, int] | bytes | str | DataError
    is_text: bool = False
    fields: Mapping[str, str] = field(default_factory=dict)

    def pixels(
        self, size: int, channels: int, preprocessing: Preprocessing | None = None
    ) -> np.ndarray[Any, Any]:
        """The image `(channels, size, size)`, uint8, as `labeltree.data.images.decode.decode` gives it.

        Raises:
            DataError: With the reason (without the name) if it cannot be read, or is a text.
        """
        content = read_part(*self.content) if isinstance(self.content, tuple) else self.content
        if isinstance(content, DataError):
            raise content
        if isinstance(content, str):
            raise DataError("it is a text, not an image")
        return decode(content, size, channels, preprocessing=preprocessing)

    def text(self) -> str:
        """The text.

        Raises:
            DataError: With the reason (without the name) if there is none, or it is an image.
        """
        if isinstance(self.content, DataError):
            raise self.content
        if not isinstance(self.content, str):
            raise DataError("it is an image, not a text")
        return self.content


def stream_samples(
    spec: str | Path,
    *,
    skip: int = 0,
    image_column: str | None = None,
    text_column: Sequence[str] | str | None = None,
    image_folder: str | Path | None = None,
    image_name: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    fields: Sequence[str] = (),
    on_error: OnError = "raise",
) -> Iterator[StreamedSample]:
    """The samples of a folder of images, a table, or shards, in the order of `open_source`, one at a time.

    Memory does not grow with the number of samples: of a folder, the names in the folders on the way to the
    present file are kept; of a table, a batch of rows. Nothing is decoded.

    Args:
        spec: A folder of nested folders; a `.csv`, `.tsv` or `.parquet` file; or shards, as
            `find_shards` knows them.
        skip: Number of samples at the beginning to pass over. They are not decoded, and the shards and row
            groups of Parquet files that are passed over as a whole are not read.
        image_column: Tables and Parquet shards: the column of images; tar files: their extension.
        text_column: The column of texts, if texts are wanted, or several that are one text together; tar
            files: their extension (`txt`) or the field of the `json`. None = as in `open_source`.
        image_folder: Tables: the folder of the images, if it is not that of the table.
        image_name: Tables: names of the files there, from the cells of a row; see `open_table`. The names of
            all files in the folder are kept in memory.
        encoding: Tables: encoding of text that is not UTF-8; None = found.
        sheet: Workbooks: the sheet; None = the first that is not empty.
        fields: Further columns, members or fields of the `json` whose values the samples carry, such as
            labels.
        on_error: With `skip`, what lies behind the damage in a shard is left out with a warning. A sample
            without a readable image or text is not left out: reading it raises an error.

    Raises:
        DataError: If the data are missing or malformed, which may be found after some samples.
    """
    path = Path(str(spec)).expanduser()
    shards = find_shards(spec, image_column)
    texts = list_columns(text_column)
    if shards is not None and shards.kind == "tar":
        samples = _stream_tars(shards, image_column, texts, fields, on_error)
    elif shards is not None:
        samples, skip = _stream_parquets(shards, image_column, texts, fields, on_error, skip), 0
    elif path.is_dir():
        if image_column or texts or fields:
            named = image_column or [*texts, *fields][0]
            raise DataError(f"'{spec}' is a folder of images and has no columns; leave '{named}' out")
        samples = _stream_folder(path)
    elif is_table_file(path):
        folder = path.parent if image_folder is None else Path(image_folder).expanduser()
        table = _OpenTable(path, encoding, sheet)
        if image_name is not None:
            samples = _stream_by_rule(table, folder, ImageRule(image_name), fields)
        else:
            samples, skip = _stream_table(table, image_column, texts, fields, skip, folder), 0
    else:
        raise DataError(
            f"'{spec}' is neither a folder, nor a table ({', '.join(TABLE_SUFFIXES)}), nor shards "
            "('name-{000..099}.tar')"
        )
    yield from islice(samples, skip, None)


def count_samples(spec: str | Path, *, image_column: str | None = None) -> int | None:
    """The number of samples that `stream_samples` finds where it can be told quickly; else None.

    It can for folders (whose files are listed) and Parquet files, but not for text files and tar files.
    """
    path = Path(str(spec)).expanduser()
    shards = find_shards(spec, image_column)
    if shards is not None and shards.kind == "tar":
        return None
    if shards is None and path.is_dir():
        return sum(file is not None for _, file in walk_images(os.path.abspath(path)))
    if shards is None and path.suffix.lower() not in PARQUET:
        return None
    total = 0
    for file in [str(path)] if shards is None else shards.files:
        with open_parquet(file) as opened:
            total += opened.metadata.num_rows
    return total


def _stream_folder(folder: Path) -> Iterator[StreamedSample]:
    top = os.path.abspath(folder)
    others: Counter[str] = Counter()
    for _, file in walk_images(top, others):
        if file is not None:
            yield StreamedSample(printable(os.path.relpath(file, top)), Path(file))
    if others:
        left_out(others)  # warns of pictures among them


def _stream_tars(
    shards: Shards, image: str | None, texts: list[str], fields: Sequence[str], on_error: OnError
) -> Iterator[StreamedSample]:
    if not texts and image is None:
        texts = _usual_text(shards)
    for file, shard in zip(shards.files, shards.names, strict=True):
        with _damage(on_error):
            for sample in tar_samples(file):
                yield _read_tar_sample(file, shard, sample, image, texts, fields)


@contextmanager
def _damage(on_error: OnError) -> Iterator[None]:
    """Raise an error about a damaged shard, or warn about it if such are skipped."""
    try:
        yield
    except DataError as error:
        if on_error == "raise" or isinstance(error.__cause__, OSError):  # the next attempt may read it all
            raise
        _log.warning("%s. The rest of it is skipped", error)


def _usual_text(shards: Shards) -> list[str]:
    """The extension of the texts, if the first sample of tar files has no image, but a text; else none."""
    for file in shards.files:
        for sample in tar_samples(file):
            texts: list[str] = [name for name in ("txt", "text", "caption") if name in sample.members]
            return texts[:1] if sample.image() is None else []
    return []


def _read_tar_sample(
    file: str, shard: str, sample: TarSample, image: str | None, texts: list[str], fields: Sequence[str]
) -> StreamedSample:
    name, is_text = printable(f"{shard}/{sample.key}"), bool(texts)
    try:
        known = read_fields(file, sample) if fields or is_text else {}
    except DataError as error:
        return StreamedSample(name, error, is_text)
    kept = {field: known[field] for field in fields if field in known}
    if texts:
        words = join_texts(map(known.get, texts))
        return StreamedSample(name, words or DataError(f"it has no {_quoted(texts)}"), True, kept)
    extension = sample.image(image)
    if extension is None:
        missing = DataError("it has no image" + ("" if image is None else f" '{image}'"))
        return StreamedSample(name, missing, False, kept)
    return StreamedSample(f"{name}.{extension}", (file, *sample.members[extension]), False, kept)


def _stream_parquets(
    shards: Shards,
    image: str | None,
    texts: list[str],
    fields: Sequence[str],
    on_error: OnError,
    skip: int,
) -> Iterator[StreamedSample]:
    for file, shard in zip(shards.files, shards.names, strict=True):
        with _damage(on_error):
            with open_parquet(file) as opened:
                rows = opened.metadata.num_rows
            if skip < rows:
                yield from _stream_parquet(file, shard, image, texts, fields, skip)
            skip = max(skip - rows, 0)


def _stream_parquet(
    file: str, shard: str, image: str | None, texts: list[str], fields: Sequence[str], skip: int
) -> Iterator[StreamedSample]:
    table = read_header(Path(file))
    column = None if texts else image_column_of(file, image)
    if column is None:
        texts = sample_columns(table, None, texts or None)[1]
    if column is None and not texts:
        raise DataError(f"{table} has no column of image bytes; name one of texts as text_column")
    others = [table.find(name) for name in fields]
    read = texts if column is None else [column]
    for start, batch in parquet_batches(file, [*others, *read], skip, _ROWS if texts else None):
        kept = _fields(batch, others)
        if column is not None:
            contents: list[Any] = [
                content or DataError("it has no image") for content in image_bytes(batch.column(column))
            ]
        else:
            contents = [words or DataError("it has no text") for words in _join_columns(batch, texts)]
        for row, content in enumerate(contents):
            yield StreamedSample(f"{shard}/{_name_row(start, row)}", content, column is None, kept(row))


class _OpenTable:
    """A table, how its text is read, and its columns."""

    def __init__(self, path: Path, encoding: str | None, sheet: str | None) -> None:
        self.path = path
        self._settings = (encoding, sheet)
        self.header = read_header(path, encoding, sheet)
        for note in self.header.notes:
            _log.info("%s", note)

    def batches(self, columns: Sequence[str], skip: int) -> Iterator[tuple[_Places, pa.RecordBatch]]:
        """The rows from `skip` on, in batches, each with what gives the places of its rows."""
        if self.path.suffix.lower() in PARQUET:
            for start, batch in parquet_batches(str(self.path), columns, skip, _ROWS):
                yield partial(_name_row, start), batch
            return
        first = 0
        for batch, place in placed_batches(self.path, *self._settings):
            for begin in range(max(skip - first, 0), len(batch), _ROWS):
                yield partial(place_below, place, begin), batch.slice(begin, _ROWS)
            first += len(batch)


def _stream_table(
    opened: _OpenTable, image: str | None, texts: list[str], fields: Sequence[str], skip: int, folder: Path
) -> Iterator[StreamedSample]:
    table = opened.header
    images, texts = sample_columns(table, image, texts or None)
    others = [table.find(name) for name in fields]
    if image is None and texts:
        yield from _texts_of_table(opened, texts, others, skip)
    elif len(images) == 1:
        yield from _images_of_table(opened, images, others, skip, folder)
    else:  # a row has any number of samples
        yield from islice(_images_of_table(opened, images, others, 0, folder), skip, None)


def _texts_of_table(
    opened: _OpenTable, columns: list[str], others: Sequence[str], skip: int
) -> Iterator[StreamedSample]:
    for place, batch in opened.batches([*dict.fromkeys([*others, *columns])], skip):
        kept = _fields(batch, others)
        for row, text in enumerate(_join_columns(batch, columns)):
            content = text or DataError(_say_empty(columns))
            yield StreamedSample(place(row), content, True, kept(row))


def _images_of_table(
    opened: _OpenTable, columns: Sequence[str], others: Sequence[str], skip: int, folder: Path
) -> Iterator[StreamedSample]:
    table = opened.header
    root, top = os.path.abspath(folder), os.path.join(os.path.abspath(table.path.parent), "")
    for place, batch in opened.batches([*dict.fromkeys([*others, *columns])], skip):
        kept, cells = _fields(batch, others), [_texts(batch, column) for column in columns]
        for row in range(len(batch)):
            name, images = place(row), [of_column[row] for of_column in cells]
            if not any(images):
                yield StreamedSample(name, DataError(_say_empty(columns)), False, kept(row))
            for column, cell in zip(columns, images, strict=True):
                if cell is None:
                    continue
                if is_url(cell):
                    raise only_addresses(table, column, f"{name} names its image")
                try:
                    file = image_path(cell, root, table, column, partial(_same, name))
                except DataError as error:
                    yield StreamedSample(name, error, False, kept(row))
                else:
                    yield StreamedSample(printable(file.removeprefix(top)), Path(file), False, kept(row))


def _stream_by_rule(
    opened: _OpenTable, folder: Path, rule: ImageRule, fields: Sequence[str]
) -> Iterator[StreamedSample]:
    table, path, listed = opened.header, opened.path, FileNames(list_files(folder))
    others, columns = [table.find(name) for name in fields], [table.find(name) for name in rule.columns]
    root, top = os.path.abspath(folder), os.path.join(os.path.abspath(path.parent), "")
    for place, batch in opened.batches([*dict.fromkeys([*others, *columns])], 0):
        kept, cells = _fields(batch, others), {column: _texts(batch, column) for column in columns}
        for row in range(len(batch)):
            texts = {column: of_column[row] or "" for column, of_column in cells.items()}
            files = rule.files(listed, texts) if all(texts.values()) else []
            if not files:
                missing = DataError(f"no file is called '{rule.name(texts)}'")
                yield StreamedSample(place(row), missing, False, kept(row))
            for file in files:
                full = os.path.join(root, file)
                yield StreamedSample(printable(full.removeprefix(top)), Path(full), False, kept(row))


def _quoted(columns: Sequence[str]) -> str:
    return " and ".join(f"'{column}'" for column in columns)


def _say_empty(columns: Sequence[str]) -> str:
    return f"its {_quoted(columns)} {'is' if len(columns) == 1 else 'are'} empty"


def _same(name: str, _: str) -> str:
    return name


def _name_row(start: int, row: int) -> str:
    return f"row {start + row + 1}"


def _join_columns(batch: pa.RecordBatch, columns: Sequence[str]) -> list[str | None]:
    """The text of each row, of one column or of several together."""
    return [join_texts(texts) for texts in zip(*(_texts(batch, column) for column in columns), strict=True)]


def _texts(batch: pa.RecordBatch, column: str) -> list[str | None]:
    place = [name.strip() for name in batch.schema.names].index(column)
    return [cell_text(value) for value in batch.column(place).to_pylist()]


def _fields(batch: pa.RecordBatch, columns: Sequence[str]) -> Callable[[int], dict[str, str]]:
    """Function from a row of the batch to its values in some columns, without those that are missing."""
    values = {column: _texts(batch, column) for column in columns}
    return lambda row: {column: text for column in columns if (text := values[column][row]) is not None}
