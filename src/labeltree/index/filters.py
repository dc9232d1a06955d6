"""Which rows of an index are meant: ranges of nodes, and conditions on columns."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.errors import DataError
from labeltree.taxonomy import Taxonomy

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Condition", "Filter", "Where", "as_conditions", "node_ranges", "parse_where"]

Scalar = str | int | float | bool
Where = Mapping[str, object]
Nodes = str | int | Sequence[str | int | range]

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TEXT = re.compile(
    r"\s*(?P<column>[^=!<>\s]+)\s*(?P<operator>==|!=|<=|>=|=|<|>)\s*(?P<value>.*?)\s*", re.DOTALL
)


@dataclass(frozen=True)
class Condition:
    """A condition on one column of an index; a row without a value in it never meets the condition.

    Attributes:
        column: Name of the column.
        operator: `in`, `==`, `!=`, `<`, `<=`, `>` or `>=`.
        values: The values for `in`, exactly one for the others.
    """

    column: str
    operator: str
    values: tuple[Scalar, ...]

    def typed(self, kind: pa.DataType) -> Condition:
        """The same condition with values of the type of its column, as every store understands it.

        On whole numbers `>= 2010.5` becomes `>= 2011`, and `== 2010.5` is met by none.

        Raises:
            DataError: If a value is of another kind, or a number is infinite or too large.
        """
        import pyarrow as pa

        for value in self.values:
            is_text, is_flag = isinstance(value, str), isinstance(value, bool)
            if is_text != pa.types.is_string(kind) or is_flag != pa.types.is_boolean(kind):
                raise DataError(f"column '{self.column}' holds {kind}, and is compared with {value!r}")
        if pa.types.is_floating(kind):
            return replace(self, values=tuple(self._finite(value) for value in self.values))
        return self._check_whole_numbers(kind) if pa.types.is_integer(kind) else self

    def _check_whole_numbers(self, kind: pa.DataType) -> Condition:
        import pyarrow as pa

        signed = bool(pa.types.is_signed_integer(kind))
        end = 2 ** min(kind.bit_width - signed, 63)
        least = max(-end, 1 - 2**63) if signed else 0  # LanceDB reads -2⁶³ as a float
        floors = [
            value if isinstance(value, int) else math.floor(self._finite(value)) for value in self.values
        ]
        for floor in floors:
            if not least <= floor < end:
                raise DataError(
                    f"column '{self.column}' is compared with a number that is too large or too small for "
                    f"{kind}; give one from {least} to {end - 1}"
                )
        whole = [floor for floor, value in zip(floors, self.values, strict=True) if floor == value]
        if len(whole) == len(floors):
            return replace(self, values=tuple(whole))
        if self.operator in ("in", "=="):
            return replace(self, operator="in", values=tuple(whole))
        if self.operator == "!=":  # every row with a value
            return replace(self, operator=">=", values=(least,))
        if self.operator in (">", ">="):
            return replace(self, operator=">", values=tuple(floors))
        return replace(self, operator="<=", values=tuple(floors))

    def _finite(self, value: Any) -> float:
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isinf(number):
            raise DataError(
                f"column '{self.column}' is compared with a number that is infinite or too large; give a "
                "finite one, or leave the condition out"
            )
        return number


@dataclass(frozen=True)
class Filter:
    """The rows of an index that are meant; by default all.

    Attributes:
        within: Ranges of nodes, each from its first node to one past its last; the label of a row must lie in
            one of them. None: any label, or none.
        not_within: Ranges of nodes in which the label of a row must not lie; rows without a label stay.
        conditions: Conditions on columns, all of which must hold.
        rows: Numbers of the rows; None: any.
        ids: Ids of the samples; None: any.
    """

    within: tuple[tuple[int, int], ...] | None = None
    not_within: tuple[tuple[int, int], ...] = ()
    conditions: tuple[Condition, ...] = ()
    rows: np.ndarray[Any, Any] | None = field(default=None, compare=False)
    ids: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls,
        taxonomy: Taxonomy,
        *,
        within: Nodes | None = None,
        not_within: Nodes | None = None,
        where: Where | None = None,
    ) -> Filter:
        """The filter that the arguments of `Index.search` describe.

        Raises:
            TaxonomyError: If a node is unknown or its name ambiguous.
            DataError: If `where` holds no conditions that are understood.
        """
        return cls(
            within=None if within is None else node_ranges(taxonomy, within),
            not_within=() if not_within is None else node_ranges(taxonomy, not_within),
            conditions=as_conditions(where),
        )

    @property
    def all_rows(self) -> bool:
        """Whether every row passes."""
        return (
            self.within is None
            and not self.not_within
            and not self.conditions
            and self.rows is None
            and self.ids is None
        )

    def sql(self) -> str | None:
        """The filter as the condition of an SQL query, for LanceDB; None if every row passes."""
        parts = []
        if self.within is not None:
            parts.append(_any(_range_sql(first, end) for first, end in self.within))
        parts += [f"NOT {_range_sql(first, end)}" for first, end in self.not_within]
        parts += [_condition_sql(condition) for condition in self.conditions]
        if self.rows is not None:
            parts.append(_in("row", self.rows.tolist()))
        if self.ids is not None:
            parts.append(_in("id", self.ids))
        return " AND ".join(parts) if parts else None

    def mask_of_nodes(self, nodes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Whether labels `(n,)` pass `within` and `not_within`: `(n,)` bool."""
        passes = np.full(len(nodes), self.within is None)
        for first, end in self.within or ():
            passes |= (nodes >= first) & (nodes < end)
        for first, end in self.not_within:
            passes &= ~((nodes >= first) & (nodes < end))
        return passes


def node_ranges(taxonomy: Taxonomy, nodes: Nodes) -> tuple[tuple[int, int], ...]:
    """The ranges of node numbers that subtrees take up: from each node to one past its last descendant.

    Args:
        taxonomy: a tree, whose nodes are numbered depth first.
        nodes: a node or several, each by number, name or path. Among several, a range of numbers means these
            nodes themselves, whatever is below them.
    """
    several = [nodes] if isinstance(nodes, str | int) else list(nodes)
    ranges = []
    for node in several:
        if isinstance(node, range):
            ranges.append((node.start, node.stop))
            continue
        number = taxonomy.find(node) if isinstance(node, str) else int(node)
        if not 0 <= number < taxonomy.num_nodes:
            raise DataError(
                f"there is no node {number}; the taxonomy has nodes 0 to {taxonomy.num_nodes - 1}"
            )
        ranges.append((number, int(taxonomy.subtree_end[number])))
    return tuple(ranges)


def as_conditions(where: Where | None) -> tuple[Condition, ...]:
    """The conditions of a mapping from columns to a value, several values, or an operator with a value.

    Example:
        >>> as_conditions({"split": "test", "year": (">=", 2020), "camera": ["a", "b"]})[1]
        Condition(column='year', operator='>=', values=(2020,))
    """
    conditions = []
    for column, value in (where or {}).items():
        if isinstance(value, tuple) and len(value) == 2 and value[0] in _OPERATORS:
            conditions.append(Condition(column, str(value[0]), (_scalar(column, value[1]),)))
        elif isinstance(value, list | tuple | set | frozenset | np.ndarray):
            conditions.append(Condition(column, "in", tuple(_scalar(column, one) for one in value)))
        else:
            conditions.append(Condition(column, "==", (_scalar(column, value),)))
    return tuple(conditions)


def parse_where(texts: Sequence[str], schema: pa.Schema) -> dict[str, object]:
    """Conditions written as text, such as `split=test`, `camera=a,b` or `year>=2020`, as a mapping.

    Args:
        texts: The conditions; each is a column, one of `= != < <= > >=`, and a value; several values with
            commas between are alternatives for `=`.
        schema: Of the index, which tells whether values are numbers.

    Raises:
        DataError: If a text is no condition, or a column unknown or named twice.
    """
    import pyarrow as pa

    wanted: dict[str, object] = {}
    for text in texts:
        match = _TEXT.fullmatch(text)
        if match is None:
            raise DataError(f"'{text}' is not a condition; write one such as split=test or year>=2020")
        column, sign, value = match["column"], match["operator"], match["value"]
        if column not in schema.names:
            raise DataError(f"the index has no column '{column}'; it has {', '.join(sorted(schema.names))}")
        if column in wanted:
            raise DataError(f"there are two conditions on '{column}'; write alternatives with commas, a,b")
        kind = schema.field(column).type

        def read(word: str, column: str = column, kind: Any = kind) -> Scalar:
            try:
                if pa.types.is_boolean(kind):
                    return {"true": True, "false": False}[word.lower()]
                if pa.types.is_integer(kind):
                    return int(word)
                return float(word) if pa.types.is_floating(kind) else word
            except (ValueError, KeyError):
                raise DataError(f"'{word}' is not a value of column '{column}', which holds {kind}") from None

        if sign in ("=", "=="):
            words = [value] if pa.types.is_string(kind) and "," not in value else value.split(",")
            wanted[column] = [read(word.strip()) for word in words]
        else:
            wanted[column] = (sign, read(value))
    return wanted


def _scalar(column: str, value: object) -> Scalar:
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, str | int | float | bool) or value != value:
        raise DataError(f"the value of a condition on '{column}' is {value!r}; give a text or a number")
    return value


def _any(parts: Any) -> str:
    several = list(parts)
    return f"({' OR '.join(several)})" if several else "false"


def _range_sql(first: int, end: int) -> str:
    return f"(node >= {first} AND node < {end})"


def _in(column: str, values: Sequence[Scalar]) -> str:
    return f"{column} IN ({', '.join(map(_literal, values))})" if len(values) else "false"


def _condition_sql(condition: Condition) -> str:
    column = f"`{condition.column}`"
    if condition.operator == "in":
        return _in(column, condition.values)
    sign = "=" if condition.operator == "==" else condition.operator
    return f"{column} {sign} {_literal(condition.values[0])}"


def _literal(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)
