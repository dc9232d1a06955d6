"""The index of a shard: its samples with their texts, and where the bytes of their images are.

It is made once and kept in the cache folder. Tar files stay as they are: only their members' headers and
short texts are read. The images in a Parquet file, whose pages are compressed, are copied once as they are
encoded, since none of them could be read by itself.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.cache import cache_is_ignored, data_home, has_room, new_folder, one_at_a_time
from labeltree.data.images.encoded import file_stamps
from labeltree.data.images.stores import in_threads
from labeltree.data.shards.parquet import (
    class_names,
    image_bytes,
    image_column_of,
    parquet_batches,
    plain_columns,
)
from labeltree.data.shards.shard_files import Shards
from labeltree.data.shards.tar import read_fields, tar_samples
from labeltree.errors import DataError
from labeltree.progress import Progress

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["KEY", "ShardIndex", "index_shards"]

Array = np.ndarray[Any, Any]
KEY = "labeltree:key"
"""The column of the samples' names within a shard."""
_VERSION = 2
_SAMPLES, _MEMBERS, _BYTES, _ABOUT = "samples.parquet", "members.parquet", "images.bytes", "about.json"


@dataclass(frozen=True)
class ShardIndex:
    """The index of a shard with n samples and m images.

    Attributes:
        samples: Names and texts: the column `KEY`, and one for each text `(n,)`.
        members: The images: the columns `sample`, `extension` (a Parquet file's: its column), `offset`
            and `size` in bytes `(m,)`.
        file: The file that holds their bytes.
        damages: What is wrong with the shard; what it concerns is not in the index.
    """

    samples: pa.Table
    members: pa.Table
    file: str
    damages: Sequence[str] = ()


def index_shards(shards: Shards, image_column: str | None, progress: Progress) -> list[ShardIndex]:
    """The index of each shard, from the cache folder or made now.

    Args:
        shards: The shards.
        image_column: Parquet: the column of the images; None = the usual one.
        progress: Callback that reports progress.

    Raises:
        DataError: If the cache folder has no room for the images of Parquet files, or cannot be written.
    """
    indexes = []
    for index in in_threads(lambda file: _index(shards, file, image_column), shards.files):
        indexes.append(index)
        progress("reading shards", len(indexes), len(shards.files))
    return indexes


def _index(shards: Shards, file: str, image_column: str | None) -> ShardIndex:
    stamp = file_stamps([file])[0].tolist()
    key = hashlib.sha256(repr((_VERSION, file, *stamp, image_column)).encode("utf-8", "surrogatepass"))
    folder = data_home() / "shards" / key.hexdigest()[:32]
    known = None if cache_is_ignored() else _read(folder, shards, file)
    if known is not None:
        return known
    try:
        with one_at_a_time(folder):
            if not cache_is_ignored() and (known := _read(folder, shards, file)) is not None:
                return known
            _make(shards, file, image_column, folder)
    except OSError as error:
        raise DataError(
            f"cannot write the index of '{file}' to '{folder.parent}' ({error.strerror}); choose another "
            "cache folder with LABELTREE_DATA"
        ) from error
    made = _read(folder, shards, file)
    assert made is not None
    return made


def _make(shards: Shards, file: str, image_column: str | None, folder: Path) -> None:
    with new_folder(folder) as fresh:
        if shards.kind == "tar":
            _index_tar(file, fresh)
        else:
            _index_parquet(file, image_column, fresh)


def _read(folder: Path, shards: Shards, file: str) -> ShardIndex | None:
    import pyarrow.parquet as pq

    try:
        about = json.loads((folder / _ABOUT).read_text("utf-8"))
        if shards.kind == "parquet" and (folder / _BYTES).stat().st_size != about["bytes"]:
            return None
        return ShardIndex(
            pq.read_table(folder / _SAMPLES),
            pq.read_table(folder / _MEMBERS),
            file if shards.kind == "tar" else str(folder / _BYTES),
            about["damages"],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(folder: Path, samples: pa.Table, members: dict[str, list[Any]], **about: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"sample": pa.int64(), "extension": pa.string(), "offset": pa.int64(), "size": pa.int64()}
    columns = {name: pa.array(members[name], kind) for name, kind in kinds.items()}
    pq.write_table(samples, folder / _SAMPLES)
    pq.write_table(pa.table(columns), folder / _MEMBERS)
    (folder / _ABOUT).write_text(json.dumps(about), "utf-8")


def _index_tar(file: str, folder: Path) -> None:
    import pyarrow as pa

    keys: list[str] = []
    texts: dict[str, list[str | None]] = {}
    members: dict[str, list[Any]] = {"sample": [], "extension": [], "offset": [], "size": []}
    damages = []
    try:
        for sample in tar_samples(file):
            try:
                fields = read_fields(file, sample)
            except DataError as error:
                damages.append(str(error))
                continue
            for name, text in fields.items():
                column = texts.setdefault(name, [])
                column += [None] * (len(keys) - len(column))
                column.append(text)
            for extension in sample.images():
                offset, size = sample.members[extension]
                for name, value in zip(members, (len(keys), extension, offset, size), strict=True):
                    members[name].append(value)
            keys.append(sample.key)
    except DataError as error:
        damages.append(str(error))
    columns = {KEY: pa.array(_plain(keys), pa.string())}
    for name, column in texts.items():
        columns[name] = pa.array([*column, *[None] * (len(keys) - len(column))], pa.string())
    _write(folder, pa.table(columns), members, damages=damages)


def _plain(keys: list[str]) -> Iterator[str]:
    """Names that Arrow can hold: bytes that are not UTF-8 become escapes."""
    return (os.fsencode(key).decode("utf-8", "backslashreplace") for key in keys)


def _index_parquet(file: str, image_column: str | None, folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not has_room(os.path.getsize(file)):
        raise DataError(
            f"the images of '{file}' must be unpacked to be read in random order, and '{data_home()}' has "
            "too little room; choose another cache folder with LABELTREE_DATA, or write tar shards, which "
            "are read as they are"
        )
    members: dict[str, list[Any]] = {"sample": [], "extension": [], "offset": [], "size": []}
    tables, names, damages, total, rows = [], {}, [], 0, 0
    with (folder / _BYTES).open("wb") as out:
        try:
            image, names = image_column_of(file, image_column), class_names(file)
            plain = plain_columns(file)
            for _, batch in parquet_batches(file, [*plain, *([image] if image else [])]):
                for row, content in enumerate(image_bytes(batch.column(image)) if image else ()):
                    if content is not None:
                        out.write(content)
                        for name, value in zip(
                            members, (rows + row, image, total, len(content)), strict=True
                        ):
                            members[name].append(value)
                        total += len(content)
                tables.append(pa.Table.from_batches([batch.select(plain)]))
                rows += len(batch)
        except DataError as error:
            damages.append(str(error))
    samples = pa.concat_tables(tables) if tables else pa.table({})
    for column in samples.column_names:
        if column in names and pa.types.is_integer(samples.schema.field(column).type):
            values = samples.column(column)
            known = pc.if_else(
                pc.and_(pc.greater_equal(values, 0), pc.less(values, len(names[column]))), values, None
            )
            text = pa.array(names[column], pa.string()).take(known.combine_chunks())
            samples = samples.set_column(samples.column_names.index(column), column, text)
    keys = pa.array([f"row {row + 1}" for row in range(rows)], pa.string())
    _write(folder, samples.append_column(KEY, keys), members, damages=damages, bytes=total)
