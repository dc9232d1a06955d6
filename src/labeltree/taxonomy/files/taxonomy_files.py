"""Taxonomy files: the reader and writer for each suffix; tables, lines and the library's own JSON."""

import csv
import io
import json
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from labeltree.atomic import atomic_write
from labeltree.errors import TaxonomyError
from labeltree.links import check_regular
from labeltree.taxonomy.files.breadcrumbs import (
    BETWEEN_SPACES,
    Breadcrumbs,
    breadcrumb_lists,
    breadcrumbs_of,
    google_taxonomy,
)
from labeltree.taxonomy.files.edge_tables import (
    edge_columns,
    edges_from_table,
    is_rf2,
    rf2_edges,
)
from labeltree.taxonomy.files.entries import (
    Entries,
    Where,
    entries_from_edges,
    entries_from_paths,
    entries_of_dag,
    entries_of_tree,
)
from labeltree.taxonomy.files.nested import (
    Pairs,
    entries_from_nested,
    entries_from_yaml,
    yaml_from_tree,
)
from labeltree.taxonomy.files.newick import entries_from_newick, newick_from_tree
from labeltree.taxonomy.files.obo import entries_from_obo
from labeltree.taxonomy.naming import join_path, split_path
from labeltree.taxonomy.numbering import depth_of
from labeltree.taxonomy.version_history import checked_release, history_document, history_from

__all__ = [
    "document_from",
    "entries_from_document",
    "read_taxonomy",
    "read_text",
    "rows_of_table",
    "write_taxonomy",
]

TREE_FORMAT, DAG_FORMAT = "labeltree taxonomy", "labeltree DAG"
VERSION = 1
PathLike = str | os.PathLike[str]
T = TypeVar("T")


def read_taxonomy(
    path: PathLike, root_name: str | None, make: Callable[[Entries], T], several_parents: bool
) -> T:
    """Make a taxonomy from a file; all errors name the file. See `Graph.from_file`.

    Args:
        path: The file.
        root_name: Name of the root above nested names or paths; None if they begin with the root.
        make: Makes the taxonomy from the file's entries.
        several_parents: Whether a node may have more than one parent.

    Raises:
        TaxonomyError: If the file is missing, unreadable or empty, or its suffix unknown.
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
    text = read_text(path)
    try:
        return make(_READERS[suffix](text, root_name, several_parents))
    except TaxonomyError as error:
        raise TaxonomyError(f"{path}: {error}") from None


def read_text(path: PathLike) -> str:
    """The text of a taxonomy file.

    Raises:
        TaxonomyError: If it is missing, unreadable, empty or not UTF-8; the error names the file.
    """
    path = Path(path)
    try:
        check_regular(path)
        text = _decode(path.read_bytes())
        if not text.strip():
            raise TaxonomyError("the file is empty")
        return text
    except FileNotFoundError:
        raise TaxonomyError(f"the taxonomy file {str(path)!r} does not exist") from None
    except OSError as error:
        raise TaxonomyError(f"the taxonomy file {str(path)!r} cannot be read: {error.strerror}") from None
    except TaxonomyError as error:
        raise TaxonomyError(f"{path}: {error}") from None


def write_taxonomy(path: PathLike, entries: Entries, several_parents: bool) -> None:
    """Write a taxonomy (a tree in preorder) in the format of the suffix, atomically.

    Raises:
        TaxonomyError: If the suffix is unknown, the format is for trees only, or the folder does not exist.
    """
    path = Path(path)
    suffix = path.suffix.casefold()
    if suffix == ".json":
        text = _json(document_from(entries, several_parents))
    elif suffix in (".csv", ".tsv"):
        text = _table(entries, "," if suffix == ".csv" else "\t")
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


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TaxonomyError(
            f"line {line}: not UTF-8 text (byte {data[error.start]:#04x}); save it as UTF-8"
        ) from None


# The library's own JSON, which keeps everything, or nested names


def document_from(entries: Entries, several_parents: bool) -> dict[str, Any]:
    """The saved form: `names` and `parents` of the nodes in their own order; -1 for the root of a tree."""
    document = {
        "format": DAG_FORMAT if several_parents else TREE_FORMAT,
        "version": VERSION,
        "names": entries.names,
        "parents": _lists_of_parents(entries) if several_parents else entries.parent(),
    }
    if entries.release is not None:
        document["release"] = entries.release
    if entries.history:
        document["history"] = history_document(entries.history)
    if any(entries.aliases):
        document["aliases"] = [list(texts) for texts in entries.aliases]
    return document


def _lists_of_parents(entries: Entries) -> list[list[int]]:
    lists: list[list[int]] = [[] for _ in entries.names]
    for child, parent in zip(entries.children, entries.parents, strict=True):
        lists[child].append(parent)
    return lists


def entries_from_document(document: Mapping[str, Any], several_parents: bool) -> Entries:
    """Read the saved form.

    Raises:
        TaxonomyError: If it is not the saved form, is damaged, or was written by a newer version.
    """
    what, form = ("DAG", DAG_FORMAT) if several_parents else ("taxonomy", TREE_FORMAT)
    if not isinstance(document, Mapping) or document.get("format") != form:
        raise TaxonomyError(f"this is no saved {what}: its 'format' is not {form!r}")
    version = document.get("version")
    if not isinstance(version, int) or version < 1:
        raise TaxonomyError(
            f"the saved {what} has version={version!r}, expected an integer from 1 to {VERSION}"
        )
    if version > VERSION:
        raise TaxonomyError(
            f"the {what} was saved in version {version} of the format, this labeltree reads up to {VERSION}; "
            "install a newer one"
        )
    names: Any = document.get("names")
    parents: Any = document.get("parents")
    if not _is_list_of(str, names):
        raise TaxonomyError(f"the saved {what} is damaged: 'names' is not a list of strings")
    if several_parents:
        if not _is_list_of(list, parents) or not all(_is_list_of(int, row) for row in parents):
            raise TaxonomyError(f"the saved {what} is damaged: 'parents' is not a list of lists of integers")
        return _set_version(entries_of_dag(names, parents), document)
    if not _is_list_of(int, parents):
        raise TaxonomyError(f"the saved {what} is damaged: 'parents' is not a list of integers")
    return _set_version(entries_of_tree(names, parents), document)


def _set_version(entries: Entries, document: Mapping[str, Any]) -> Entries:
    """The entries with the release, the history and the aliases that a file may have."""
    release, history = document.get("release"), _make_dicts(document.get("history", []))
    aliases: Any = document.get("aliases", [])
    each = isinstance(aliases, list) and all(_is_list_of(str, texts) for texts in aliases)
    if not each or len(aliases) not in (0, len(entries.names)):
        raise TaxonomyError("the saved taxonomy is damaged: 'aliases' is not a list of strings for each node")
    return entries._replace(
        release=None if release is None else checked_release(release),
        history=history_from(history),
        aliases=aliases,
    )


def _make_dicts(value: Any, depth: int = 3) -> Any:
    """Plain data in which mappings that were read as pairs are dictionaries, down to a depth."""
    if isinstance(value, Pairs):
        value = dict(value)
        return {key: _make_dicts(inner, depth - 1) for key, inner in value.items()} if depth else value
    return [_make_dicts(inner, depth - 1) for inner in value] if isinstance(value, list) and depth else value


def _is_list_of(kind: type, values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is kind for value in values)


def _json(document: dict[str, Any]) -> str:
    """JSON text with one field per line."""
    fields = [
        f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in document.items()
    ]
    return "{\n" + ",\n".join(fields) + "\n}\n"


def _read_json(text: str, root_name: str | None, several_parents: bool) -> Entries:
    try:
        data = json.loads(text, object_pairs_hook=Pairs)
    except json.JSONDecodeError as error:
        raise TaxonomyError(f"line {error.lineno}: not readable as JSON: {error.msg}") from None
    except RecursionError:
        raise TaxonomyError(
            "nested too deeply for JSON; write the tree as edges, a .csv of child,parent"
        ) from None
    except ValueError:
        raise TaxonomyError("not readable as JSON: it has a whole number of more than 4,000 digits") from None
    if isinstance(data, Pairs) and ("format", TREE_FORMAT) in data:
        return entries_from_document(dict(data), several_parents=False)
    if isinstance(data, Pairs) and ("format", DAG_FORMAT) in data:
        if not several_parents:
            raise TaxonomyError(
                "this is a DAG, not a tree: 'labeltree taxonomy project' (TaxonomyDAG.project) makes a tree "
                "of it"
            )
        return entries_from_document(dict(data), several_parents=True)
    if paths := breadcrumb_lists(data):
        return entries_from_paths(paths, root_name, lambda row: f"BreadcrumbList {row + 1}")
    return entries_from_nested(data, root_name)


# Tables of edges (columns child and parent, perhaps name) or of paths (a column per depth)


def _read_table(text: str, root_name: str | None, several_parents: bool) -> Entries:
    """Read a table whose first line names its columns; tabs, commas or semicolons separate them."""
    first = text.split("\n", 1)[0]
    if "\t" in first and is_rf2([name.strip() for name in first.split("\t")]):
        return rf2_edges(text, None, several_parents)
    header, rows, lines = rows_of_table(text)

    def where(row: int) -> str:
        return f"line {lines[row]}"

    columns = [name.casefold() for name in header]
    if "child" in columns and "parent" in columns:
        return _edges(columns, rows, where, several_parents)
    if edge_columns(header) is not None:
        return edges_from_table(header, rows, where, several_parents=several_parents, root_name=root_name)
    for row in rows:
        if row[0] == header[0]:
            raise TaxonomyError(
                f"line 1 reads like data: {header[0]!r} stands below it again; name the columns in line 1"
            )
    if len(header) == 1 and (breadcrumbs := breadcrumbs_of([cells[0] for cells in rows])):
        return entries_from_paths(breadcrumbs.paths, root_name, where)
    _check_depths(header, rows)
    return entries_from_paths(([cell or None for cell in row] for row in rows), root_name, where)


def _check_depths(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Refuse a table of samples, whose columns are not the depths of a tree.

    Raises:
        TaxonomyError: If a column beside others holds whole paths, or each row has a first name of its own
            while names in a finer column repeat.
    """
    if len(header) < 2:
        return
    columns = [[row[at] for row in rows if row[at]] for at in range(len(header))]
    for name, cells in zip(header, columns, strict=True):
        distinct = dict.fromkeys(cells)
        slashes = len(distinct) > 2 and all("/" in cell.strip("/") for cell in distinct)
        if slashes or breadcrumbs_of(distinct, marks=BETWEEN_SPACES) is not None:
            raise TaxonomyError(
                f"the columns {', '.join(header)} would be a column per depth, but {name!r} holds whole "
                f"paths, such as {cells[0]!r}: say --column {name!r} to 'labeltree taxonomy show', 'check' "
                f"and 'review', or --form breadcrumbs --column {name!r} to 'convert', which writes a file"
            )
    first = columns[0]
    repeats = [name for name, cells in zip(header, columns, strict=True) if len(set(cells)) < len(cells)]
    if len(rows) > 2 and len(first) == len(rows) == len(set(first)) and repeats:
        raise TaxonomyError(
            f"the columns {', '.join(header)} would be a column per depth, but {header[0]!r} is different "
            f"in every row while {repeats[0]!r} repeats, so it is no coarsest depth: keep only the columns "
            "of the depths, coarse to fine, or say --column NAME if one column holds whole paths"
        )


def rows_of_table(text: str) -> tuple[list[str], list[list[str]], list[int]]:
    """The column names of a table, its rows without the empty ones, and the line of each.

    Raises:
        TaxonomyError: If it is not readable as a table, or has only one line.
    """
    first = text.lstrip("\r\n ").split("\n", 1)[0]
    delimiter = next((mark for mark in "\t,;" if mark in first), ",")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows, lines = [], []
    try:
        for cells in reader:
            row = [cell.strip() for cell in cells]
            if any(row):
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise TaxonomyError(f"line {reader.line_num}: not readable as a table: {error}") from None
    header, rows, lines = rows[0], rows[1:], lines[1:]
    while not header[-1]:
        header.pop()
    if not rows:
        raise TaxonomyError("there is only one line; the first names the columns, the tree follows below")
    for row, line in zip(rows, lines, strict=True):
        if any(row[len(header) :]):
            raise TaxonomyError(f"line {line} has {len(row)} cells for {len(header)} columns")
        row[:] = row[: len(header)] + [""] * (len(header) - len(row))
    return header, rows, lines


def _edges(columns: list[str], rows: list[list[str]], where: Where, several_parents: bool) -> Entries:
    if sorted(columns) not in (["child", "parent"], ["child", "name", "parent"]):
        raise TaxonomyError(
            f"a table of edges has the columns child, parent and perhaps name, not {', '.join(columns)}"
        )
    child, parent = columns.index("child"), columns.index("parent")
    pairs = [(row[child], row[parent] or None) for row in rows]
    names: dict[Hashable, object] | None = None
    if "name" in columns:
        names = {row[child]: row[columns.index("name")] for row in rows}
    return entries_from_edges(pairs, names=names, where=where, several_parents=several_parents)


def _table(entries: Entries, delimiter: str) -> str:
    """A table of edges, the root first; if a name repeats, with numbers and a column of names."""
    names = entries.names
    out = io.StringIO(newline="")
    write = csv.writer(out, delimiter=delimiter, lineterminator="\n").writerow
    if len(set(names)) == len(names):
        write(["child", "parent"])
        write([names[0], ""])
        for child, parent in zip(entries.children, entries.parents, strict=True):
            write([names[child], names[parent]])
    else:
        write(["child", "parent", "name"])
        write([0, "", names[0]])
        for child, parent in zip(entries.children, entries.parents, strict=True):
            write([child, parent, names[child]])
    return out.getvalue()


# Lines of paths


def _read_lines(text: str, root_name: str | None, several_parents: bool) -> Entries:
    """Read lines of paths `a/b/c` or of `a > b`, Google's product taxonomy or relations of RF2."""
    if is_rf2([name.strip() for name in text.split("\n", 1)[0].split("\t")]):
        return rf2_edges(text, None, several_parents)
    if (google := google_taxonomy(text)) is not None:
        entries = entries_from_paths(google.paths, root_name, lambda row: f"line {google.lines[row]}")
        return entries._replace(release=google.version)
    lines = [(i, line.strip()) for i, line in enumerate(text.split("\n"), start=1) if line.strip()]
    breadcrumbs = _crumbs([line for _, line in lines])
    paths = (line for _, line in lines) if breadcrumbs is None else breadcrumbs.paths
    return entries_from_paths(paths, root_name, lambda row: f"line {lines[row][0]}")


def _crumbs(lines: Sequence[str]) -> Breadcrumbs | None:
    """Lines `a > b` as breadcrumbs; None if they are paths, as all are if one has only `/`."""
    if any(
        line.startswith("/") or ("/" in line and " > " not in line and len(split_path(line)) > 1)
        for line in lines
    ):
        return None
    return breadcrumbs_of(lines, marks={">": BETWEEN_SPACES[">"]})


def _lines_from_tree(names: Sequence[str], parents: Sequence[int]) -> str:
    inner, depth = set(parents), depth_of(parents)
    lines = []
    path: list[str] = []
    for node in range(1, len(names)):
        path[depth[node] - 1 :] = [names[node]]
        if node not in inner:
            lines.append(join_path(path))
    if _crumbs(lines) is not None or google_taxonomy("\n".join(lines)) is not None:
        lines = [f"/{line}" for line in lines]  # paths, whatever marks the names have
    return "".join(f"{line}\n" for line in lines)


def _tree_reader(
    read: Callable[[str, str | None], Entries],
) -> Callable[[str, str | None, bool], Entries]:
    """A reader of a format in which a node cannot have several parents."""
    return lambda text, root_name, several_parents: read(text, root_name)


_READERS: dict[str, Callable[[str, str | None, bool], Entries]] = {
    ".json": _read_json,
    ".yaml": _tree_reader(entries_from_yaml),
    ".yml": _tree_reader(entries_from_yaml),
    ".csv": _read_table,
    ".tsv": _read_table,
    ".txt": _read_lines,
    ".nwk": _tree_reader(entries_from_newick),
    ".newick": _tree_reader(entries_from_newick),
    ".tree": _tree_reader(entries_from_newick),
    ".jsonld": _read_json,
    ".obo": entries_from_obo,
}

_TREE_WRITERS: dict[str, Callable[[Sequence[str], Sequence[int]], str]] = {
    ".yaml": yaml_from_tree,
    ".yml": yaml_from_tree,
    ".txt": _lines_from_tree,
    ".nwk": newick_from_tree,
    ".newick": newick_from_tree,
    ".tree": newick_from_tree,
}
