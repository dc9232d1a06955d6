"""Trees from edges and from paths: the entries of a tree in the order given, checked, not yet numbered."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.naming import clean_name, is_missing, some, split_path, tidy
from labeltree.taxonomy.suggest import nearest_hint

__all__ = [
    "Entries",
    "check_root",
    "edge_of",
    "entries_from_edges",
    "entries_from_paths",
    "name_of",
    "outer_name",
    "with_root",
]

Where = Callable[[int], str]


class Entries(NamedTuple):
    """A tree as entries in any order: each node's name, and the index of its parent's (-1 for the root)."""

    names: list[str]
    parents: list[int]


def outer_name(root_name: str | None) -> str:
    """The name of the root above what a file or a caller names; a stand-in for None, until `with_root`."""
    return clean_name("root" if root_name is None else root_name, "the root")


def with_root(entries: Entries, root_name: str | None) -> Entries:
    """Leave out the root, which stands first, where `root_name=None` makes its one child the root.

    Raises:
        TaxonomyError: if it has several children.
    """
    if root_name is not None:
        return entries
    outermost = [name for name, parent in zip(*entries, strict=True) if parent == 0]
    if len(outermost) > 1:
        raise TaxonomyError(
            "root_name=None makes the one outermost name the root, but there are "
            f"{len(outermost)}: {some(outermost)}"
        )
    return Entries(entries.names[1:], [parent - 1 for parent in entries.parents[1:]])


def _nth_pair(row: int) -> str:
    return f"pair {row + 1}"


def _nth_path(row: int) -> str:
    return f"path {row + 1}"


def entries_from_edges(
    pairs: Iterable[Sequence[Hashable]],
    root: Hashable = None,
    names: Mapping[Hashable, object] | None = None,
    where: Where = _nth_pair,
) -> Entries:
    """Collect pairs `(child, parent)` as `Taxonomy.from_edges` does; `where` names a row in errors."""
    parent_of: dict[Hashable, Hashable] = {}
    row_of: dict[Hashable, int] = {}
    for row, pair in enumerate(pairs):
        child, parent = edge_of(pair, where, row)
        if child in row_of:
            _refuse_second_edge(child, parent_of[child], parent, where(row_of[child]), where(row))
        parent_of[child], row_of[child] = parent, row
    if not parent_of:
        raise TaxonomyError("there are no edges; give at least one pair (child, parent)")
    # A parent without a row of its own is a root, unless the root is known already; then it is a mistake.
    first_use = {parent: child for child, parent in reversed(parent_of.items()) if parent not in parent_of}
    orphans = [parent for parent in reversed(first_use) if parent is not None]
    if root is not None:
        check_root(root, parent_of, orphans)
    if root is not None or None in first_use:
        for orphan in orphans:
            if orphan != root:
                place = where(row_of[first_use[orphan]])
                hint = nearest_hint(str(orphan), map(str, parent_of))
                raise TaxonomyError(
                    f"{place} has the unknown parent {str(orphan)!r}: nothing says what is above it ({hint})"
                )
    ids = [*orphans, *parent_of]
    index = {node: i for i, node in enumerate(ids)}
    cleaned = []
    for node in ids:
        name = name_of(node, names)
        row = row_of[node if node in row_of else first_use[node]]
        cleaned.append(tidy(name) or clean_name(name, where(row)))
    return Entries(cleaned, [-1 if (p := parent_of.get(node)) is None else index[p] for node in ids])


def edge_of(pair: Sequence[Hashable], where: Where, row: int) -> tuple[Hashable, Hashable]:
    """A row of edges as (child, parent), None for no parent; both checked."""
    if isinstance(pair, str) or len(pair) != 2:
        raise TaxonomyError(f"{where(row)} is {pair!r}, expected (child, parent)")
    child, parent = (
        None if is_missing(end) else end.strip() if isinstance(end, str) else end for end in pair
    )
    if child is None or child == "" or parent == "":
        raise TaxonomyError(f"{where(row)}, {tuple(pair)!r}, has an empty name; every node needs one")
    return child, parent


def _refuse_second_edge(child: Hashable, first: Hashable, second: Hashable, where: str, again: str) -> None:
    name = repr(str(child))
    if first == second:
        edge = (
            f"the edge from {name} to its parent {str(first)!r}" if first is not None else f"the root {name}"
        )
        raise TaxonomyError(f"{edge} is given twice, by {where} and {again}; remove one")
    if first is None or second is None:
        parent = str(second if first is None else first)
        raise TaxonomyError(
            f"node {name} is the root by one of {where} and {again}, below {parent!r} by the other"
        )
    raise TaxonomyError(
        f"node {name} has two parents, {str(first)!r} ({where}) and {str(second)!r} ({again}); "
        "a tree has one path to each node: remove one of the edges, or let 'labeltree taxonomy project' "
        "(TaxonomyDAG.project) choose"
    )


def check_root(root: Hashable, parent_of: Mapping[Hashable, Hashable], orphans: Sequence[Hashable]) -> None:
    """The root that a caller names occurs, and has no parent; `parent_of` holds all nodes with a row."""
    if root not in parent_of and root not in orphans:
        hint = nearest_hint(str(root), map(str, [*orphans, *parent_of]))
        raise TaxonomyError(f"root={str(root)!r} occurs in no edge ({hint})")
    if parent_of.get(root) is not None:
        raise TaxonomyError(f"root={str(root)!r} has a parent itself, {str(parent_of[root])!r}")


def name_of(node: Hashable, names: Mapping[Hashable, object] | None) -> object:
    """The name of a node's id; the id itself without `names`."""
    if names is None:
        return node
    if node not in names:
        raise TaxonomyError(f"the node {node!r} has no name: names has no entry for it")
    return names[node]


def entries_from_paths(
    paths: Iterable[str | Sequence[object]], root_name: str | None = "root", where: Where = _nth_path
) -> Entries:
    """Collect paths of names as `Taxonomy.from_paths` does; `where` names a row in errors."""
    names, parents = [outer_name(root_name)], [-1]
    index: dict[tuple[int, object], int] = {}
    seen: set[object] = set()
    for row, path in enumerate(paths):
        key = path if isinstance(path, str) else tuple(path)
        if key in seen:  # paths often come one a sample
            continue
        seen.add(key)
        node = 0
        for part in _parts(key, where, row):
            child = index.get((node, part))
            if child is None:
                name = tidy(part) or clean_name(part, f"{where(row)}, {path!r},")
                child = index.setdefault((node, name), len(names))
                if child == len(names):
                    names.append(name)
                    parents.append(node)
            node = child
    if len(names) == 1:
        raise TaxonomyError("there are no paths; give at least one, a sequence of names from coarse to fine")
    return with_root(Entries(names, parents), root_name)


def _parts(path: str | tuple[object, ...], where: Where, row: int) -> tuple[object, ...]:
    """The names of a path as given, without the missing ones at its fine end."""
    parts = split_path(path) if isinstance(path, str) else path
    missing = [depth for depth, part in enumerate(parts, start=1) if is_missing(part)]
    length = len(parts) - len(missing)
    if missing and missing[0] <= length:
        raise TaxonomyError(
            f"{where(row)}, {path!r}, has a gap at depth {missing[0]}; only the finest names may be missing"
        )
    if not length:
        raise TaxonomyError(f"{where(row)} is empty; a path holds the names from depth 1 down to a node")
    return parts[:length]
