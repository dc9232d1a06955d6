"""The samples of shards as a table: their texts are its columns, and a column of images."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from labeltree.data.images.encoded import ImageParts, PartNames
from labeltree.data.images.image_files import HOW_TO_SKIP, OnError
from labeltree.data.shards.shard_files import Shards
from labeltree.data.shards.shard_index import KEY, ShardIndex, index_shards
from labeltree.data.table_columns import Cells, DataTable
from labeltree.errors import DataError
from labeltree.progress import Progress, silent
from labeltree.safe_files import Reader, read_text

__all__ = ["CLASSES", "ShardTable", "read_shards"]

Array = np.ndarray[Any, Any]
CLASSES = "classes.txt"
"""The file beside tar files that names the classes, a line each, for which the numbers in `cls` stand."""
_LIST = Reader("a list of classes", "write a name a line, the first for class 0")
_IMAGE = "image"
_SHOWN = 5  # rows that a message names
_log = logging.getLogger("labeltree.data")


class ShardTable(DataTable):
    """The samples of shards, a row each, in the order of the shards.

    Args:
        shards: The shards.
        indexes: The index of each.
    """

    def __init__(self, shards: Shards, indexes: Sequence[ShardIndex]) -> None:
        import pyarrow as pa

        self.shards = shards
        samples = pa.concat_tables([index.samples for index in indexes], promote_options="permissive")
        counts = [len(index.samples) for index in indexes]
        self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self._keys = samples.column(KEY).combine_chunks()
        self._names = PartNames(shards.names, self._starts, self._keys, np.arange(self._starts[-1]))
        self._files = [index.file for index in indexes]
        self._members = _Members(indexes, self._starts)
        samples = samples.drop_columns([KEY])
        self._images = list(self._members.extensions) if shards.kind == "parquet" else [_IMAGE]
        if not len(self._members.sample):
            self._images = []
        samples = samples.drop_columns([name for name in samples.column_names if name in self._images])
        if shards.splits is not None and "split" not in samples.column_names:
            column = pa.array(np.repeat(np.array(shards.splits), counts))
            samples = samples.append_column("split", column)
        if shards.kind == "tar" and "cls" in samples.column_names:
            samples = _name_classes(samples, shards)
        super().__init__(shards.root, samples)
        self.columns += self._images

    def __str__(self) -> str:
        return f"the data set '{self.shards.spec}'"

    def find(self, name: str, setting: str = "") -> str:
        """Look up the name of a required column; images of a tar file's samples also by extension."""
        return name if name in self._members.extensions else super().find(name, setting)

    def cells(self, column: str) -> Cells:
        """The cells of a column of texts.

        Raises:
            DataError: If the column holds images.
        """
        if column in self._images or column in self._members.extensions:
            raise DataError(f"{self}: the column '{column}' holds images, not text or numbers")
        return super().cells(column)

    def place(self, row: int) -> str:
        """The name of a row: its shard, and its name therein."""
        name: str = self._names[row]
        return name

    def places(self, rows: Array) -> str:
        """The names of the first of some rows."""
        return ", ".join(map(self.place, rows[:_SHOWN].tolist())) + (" …" if len(rows) > _SHOWN else "")

    def images(self, columns: Sequence[str]) -> tuple[ImageParts, Array]:
        """The images of some columns, and the number among them of each row's image.

        Returns:
            The images, and `(rows, columns)` int64, -1 where a row has none.
        """
        is_tar = self.shards.kind == "tar"
        for name in columns:
            if name not in (*self._images, *self._members.extensions):
                raise DataError(
                    f"{self}: the column '{name}' holds no bytes of images; name another as image_column, or "
                    "texts as text_column"
                )
        chosen = [
            self._members.first() if name == _IMAGE and is_tar else self._members.of(name) for name in columns
        ]
        codes = np.full((self.num_rows, len(columns)), -1, np.int64)
        start = 0
        for place, members in enumerate(chosen):
            codes[self._members.sample[members], place] = start + np.arange(len(members))
            start += len(members)
        every = np.concatenate(chosen)
        rows, names = self._members.sample[every], self._names
        if self.shards.kind == "tar":
            ends = self._members.extensions, self._members.codes[every]
            names = PartNames(self.shards.names, self._starts, self._keys, rows, *ends)
        else:
            names = names.take(rows)
        return ImageParts(self._files, self._members.parts[every], names, self.shards.files), codes


class _Members:
    """The images of all shards.

    Attributes:
        sample: Row of each image `(m,)` int64.
        parts: Shard, offset and size of each image `(m, 3)` int64.
        extensions: The extensions that occur.
        codes: Extension of each image `(m,)`, an index into `extensions`.
    """

    def __init__(self, indexes: Sequence[ShardIndex], starts: Array) -> None:
        import pyarrow as pa

        table = pa.concat_tables([index.members for index in indexes])
        shard = np.repeat(np.arange(len(indexes)), [len(index.members) for index in indexes])
        self.sample = table.column("sample").to_numpy() + starts[shard]
        self.parts = np.stack(
            [shard, table.column("offset").to_numpy(), table.column("size").to_numpy()], axis=1
        )
        encoded = table.column("extension").combine_chunks().dictionary_encode()
        self.extensions: list[str] = encoded.dictionary.to_pylist()
        self.codes: Array = encoded.indices.to_numpy()

    def first(self) -> Array:
        """The first image of each row that has one."""
        return np.unique(self.sample, return_index=True)[1]

    def of(self, extension: str) -> Array:
        """The images with an extension."""
        return np.flatnonzero(self.codes == self.extensions.index(extension))


def read_shards(
    shards: Shards,
    image_column: Sequence[str] | str | None = None,
    on_error: OnError = "raise",
    progress: Progress | None = None,
) -> ShardTable:
    """The samples of shards as a table.

    Args:
        shards: The shards.
        image_column: Parquet: the column of the images; None = the usual one.
        on_error: With `skip`, what lies behind the damage in a shard is left out, with a warning.
        progress: Callback that reports progress.

    Raises:
        DataError: If a shard is damaged, or there are no samples.
    """
    column = image_column if shards.kind == "parquet" and isinstance(image_column, str) else None
    indexes = index_shards(shards, column, progress or silent)
    damages = [damage for index in indexes for damage in index.damages]
    more = f" (and {len(damages) - 1} more such errors)" if len(damages) > 1 else ""
    if damages and on_error == "raise":
        raise DataError(f"{damages[0]}{more}, or skip what cannot be read with {HOW_TO_SKIP}")
    if damages:
        _log.warning("%s%s. What cannot be read is skipped", damages[0], more)
    if not sum(len(index.samples) for index in indexes):
        raise DataError(f"'{shards.spec}' holds no samples" + (f": {damages[0]}" if damages else ""))
    return ShardTable(shards, indexes)


def _name_classes(samples: Any, shards: Shards) -> Any:
    """Replace class numbers by names, if there is a list of classes."""
    import pyarrow as pa

    path = shards.root / CLASSES
    if not path.is_file():
        return samples
    names = [line.strip() for line in read_text(path, _LIST).splitlines()]
    texts = samples.column("cls").combine_chunks().dictionary_encode()
    class_names: list[str | None] = []
    for text in texts.dictionary.to_pylist():
        number = text.strip()
        if not number:
            class_names.append(None)
            continue
        if not number.isdecimal() or int(number) >= len(names):
            raise DataError(
                f"a sample of '{shards.spec}' has the class '{number}', but '{path}' names the classes 0 to "
                f"{len(names) - 1}; correct either, or remove '{CLASSES}' to take the classes as they are"
            )
        class_names.append(names[int(number)])
    column = pa.array(class_names, pa.string()).take(texts.indices)
    return samples.set_column(samples.column_names.index("cls"), "cls", column)
