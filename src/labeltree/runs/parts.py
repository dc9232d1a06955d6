"""A folder of parts: the rows of any number of samples in Parquet files, beside a manifest.

Names that begin with `_` are passed over by pandas, pyarrow, DuckDB and Spark when they read the folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.atomic import atomic_write, clear_leftovers
from labeltree.errors import DataError, OtherSettingsError, RunError
from labeltree.links import refuse_links
from labeltree.lock import lock_folder
from labeltree.runs.table_file_columns import read_columns
from labeltree.safe_files import Reader, read_json, value_from_json
from labeltree.taxonomy import Taxonomy

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PartFolder", "PartWriter"]

_VERSION = 1
_PART = re.compile(r"part-(\d{5,})\.parquet")
_NOTE = b"part"
_TOGETHER = 2048  # rows of a row group, held in memory until they are written
_MANIFEST = Reader("the manifest of a folder of parts", "delete the folder, and make it again", RunError)
_WORDS = {
    "model": "by another model",
    "taxonomy": "with another taxonomy",
    "data": "of other data",
    "listing": "of these data as they were before they changed",
}


class PartFolder:
    """A folder of parts of equal numbers of samples, `part-00000.parquet` and so on.

    Args:
        path: The folder.

    Attributes:
        path: The folder.
        manifest: File that says what the parts hold, and of what.
        taxonomy: File of the taxonomy of their nodes.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.manifest = self.path / "_manifest.json"
        self.taxonomy = self.path / "_taxonomy.json"

    def exists(self) -> bool:
        """Whether the path is a folder of parts, finished or not."""
        return self.manifest.is_file()

    def locked(self) -> AbstractContextManager[None]:
        """Lock the folder for writing; see `lock_folder` and `refuse_links`."""
        refuse_links(self.path)
        return lock_folder(self.path)

    def part(self, number: int) -> Path:
        """The file of a part."""
        return self.path / f"part-{number:05d}.parquet"

    def present(self) -> set[int]:
        """Numbers of the parts that are there; every one of them is whole."""
        if not self.path.is_dir():
            return set()
        names = (_PART.fullmatch(entry.name) for entry in self.path.iterdir())
        return {int(name[1]) for name in names if name is not None}

    def read_manifest(self) -> dict[str, Any]:
        """The content of the manifest.

        Raises:
            RunError: If it is missing, damaged or of a later version.
        """
        manifest = read_json(self.manifest, _MANIFEST)
        if not isinstance(manifest.get("settings"), dict) or not isinstance(manifest.get("version"), int):
            raise _MANIFEST.failure(self.manifest, "it does not say of what the parts are")
        if manifest["version"] > _VERSION:
            raise RunError(f"'{self.manifest}' was written by a later version of labeltree; update it")
        return manifest

    def begin(
        self, settings: Mapping[str, Any], about: Mapping[str, Any], taxonomy: Taxonomy
    ) -> dict[str, Any]:
        """Write the manifest and the taxonomy, or check that those there are of the same settings.

        Args:
            settings: Everything that the rows depend on, plain values by name.
            about: Which model made them, when; kept as it was at the beginning.
            taxonomy: Taxonomy of the nodes.

        Returns:
            The content of the manifest; `counts` in it is None until the folder is complete.

        Raises:
            OtherSettingsError: If the parts there were made with other settings, or of other samples.
            RunError: If the folder holds something else.
            WriteError: If the folder cannot be written to.
        """
        clear_leftovers(self.path / "*.parquet", self.path / "*.json")
        # listed before the manifest is looked for, which another process may be writing
        others = self.path.is_dir() and any(not e.name.startswith((".", "_")) for e in self.path.iterdir())
        if self.exists():
            manifest = self.read_manifest()
            self._check_settings(manifest["settings"], dict(settings))
            if not self.taxonomy.is_file():
                taxonomy.save(self.taxonomy)
            return manifest
        if others:
            raise RunError(
                f"the folder '{self.path}' holds other files; name a folder that is empty or new as --out"
            )
        manifest = {
            "version": _VERSION,
            "about": dict(about),
            "settings": dict(settings),
            "counts": None,
        }
        self._write(manifest)  # first: it says that the folder is one of parts
        taxonomy.save(self.taxonomy)
        return manifest

    def _check_settings(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        for name in [*now, *before]:
            old, new = before.get(name), now.get(name)
            if old == new:
                continue
            if name in _WORDS:
                what = f"was made {_WORDS[name]}"
                if name == "data":
                    what += f", '{old}'"
            else:
                what = f"was begun with {name.replace('_', ' ')} {_show(old)}, not {_show(new)}"
            raise OtherSettingsError(
                f"'{self.path}' {what}; name another --out, or delete that folder to make it anew"
            )

    def is_complete(self, manifest: Mapping[str, Any]) -> bool:
        """Whether the manifest says that all parts were there, and they still are."""
        counts = manifest.get("counts")
        return isinstance(counts, dict) and set(range(counts["parts"])) <= self.present()

    def finish(self, manifest: Mapping[str, Any], parts: int) -> dict[str, int] | None:
        """Note in the manifest that all parts are there.

        Args:
            manifest: From `begin`.
            parts: The number of parts that there must be.

        Returns:
            The sums of the parts' counts, and `parts`; None if some are not there yet.

        Raises:
            OtherSettingsError: If there are more parts, because there were more samples before.
        """
        there = self.present()
        if there and max(there) >= parts:
            raise self.changed()
        if len(there) < parts:
            return None
        counts: dict[str, int] = {"parts": parts}
        for number in range(parts):
            for name, count in self.note(number)["counts"].items():
                counts[name] = counts.get(name, 0) + int(count)
        if manifest.get("counts") != counts:
            self._write({**manifest, "counts": counts})
        return counts

    def changed(self) -> OtherSettingsError:
        """The error that the samples are no longer those of the parts."""
        return OtherSettingsError(
            f"'{self.path}' was made {_WORDS['listing']}; name another --out, or delete that folder to make "
            "it anew"
        )

    def note(self, number: int) -> dict[str, Any]:
        """What the writer of a part noted at its end: `counts`, `names` (a digest), of answers `seen`.

        Raises:
            RunError: If the part is damaged.
        """
        import pyarrow.parquet as pq

        path = self.part(number)
        reader = Reader("a part", "delete that file, and the same command makes it again", RunError)
        with reader.reading(path, "it is damaged, or no Parquet file"), path.open("rb"):
            noted: dict[bytes, bytes] = pq.read_metadata(path).metadata or {}
            note: dict[str, Any] = value_from_json(noted[_NOTE].decode())
            return note

    @contextmanager
    def new_part(self, number: int, schema: pa.Schema) -> Iterator[PartWriter]:
        """Write a part; it takes its place when the block ends without an error.

        Raises:
            WriteError: If the disk is full or writing is not permitted.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        texts = [field.name for field in schema if pa.types.is_string(field.type) and field.name != "sample"]
        with (
            atomic_write(self.part(number)) as temporary,
            pq.ParquetWriter(temporary, schema, use_dictionary=texts) as file,
        ):
            writer = PartWriter(file)
            yield writer
            writer.flush()
            file.add_key_value_metadata({_NOTE.decode(): json.dumps(writer.note)})

    def _write(self, manifest: Mapping[str, Any]) -> None:
        with atomic_write(self.manifest) as temporary:
            temporary.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", "utf-8")

    def read_columns(self) -> dict[str, Any]:
        """All columns of all parts as arrays by name, without the samples that could not be read.

        For numbers of samples whose rows fit in memory.

        Raises:
            DataError: If the folder is not complete, or a part is missing or damaged.
        """
        counts = self.read_manifest().get("counts")
        if not isinstance(counts, dict) or not isinstance(counts.get("parts"), int):
            raise DataError(f"'{self.path}' is not complete; the command that began it goes on with it")
        if missing := set(range(counts["parts"])) - self.present():
            raise DataError(f"'{self.path}' lacks '{self.part(min(missing)).name}'; make the folder again")
        parts = [read_columns(self.part(number)) for number in range(counts["parts"])]
        return {name: _join([columns[name] for columns in parts]) for name in parts[0]}


class PartWriter:
    """Writes the rows of a part in groups.

    Attributes:
        note: What is noted at the end of the part; to be filled in by the caller.
    """

    def __init__(self, file: Any) -> None:
        self.note: dict[str, Any] = {}
        self._file = file
        self._waiting: list[pa.RecordBatch] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows."""
        self._waiting.append(rows)
        if sum(map(len, self._waiting)) >= _TOGETHER:
            self.flush()

    def flush(self) -> None:
        """Write the rows that wait."""
        import pyarrow as pa

        if self._waiting:
            self._file.write_table(pa.Table.from_batches(self._waiting))
            self._waiting = []


def _join(parts: Sequence[Any]) -> Any:
    return parts[0] if isinstance(parts[0], str) else np.concatenate(parts)


def _show(value: Any) -> str:
    return "none" if value is None else repr(value) if isinstance(value, str) else str(value)
