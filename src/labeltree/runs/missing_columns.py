"""Errors on an embeddings file that lacks a column: what the file holds, and what it probably calls it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from labeltree.errors import DataError
from labeltree.taxonomy import AnyTaxonomy
from labeltree.taxonomy.column_names import numbered_columns
from labeltree.taxonomy.naming import is_missing

__all__ = ["no_embeddings", "no_group_column", "no_labels"]

_MOST_COLUMNS = 12  # are listed one by one
_TRIED = 200  # distinct values of a column that are looked up in the taxonomy
_KINDS = {"f": "numbers", "i": "whole numbers", "u": "whole numbers", "b": "true or false", "U": "text"}


def no_embeddings(path: Path, columns: Mapping[str, Any]) -> DataError:
    """The error on a file without a column `embeddings`, which names what may be the vectors."""
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    vectors = {name: array for name, array in arrays.items() if array.ndim == 2 and array.dtype.kind in "fiu"}
    say = ""
    if vectors:
        floats = {name: array for name, array in vectors.items() if array.dtype.kind == "f"} or vectors
        likely = max(floats, key=lambda name: floats[name].shape[1])
        say = f"; '{likely}' is probably meant: write it under the name 'embeddings'"
    return DataError(f"'{path}' has no column 'embeddings'; it has {_list_columns(arrays)}{say}")


def no_labels(path: Path, columns: Mapping[str, Any], taxonomy: AnyTaxonomy | None) -> DataError:
    """The error on a file with neither labels nor nodes, which names the column that holds names of nodes."""
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    shares = {
        name: share
        for name, array in arrays.items()
        if taxonomy is not None and (share := _share_of_nodes(array, taxonomy)) > 0.5
    }
    say = ""
    if shares:
        likely = max(shares, key=lambda name: shares[name])
        say = f"; '{likely}' holds names of the taxonomy: write it under the name 'labels'"
    elif classes := [name for name, array in arrays.items() if _may_be_classes(array)]:
        joined = " + '/' + ".join(f"table['{name}']" for name in classes[:_MOST_COLUMNS])
        order = ", coarse to fine," if len(classes) > 1 else ""
        say = f"; write the labels{order} into one column: table['labels'] = {joined}"
    return DataError(
        f"'{path}' has neither a column 'labels' nor 'nodes'; it has {_list_columns(arrays)}{say}"
    )


def no_group_column(path: Path, columns: Mapping[str, Any], wanted: str) -> DataError:
    """The error on a column of groups that the file does not have."""
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    able = [name for name, array in arrays.items() if array.ndim == 1]
    near = difflib.get_close_matches(
        wanted.casefold(), {name.casefold(): name for name in able}, n=1, cutoff=0.6
    )
    say = f"; did you mean '{next(name for name in able if name.casefold() == near[0])}'?" if near else ""
    return DataError(
        f"'{path}' has no column '{wanted}' to take the groups from; with one value a row it has "
        f"{_list_columns({name: arrays[name] for name in able}) or 'none'}{say}"
    )


def _list_columns(arrays: Mapping[str, np.ndarray[Any, Any]]) -> str:
    """The columns with their shapes and kinds, those of one numbered family together."""
    numbered = numbered_columns(
        name for name, array in arrays.items() if array.ndim == 1 and array.dtype.kind in "fiu"
    )
    together = {name for names in numbered.values() for name in names}
    parts = [
        f"'{names[0]}' to '{names[-1]}' ({len(names)} columns of numbers)" for names in numbered.values()
    ]
    parts += [f"'{name}' ({_kind(array)})" for name, array in arrays.items() if name not in together]
    if len(parts) > _MOST_COLUMNS:
        return f"{', '.join(parts[:_MOST_COLUMNS])} and {len(parts) - _MOST_COLUMNS} more"
    return ", ".join(parts)


def _kind(array: np.ndarray[Any, Any]) -> str:
    values = array.reshape(-1)[:_TRIED].tolist() if array.dtype.kind == "O" else []
    text = any(isinstance(value, str) for value in values)
    kind = _KINDS.get(array.dtype.kind, "text" if text else "other values")
    return f"{' × '.join(f'{size:,}' for size in array.shape)} {kind}" if array.ndim else f"one value, {kind}"


def _may_be_classes(array: np.ndarray[Any, Any]) -> bool:
    """Whether a column holds texts, each of two rows on average."""
    if array.ndim != 1 or array.dtype.kind not in "UO":
        return False
    texts = [value for value in array.tolist() if isinstance(value, str) and not is_missing(value)]
    return len(texts) > len(array) / 2 and 2 * len(set(texts)) <= len(texts)


def _share_of_nodes(array: np.ndarray[Any, Any], taxonomy: AnyTaxonomy) -> float:
    """The share of the distinct values of a column, or of the first 200, that are names of nodes."""
    if array.ndim != 1 or array.dtype.kind not in "UO":
        return 0.0
    texts = {value for value in array.tolist() if isinstance(value, str) and value and not is_missing(value)}
    tried = sorted(texts)[:_TRIED]
    return sum(bool(taxonomy.candidates(text)) for text in tried) / max(len(tried), 1)
