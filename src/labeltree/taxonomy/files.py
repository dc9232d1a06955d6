"""Taxonomy files: which reader and which writer belongs to which suffix; whole files or none."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from labeltree.atomic import atomic_write
from labeltree.errors import TaxonomyError
from labeltree.taxonomy.build import Entries, entries_from_paths
from labeltree.taxonomy.json_text import entries_from_json, json_from_entries
from labeltree.taxonomy.naming import join_path
from labeltree.taxonomy.nested import entries_from_marks
from labeltree.taxonomy.newick import entries_from_newick, newick_from_entries
from labeltree.taxonomy.numbering import depth_of
from labeltree.taxonomy.tables import entries_from_table, table_from_entries
from labeltree.taxonomy.yaml_text import marks_from_yaml, yaml_from_tree

__all__ = ["entries_from_text", "read_entries", "read_text", "write_entries", "write_text"]

PathLike = str | os.PathLike[str]
T = TypeVar("T")


def read_entries(path: PathLike, root_name: str | None = "root") -> Entries:
    """Read the tree that a file holds; see `Taxonomy.from_file`."""
    return read_text(path, lambda suffix, text: entries_from_text(suffix, text, root_name))


def entries_from_text(suffix: str, text: str, root_name: str | None) -> Entries:
    """Read the tree that a text in the format of a known suffix holds."""
    return _READERS[suffix](text, root_name)


def read_text(path: PathLike, reader: Callable[[str, str], T]) -> T:
    """Read a taxonomy file by its suffix and text; errors name the file.

    Raises:
        TaxonomyError: if the file is missing, unreadable or empty, or its suffix unknown.
    """
    path = Path(path)
    suffix = path.suffix.casefold()
    if path.is_dir():
        raise TaxonomyError(
            f"{str(path)!r} is a folder, not a file; Taxonomy.from_folders reads nested folders"
        )
    if suffix not in _READERS:
        raise TaxonomyError(
            f"taxonomy file {str(path)!r} has the suffix {path.suffix!r}, expected one of "
            f"{', '.join(_READERS)}"
        )
    try:
        text = _decode(path.read_bytes())
        if not text.strip():
            raise TaxonomyError("the file is empty")
        return reader(suffix, text)
    except FileNotFoundError:
        raise TaxonomyError(f"the taxonomy file {str(path)!r} does not exist") from None
    except OSError as error:
        raise TaxonomyError(f"the taxonomy file {str(path)!r} cannot be read: {error.strerror}") from None
    except TaxonomyError as error:
        raise TaxonomyError(f"{path}: {error}") from None


def write_entries(path: PathLike, entries: Entries) -> None:
    """Write a tree that is numbered in preorder, in the format of the suffix; see `Taxonomy.save`."""
    path = Path(path)
    writer = _WRITERS.get(path.suffix.casefold())
    if writer is None:
        raise TaxonomyError(
            f"cannot save a taxonomy as {path.name!r}: the suffix is {path.suffix!r}, expected one of "
            f"{', '.join(_WRITERS)}"
        )
    write_text(path, writer(entries))


def write_text(path: PathLike, text: str) -> None:
    """Write a taxonomy file as a whole or not at all."""
    path = Path(path)
    if not path.parent.is_dir():
        raise TaxonomyError(f"cannot save {path.name!r}: the folder {str(path.parent)!r} does not exist")
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TaxonomyError(
            f"line {line}: not UTF-8 text (byte {data[error.start]:#04x}); save it as UTF-8"
        ) from None


def _read_yaml(text: str, root_name: str | None) -> Entries:
    return entries_from_marks(marks_from_yaml(text), root_name)


def _read_lines(text: str, root_name: str | None) -> Entries:
    lines = [(i, line.strip()) for i, line in enumerate(text.split("\n"), start=1) if line.strip()]
    return entries_from_paths((line for _, line in lines), root_name, lambda row: f"line {lines[row][0]}")


def _write_yaml(entries: Entries) -> str:
    return yaml_from_tree(entries.names, depth_of(entries.parents))


def _write_lines(entries: Entries) -> str:
    inner, depth = set(entries.parents), depth_of(entries.parents)
    lines = []
    path: list[str] = []
    for node in range(1, len(entries.names)):
        path[depth[node] - 1 :] = [entries.names[node]]
        if node not in inner:
            lines.append(join_path(path) + "\n")
    return "".join(lines)


_READERS: dict[str, Callable[[str, str | None], Entries]] = {
    ".json": entries_from_json,
    ".yaml": _read_yaml,
    ".yml": _read_yaml,
    ".csv": entries_from_table,
    ".tsv": entries_from_table,
    ".txt": _read_lines,
    ".nwk": entries_from_newick,
    ".newick": entries_from_newick,
    ".tree": entries_from_newick,
}

_WRITERS: dict[str, Callable[[Entries], str]] = {
    ".json": json_from_entries,
    ".yaml": _write_yaml,
    ".yml": _write_yaml,
    ".csv": lambda entries: table_from_entries(entries, ","),
    ".tsv": lambda entries: table_from_entries(entries, "\t"),
    ".txt": _write_lines,
    ".nwk": newick_from_entries,
    ".newick": newick_from_entries,
    ".tree": newick_from_entries,
}
