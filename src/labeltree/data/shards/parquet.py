"""Parquet files with the bytes of images, as Hugging Face's `datasets` writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from labeltree.data.source import printable
from labeltree.errors import DataError
from labeltree.safe_files import Reader

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = [
    "IMAGE_NAMES",
    "class_names",
    "image_bytes",
    "image_column_of",
    "open_parquet",
    "parquet_batches",
    "plain_columns",
]

IMAGE_NAMES = ("image", "img", "jpg", "jpeg", "png", "picture", "photo")
"""Usual names of columns of bytes; a column of structs with a field `bytes` may have any name."""
_SHARD = Reader("a shard", "fetch or write it again")
_BATCH = 64  # rows: images of 100 kB are then 6 MB


def open_parquet(path: str) -> pq.ParquetFile:
    """Open a Parquet file to be read in small batches.

    Raises:
        DataError: If it is missing or damaged.
    """
    import pyarrow.parquet as pq

    with _SHARD.reading(printable(path), "it is damaged, or no Parquet file"), open(path, "rb"):
        # A buffer: the pages of a row group are read one after the other, not all at once.
        return pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)


def image_column_of(path: str, chosen: Sequence[str] | str | None = None) -> str | None:
    """The column of a Parquet file that holds the bytes of images; None if none does.

    Args:
        path: The file.
        chosen: The column that the user names; None = the first of structs with `bytes`, or of bytes with a
            usual name.

    Raises:
        DataError: If several columns are chosen, and one of them holds images.
    """
    with open_parquet(path) as file:
        schema = file.schema_arrow
    wanted = [chosen] if isinstance(chosen, str) else list(chosen or schema.names)
    candidates = [
        name for name in wanted if name in schema.names and _holds_images(schema.field(name), bool(chosen))
    ]
    if chosen and candidates and len(wanted) > 1:
        raise DataError(
            f"'{printable(path)}': of columns of image bytes, one is read; name one as image_column"
        )
    usual = [name for name in candidates if name.lower() in IMAGE_NAMES]
    return (usual or candidates or [None])[0]


def _holds_images(field: pa.Field, chosen: bool) -> bool:
    import pyarrow as pa

    kind = field.type
    if pa.types.is_struct(kind):
        names = [kind.field(place).name for place in range(kind.num_fields)]
        return "bytes" in names and _is_binary(kind.field("bytes").type)
    return _is_binary(kind) and (chosen or field.name.lower() in IMAGE_NAMES)


def _is_binary(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def parquet_batches(
    path: str, columns: Sequence[str], start: int = 0, rows: int | None = None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Read some columns in batches; row groups before `start` are not read.

    Yields:
        The number of a batch's first row in the file, and the batch.

    Raises:
        DataError: If the file is damaged, which may be found after some batches.
    """
    with open_parquet(path) as file, _SHARD.reading(printable(path), "it is damaged"):
        names = [name for name in file.schema_arrow.names if name.strip() in columns]
        first = 0
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            if first + size > start:
                at = first
                for batch in file.iter_batches(
                    rows or _BATCH, row_groups=[group], columns=names, use_threads=False
                ):
                    begin = max(start - at, 0)
                    if begin < len(batch):
                        yield at + begin, batch.slice(begin)
                    at += len(batch)
            first += size


def image_bytes(column: pa.Array) -> list[bytes | None]:
    """The bytes of each image of a column; None where there are none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = pc.struct_field(column, "bytes") if pa.types.is_struct(column.type) else column
    return [value or None for value in values.to_pylist()]


def class_names(path: str) -> dict[str, list[str]]:
    """The names of the classes that whole numbers in a column stand for, as `datasets` notes them."""
    with open_parquet(path) as file:
        noted: dict[bytes, bytes] = file.schema_arrow.metadata or {}
    try:
        features: dict[str, Any] = json.loads(noted[b"huggingface"])["info"]["features"]
        return {
            column: [str(name) for name in feature["names"]]
            for column, feature in features.items()
            if isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
        }
    except (KeyError, TypeError, ValueError):
        return {}


def plain_columns(path: str) -> list[str]:
    """The columns of text, numbers, truth values or dictionaries of them."""
    import pyarrow as pa

    with open_parquet(path) as file:
        schema = file.schema_arrow
    return [field.name for field in schema if not (pa.types.is_nested(field.type) or _is_binary(field.type))]
