"""The samples that are looked through for wrong labels: of a run, an index, or an embeddings file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeltree.data.corrections import sample_ids
from labeltree.data.stratified import group_ids
from labeltree.errors import DataError
from labeltree.geometry import Geometry
from labeltree.index.index import Index
from labeltree.index.reading import rows_of_embeddings
from labeltree.inference.embeddings import run_tables
from labeltree.progress import Progress
from labeltree.runs import EmbeddingTable, PartFolder, RunFolder
from labeltree.taxonomy import Taxonomy, load_taxonomy

__all__ = ["LabelledVectors", "read_embeddings", "read_index", "read_labelled", "read_run"]


@dataclass(frozen=True, eq=False)
class LabelledVectors:
    """n samples with vectors and labels.

    Attributes:
        ids: id of each sample.
        features: ``(n, f)`` float32, what a classifier reads.
        points: ``(n, d)`` float32, points of the geometry, among which neighbours are found.
        nodes: ``(n,)`` int64 labels, −1 where missing.
        taxonomy: taxonomy of the labels.
        geometry: geometry of the points.
        paths: file of each sample, empty where it has none; None if there are none.
        groups: ``(n,)`` int64 groups, −1 for a sample without one; None if there are none.
        split: split of each sample ``(n,)`` str; None if there are none.
    """

    ids: list[str]
    features: Tensor
    points: Tensor
    nodes: Tensor
    taxonomy: Taxonomy
    geometry: Geometry
    paths: list[str] | None = None
    groups: Tensor | None = None
    split: np.ndarray[Any, Any] | None = None

    def __len__(self) -> int:
        return len(self.ids)


def read_labelled(
    what: str | Path,
    *,
    taxonomy: str | Path | None = None,
    progress: Progress | None = None,
    verify: bool = False,
) -> LabelledVectors:
    """Read a run, an index (a folder or URL) or an embeddings file, whichever this is.

    Args:
        what: where it is.
        taxonomy: file of the taxonomy, for embeddings.
        progress: called while samples are embedded.
        verify: read all files of a run's samples again.

    Raises:
        DataError: if it is none of these.
    """
    path = Path(what)
    if path.is_file() or PartFolder(path).exists():
        return read_embeddings(path, taxonomy)
    if RunFolder(path).recipe.is_file() or RunFolder(path).description.is_file():
        return read_run(path, progress, verify=verify)
    return read_index(what)


def read_run(run: str | Path, progress: Progress | None = None, *, verify: bool = False) -> LabelledVectors:
    """All samples of a finished run, of all its splits."""
    trained, tables = run_tables(run, ("trained",), progress, verify=verify)
    source = trained.source
    paths = source.paths(torch.arange(len(source)))
    return _of_table(tables["trained"], sample_ids(source), trained.taxonomy, paths or None)


def read_embeddings(path: str | Path, taxonomy: str | Path | None = None) -> LabelledVectors:
    """The samples of an embeddings file, or of a folder of parts, with the ids that an index would have.

    Args:
        path: see `EmbeddingTable.load`.
        taxonomy: file of the taxonomy; None = the one that `labeltree embed` has written beside.
    """
    path = Path(path)
    parts, beside = PartFolder(path), path.with_suffix(".taxonomy.json")
    if taxonomy is None:
        taxonomy = parts.taxonomy if parts.exists() else beside
        if not Path(taxonomy).is_file():
            raise DataError(
                f"nothing says which taxonomy the labels in '{path}' are of; name it with --taxonomy"
            )
    tree = load_taxonomy(taxonomy)
    if not isinstance(tree, Taxonomy):
        raise DataError(f"'{taxonomy}' is a DAG, and labels are judged in a tree")
    rows, table = rows_of_embeddings(path, tree)
    paths = None if rows.paths is None else [path or "" for path in rows.paths]
    return _of_table(table, list(rows.ids), tree, paths)


def read_index(where: str | Path) -> LabelledVectors:
    """The samples of an index; the classifier reads the same vectors that neighbours are found among."""
    index = Index.open(where)
    rows = index.rows(["id", "node", "path", "group", "split"])
    groups = [name or f"\0{row}" for row, name in enumerate(rows["group"].to_pylist())]
    vectors = torch.from_numpy(np.array(index.vectors()))
    if len(rows) != len(vectors):
        raise DataError(f"the index '{index.where}' changed while it was read; do it again")
    return LabelledVectors(
        rows["id"].to_pylist(),
        vectors,
        vectors,
        torch.from_numpy(rows["node"].to_numpy().astype(np.int64)),
        index.taxonomy,
        index.settings.space,
        [path or "" for path in rows["path"].to_pylist()],
        group_ids(groups) if any(rows["group"].to_pylist()) else None,
        np.asarray([split or "" for split in rows["split"].to_pylist()]),
    )


def _of_table(
    table: EmbeddingTable, ids: list[str], taxonomy: Taxonomy, paths: list[str] | None
) -> LabelledVectors:
    return LabelledVectors(
        ids,
        table.embeddings if table.features is None else table.features,
        table.embeddings,
        table.nodes,
        taxonomy,
        table.space,
        paths,
        table.groups,
        table.split,
    )
