"""The filters of Qdrant: which rows pass, and which a generation shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.errors import DataError
from labeltree.index.filters import Condition, Filter
from labeltree.index.store import OWN_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["filter_parts", "qdrant_filter"]

Array = np.ndarray[Any, Any]


def qdrant_filter(filter: Filter | None, generation: int, nodes: Array, schema: pa.Schema) -> Any:
    """The filter of Qdrant for the rows that pass and that a generation shows.

    Args:
        filter: Which rows pass.
        generation: What readers see.
        nodes: `(labels,)` the node that each label is now.
        schema: Of the rows.
    """
    from qdrant_client import models

    now = generation
    must: list[Any] = [models.FieldCondition(key="born", range=models.Range(lte=now))]
    must_not: list[Any] = [models.FieldCondition(key="died", range=models.Range(lte=now))]
    if filter is not None:
        if filter.within is not None:
            must.append(_labels_condition(filter.within, nodes))
        if filter.not_within:
            must_not.append(_labels_condition(filter.not_within, nodes))
        if filter.rows is not None:
            must.append(models.FieldCondition(key="row", match=models.MatchAny(any=filter.rows.tolist())))
        if filter.ids is not None:
            must.append(models.FieldCondition(key="id", match=models.MatchAny(any=list(filter.ids))))
        for condition in filter.conditions:
            _add_condition(condition, schema.field(condition.column).type, must, must_not)
    return models.Filter(must=must, must_not=must_not)


def _labels_condition(ranges: Sequence[tuple[int, int]], nodes: Array) -> Any:
    """Ranges of nodes as ranges of labels: the same ones, until the taxonomy has moved."""
    from qdrant_client import models

    inside = np.zeros(len(nodes) + 2, bool)
    for first, end in ranges:
        inside[1:-1] |= (nodes >= first) & (nodes < end)
    edges = np.flatnonzero(inside[1:] != inside[:-1]).reshape(-1, 2).tolist()
    tests: list[Any] = [models.FieldCondition(key="label", range=models.Range(gte=a, lt=b)) for a, b in edges]
    return models.Filter(should=tests) if tests else models.HasIdCondition(has_id=[])


def _add_condition(condition: Condition, kind: pa.DataType, must: list[Any], must_not: list[Any]) -> None:
    import pyarrow as pa
    from qdrant_client import models

    key = condition.column if condition.column in OWN_COLUMNS else f"columns.{condition.column}"
    floating = pa.types.is_floating(kind)
    sign, values = condition.operator, condition.values

    def equals(value: Any) -> Any:
        if floating or isinstance(value, float):
            return models.FieldCondition(key=key, range=models.Range(gte=value, lte=value))
        return models.FieldCondition(key=key, match=models.MatchValue(value=value))

    if sign in ("in", "=="):
        must.append(
            models.Filter(should=[equals(value) for value in values])
            if values
            else models.HasIdCondition(has_id=[])
        )
    elif sign == "!=":
        must_not += [equals(values[0]), models.IsEmptyCondition(is_empty=models.PayloadField(key=key))]
    elif isinstance(values[0], str | bool):
        raise DataError(
            f"Qdrant orders numbers, not {kind}; ask for values of column '{condition.column}' that are equal"
        )
    else:
        limits = {{"<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}[sign]: values[0]}
        must.append(models.FieldCondition(key=key, range=models.Range(**limits)))


def filter_parts(filter: Filter | None, most: int) -> Iterator[Filter | None]:
    """The filter, cut into several where it names more than `most` rows or ids."""
    if filter is not None and filter.rows is not None:
        for at in range(0, len(filter.rows), most):
            yield replace(filter, rows=filter.rows[at : at + most])
    elif filter is not None and filter.ids is not None:
        for at in range(0, len(filter.ids), most):
            yield replace(filter, ids=filter.ids[at : at + most])
    else:
        yield filter
