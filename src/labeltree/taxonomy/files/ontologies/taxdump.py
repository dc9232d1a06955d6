"""NCBI's taxonomy as published, nodes.dmp and names.dmp, in a folder or an archive; in arrays, no objects."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.files.entries import Entries
from labeltree.taxonomy.naming import repeated_siblings
from labeltree.text_files import open_unpacked, split_packed

if TYPE_CHECKING:
    from labeltree.taxonomy.files.opened_file import OpenedFile

__all__ = ["DumpAliases", "entries_from_taxdump", "is_taxdump", "taxdump_nodes"]

IntArray = NDArray[np.int64]
_ENDINGS = ("", ".gz", ".zst", ".bz2", ".xz")
_LARGEST = 4 << 30  # unpacked bytes of one file; NCBI's largest has 0.3 GB
_LEFT_OUT = ("authority", "type material", "in-part", "includes", "blast name")
"""Classes of names that no label is, or that also mean other nodes."""


def taxdump_nodes(folder: str | os.PathLike[str]) -> Path | None:
    """The file nodes.dmp of a folder, perhaps packed; None if there is none."""
    files = (Path(folder) / f"nodes.dmp{ending}" for ending in _ENDINGS)
    return next((file for file in files if file.is_file()), None)


def is_taxdump(path: str | os.PathLike[str]) -> bool:
    """Whether a folder, file or archive is NCBI's taxonomy; of a .tar only the first member is looked at."""
    path = Path(path)
    if path.is_dir():
        return taxdump_nodes(path) is not None
    suffix, packing = split_packed(path)
    if suffix == ".dmp":
        return True
    try:
        if suffix == ".zip" and not packing:
            with zipfile.ZipFile(path) as archive:
                return "nodes.dmp" in map(os.path.basename, archive.namelist())
        if suffix in (".tar", ".tgz"):
            with _open_tar(path) as tar:
                first = next(iter(tar), None)
                return first is not None and first.name.endswith((".dmp", "gc.prt"))
    except (OSError, EOFError, ValueError, tarfile.TarError, zipfile.BadZipFile):
        return False
    return False


def entries_from_taxdump(file: OpenedFile) -> Entries:
    """Read NCBI's taxonomy: a tree by the parent of each number, named by scientific names.

    Aliases are the number (`taxid`), numbers that were merged into it (merged.dmp), synonyms and common
    names; not names with authorities, of type material, or of groups. Siblings of one name are told apart by
    their unique names.

    Args:
        file: A folder's nodes.dmp with names.dmp beside it, or an archive of both.

    Raises:
        TaxonomyError: If a file is missing or damaged, or a parent has no line.
    """
    with _opened_dumps(file.path) as dumps:
        columns = dumps.columns("nodes.dmp", {0: "int64", 2: "int64"})
        ids, above = map(_numbers, columns)
        order = np.argsort(ids, kind="stable")
        parent = _places(ids, order, above)
        if len(repeated := np.flatnonzero(np.diff(ids[order]) == 0)):
            raise TaxonomyError(f"nodes.dmp has the number {ids[order][repeated[0]]} twice; remove a line")
        if len(orphans := np.flatnonzero(parent < 0)):
            raise TaxonomyError(
                f"nodes.dmp, line {orphans[0] + 1}: {ids[orphans[0]]} lies below {above[orphans[0]]}, which "
                "has no line; is the file whole?"
            )
        children = np.flatnonzero(parent != np.arange(len(ids)))
        names, aliases = _names(dumps, ids, order, parent, file)
    return Entries(names, children, parent[children], aliases=aliases)


class DumpAliases(Sequence[tuple[str, ...]]):
    """What else each node is called, made when it is asked for: number, synonyms, numbers merged into it.

    Args:
        ids: (N,) the number of each node.
        nodes: (S,) the node of each further name.
        texts: (S,) the further names, an array of pyarrow.
    """

    def __init__(self, ids: IntArray, nodes: IntArray, texts: Any) -> None:
        by_node = np.argsort(nodes, kind="stable")
        self._ids, self._texts = ids, texts.take(_indices(by_node))
        self._start = np.searchsorted(nodes[by_node], np.arange(len(ids) + 1))

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, node: int) -> tuple[str, ...]: ...
    @overload
    def __getitem__(self, node: slice) -> list[tuple[str, ...]]: ...
    def __getitem__(self, node: int | slice) -> tuple[str, ...] | list[tuple[str, ...]]:
        if isinstance(node, slice):
            return [self[one] for one in range(*node.indices(len(self)))]
        if not -len(self) <= node < len(self):
            raise IndexError(node)
        node %= len(self)
        texts = self._texts[self._start[node] : self._start[node + 1]].to_pylist()
        return (str(self._ids[node]), *dict.fromkeys(text.strip() for text in texts))


def _names(
    dumps: _Dumps, ids: IntArray, order: IntArray, parent: IntArray, file: OpenedFile
) -> tuple[list[str], DumpAliases]:
    """The name of each node, and what else it is called."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers, texts, unique, kind = dumps.columns(
        "names.dmp", {0: "int64", 2: "string", 4: "string", 6: "string"}, _drop_other_kinds
    )
    node = _places(ids, order, _numbers(numbers))
    is_scientific = _numbers(pc.cast(pc.equal(kind, _words("scientific name")[0]), pa.int64())) > 0
    rows = np.flatnonzero(is_scientific & (node >= 0))
    names: list[str] = [""] * len(ids)
    for place, name in zip(node[rows].tolist(), texts.take(_indices(rows)).to_pylist(), strict=True):
        names[place] = name
    if nameless := [place for place, name in enumerate(names) if not name or name.isspace()]:
        for place in nameless:
            names[place] = str(ids[place])
        file.note(f"{len(nameless):,} nodes have no scientific name in names.dmp and are called by numbers")
    children = np.flatnonzero(parent != np.arange(len(ids)))
    repeated = children[repeated_siblings(names, children, parent[children])]
    if len(repeated):
        row_of = dict(zip(node[rows].tolist(), rows.tolist(), strict=True))
        for place in repeated.tolist():
            special = unique[row_of[place]].as_py() if place in row_of else ""
            names[place] = (
                special if special and special != names[place] else f"{names[place]} ({ids[place]})"
            )
        file.note(f"{len(repeated):,} siblings of one name are told apart by their unique names or numbers")
    rows = np.flatnonzero(~is_scientific & (node >= 0))
    further, further_texts = node[rows], texts.take(_indices(rows))
    if dumps.has("merged.dmp"):
        was, became = dumps.columns("merged.dmp", {0: "string", 2: "int64"})
        places = _places(ids, order, _numbers(became))
        kept = np.flatnonzero(places >= 0)
        further = np.concatenate([further, places[kept]])
        further_texts = pc.cast(pa.concat_arrays([further_texts, was.take(_indices(kept))]), pa.string())
    return names, DumpAliases(ids, further, further_texts)


def _numbers(column: Any) -> IntArray:
    """The numbers of an array of pyarrow without gaps; its own way to numpy imports pandas."""
    return np.frombuffer(column.buffers()[1], np.int64, len(column), 8 * column.offset)


def _words(*words: str) -> Any:
    """An array of pyarrow of words, as `_indices`."""
    import pyarrow as pa

    ends = np.cumsum([0, *(len(word.encode()) for word in words)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer("".join(words).encode())]
    return pa.Array.from_buffers(pa.string(), len(words), buffers)


def _indices(places: IntArray) -> Any:
    """An array of pyarrow; its own way from numpy imports pandas."""
    import pyarrow as pa

    places = np.ascontiguousarray(places, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(places), [None, pa.py_buffer(places)])


def _drop_other_kinds(batch: Any) -> Any:
    """The rows of names.dmp without classes of names that are not read."""
    import pyarrow.compute as pc

    return batch.filter(pc.invert(pc.is_in(batch.column(3), value_set=_words(*_LEFT_OUT))))


def _places(ids: IntArray, order: IntArray, wanted: IntArray) -> IntArray:
    """The place of each wanted number among ids, which `order` sorts; -1 where it is missing."""
    place = order[np.searchsorted(ids[order], wanted).clip(max=len(ids) - 1)]
    return np.where(ids[place] == wanted, place, -1)


class _Dumps:
    """The .dmp files of a folder or an archive."""

    def __init__(self, path: Path, archive: tarfile.TarFile | zipfile.ZipFile | None) -> None:
        self._path, self._archive = path, archive
        self._members: dict[str, Any] = {}
        if isinstance(archive, zipfile.ZipFile):
            self._members = {os.path.basename(info.filename): info for info in archive.infolist()}
        elif archive is not None:
            self._members = {os.path.basename(info.name): info for info in archive if info.isfile()}

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        return name in self._members if self._archive is not None else self._beside(name) is not None

    def columns(
        self, name: str, kinds: dict[int, str], keep: Callable[[Any], Any] | None = None
    ) -> list[Any]:
        """Some columns of a file, as arrays of pyarrow, by their places when split at tabs.

        Args:
            name: The file.
            kinds: The type of each column.
            keep: Filters a batch of rows.

        Raises:
            TaxonomyError: If it is missing or no such file.
        """
        import pyarrow as pa
        from pyarrow import csv

        types = {f"f{place}": kind for place, kind in kinds.items()}
        if not self.has(name):
            raise TaxonomyError(f"there is no {name} beside the others; NCBI's taxonomy needs both files")
        try:
            with self._open(name) as stream:
                batches = csv.open_csv(
                    stream,
                    read_options=csv.ReadOptions(autogenerate_column_names=True, block_size=1 << 22),
                    parse_options=csv.ParseOptions(delimiter="\t", quote_char=False),
                    convert_options=csv.ConvertOptions(column_types=types, include_columns=[*types]),
                )
                table = pa.Table.from_batches(batches if keep is None else map(keep, batches), batches.schema)
        except (pa.ArrowException, OSError, EOFError, ValueError, KeyError) as error:
            raise TaxonomyError(
                f"{name} is not readable as a file of NCBI's taxonomy, whose lines look like "
                f"'9606\\t|\\t9605\\t|': {' '.join(str(error).split())[:200]}"
            ) from None
        if not table.num_rows or any(column.null_count for column in table.columns):
            raise TaxonomyError(f"{name} has a line without a number or a name; is the file whole?")
        return [pa.concat_arrays(column.chunks) for column in table.columns]

    @contextmanager
    def _open(self, name: str) -> Iterator[_Limited]:
        if self._archive is None:
            beside = self._beside(name)
            assert beside is not None
            with open_unpacked(beside) as stream:
                yield _Limited(stream)
            return
        member = self._members[name]
        size = member.file_size if isinstance(self._archive, zipfile.ZipFile) else member.size
        if size > _LARGEST:
            raise ValueError(f"it would have {size:,} bytes, unpacked")
        opened = (
            self._archive.open(member)
            if isinstance(self._archive, zipfile.ZipFile)
            else self._archive.extractfile(member)
        )
        assert opened is not None
        with opened as stream:
            yield _Limited(stream)

    def _beside(self, name: str) -> Path | None:
        files = (self._path.parent / f"{name}{ending}" for ending in _ENDINGS)
        return next((file for file in files if file.is_file()), None)


class _Limited(io.RawIOBase):
    """A stream that refuses to give more than `_LARGEST` bytes: a bomb."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._given = stream, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        self._given += len(data)
        if self._given > _LARGEST:
            raise ValueError(f"it has more than {_LARGEST:,} bytes, unpacked")
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def _opened_dumps(path: Path) -> Iterator[_Dumps]:
    suffix, _ = split_packed(path)
    if suffix == ".dmp":
        yield _Dumps(path, None)
        return
    try:
        archive = zipfile.ZipFile(path) if suffix == ".zip" else _open_tar(path)
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise TaxonomyError(f"not readable as an archive: {str(error).partition(':')[0]}") from None
    with archive:
        try:
            dumps = _Dumps(path, archive)
        except (OSError, EOFError, tarfile.TarError) as error:
            raise TaxonomyError(f"the archive is damaged: {error}") from None
        yield dumps


def _open_tar(path: Path) -> tarfile.TarFile:
    return tarfile.open(fileobj=open_unpacked(path) if path.suffix != ".tgz" else None, name=path)
