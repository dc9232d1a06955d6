"""DAGs in files: tables of edges and JSON of our own; a tree in any file is a DAG too."""

import csv
import io
import json
import os
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

from labeltree.errors import TaxonomyError
from labeltree.safe_files import value_from_json
from labeltree.taxonomy.files import entries_from_text, read_text, write_text
from labeltree.taxonomy.graph_build import GraphEntries, as_graph, graph_from_edges
from labeltree.taxonomy.json_text import GRAPH_FORMAT
from labeltree.taxonomy.tables import rows_of

__all__ = ["document_from_graph", "graph_from_document", "read_graph", "write_graph"]

VERSION = 1
PathLike = str | os.PathLike[str]


def read_graph(path: PathLike, root_name: str | None = "root") -> GraphEntries:
    """Read the DAG, or the tree, that a file holds; see `TaxonomyDAG.from_file`."""
    return read_text(path, lambda suffix, text: _graph_from_text(suffix, text, root_name))


def _graph_from_text(suffix: str, text: str, root_name: str | None) -> GraphEntries:
    if suffix in (".csv", ".tsv"):
        header, rows, lines = rows_of(text)
        columns = [name.casefold() for name in header]
        if sorted(columns) in (["child", "parent"], ["child", "name", "parent"]):
            child, parent = columns.index("child"), columns.index("parent")
            names: dict[Hashable, object] | None = None
            if "name" in columns:
                names = {row[child]: row[columns.index("name")] for row in rows}
            pairs = [(row[child], row[parent] or None) for row in rows]
            return graph_from_edges(pairs, names=names, where=lambda row: f"line {lines[row]}")
    if suffix == ".json" and GRAPH_FORMAT in text:
        try:
            document = value_from_json(text)
        except ValueError as error:
            raise TaxonomyError(f"not readable as JSON: {error}") from None
        if isinstance(document, dict) and document.get("format") == GRAPH_FORMAT:
            return graph_from_document(document)
    return as_graph(entries_from_text(suffix, text, root_name))


def graph_from_document(document: Mapping[str, Any]) -> GraphEntries:
    """Read the saved form.

    Raises:
        TaxonomyError: if it is not the saved form, is damaged, or was written by a newer version.
    """
    if not isinstance(document, Mapping) or document.get("format") != GRAPH_FORMAT:
        raise TaxonomyError(f"this is no saved DAG: its 'format' is not {GRAPH_FORMAT!r}")
    if document.get("version") != VERSION:
        raise TaxonomyError(
            f"the DAG was saved in version {document.get('version')!r} of the format, this labeltree reads "
            f"version {VERSION}; install a newer one"
        )
    names, parents = document.get("names"), document.get("parents")
    if not isinstance(names, list) or not all(type(name) is str for name in names):
        raise TaxonomyError("the saved DAG is damaged: 'names' is not a list of strings")
    lists = isinstance(parents, list) and all(isinstance(row, list) for row in parents)
    if not lists or not all(type(parent) is int for row in parents for parent in row):  # type: ignore[union-attr]
        raise TaxonomyError("the saved DAG is damaged: 'parents' is not a list of lists of integers")
    return GraphEntries(names, parents)  # type: ignore[arg-type]


def document_from_graph(entries: GraphEntries) -> dict[str, Any]:
    """The saved form: `names` and `parents` of the nodes in topological order."""
    return {"format": GRAPH_FORMAT, "version": VERSION, "names": entries.names, "parents": entries.parents}


def write_graph(path: PathLike, entries: GraphEntries) -> None:
    """Write a DAG in topological order as `.json`, or as edges, `.csv` or `.tsv`."""
    suffix = Path(path).suffix.casefold()
    if suffix not in (".json", ".csv", ".tsv"):
        raise TaxonomyError(
            f"cannot save a DAG as {Path(path).name!r}: the suffix is {Path(path).suffix!r}, expected one of "
            ".json, .csv, .tsv; a tree that project() makes of it has more"
        )
    write_text(
        path, _json(entries) if suffix == ".json" else _table(entries, "," if suffix == ".csv" else "\t")
    )


def _json(entries: GraphEntries) -> str:
    fields = [
        f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in document_from_graph(entries).items()
    ]
    return "{\n" + ",\n".join(fields) + "\n}\n"


def _table(entries: GraphEntries, delimiter: str) -> str:
    names, parents = entries
    out = io.StringIO(newline="")
    write = csv.writer(out, delimiter=delimiter, lineterminator="\n").writerow
    by_name = len(set(names)) == len(names)
    write(["child", "parent"] if by_name else ["child", "parent", "name"])
    for node, (name, above) in enumerate(zip(names, parents, strict=True)):
        for parent in above or [-1]:
            if by_name:
                write([name, names[parent] if parent >= 0 else ""])
            else:
                write([node, parent if parent >= 0 else "", name])
    return out.getvalue()
