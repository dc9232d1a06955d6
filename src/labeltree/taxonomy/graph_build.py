"""DAGs from edges: the entries of a DAG in the order given, checked, not yet numbered."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.build import Entries, check_root, edge_of, name_of
from labeltree.taxonomy.naming import clean_name, tidy
from labeltree.taxonomy.suggest import nearest_hint

__all__ = ["GraphEntries", "as_graph", "graph_from_edges"]

Where = Callable[[int], str]


class GraphEntries(NamedTuple):
    """A DAG as entries in any order: each node's name, and the indices of its parents (none for the root)."""

    names: list[str]
    parents: list[list[int]]


def as_graph(entries: Entries) -> GraphEntries:
    """A tree as a DAG."""
    return GraphEntries(entries.names, [[parent] if parent >= 0 else [] for parent in entries.parents])


def _nth_pair(row: int) -> str:
    return f"pair {row + 1}"


def graph_from_edges(
    pairs: Iterable[Sequence[Hashable]],
    root: Hashable = None,
    names: Mapping[Hashable, object] | None = None,
    where: Where = _nth_pair,
) -> GraphEntries:
    """Collect pairs `(child, parent)` as `TaxonomyDAG.from_edges` does; `where` names a row in errors."""
    rows_of: dict[Hashable, dict[Hashable, int]] = {}  # of each child, its parents with their rows
    for row, pair in enumerate(pairs):
        child, parent = edge_of(pair, where, row)
        rows = rows_of.setdefault(child, {})
        if parent in rows:
            what = (
                f"the root {str(child)!r}"
                if parent is None
                else f"the edge from {str(child)!r} to its parent {str(parent)!r}"
            )
            raise TaxonomyError(
                f"{what} is given twice, by {where(rows[parent])} and {where(row)}; remove one"
            )
        rows[parent] = row
        if None in rows and len(rows) > 1:
            (other, beside), *_ = ((p, r) for p, r in rows.items() if p is not None)
            raise TaxonomyError(
                f"node {str(child)!r} is the root by {where(rows[None])}, below {str(other)!r} by "
                f"{where(beside)}"
            )
    if not rows_of:
        raise TaxonomyError("there are no edges; give at least one pair (child, parent)")
    first_use: dict[Hashable, int] = {}
    for rows in rows_of.values():
        for parent, row in rows.items():
            first_use.setdefault(parent, row)
    orphans = [parent for parent in first_use if parent is not None and parent not in rows_of]
    if root is not None:
        above = {child: next(iter(rows)) for child, rows in rows_of.items()}
        check_root(root, above, orphans)
    if root is not None or None in first_use:
        for orphan in orphans:
            if orphan != root:
                hint = nearest_hint(str(orphan), map(str, rows_of))
                raise TaxonomyError(
                    f"{where(first_use[orphan])} has the unknown parent {str(orphan)!r}: nothing says what "
                    f"is above it ({hint})"
                )
    ids = [*orphans, *rows_of]
    index = {node: i for i, node in enumerate(ids)}
    cleaned = []
    for node in ids:
        name = name_of(node, names)
        row = next(iter(rows_of[node].values())) if node in rows_of else first_use[node]
        cleaned.append(tidy(name) or clean_name(name, where(row)))
    parents = [[index[p] for p in rows_of.get(node, {}) if p is not None] for node in ids]
    return GraphEntries(cleaned, parents)
