"""Near duplicates among the samples of an index."""

from __future__ import annotations

from typing import Any

import numpy as np

from labeltree.curation.duplicates import Duplicates, find_duplicates
from labeltree.curation.duplicates_text import DuplicateNames
from labeltree.index import Index
from labeltree.runs import RunFolder

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
    table = index.rows(["id", "node", "path", "split", "group"])
    columns: dict[str, list[Any]] = {name: table[name].to_pylist() for name in table.column_names}
    nodes = table["node"].to_numpy()
    splits = columns["split"] if any(columns["split"]) else None
    groups = columns["group"] if any(columns["group"]) else None
    found = find_duplicates(
        np.asarray(index.vectors()).copy(),
        index.settings.space,
        threshold=threshold,
        nodes=nodes,
        taxonomy=index.taxonomy,
        splits=splits,
        groups=groups,
        paths=columns["path"],
        digests=_recorded_digests(index, columns["id"]),
        most_pairs=most_pairs,
    )
    return found, DuplicateNames(
        columns["id"], nodes.tolist(), index.taxonomy, splits, groups, columns["path"]
    )


def _recorded_digests(index: Index, ids: list[str]) -> np.ndarray[Any, Any] | None:
    """The digests ``(n, 16)`` of the samples' contents from the record of the run; None if one has none."""
    if index.model is None or not RunFolder(index.model).samples.is_file():
        return None
    record = RunFolder(index.model).load_samples()
    if record.digests is None or len(record) < len(ids):
        return None
    known = {str(instance): place for place, instance in enumerate(record.instances.tolist())}
    known |= {name: place for place, name in enumerate(record.names or ())}
    places = [known.get(one, -1) for one in ids]
    return None if min(places, default=-1) < 0 else record.digests[places]
