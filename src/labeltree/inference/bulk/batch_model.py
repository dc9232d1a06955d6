"""A run as a function of batches, for engines that divide the work: Ray Data, Spark, Dask."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from labeltree.data.streaming import StreamedSample
from labeltree.data.table_columns import cell_text
from labeltree.errors import DataError
from labeltree.inference.bulk.encode_samples import BATCH, SampleEncoder, read_or_reason
from labeltree.inference.bulk.job import BulkJob
from labeltree.inference.bulk.part_rows import AnswerRows, EmbeddingRows, Encoded, Rows
from labeltree.inference.bulk.run_labels import MISSING, UNKNOWN, RunLabels
from labeltree.inference.bulk.shared_decider import open_shared_decider
from labeltree.inference.decider import about_run
from labeltree.inference.opened_model import OpenedModel
from labeltree.ridge import Moments
from labeltree.runs import RunFolder
from labeltree.taxonomy.naming import join_path

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BatchModel"]

_opening = Lock()
_log = logging.getLogger("labeltree.inference")


class BatchModel:
    """A finished run as a function from batches to rows, which Ray Data, Spark and Dask call.

    The rows are those that `labeltree predict` and `labeltree embed` write into a folder; a sample that
    cannot be read has a row with a `problem`. Pickled, it is the path of the run and the options: each
    process loads the run at its first batch, and keeps it, so the folder must be where all of them see it.

    Args:
        run: The run folder, or the folder of an exported model.
        column: The column of samples: paths of images, their bytes, or arrays `(h, w, 3)` uint8; for a run on
            texts, texts; for one on vectors, lists of numbers.
        what: `predict` or `embed`.
        name: The column whose values are the `sample` of a row; None = paths and texts themselves, else null.
        labels: The column of labels, names or paths `a/b/c`, which are read as the run's table is; None =
            there are none.
        image_folder: The folder that paths are relative to; None = the working directory, here and now.
        **options: Fields of `labeltree.inference.bulk.BulkJob`, such as `coverage=0.95`, `features=True`, or
            `workers=4` threads that decode images (by default 1). Files that they name are looked for from
            the working directory, here and now.

    Raises:
        RunError: If the folder is not a finished run.
        TypeError: If there is no such option.
        ValueError: If an option is not valid, or does not go with batches, as `per` and `explained`.
    """

    def __init__(
        self,
        run: str | os.PathLike[str],
        column: str,
        what: Literal["predict", "embed"] = "predict",
        *,
        name: str | None = None,
        labels: str | None = None,
        image_folder: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        folder = os.path.abspath(RunFolder(run).require().path)
        for option in filter(options.get, ("per", "explained")):
            raise ValueError(f"{option} does not go with batches; leave it out")
        for option in ("taxonomy", "mapping", "cost"):
            if options.get(option) not in (None, "tree", "edges"):
                options[option] = os.path.abspath(os.path.expanduser(options[option]))
        labelled = labels is not None
        self._job = BulkJob(folder, "", "", what, labelled=labelled, **{"workers": 1, **options})
        self._column = column
        self._name = name
        self._labels = labels
        self._folder = os.path.abspath(os.path.expanduser(image_folder or "."))

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows; its metadata name the geometry of embeddings."""
        return _open(self._job).schema

    def __call__(self, batch: Any) -> Any:
        """The rows of a batch, in its order.

        Args:
            batch: A DataFrame of pandas, a table or a record batch of Arrow, or arrays by name.

        Returns:
            a DataFrame with the index of the batch, or a record batch; else a table of Arrow.

        Raises:
            DataError: If there is no such column, or the run reads images together with texts.
        """
        import pyarrow as pa

        opened = _open(self._job)
        parts = [opened.rows.of(part) for part in self._encoded(batch, opened)]
        rows = pa.Table.from_batches(parts, opened.rows.schema).cast(opened.schema)
        if isinstance(batch, pa.RecordBatch):
            whole = rows.combine_chunks().to_batches()
            return whole[0] if whole else pa.RecordBatch.from_pylist([], opened.schema)
        return rows.to_pandas().set_axis(batch.index) if hasattr(batch, "iloc") else rows

    def map(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The rows of each batch, for `mapInArrow` and `mapInPandas` of Spark."""
        return map(self, batches)

    def moments(self, batch: Any, frequencies: Tensor | None = None) -> Moments:
        """The sums of the features of labelled samples, from which the exact head is solved.

        Those of batches add up to those of all samples, by `+`. Samples without a label, or that cannot be
        read, are left out, and those whose label the taxonomy lacks with a warning; the `counts` of the sums
        say how many are in them.

        Args:
            batch: As above.
            frequencies: Of a head that reads Fourier features, see `Moments.of`.

        Raises:
            DataError: As above.
            ValueError: If no column of labels is named.
        """
        if self._labels is None:
            raise ValueError("sums are those of labelled samples: name their column, as labels='label'")
        opened = _open(self._job)
        features = [torch.empty(0, opened.model.network.feature_dim)]
        nodes = [torch.empty(0, dtype=torch.int64)]
        for part in self._encoded(batch, opened):
            features.append(part.features)
            nodes.append(torch.tensor(part.nodes)[torch.from_numpy(part.readable)])
        return Moments.of(torch.cat(features), torch.cat(nodes), frequencies)

    def _encoded(self, batch: Any, opened: _Opened) -> Iterator[Encoded]:
        """The batch, in parts that the network reads at once."""
        cells = _cells(batch, self._column)
        names = cells if self._name is None else _cells(batch, self._name)
        labels = [None] * len(cells) if self._labels is None else _cells(batch, self._labels)
        size = opened.model.network.batch_size(BATCH)
        read = partial(read_or_reason, opened.content, self._column, self._folder)
        with ThreadPoolExecutor(self._job.threads(1), "decode") as pool:
            for start in range(0, len(cells), size):
                part = slice(start, start + size)
                yield opened.encoder.encode(
                    [_text(value) if self._name is None else _write_name(value) for value in names[part]],
                    list(pool.map(read, cells[part])),
                    [opened.label(_label_text(value, self._labels)) for value in labels[part]],
                )


class _Opened:
    """A run that a process has loaded, and what it makes of cells."""

    def __init__(self, job: BulkJob) -> None:
        self.model = OpenedModel(
            job.run, classifier=job.classifier, taxonomy=job.taxonomy, mapping=job.mapping
        )
        run = self.model.run
        if run.network.modality == "both":
            raise DataError(
                "a run on images and texts reads two columns, which batches do not have yet; call "
                "model.embed(images, texts=texts) of labeltree.load in a function of your own"
            )
        self.encoder = SampleEncoder(run.network)
        self.rows: Rows = (
            EmbeddingRows(job, run, about_run(run, "embeddings"), job.labelled)
            if job.what == "embed"
            else AnswerRows(job, open_shared_decider(run, job.classifier), job.labelled)
        )
        self.schema = _plain(self.rows.schema)
        self._labels = RunLabels(run, "one") if job.labelled else None
        self._warned = False

    def content(self, column: str, folder: str, cell: Any) -> Any:
        """The pixels, the text or the vector of a cell.

        Raises:
            DataError: With the reason, if there is none.
        """
        modality = self.model.network.modality
        if isinstance(cell, bytearray | memoryview):  # of Spark
            cell = bytes(cell)
        if isinstance(cell, os.PathLike):
            cell = os.fspath(cell)
        if _is_missing(cell):
            raise DataError(f"its '{column}' is empty")
        if modality == "text" and isinstance(cell, str):
            return self.encoder.contents([StreamedSample("", cell, True)])[0]
        if modality == "image" and isinstance(cell, str | bytes):
            place = cell if isinstance(cell, bytes) else _path(cell, folder)
            return self.encoder.contents([StreamedSample("", place)])[0]
        try:
            return np.asarray(self.model.inputs([cell])[0])
        except DataError as error:
            raise DataError(str(error).removeprefix("sample 0 ")) from error

    def label(self, text: str | None) -> tuple[str | None, int]:
        """The text of a label and its node, −1 where it is missing or no label of the taxonomy."""
        path = self._labels.split(text) if text and self._labels is not None else ()
        if not path or self._labels is None:
            return None, MISSING
        node = self._labels.find(path)
        if node == UNKNOWN and not self._warned:
            self._warned = True
            _log.warning("the run's taxonomy lacks '%s'; such labels count as missing", join_path(path))
        return join_path(path), max(node, MISSING)


@lru_cache(2)
def _loaded(job: BulkJob) -> _Opened:
    return _Opened(job)


def _open(job: BulkJob) -> _Opened:
    """The run of a job, loaded once in a process, whatever the number of its threads."""
    with _opening:
        return _loaded(job)


def _plain(schema: pa.Schema) -> pa.Schema:
    """The schema with lists of any size, as Spark knows no others, and metadata that are alike everywhere."""
    import pyarrow as pa

    fields = [
        field.with_type(pa.list_(field.type.value_type)) if pa.types.is_fixed_size_list(field.type) else field
        for field in schema
    ]
    return pa.schema(fields, {key: schema.metadata[key] for key in (b"geometry", b"curvature")})


def _cells(batch: Any, column: str) -> list[Any]:
    """The values of a column."""
    names = list(getattr(getattr(batch, "schema", None), "names", batch))
    if column not in names:
        raise DataError(f"the batch has no column '{column}'; it has {', '.join(map(str, names)) or 'none'}")
    if names.count(column) > 1:
        raise DataError(f"the batch has {names.count(column)} columns '{column}'; leave one")
    values = batch[column]
    return values.to_pylist() if hasattr(values, "to_pylist") else list(values)


def _text(value: Any) -> str | None:
    """A name or a label as text, as in a table; None where it is missing, or an image."""
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, str | int | float | os.PathLike) or _is_missing(value):
        return None
    text = os.fspath(value) if isinstance(value, os.PathLike) else cell_text(value)
    return None if text is None else text.encode("utf-8", "backslashreplace").decode()


def _write_name(value: Any) -> str | None:
    """A name of a sample as text, whatever it is, such as a date; None where it is missing."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    if _is_missing(value):
        return None
    return _text(value) or str(value)


def _label_text(value: Any, column: str | None) -> str | None:
    """A label as text; None where it is missing.

    Raises:
        DataError: If it is something else than a name or a path.
    """
    text = _write_name(value) if isinstance(value, bytes) else _text(value)
    if text is None and not _is_missing(value):
        raise DataError(
            f"the column '{column}' has a {type(value).__name__} as a label; give names, or paths a/b/c"
        )
    return text


def _is_missing(value: Any) -> bool:
    """Whether a cell is empty, in the manner of Arrow or of pandas."""
    if isinstance(value, str):
        return not value.strip()
    return value == b"" if isinstance(value, bytes) else np.ndim(value) == 0 and bool(pd.isna(value))


def _path(name: str, folder: str) -> Path:
    if "://" in name:
        raise DataError("it is an address, which the engine reads; give the column of bytes that it makes")
    return Path(folder, os.path.expanduser(name))
