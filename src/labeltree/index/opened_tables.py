"""The samples of a run, an index or an embeddings file as one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from labeltree.data.corrections import sample_contents, sample_ids
from labeltree.data.stratified import group_ids
from labeltree.errors import DataError, LabeltreeError, check_place
from labeltree.geometry import Geometry
from labeltree.index.index import Index
from labeltree.index.index_sources import rows_of_embeddings
from labeltree.inference.run_embeddings import run_tables
from labeltree.progress import Progress
from labeltree.runs import EmbeddingTable, PartFolder, RunFolder
from labeltree.runs.table_taxonomies import taxonomy_of_tables
from labeltree.taxonomy import Taxonomy, load_taxonomy

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["IndexRead", "is_run", "open_table", "read_once", "recorded_contents", "recorded_digests"]


def open_table(
    what: str | Path,
    *,
    taxonomy: str | Path | None = None,
    progress: Progress | None = None,
    verify: bool = False,
) -> EmbeddingTable:
    """The samples of a run, an index (a folder or URL) or an embeddings file, whichever this is.

    Args:
        what: Where it is.
        taxonomy: File of the taxonomy, for embeddings; None = the one that `labeltree embed` has written
            beside, else the tree of the labels. A run and an index have their own.
        progress: Called while samples are embedded.
        verify: Read all files of a run's samples again.

    Returns:
        The table, with `ids` and `taxonomy`. Of an index, the features are the embeddings.

    Raises:
        DataError: If it is none of these, or a label is not in the taxonomy.
    """
    check_place("what", what)
    path = Path(what)
    if path.is_file() or PartFolder(path).exists():
        return _read_embeddings(path, taxonomy)
    if is_run(path):
        return _read_run(path, progress, verify=verify)
    return _read_index(what)


def is_run(path: Path) -> bool:
    """Whether a folder is that of a run."""
    return RunFolder(path).recipe.is_file() or RunFolder(path).description.is_file()


def _read_run(run: str | Path, progress: Progress | None = None, *, verify: bool = False) -> EmbeddingTable:
    """All samples of a finished run, of all its splits."""
    trained, tables = run_tables(run, ("trained",), progress, verify=verify)
    source = trained.source
    paths = source.paths(torch.arange(len(source)))
    ids = sample_ids(source)
    contents = sample_contents(ids, source.sample_digests())
    table = tables["trained"]
    if source.texts is not None:
        table = replace(table, texts=source.read(torch.arange(len(source))))
    return _describe(table, ids, trained.taxonomy, paths or None, contents)


def _read_embeddings(path: Path, taxonomy: str | Path | None = None) -> EmbeddingTable:
    """The samples of an embeddings file, or of a folder of parts, with the ids that an index would have.

    Args:
        path: See `EmbeddingTable.load`.
        taxonomy: File of the taxonomy; None = the one that `labeltree embed` has written beside, else the
            tree of the labels.
    """
    tree = taxonomy_of_tables(path) if taxonomy is None else load_taxonomy(taxonomy)
    if not isinstance(tree, Taxonomy):
        raise DataError(f"'{taxonomy or path}' is a DAG, and labels are judged in a tree")
    rows, table = rows_of_embeddings(path, tree)
    paths = None if rows.paths is None else [path or "" for path in rows.paths]
    return _describe(table, list(rows.ids), tree, paths)


@dataclass(frozen=True, eq=False)
class IndexRead:
    """All samples of an index, of one version of it.

    Attributes:
        rows: The columns that were asked for, n rows.
        vectors: `(n, d)` float32, a copy.
        taxonomy: That of the labels.
        geometry: Of the vectors.
    """

    rows: pa.Table
    vectors: np.ndarray[Any, Any]
    taxonomy: Taxonomy
    geometry: Geometry


def read_once(index: Index, columns: Sequence[str]) -> IndexRead:
    """Read columns, vectors and taxonomy of an index that others may be changing."""

    def read(seen: Index) -> IndexRead:
        vectors = np.array(seen.vectors(), dtype=np.float32)
        return IndexRead(seen.rows(columns), vectors, seen.taxonomy, seen.settings.space)

    return index.at_once(read)


def _read_index(where: str | Path) -> EmbeddingTable:
    """The samples of an index; the classifier reads the same vectors that neighbours are found among."""
    index = Index.open(where)
    read = read_once(index, ["id", "node", "path", "text", "group", "split"])
    columns = {name: read.rows[name].to_pylist() for name in ("id", "path", "text", "group", "split")}
    groups = [name or f"\0{row}" for row, name in enumerate(columns["group"])]
    settings = index.settings
    table = EmbeddingTable(
        embeddings=torch.from_numpy(read.vectors),
        nodes=torch.from_numpy(read.rows["node"].to_numpy().astype(np.int64)),
        groups=group_ids(groups) if any(columns["group"]) else None,
        split=np.asarray([split or "" for split in columns["split"]]) if any(columns["split"]) else None,
        geometry={"cosine": "sphere"}.get(settings.geometry, settings.geometry),
        curvature=settings.curvature,
        texts=[text or "" for text in columns["text"]] if any(columns["text"]) else None,
    )
    paths = [path or "" for path in columns["path"]]
    return _describe(table, columns["id"], read.taxonomy, paths, recorded_contents(index, columns["id"]))


def recorded_contents(index: Index, ids: Sequence[str]) -> list[str] | None:
    """Fingerprints of samples of an index that are named by their rows; see `sample_contents`.

    None if the run of the index has not recorded what they are of, or cannot be read; see `recorded_digests`.
    """
    try:
        digests = recorded_digests(index, ids)
    except LabeltreeError:
        return None
    return None if digests is None else sample_contents(ids, digests)


def recorded_digests(index: Index, ids: Sequence[str]) -> np.ndarray[Any, Any] | None:
    """Digests `(n, 16)` of the contents of samples of an index, as its run has recorded them.

    None if the index has no run, the run recorded none, or not of all these samples.
    """
    if index.model is None or not RunFolder(index.model).samples.is_file():
        return None
    record = RunFolder(index.model).load_samples()
    if record.digests is None or len(record) < len(ids):
        return None
    numbers = record.instances.tolist()
    names = record.names or [str(number) for number in numbers]
    known = {str(number): place for place, number in enumerate(numbers)}
    known |= {f"{name} #{numbers[place]}": place for place, name in enumerate(names)}
    known |= {name: place for place, name in enumerate(names)}
    places = [known.get(one, -1) for one in ids]
    return None if min(places, default=-1) < 0 else record.digests[places]


def _describe(
    table: EmbeddingTable,
    ids: list[str],
    taxonomy: Taxonomy,
    paths: list[str] | None,
    contents: list[str] | None = None,
) -> EmbeddingTable:
    """A table with what is known of its samples."""

    def column(texts: list[str] | None) -> np.ndarray[Any, Any] | None:
        return None if texts is None else np.asarray(texts, dtype=str)

    return replace(table, taxonomy=taxonomy, ids=column(ids), paths=column(paths), contents=column(contents))
