"""The names that columns of vectors and of labels have in the files that people write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from labeltree.taxonomy.column_names import (
    LABELS,
    LABELS_OF_ARRAYS,
    LESS_USUAL_LABELS,
    VECTORS,
    numbered_columns,
)

__all__ = ["name_as_usual"]

_LABELS = (*LABELS, *LESS_USUAL_LABELS, *LABELS_OF_ARRAYS)
_OF_A_ROW = ("embeddings", "aspects", "aspect_predictions", "label_sets", "depth_predictions")


def name_as_usual(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a file of vectors, with those of vectors and labels named `embeddings` and `labels`.

    Where a file has no `embeddings`, they are read from `vectors`, `features`, `X` …, or from its only array
    `(n, d)` of numbers, as in training, or else from columns of numbers whose names differ in a number, `f0`,
    `f1` …; where it has neither `labels` nor `nodes`, those are read from `class`, `y` ….

    Example:
        >>> sorted(name_as_usual({"X": np.zeros((2, 3)), "y": np.array(["cat", "dog"])}))
        ['embeddings', 'labels']
    """
    named = dict(columns)
    if not {"embeddings", "embedding"} & set(named):
        arrays = {name: array for name, array in named.items() if _is_whole(name, array)}
        chosen = _choose(arrays, VECTORS) or (next(iter(arrays)) if len(arrays) == 1 else None)
        if chosen is not None:
            named = {"embeddings" if name == chosen else name: array for name, array in named.items()}
        elif not arrays:
            named = _stack_numbered(named)
    if not {"labels", "label", "nodes", "node"} & set(named):
        texts = {name: array for name, array in named.items() if np.ndim(array) == 1}
        chosen = _choose(texts, _LABELS)
        if chosen is not None:
            named = {"labels" if name == chosen else name: array for name, array in named.items()}
    return named


def _choose(columns: Mapping[str, Any], usual: Sequence[str]) -> str | None:
    """The column that has the first of the usual names, in any case."""
    by_name = {name.lower(): name for name in reversed(list(columns))}
    return next((by_name[name] for name in usual if name in by_name), None)


def _stack_numbered(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns, the largest family of numbered columns of numbers being one, `embeddings`."""
    numbers = {name: np.asarray(array) for name, array in columns.items()}
    families = numbered_columns(
        name for name, array in numbers.items() if array.ndim == 1 and array.dtype.kind in "fiu"
    )
    if not families:
        return dict(columns)
    names = max(families.values(), key=len)
    rest = {name: array for name, array in columns.items() if name not in names}
    return {"embeddings": np.stack([numbers[name] for name in names], axis=1), **rest}


def _is_whole(name: str, array: Any) -> bool:
    """Whether a column may be the vectors: numbers `(n, d)` without another meaning."""
    numbers = np.asarray(array)
    return numbers.ndim == 2 and numbers.dtype.kind in "fiu" and name not in _OF_A_ROW
