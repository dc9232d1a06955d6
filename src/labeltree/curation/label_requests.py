"""Samples of a run, an index or a table, and the CSV in which an annotator labels some of them."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from labeltree.atomic import atomic_write
from labeltree.curation.label_next import LabelRequests
from labeltree.data.corrections import is_decided
from labeltree.data.stratified import group_ids
from labeltree.errors import DataError
from labeltree.runs import RunFolder
from labeltree.taxonomy import Taxonomy, load_taxonomy

__all__ = ["COLUMNS", "LabelSamples", "read_samples", "write_requests"]

COLUMNS = ("sample", "path", "label", "suggested", "depth", "cost", "probability", "reason", "decision")
"""Columns of the CSV; ``sample``, ``label``, ``suggested`` and ``decision`` are those of corrections."""


@dataclass(frozen=True, eq=False)
class LabelSamples:
    """Samples that may be labelled.

    Attributes:
        ids: n ids.
        vectors: ``(n, d)`` features, or embeddings where there are none.
        nodes: ``(n,)`` int64 labels, −1 where missing.
        taxonomy: tree of the labels.
        paths: n files; None if unknown.
        splits: n names of splits; None if there are none.
        groups: ``(n,)`` int64, −1 for a sample without a group; None if there are no groups.
    """

    ids: tuple[str, ...]
    vectors: Tensor
    nodes: Tensor
    taxonomy: Taxonomy
    paths: tuple[str, ...] | None = None
    splits: tuple[str, ...] | None = None
    groups: Tensor | None = None

    def chosen(self, split: str | None = None, within: str | None = None) -> Tensor:
        """``(n,)`` bool: the samples of a split, and those whose coarse label is a node or lies below it.

        Raises:
            DataError: if there is no such split.
            TaxonomyError: if there is no such node.
        """
        found = torch.ones(len(self.ids), dtype=torch.bool)
        if split is not None:
            if self.splits is None or split not in self.splits:
                known = sorted(set(self.splits or ()))
                raise DataError(f"there are no samples of split '{split}'; the splits are: {known or 'none'}")
            found &= torch.from_numpy(np.asarray(self.splits) == split)
        if within is not None:
            node = self.taxonomy.find(within)
            found &= (self.nodes >= node) & (self.nodes < int(self.taxonomy.subtree_end[node]))
        return found


def read_samples(source: str | Path, taxonomy: str | Path | None = None) -> LabelSamples:
    """The samples of a run, an index, or a table of embeddings.

    Args:
        source: a run folder, an index (its folder or URL), or a file that `EmbeddingTable.load` reads.
        taxonomy: file of the tree of a table's labels; None: ``NAME.taxonomy.json`` beside the table.

    Raises:
        DataError: if there is nothing of the kind, or the labels are of a DAG.
    """
    from labeltree.index.opening import is_index
    from labeltree.index.reading import rows_of_embeddings, rows_of_run

    path = Path(source)
    if path.is_dir() and RunFolder(path).taxonomy.is_file():
        rows, table = rows_of_run(path)
        tree = RunFolder(path).load_taxonomy()
    elif is_index(str(source)):
        return _of_index(str(source))
    else:
        beside = path.with_suffix(".taxonomy.json")
        if taxonomy is None and not beside.is_file():
            raise DataError(
                f"--taxonomy FILE says what the labels of '{path}' mean; no '{beside.name}' lies beside it"
            )
        loaded = load_taxonomy(taxonomy or beside)
        if not isinstance(loaded, Taxonomy):
            raise DataError("the taxonomy is a DAG; 'labeltree taxonomy project' makes a tree of it")
        tree = loaded
        rows, table = rows_of_embeddings(path, tree)
    return LabelSamples(
        tuple(rows.ids),
        table.features if table.features is not None else table.embeddings,
        table.nodes,
        tree,
        None if rows.paths is None else tuple(str(one) for one in rows.paths),
        None if table.split is None else tuple(table.split.tolist()),
        table.groups,
    )


def _of_index(where: str) -> LabelSamples:
    from labeltree.index import Index

    index = Index.open(where)
    names = set(index.schema.names)
    read = index.rows([name for name in ("id", "path", "split", "group") if name in names])
    columns = {name: read.column(name).to_pylist() for name in read.column_names}
    groups = None
    if any(group not in (None, "", -1) for group in columns.get("group", [])):
        keys = [
            ("alone", place) if group in (None, "", -1) else ("group", group)
            for place, group in enumerate(columns["group"])
        ]
        groups = group_ids(keys)
    return LabelSamples(
        tuple(columns["id"]),
        torch.from_numpy(np.array(index.vectors(), dtype=np.float32)),
        torch.from_numpy(np.array(index.labels(), dtype=np.int64)),
        index.taxonomy,
        tuple(one or "" for one in columns["path"]) if "path" in columns else None,
        tuple(one or "" for one in columns["split"]) if "split" in columns else None,
        groups,
    )


def write_requests(asked: LabelRequests, samples: LabelSamples, path: str | Path) -> None:
    """Write what to label as CSV, atomically; with decisions filled in it is a table of corrections.

    Raises:
        DataError: if there is a file already in which somebody has decided.
    """
    path = Path(path)
    if path.is_file() and is_decided(path):
        raise DataError(
            f"somebody has decided in '{path}', which would be lost; move it, or name another file by --out"
        )
    taxonomy = samples.taxonomy
    with atomic_write(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for place, row in enumerate(asked.rows.tolist()):
            known = int(asked.known[place])
            writer.writerow(
                [
                    samples.ids[row],
                    "" if samples.paths is None else samples.paths[row],
                    taxonomy.path_name(known) if known > 0 else "",
                    taxonomy.path_name(int(asked.likely[place])),
                    int(asked.depths[place]),
                    f"{float(asked.costs[place]):.3g}",
                    f"{float(asked.probabilities[place]):.3f}",
                    asked.reasons[place],
                    "",
                ]
            )
