"""The search box: nodes and samples whose name or id contains the words."""

from __future__ import annotations

import unicodedata
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from labeltree.serving.explorer.collection import Collection
from labeltree.serving.explorer.explorer_replies import Matches, NodeMatch, SampleMatch

__all__ = ["WordSearch"]

_MATCHES = 8


class WordSearch:
    """Finds nodes and samples of a collection by words, without regard to case and accents.

    Args:
        collection: Samples and their taxonomy.
    """

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._names = [_plain(name) for name in collection.taxonomy.names]

    @cached_property
    def _ids(self) -> list[str]:
        return [_plain(str(one)) for one in self._collection.ids]

    def find(self, words: str, counts: NDArray[np.int64]) -> Matches:
        """At most eight nodes and eight samples, those that begin with the words first.

        Args:
            words: The words; after a `/`, those of a node below one that the words before it name.
            counts: Samples at and below each node; of equally good nodes the largest comes first.
        """
        wanted = _plain(words)
        if not wanted:
            return Matches(nodes=[], samples=[])
        last = wanted.rpartition("/")[2].strip()
        tree, ids = self._collection.taxonomy, self._collection.ids
        nodes = [
            node
            for node, name in enumerate(self._names)
            if node and last in name and wanted in _plain(tree.path_name(node))
        ]
        nodes.sort(key=lambda node: (not self._names[node].startswith(last), -int(counts[node]), node))
        rows = [row for row, name in enumerate(self._ids) if wanted in name]
        rows.sort(key=lambda row: (self._ids[row] != wanted, row))
        return Matches(
            nodes=[
                NodeMatch(node=node, path=list(tree.path(node)), samples=int(counts[node]))
                for node in nodes[:_MATCHES]
            ],
            samples=[SampleMatch(row=row, id=str(ids[row])) for row in rows[:_MATCHES]],
        )


def _plain(text: str) -> str:
    """Without case, accents and surrounding spaces."""
    parts = unicodedata.normalize("NFD", text.casefold().strip())
    return "".join(c for c in parts if not unicodedata.combining(c))
