"""Make an index of files, or change one by them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from labeltree.counted_nouns import say_count
from labeltree.index.index import Index
from labeltree.index.index_sources import index_embeddings, index_run, rows_to_add
from labeltree.options.schema import as_place
from labeltree.options.search import ChangeIndexOptions, MakeIndexOptions
from labeltree.taxonomy import Taxonomy, TaxonomyMapping

__all__ = ["ChangedIndex", "change_index", "make_index"]


@dataclass(frozen=True)
class ChangedIndex:
    """An index after a change.

    Attributes:
        index: The index.
        sentences: What was changed, in words.
    """

    index: Index
    sentences: tuple[str, ...]


def make_index(options: MakeIndexOptions) -> Index:
    """Make an index of a run, or of embeddings of any model.

    Raises:
        RunError: If the folder is no finished run, or its samples have changed.
        DataError: If the file cannot be read, or there is an index already.
    """
    return index_run(options) if options.table is None else index_embeddings(options)


def change_index(options: ChangeIndexOptions, new: Taxonomy | None = None) -> ChangedIndex:
    """Make one change.

    Args:
        options: The change.
        new: The taxonomy that labels are moved to.

    Raises:
        LabeltreeError: If there is no index, or the change cannot be made; nothing is changed then.
    """
    index = Index.open(as_place(options.index))
    if options.add is not None:
        rows = rows_to_add(options.add, index)
        index.add(rows)
        return ChangedIndex(index, (f"{len(rows)} samples added",))
    if options.replace is not None:
        replaced, added = index.replace(rows_to_add(options.replace, index))
        return ChangedIndex(index, (f"{say_count(replaced, 'sample')} replaced, {added:,} added",))
    if options.delete:
        index.delete(list(options.delete))
        return ChangedIndex(index, (f"{len(set(options.delete))} samples deleted",))
    if new is not None:
        return ChangedIndex(index, _move(index, new, options))
    if options.compact:
        index.compact()
    elif options.tune:
        told = options.progress
        index.tune(progress=None if told is None else lambda message: told(message, 0, 0))
    return ChangedIndex(index, ())


def _move(index: Index, new: Taxonomy, options: ChangeIndexOptions) -> tuple[str, ...]:
    if options.mapping is not None:
        mapping = TaxonomyMapping.load(options.mapping, old=index.taxonomy, new=new)
    else:
        mapping, _ = TaxonomyMapping.between(index.taxonomy, new)
    on_server = "://" in index.where
    labels = None if on_server else index.labels()
    index.move(new, mapping)
    said = (f"labels moved to '{options.move_to}'; {_coarser(mapping, labels)}",)
    if on_server and "prediction" in index.info().columns:
        return (*said, "the column 'prediction' keeps the names of the old version")
    return said


def _coarser(mapping: TaxonomyMapping, labels: np.ndarray[Any, Any] | None) -> str:
    """How many of the labels `(n,)` of the old version became coarser, and which; None: not counted."""
    exact = mapping.exact.tolist()
    if labels is None:
        return f"{exact.count(False)} of {mapping.old.num_nodes} nodes are read coarser"
    counts = Counter(node for node in labels.tolist() if node > 0 and not exact[node])
    if not counts:
        return "no label became coarser"
    named = ", ".join(f"'{mapping.old.path_name(node)}' ({count:,})" for node, count in counts.most_common(5))
    more = f" and {len(counts) - 5} more" if len(counts) > 5 else ""
    return (
        f"{counts.total():,} labels became coarser, those of {named}{more}: moving back does not restore them"
    )
