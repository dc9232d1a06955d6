"""The pairs of a small batch by their labels: tables over the relation codes, spread over all pairs.

An operation of numpy on so little costs a fraction of one of torch.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labeltree.pairs.relation import PairRelation

__all__ = ["LabelPairs"]

Ints = NDArray[np.int64]


class LabelPairs:
    """The codes of a batch with itself: those of its distinct labels, and those of views of one sample.

    Args:
        relation: of a batch with itself.

    Attributes:
        codes: `(C, C)` of the distinct labels with each other.
        of_row: `(n,)` which of the labels each row has.
        sizes: `(C,)` rows of each label.
        twins: `(2, P)` rows of views of one sample: every pair, and then every pair the other way round.
        twin_labels: `(P,)` their codes as labels.
        twin_codes: `(P,)` their codes as views.
        size: number R of codes.
    """

    def __init__(self, relation: PairRelation) -> None:
        rows = relation.queries
        labels, first, self.of_row, self.sizes = np.unique(
            rows.nodes.cpu().numpy(), return_index=True, return_inverse=True, return_counts=True
        )
        if rows.codes is not None:
            self.codes: Ints = rows.codes.among(labels)
        else:
            some = rows[torch.from_numpy(first).to(rows.nodes.device)]
            self.codes = relation.label_codes(some, some).cpu().numpy()
        self.size = relation.num_relations
        i, k = _twins(None if rows.instances is None else rows.instances.cpu().numpy())
        self.twins = np.concatenate([[i, k], [k, i]], axis=1)
        self.twin_labels = self.codes[self.of_row[self.twins[0]], self.of_row[self.twins[1]]]
        self.twin_codes: Ints = relation.space.of_views.numpy()[self.twin_labels]

    @cached_property
    def present(self) -> NDArray[np.bool_]:
        """Which codes `(R,)` occur, and perhaps that of a label with itself that has one row."""
        found = np.zeros(self.size, dtype=np.bool_)
        found[self.codes] = found[self.twin_codes] = True
        return found

    def spread(self, table: NDArray[Any]) -> NDArray[Any]:
        """The entries `(n, n)` of a table `(R,)` over the codes; 0 of a row with itself."""
        entries = table.take(self.codes).take(self.of_row, axis=1).take(self.of_row, axis=0)  # rows are fast
        entries[self.twins[0], self.twins[1]] = table[self.twin_codes]
        np.fill_diagonal(entries, 0)
        return entries


def _twins(instances: Ints | None) -> tuple[Ints, Ints]:
    """All pairs of rows of one instance."""
    if instances is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    row = instances.argsort(kind="stable")
    ids = instances[row]
    first, second = [], []
    for step in range(1, len(ids)):
        same = np.flatnonzero(ids[step:] == ids[:-step])
        if not len(same):
            break
        first.append(row[same])
        second.append(row[same + step])
    return (np.concatenate(first), np.concatenate(second)) if first else _twins(None)
