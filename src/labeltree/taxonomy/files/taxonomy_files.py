"""Read a taxonomy from a file of any form, and write one."""

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from labeltree.atomic import atomic_write
from labeltree.errors import TaxonomyError, check_place
from labeltree.options.choices import Form
from labeltree.taxonomy.files.edge_tables import edges_text
from labeltree.taxonomy.files.entries import Entries
from labeltree.taxonomy.files.file_forms import entries_of_form
from labeltree.taxonomy.files.nested import yaml_from_tree
from labeltree.taxonomy.files.newick import newick_from_tree
from labeltree.taxonomy.files.ontologies.taxdump import taxdump_nodes
from labeltree.taxonomy.files.opened_file import OpenedFile
from labeltree.taxonomy.files.path_lines import lines_from_tree
from labeltree.taxonomy.files.saved_document import document_from, document_text

__all__ = ["IN_FOLDER", "log_notes", "read_taxonomy", "write_taxonomy"]

PathLike = str | os.PathLike[str]
T = TypeVar("T")
_log = logging.getLogger("labeltree.data")

IN_FOLDER = "taxonomy.json"
"""The taxonomy of a run, or of an exported model, in its folder."""


def read_taxonomy(
    path: PathLike,
    root_name: str | None,
    make: Callable[[Entries], T],
    several_parents: bool,
    form: Form | None = None,
) -> T:
    """Make a taxonomy from a file; all errors name the file. See `Graph.from_file`.

    Args:
        path: The file, or a folder that keeps it, such as a run (`taxonomy.json`) or a taxdump.
        root_name: Name of the root above nested names or paths; None if they begin with the root.
        make: Makes the taxonomy from the file's entries.
        several_parents: Whether a node may have more than one parent.
        form: The form of the file; by default found from its content.

    Raises:
        TaxonomyError: If the file is missing, unreadable or empty, or its suffix unknown.
    """
    check_place("the file", path, TaxonomyError)
    path = Path(path)
    if path.is_dir():
        path = taxdump_nodes(path) or path
        path = path / IN_FOLDER if (path / IN_FOLDER).is_file() else path
    if path.is_dir():
        raise TaxonomyError(
            f"{str(path)!r} is a folder, not a file; Taxonomy.from_folders reads nested folders"
        )
    try:
        entries = entries_of_form(OpenedFile(path, root_name, several_parents), form)
        taxonomy = make(entries)
    except TaxonomyError as error:
        raise TaxonomyError(f"{path}: {error}") from None
    log_notes(path, entries)
    return taxonomy


def log_notes(path: PathLike, entries: Entries) -> None:
    """Say how a file, or folders, were read."""
    for note in entries.notes:
        _log.warning("labeltree: %s: %s", path, note)


def write_taxonomy(path: PathLike, entries: Entries, several_parents: bool) -> None:
    """Write a taxonomy (a tree in preorder) in the format of the suffix, atomically.

    Raises:
        TaxonomyError: If the suffix is unknown, the format is for trees only, or the folder does not exist.
    """
    path = Path(path)
    suffix = path.suffix.casefold()
    if suffix == ".json":
        text = document_text(document_from(entries, several_parents))
    elif suffix in (".csv", ".tsv"):
        text = edges_text(entries, "," if suffix == ".csv" else "\t")
    elif suffix in _TREE_WRITERS and not several_parents:
        text = _TREE_WRITERS[suffix](entries.names, entries.parent())
    elif several_parents:
        raise TaxonomyError(
            f"cannot save a DAG as {path.name!r}: the suffix is {path.suffix!r}, expected one of "
            ".json, .csv, .tsv; a tree that project() makes of it has more"
        )
    else:
        raise TaxonomyError(
            f"cannot save a taxonomy as {path.name!r}: the suffix is {path.suffix!r}, expected one of "
            f".json, .csv, .tsv, {', '.join(_TREE_WRITERS)}"
        )
    if not path.parent.is_dir():
        raise TaxonomyError(f"cannot save {path.name!r}: the folder {str(path.parent)!r} does not exist")
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


def _lines_text(names: Sequence[str], parents: Sequence[int]) -> str:
    """Paths of leaves, rooted where lines would else be read as another tree; a root above says more."""
    lines = lines_from_tree(names, parents)
    plain, rooted = ("".join(f"{mark}{line}\n" for line in lines) for mark in ("", "/"))
    return next((text for text in (plain, rooted) if _is_read_as(text, names, parents)), f"/\n{rooted}")


def _is_read_as(text: str, names: Sequence[str], parents: Sequence[int]) -> bool:
    try:
        read = entries_of_form(OpenedFile.from_text(text, ".txt", names[0]))
    except TaxonomyError:
        return False
    return (list(read.names), read.parent()) == (list(names), list(parents))


_TREE_WRITERS: dict[str, Callable[[Sequence[str], Sequence[int]], str]] = {
    ".yaml": yaml_from_tree,
    ".yml": yaml_from_tree,
    ".txt": _lines_text,
    ".nwk": newick_from_tree,
    ".newick": newick_from_tree,
    ".tree": newick_from_tree,
}
