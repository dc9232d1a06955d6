"""Near duplicates among the samples of an index."""

from __future__ import annotations

from typing import Any

from labeltree.curation.duplicates import Duplicates, find_duplicates
from labeltree.curation.duplicates_text import DuplicateNames
from labeltree.index import Index
from labeltree.index.opened_tables import read_once, recorded_digests

__all__ = ["index_duplicates"]


def index_duplicates(
    index: Index, *, threshold: float | None = None, most_pairs: int = 100_000
) -> tuple[Duplicates, DuplicateNames]:
    """Find the near duplicates of an index, with the names of its samples.

    Contents are compared by the digests that the index's run has recorded, where its samples are those of the
    index, and otherwise by the files.

    Args:
        index: the index.
        threshold: largest distance of a pair, for cosines the chord; None: see `usual_threshold`.
        most_pairs: how many pairs to list.
    """
    read = read_once(index, ["id", "node", "path", "split", "group"])
    columns: dict[str, list[Any]] = {name: read.rows[name].to_pylist() for name in read.rows.column_names}
    nodes = read.rows["node"].to_numpy()
    splits = columns["split"] if any(columns["split"]) else None
    groups = columns["group"] if any(columns["group"]) else None
    duplicates = find_duplicates(
        read.vectors,
        read.geometry,
        threshold=threshold,
        nodes=nodes,
        taxonomy=read.taxonomy,
        splits=splits,
        groups=groups,
        paths=columns["path"],
        digests=recorded_digests(index, columns["id"]),
        most_pairs=most_pairs,
    )
    return duplicates, DuplicateNames(
        columns["id"], nodes.tolist(), read.taxonomy, splits, groups, columns["path"]
    )
