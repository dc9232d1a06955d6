"""Named nodes and their edges, not yet numbered: collected from edges, paths or folders."""

import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from labeltree.errors import TaxonomyError
from labeltree.system_files import is_system_file
from labeltree.taxonomy.naming import (
    clean_name,
    compose_twins,
    is_missing,
    nearest_hint,
    some,
    split_path,
    tidy,
    twins_sentence,
)
from labeltree.taxonomy.numbering import IntArray
from labeltree.taxonomy.version_history import Revision

__all__ = [
    "NO_PARENT",
    "ROOT",
    "Entries",
    "Where",
    "below_one_root",
    "entries_from_edges",
    "entries_from_folders",
    "entries_from_paths",
    "entries_of_dag",
    "entries_of_tree",
    "merge_twins",
    "root_entry",
    "with_root",
]

ROOT = "\0root"
"""The id of a root that a file does not have; no id of a file is this."""
NO_PARENT = {"", "0", "-1", "null", "none", "nan"}
"""Cells of a table, in lower case, that mean that there is no parent, unless a row has that id."""
Where = Callable[[int], str]
"""How an error names a row, given its number from 0."""


class Entries(NamedTuple):
    """Nodes in any order: the name of each, and the child and the parent of each edge as indices of names.

    A file may also say which version of the taxonomy it is, which ones came before, and for each node by what
    it is called beside its name, such as an id or a synonym. Notes are sentences on how it was read.
    `considered` has, for each id of a former class, the ids of classes that may be meant instead.
    """

    names: Sequence[str]
    children: Sequence[int] | IntArray
    parents: Sequence[int] | IntArray
    release: str | None = None
    history: tuple[Revision, ...] = ()
    aliases: Sequence[Sequence[str]] = ()
    notes: tuple[str, ...] = ()
    considered: Mapping[str, Sequence[str]] = MappingProxyType({})

    def parent(self) -> list[int]:
        """The index of each node's parent in a tree, -1 for the root."""
        parents = [-1] * len(self.names)
        for child, parent in zip(self.children, self.parents, strict=True):
            parents[child] = parent
        return parents


def entries_of_tree(names: Sequence[str], parent: Sequence[int]) -> Entries:
    """The entries of a tree, given the parent of each node, -1 for the root."""
    _check_lengths(names, parent)
    children = [node for node, above in enumerate(parent) if above != -1]
    return Entries(names, children, [parent[node] for node in children])


def entries_of_dag(names: Sequence[str], parents: Sequence[Sequence[int]]) -> Entries:
    """The entries of a DAG, given the parents of each node, none for the root."""
    _check_lengths(names, parents)
    children = [node for node, above in enumerate(parents) for _ in above]
    return Entries(names, children, [parent for above in parents for parent in above])


def _check_lengths(names: Sequence[str], parents: Sequence[object]) -> None:
    if len(names) != len(parents):
        raise TaxonomyError(
            f"there are {len(names)} names for {len(parents)} parents; every node needs one entry of each"
        )


def root_entry(root_name: str | None) -> str:
    """The name of the root above the given nodes; a placeholder for None until `with_root`."""
    return clean_name("root" if root_name is None else root_name, "the root")


def with_root(names: list[str], parents: list[int], root_name: str | None) -> Entries:
    """The entries of a tree whose root comes first; `root_name=None` makes the root's only child the root.

    Raises:
        TaxonomyError: If `root_name` is None and the root has several children.
    """
    if root_name is not None:
        return entries_of_tree(names, parents)
    outermost = [name for name, parent in zip(names, parents, strict=True) if parent == 0]
    if len(outermost) > 1:
        raise TaxonomyError(
            "root_name=None makes the one outermost name the root, but there are "
            f"{len(outermost)}: {some(outermost)}"
        )
    return entries_of_tree(names[1:], [parent - 1 for parent in parents[1:]])


def _nth_pair(row: int) -> str:
    return f"pair {row + 1}"


def _nth_path(row: int) -> str:
    return f"path {row + 1}"


def entries_from_edges(
    pairs: Iterable[Sequence[Hashable]],
    root: Hashable = None,
    names: Mapping[Hashable, object] | None = None,
    where: Where = _nth_pair,
    *,
    several_parents: bool,
    aliases: Mapping[Hashable, Sequence[str]] | None = None,
) -> Entries:
    """Collect pairs `(child, parent)` as `Graph.from_edges` does.

    `where` names a row in errors, `aliases` are further names of some ids.
    """
    row_of: dict[tuple[Hashable, Hashable], int] = {}
    parents_of: dict[Hashable, list[Hashable]] = {}
    for row, pair in enumerate(pairs):
        child, parent = edge = _edge(pair, where, row)
        if (first := row_of.setdefault(edge, row)) != row:
            what = (
                f"the root {str(child)!r}"
                if parent is None
                else f"the edge from {str(child)!r} to its parent {str(parent)!r}"
            )
            raise TaxonomyError(f"{what} is given twice, by {where(first)} and {where(row)}; remove one")
        parents_of.setdefault(child, []).append(parent)
    if not parents_of:
        raise TaxonomyError("there are no edges; give at least one pair (child, parent)")
    for child, above in parents_of.items():
        if len(above) > 1:
            _check_several(child, above, [where(row_of[child, parent]) for parent in above], several_parents)
    # A parent without a row of its own is the root; if the root is known already, it is a mistake.
    first_use: dict[Hashable, int] = {}
    marked = False
    for (_, parent), row in row_of.items():
        if parent is None:
            marked = True
        elif parent not in parents_of:
            first_use.setdefault(parent, row)
    if root is not None:
        _check_root(root, parents_of, first_use)
    for orphan, row in first_use.items() if root is not None or marked else ():
        if orphan != root:
            hint = nearest_hint(str(orphan), map(str, parents_of))
            raise TaxonomyError(
                f"{where(row)} has the unknown parent {str(orphan)!r}: nothing says what is above it ({hint})"
            )
    ids = [*first_use, *parents_of]
    index = {node: i for i, node in enumerate(ids)}
    cleaned, children, parents = [], [], []
    for node in ids:
        if names is not None and node not in names:
            raise TaxonomyError(f"the node {node!r} has no name: names has no entry for it")
        name = node if names is None else names[node]
        above = parents_of.get(node, [])
        cleaned.append(
            tidy(name) or clean_name(name, where(row_of[node, above[0]] if above else first_use[node]))
        )
        for parent in above:
            if parent is not None:
                children.append(index[node])
                parents.append(index[parent])
    further = [] if aliases is None else [aliases.get(node, ()) for node in ids]
    return Entries(cleaned, children, parents, aliases=further)


def below_one_root(
    pairs: Sequence[tuple[Hashable, Hashable]], root_name: str | None
) -> list[tuple[Hashable, Hashable]]:
    """The edges with `ROOT` above the nodes without a parent, if there are several and it has a name.

    Such nodes are the children of pairs `(child, None)`, and then the parents that are no child.
    """
    children = {child for child, _ in pairs}
    orphans = list(dict.fromkeys(above for _, above in pairs if above is not None and above not in children))
    tops = {child for child, above in pairs if above is None}
    if root_name is None or len(tops) + len(orphans) < 2:
        return list(pairs)
    below = [(child, ROOT if above is None else above) for child, above in pairs]
    return below + [(orphan, ROOT) for orphan in orphans]


def _edge(pair: Sequence[Hashable], where: Where, row: int) -> tuple[Hashable, Hashable]:
    """A row of edges as (child, parent), None for no parent; both checked."""
    if isinstance(pair, str) or len(pair) != 2:
        raise TaxonomyError(f"{where(row)} is {pair!r}, expected (child, parent)")
    child, parent = (
        None if is_missing(end) else end.strip() if isinstance(end, str) else end for end in pair
    )
    if child is None or child == "" or parent == "":
        raise TaxonomyError(f"{where(row)}, {tuple(pair)!r}, has an empty name; every node needs one")
    return child, parent


def _check_several(child: Hashable, above: list[Hashable], places: list[str], several_parents: bool) -> None:
    """Check that a node with several parents is not the root, and that several parents are allowed."""
    name = repr(str(child))
    if None in above:
        root = above.index(None)
        other = 1 if root == 0 else 0
        raise TaxonomyError(
            f"node {name} is the root by {places[root]}, below {str(above[other])!r} by {places[other]}"
        )
    if not several_parents:
        raise TaxonomyError(
            f"node {name} has two parents, {str(above[0])!r} ({places[0]}) and {str(above[1])!r} "
            f"({places[1]}); a tree has one path to each node: remove one of the edges, or let "
            "'labeltree taxonomy project' (TaxonomyDAG.project) choose"
        )


def _check_root(
    root: Hashable, parents_of: Mapping[Hashable, list[Hashable]], orphans: Iterable[Hashable]
) -> None:
    """Check that the given root occurs, and has no parent."""
    if root not in parents_of and root not in orphans:
        hint = nearest_hint(str(root), map(str, [*orphans, *parents_of]))
        raise TaxonomyError(f"root={str(root)!r} occurs in no edge ({hint})")
    if root in parents_of and parents_of[root][0] is not None:
        raise TaxonomyError(f"root={str(root)!r} has a parent itself, {str(parents_of[root][0])!r}")


def entries_from_paths(
    paths: Iterable[str | Sequence[object]],
    root_name: str | None = "root",
    where: Where = _nth_path,
    aliases: Sequence[Sequence[str]] | None = None,
) -> Entries:
    """Collect paths of names as `Taxonomy.from_paths` does.

    `where` names a row in errors, `aliases` are further names of the last node of each path.
    """
    names, parents = [root_entry(root_name)], [-1]
    further: list[dict[str, None]] = [{}]
    index: dict[tuple[int, object], int] = {}
    seen: set[object] = set()
    for row, path in enumerate(paths):
        key = path if isinstance(path, str) else tuple(path)
        if key in seen and aliases is None:  # often there is one path per sample
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
                    further.append({})
            node = child
        if aliases is not None:
            further[node].update((text, None) for text in aliases[row] if text and text != names[node])
    if len(names) == 1:
        raise TaxonomyError("there are no paths; give at least one, a sequence of names from coarse to fine")
    entries = with_root(names, parents, root_name)
    if aliases is None:
        return entries
    return entries._replace(aliases=[tuple(texts) for texts in further[len(names) - len(entries.names) :]])


def _parts(path: str | tuple[object, ...], where: Where, row: int) -> tuple[object, ...]:
    """The names of a path, without missing names at its fine end."""
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


def merge_twins(entries: Entries) -> Entries:
    """The entries with one node for siblings whose names differ in the composition of accents alone.

    Where there are such, all names are composed, and a note says so.
    """
    composed = compose_twins(entries.names)
    if not composed:
        return entries
    above: list[list[int]] = [[] for _ in entries.names]
    for child, parent in zip(entries.children, entries.parents, strict=True):
        above[child].append(int(parent))
    names = [composed.get(name, name) for name in entries.names]
    merged = list(range(len(names)))
    first: dict[tuple[tuple[int, ...], str], int] = {}
    try:
        order = list(TopologicalSorter(dict(enumerate(above))).static_order())
    except CycleError:
        return entries  # numbering says where the circle is
    for node in order:
        key = tuple(sorted({merged[parent] for parent in above[node]})), names[node]
        other = first.setdefault(key, node)
        if (above[other], entries.names[other]) != (above[node], entries.names[node]):
            merged[node] = other
    kept = [node for node, other in enumerate(merged) if node == other]
    place = {node: at for at, node in enumerate(kept)}
    ends = zip(entries.children, entries.parents, strict=True)
    edges = dict.fromkeys((place[merged[child]], place[merged[int(parent)]]) for child, parent in ends)
    further: list[dict[str, None]] = [{} for _ in kept]
    for node, texts in enumerate(entries.aliases):
        further[place[merged[node]]] |= dict.fromkeys(texts)
    return entries._replace(
        names=[names[node] for node in kept],
        children=[child for child, _ in edges],
        parents=[parent for _, parent in edges],
        aliases=list(map(tuple, further)) if entries.aliases else (),
        notes=(*entries.notes, twins_sentence(composed)),
    )


def entries_from_folders(path: str | os.PathLike[str], root_name: str = "root") -> Entries:
    """Collect a tree from nested folders, children sorted by name; see `Taxonomy.from_folders`."""
    top = Path(path)
    if not top.exists():
        raise TaxonomyError(f"the folder {str(top)!r} does not exist")
    if not top.is_dir():
        raise TaxonomyError(f"{str(top)!r} is a file, not a folder; Taxonomy.from_file reads taxonomy files")
    names, parents = [clean_name(root_name, "the root")], [-1]
    folders, identities = [str(top)], [_identity(os.stat(top))]
    for node, folder in enumerate(folders):  # the lists grow while they are walked through
        for entry in _subfolders(folder):
            identity = _identity(entry.stat())
            if entry.is_symlink():
                _refuse_loop(entry.path, identity, node, folders, identities, parents)
            names.append(clean_name(entry.name, f"the folder {entry.path!r}"))
            parents.append(node)
            folders.append(entry.path)
            identities.append(identity)
    if len(names) == 1:
        raise TaxonomyError(
            f"the folder {str(top)!r} has no subfolders; their names are the taxonomy's nodes"
        )
    return merge_twins(entries_of_tree(names, parents))


def _subfolders(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            folders = [entry for entry in entries if not is_system_file(entry.name) and entry.is_dir()]
    except OSError as error:  # not permitted, path too long, or a link to itself
        raise TaxonomyError(
            f"the folder {error.filename or folder!r} cannot be read: {error.strerror}"
        ) from None
    return sorted(folders, key=lambda entry: entry.name)


def _identity(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_dev, stat.st_ino


def _refuse_loop(
    link: str,
    identity: tuple[int, int],
    node: int,
    folders: list[str],
    identities: list[tuple[int, int]],
    parents: list[int],
) -> None:
    """Raise an error for a link to a folder above it, which would make the tree infinite."""
    while node >= 0:
        if identities[node] == identity:
            raise TaxonomyError(
                f"the link {link!r} leads back to {folders[node]!r}, which it lies in; remove the link"
            )
        node = parents[node]
