"""The samples of a bulk job: their order, whether they are still the same, and their labels."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from labeltree.data.image_rules import ImageRule
from labeltree.data.object_stores import local_copy
from labeltree.data.shards.parquet import class_names
from labeltree.data.shards.shard_files import find_shards
from labeltree.data.shards.shard_table import CLASSES
from labeltree.data.streaming import StreamedSample, count_samples, stream_samples
from labeltree.data.table_columns import DataTable, read_header, settings_of_another
from labeltree.data.tables.label_columns import ZERO_OR_ONE, find_label_columns
from labeltree.errors import DataError
from labeltree.file_kinds import PARQUET, is_table_file
from labeltree.inference.bulk.run_labels import MISSING, UNKNOWN, RunLabels
from labeltree.inference.load_run import TrainedRun
from labeltree.safe_files import Reader, read_text
from labeltree.split_names import SPLIT_NAMES, SPLITS
from labeltree.taxonomy.column_names import LABELS, LESS_USUAL_LABELS
from labeltree.taxonomy.naming import join_path
from labeltree.taxonomy.ranks import Ranks

__all__ = ["BulkSamples"]

_SOUGHT = 100_000  # rows of a table among which one must have an image
_log = logging.getLogger("labeltree.inference")
_LIST = Reader("a list of classes", "write a name a line, the first for class 0")


class BulkSamples:
    """The samples of a folder, a table or shards, for a run.

    Args:
        run: The run.
        data: The folder, table or shards.
        labelled: Whether to read labels.

    Attributes:
        listing: a digest of names, sizes and times of change of the files of a table or of shards; None for a
            folder of images, of which the names are compared as they are listed.
        seeks: Whether samples can be passed over without being read.

    Raises:
        DataError: If the data are missing or malformed, or hold nothing that the run reads.
    """

    def __init__(self, run: TrainedRun, data: str, labelled: bool = True) -> None:
        self._run = run
        self._data = data = local_copy(data)
        path = Path(data).expanduser()
        chosen = run.recipe.table.columns
        # several labels, votes, or labels that stand in rows above: nothing to stream
        labelled = labelled and "evidence" not in chosen and "fill_down" not in chosen
        image = chosen.get("image_column")
        self._shards = find_shards(data, image if isinstance(image, str) else None)
        self._folder = self._shards is None and path.is_dir()
        self.listing = None if self._folder else _digest(self._shards.files if self._shards else [str(path)])
        self._reading: dict[str, Any] = {}
        self._columns: dict[str, Any] = {}
        self._labels: list[str] = []
        self._classes: dict[str, list[str]] = {}
        table = None
        if self._shards is not None and self._shards.kind == "tar":
            usual = (*run.columns.get("labels", ()), "cls", *LABELS, *LESS_USUAL_LABELS)
            self._labels = [*dict.fromkeys(usual)] if labelled else []
            names = self._shards.root / CLASSES
            if labelled and names.is_file():
                self._classes["cls"] = [line.strip() for line in read_text(names, _LIST).splitlines()]
        elif not self._folder and (self._shards or is_table_file(path)):
            if self._shards is None:
                self._reading = self._text_settings(path)
            table = read_header(Path(self._shards.files[0]) if self._shards else path, **self._reading)
            self._columns = {**self._reading, **self._chosen_columns(table)}
            if labelled:
                self._labels = self._label_columns(table)
                if table.path.suffix.lower() in PARQUET:
                    self._classes = class_names(str(table.path))
        self.labelled = labelled and (self._folder or bool(self._labels))
        self._several = table is not None and len(self._labels) > 1
        self._ranks = Ranks(self._labels, [] if table is None else table.columns)
        self.seeks = self._shards is not None and self._shards.kind == "parquet"

    def stream(self, skip: int = 0) -> Iterator[StreamedSample]:
        """The samples in order, from number `skip` on.

        What lies behind damage in a tar file is left out with a warning. Damage in a Parquet file is an
        error, since samples are passed over there by the numbers of rows.
        """
        return stream_samples(
            self._data,
            skip=skip,
            fields=(*self._labels, *([self._ranks.depth_column] if self._ranks.depth_column else [])),
            on_error="raise" if self.seeks else "skip",
            **self._columns,
        )

    def count(self) -> int | None:
        """The number of samples, if that is quickly found."""
        return count_samples(self._data, image_column=self._columns.get("image_column"))

    def label(self, sample: StreamedSample) -> tuple[str | None, int, bool]:
        """The label of a sample as text, its node (−1 = missing), and whether the taxonomy lacks it."""
        if not self.labelled:
            return None, -1, False
        path = self._path(sample)
        if not path:
            return None, -1, False
        of_split = self._folder and (path[0].lower() in SPLITS or path[0].lower() in SPLIT_NAMES)
        node = self._finder.find(path, path[1:]) if of_split else self._finder.find(path)
        return join_path(path), max(node, MISSING), node == UNKNOWN

    @cached_property
    def _finder(self) -> RunLabels:
        return RunLabels(self._run, "folders" if self._folder else "several" if self._several else "one")

    def _path(self, sample: StreamedSample) -> tuple[str, ...]:
        if self._folder:
            return tuple(sample.name.split("/")[:-1])
        if self._several:
            cells = {
                column: text
                for column, value in sample.fields.items()
                if (text := self._text(column, value)) is not None
            }
            if not self._ranks.are_known and {*cells.values()} <= ZERO_OR_ONE:
                ones = [column for column in self._labels if float(cells.get(column, 0))]
                return (ones[0],) if len(ones) == 1 else ()
            return tuple(name for name in self._ranks.label_of(self._labels, cells) if name)
        names = (self._text(column, sample.fields.get(column)) for column in self._labels)
        text = next((text for text in names if text), None)
        return self._finder.split(text) if text else ()

    def _text(self, column: str, value: str | None) -> str | None:
        """A cell; whole numbers that stand for named classes become names."""
        names = self._classes.get(column)
        if names is None or value is None:
            return value
        if not value.isdecimal():
            return None if value.startswith("-") else value
        return names[int(value)] if int(value) < len(names) else value

    def _text_settings(self, path: Path) -> dict[str, Any]:
        """The encoding and the sheet of the run's table, for the samples as far as they need them."""
        table = self._run.recipe.table
        if table.encoding is None and table.sheet is None:
            return {}
        if os.path.realpath(path) == os.path.realpath(self._run.recipe.data):
            return {"encoding": table.encoding, "sheet": table.sheet}
        return settings_of_another(path, table.encoding, table.sheet)

    def _chosen_columns(self, table: DataTable) -> dict[str, Any]:
        """The columns that the run was trained on, or its rule for images, where the table has them."""
        settings = self._run.recipe.table
        rule = settings.image_name
        if rule is not None and set(ImageRule(rule).columns) <= set(table.columns):
            return self._name_folder({"image_name": rule})
        kind = "texts" if self._run.network.encoder.modality == "text" else "images"
        known = [column for column in self._run.columns.get(kind, ()) if column in table.columns]
        if len(known) > 1:
            raise DataError(
                f"the run was trained on several images a row ({', '.join(known)}), which a folder of parts "
                "does not take; give --out FILE.parquet, or a table with one image a row"
            )
        chosen = {f"{kind[:-1]}_column": known[0]} if known else {}
        return self._name_folder(chosen) if known and kind == "images" and settings.image_folder else chosen

    def _name_folder(self, chosen: dict[str, Any]) -> dict[str, Any]:
        """The chosen columns with the folder of the images: for the table of training the one given there.

        The images of another table lie beside it or in that folder, where one of the first rows has an image.

        Raises:
            DataError: If no row has an image in either.
        """
        given, path = self._run.recipe.table.image_folder, Path(self._data).expanduser()
        same = os.path.realpath(path) == os.path.realpath(self._run.recipe.data)
        if self._shards is not None or same:
            return {**chosen, "image_folder": given}
        beside, seen = str(path.absolute().parent), False
        folders = list(dict.fromkeys([beside, given or beside]))
        for folder in folders:
            if not Path(folder).is_dir():
                continue
            stream = stream_samples(self._data, image_folder=folder, **self._reading, **chosen)
            for sample in islice(stream, _SOUGHT):
                seen = True
                if isinstance(sample.content, Path) and sample.content.is_file():
                    if folder != beside:
                        _log.warning(
                            "the images of '%s' are sought in '%s', the image_folder of the run's training",
                            self._data,
                            folder,
                        )
                    return {**chosen, "image_folder": folder}
        if not seen:  # a table without rows
            return {**chosen, "image_folder": beside}
        places = " or ".join(f"'{folder}'" for folder in folders)
        names = f"called '{rule}'" if (rule := chosen.get("image_name")) else "that it names"
        raise DataError(
            f"'{self._data}' is another table than that of the run's training, and none of its first "
            f"{_SOUGHT:,} rows has an image in {places}; put the images {names} into '{beside}', or links "
            "to them"
        )

    def _label_columns(self, table: DataTable) -> list[str]:
        known = self._run.columns.get("labels", ())
        if known and set(known) <= set(table.columns):
            return list(known)
        try:
            return find_label_columns(table, None, nest=False).columns
        except DataError:
            return []


def _digest(files: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for file in files:
        try:
            status = os.stat(file)
        except FileNotFoundError:
            raise DataError(
                f"'{file}' is neither a folder, nor a table, nor shards: it is not there"
            ) from None
        digest.update(
            f"{os.path.basename(file)}\0{status.st_size}\0{status.st_mtime_ns}\0".encode(
                "utf-8", "surrogateescape"
            )
        )
    return digest.hexdigest()
