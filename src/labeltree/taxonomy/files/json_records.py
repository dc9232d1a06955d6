"""Taxonomies in JSON or YAML whose objects refer to each other: by ids, links or names on both sides."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple, TypeGuard

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.files.entries import ROOT, Entries, below_one_root, entries_from_edges
from labeltree.taxonomy.files.nested import Pairs
from labeltree.taxonomy.files.opened_file import OpenedFile
from labeltree.taxonomy.naming import name_siblings_apart, some

__all__ = [
    "IDS",
    "NAMES",
    "Record",
    "are_objects",
    "entries_from_adjacency",
    "entries_from_records",
    "is_list",
    "is_one_tree",
    "is_scalar",
    "make_record",
    "text_of",
    "texts_of",
]

IDS = ("id", "@id", "identifier", "key", "code", "uid", "uuid", "wnid", "labelname", "category_id", "taxonid")
NAMES = (
    "name",
    "label",
    "title",
    "text",
    "displayname",
    "display_name",
    "preflabel",
    "fullname",
    "full_name",
    *("term", "subject", "topic", "heading", "caption"),
)
_CHILD_IDS = ("child_ids", "childids", "children_ids", "children", "narrower", "subclasses")
_PARENTS = (
    *("parent_id", "parentid", "parent_ids", "parentids", "parent", "parents", "parent_category_id"),
    *("parent_code", "broader", "is_a", "hypernym", "hypernyms", "parentnameusageid"),
)
_SHARED = 0.7  # as many values for each key, or fewer, are what keys have in common
_FEW_ROOTS = 0.05  # for each edge
_SYNONYMS = ("synonyms", "synonym", "aliases", "common_name")
_NO_PARENT = ("0", "-1", "null", "none", "#")


class Record(NamedTuple):
    """An object of a file: its id, its name (None for none), and its fields by names in lower case."""

    id: str | None
    name: str | None
    fields: dict[str, Any]


# Lists of records {id, name, parent_id} or {id, name, child_ids}


def entries_from_records(file: OpenedFile) -> Entries | None:
    """Read objects that refer to parents or children by ids, or nodes and links; ids are aliases.

    None if no object refers to another one.
    """
    if (graph := _node_links(file.data)) is not None:
        return _entries_from_node_links(graph, file)
    records = _records(file.data) or []
    if parent := _parent_field(records):
        known = {_id_of(record) for record in records}
        pairs: list[tuple[Hashable, Hashable]] = []
        for record in records:
            ids = [
                one for one in texts_of(record.fields.get(parent)) if one in known or one not in _NO_PARENT
            ]
            above: list[str | None] = [*ids] or [None]
            pairs += [(_id_of(record), one) for one in above]
        used = f"each has its parent in {parent!r}"
    elif field := _child_field(records):
        pairs = [
            (text_of(child), _id_of(record)) for record in records for child in record.fields.get(field) or []
        ]
        below = {child for child, _ in pairs}
        pairs += [(_id_of(record), None) for record in records if _id_of(record) not in below]
        used = f"each has its children in {field!r}"
    else:
        return None
    entries = _entries_from_ids(pairs, records, file)
    return entries._replace(
        notes=(*entries.notes, f"{len(records)} objects with ids; {used}, ids are further names")
    )


def _records(data: Any) -> list[Record] | None:
    """The objects of a list, or of the only list of objects of an object; None if there are not two."""
    if isinstance(data, Pairs):
        lists = [value for _, value in data if is_list(value) and value and are_objects(value)]
        data = lists[0] if len(lists) == 1 else None
    if not is_list(data) or len(data) < 2 or not are_objects(data):
        return None
    return [make_record(item) for item in data]


def make_record(item: Pairs) -> Record:
    fields = {str(key).casefold().replace("-", "_"): value for key, value in item}
    id = next((text_of(fields[name]) for name in IDS if is_scalar(fields.get(name))), None)
    name = next((text_of(fields[name]) for name in NAMES if is_scalar(fields.get(name))), None)
    return Record(id, name, fields)


def _parent_field(records: Sequence[Record]) -> str | None:
    """The field that holds ids or names of parents."""
    known = {record.id for record in records} | {record.name for record in records}
    for field in _PARENTS:
        values = [one for record in records for one in texts_of(record.fields.get(field))]
        named = [one for one in values if one in known or one not in _NO_PARENT]
        if named and sum(name in known for name in named) >= 0.5 * len(named):
            return field
    return None


def _child_field(records: Sequence[Record]) -> str | None:
    """The field that lists ids or names of children."""
    known = {record.id for record in records} | {record.name for record in records}
    for field in _CHILD_IDS:
        lists = [record.fields[field] for record in records if is_list(record.fields.get(field))]
        named = [one for values in lists for one in values]
        if named and all(is_scalar(one) for one in named) and all(text_of(one) in known for one in named):
            return field
    return None


def _id_of(record: Record) -> str:
    id = record.id or record.name
    if id is None:
        raise TaxonomyError(
            f"an object has neither an id nor a name: {dict(list(record.fields.items())[:3])}"
        )
    return id


def texts_of(value: Any) -> list[str]:
    """A value or a list of values as texts; what is no text and no number is left out."""
    return [text_of(one) for one in (value if is_list(value) else [value]) if is_scalar(one)]


def _entries_from_ids(
    pairs: Iterable[tuple[Hashable, Hashable]], records: Sequence[Record], file: OpenedFile
) -> Entries:
    """The entries of edges between ids or names, with one root above several."""
    by_id: dict[str, Record] = {}
    for record in records:
        id = _id_of(record)
        if id in by_id:
            raise TaxonomyError(f"two objects have the id {id!r}; ids are unique")
        by_id[id] = record
    ids_of_names: dict[str, list[str]] = {}
    for id, record in by_id.items():
        if record.name is not None:
            ids_of_names.setdefault(record.name, []).append(id)

    def resolve(end: Hashable) -> Hashable:
        if end is None or end in by_id:
            return end
        ids = ids_of_names.get(str(end), [])
        return ids[0] if len(ids) == 1 else end

    edges = [(resolve(child), resolve(parent)) for child, parent in pairs]
    children = {child for child, _ in edges}
    orphans = dict.fromkeys(above for _, above in edges if above is not None and above not in children)
    edges = below_one_root(edges, file.root_name)
    names: dict[Hashable, object] = {id: record.name or id for id, record in by_id.items()}
    names |= {ROOT: file.root_name, **{orphan: orphan for orphan in orphans}}
    notes: tuple[str, ...] = ()
    if orphans and edges[-1][1] == ROOT:
        listed = some(map(str, orphans))
        notes = (f"no object is the parent {listed}, which was put below the root",)
    aliases: dict[Hashable, list[str]] = {
        id: [text for text in dict.fromkeys([id, *_synonyms(record)]) if text != names[id]]
        for id, record in by_id.items()
    }
    entries = entries_from_edges(
        list(dict.fromkeys(edges)),
        names=names,
        where=lambda row: f"edge {row + 1}",
        several_parents=file.several_parents,
        aliases=aliases,
    )
    named, repeated = name_siblings_apart(
        entries.names, entries.children, entries.parents, [next(iter(ids), "") for ids in entries.aliases]
    )
    return entries._replace(names=named, notes=(*notes, *[repeated] * bool(repeated)))


def _synonyms(record: Record) -> list[str]:
    return [one for field in _SYNONYMS for one in texts_of(record.fields.get(field))]


# Nodes and links, as networkx and d3 write them


def _node_links(data: Any) -> tuple[Sequence[Any], Sequence[Any]] | None:
    fields = dict(data) if isinstance(data, Pairs) else {}
    nodes, links = fields.get("nodes"), fields.get("links", fields.get("edges"))
    if not is_list(nodes) or not is_list(links) or not nodes or not links or not are_objects(links):
        return None
    ends = {str(key).casefold() for key, _ in links[0]}
    return (nodes, links) if {"source", "target"} <= ends else None


def _entries_from_node_links(graph: tuple[Sequence[Any], Sequence[Any]], file: OpenedFile) -> Entries:
    nodes, links = graph
    records = [
        make_record(node) if isinstance(node, Pairs) else Record(text_of(node), text_of(node), {})
        for node in nodes
    ]
    records = [
        record if record.id is not None else record._replace(id=record.name or str(place))
        for place, record in enumerate(records)
    ]
    ends = [{str(key).casefold(): value for key, value in link} for link in links]
    directed = [(text_of(one["source"]), text_of(one["target"])) for one in ends]
    targets, sources = [b for _, b in directed], [a for a, _ in directed]
    # in a tree each child has one edge, so the side on which ends repeat holds the parents
    down = len(set(targets)) >= len(set(sources))
    pairs: list[tuple[Hashable, Hashable]] = [(b, a) if down else (a, b) for a, b in directed]
    below = {child for child, _ in pairs}
    pairs += [(_id_of(record), None) for record in records if _id_of(record) not in below]
    entries = _entries_from_ids(pairs, records, file)
    ends_said = "source to target" if down else "target to source"
    return entries._replace(notes=(*entries.notes, f"links lead from parent to child, {ends_said}"))


# Adjacency: {parent: [children]} or {child: parent}, in which names occur on both sides


def entries_from_adjacency(file: OpenedFile) -> Entries | None:
    """Read `{parent: [children]}` or `{child: parent}`; None if no key occurs below others, too."""
    pairs = _adjacent_pairs(file.data)
    if not pairs:
        return None
    edges = below_one_root(pairs, file.root_name)
    names: dict[Hashable, object] = {end: end for pair in pairs for end in pair}
    names[ROOT] = file.root_name
    entries = entries_from_edges(
        edges, names=names, where=lambda row: f"edge {row + 1}", several_parents=file.several_parents
    )
    lists = any(is_list(value) for _, value in file.data)
    said = "each key is the parent of the names in its list" if lists else "each key has its parent as value"
    return entries._replace(notes=(f"{said}; --form nested reads keys as parents of their values",))


def _adjacent_pairs(data: Any) -> list[tuple[str, str]]:
    """The edges `(child, parent)`; none if keys and values have no name in common, or are no tree or DAG."""
    if not isinstance(data, Pairs) or len(data) < 2:
        return []
    keys = {text_of(key) for key, _ in data}
    if all(is_list(value) and all(map(is_scalar, value)) for _, value in data):
        pairs = [(text_of(child), text_of(key)) for key, value in data for child in value]
        named = keys & {child for child, _ in pairs}
    elif all(isinstance(value, str) or value is None for _, value in data):
        pairs = [(text_of(key), text_of(value)) for key, value in data if value]
        parents = [parent for _, parent in pairs]
        named = keys & set(parents) if len(set(parents)) < len(parents) else set()
        if not keys & set(parents) and len(keys) == len(data) and len(set(parents)) <= _SHARED * len(parents):
            return pairs  # {"shark": "fish", "trout": "fish"}
    else:
        return []
    distinct = len(keys) == len(data) and len(set(pairs)) == len(pairs)
    return pairs if named and distinct and is_one_tree(pairs) else []


def is_one_tree(edges: Sequence[tuple[str, str]]) -> bool:
    """Whether edges `(child, parent)` have no circle, and few parents have no parent themselves."""
    children = {child for child, _ in edges}
    roots = {parent for _, parent in edges} - children
    return 0 < len(roots) <= 1 + _FEW_ROOTS * len(edges) and _is_acyclic(edges)


def _is_acyclic(edges: Sequence[tuple[str, str]]) -> bool:
    parents: dict[str, list[str]] = {}
    waiting: dict[str, int] = {}
    for child, parent in edges:
        parents.setdefault(child, []).append(parent)
        waiting[parent] = waiting.get(parent, 0) + 1
        waiting.setdefault(child, 0)
    free = [node for node, count in waiting.items() if count == 0]
    for node in free:  # grows while it is walked through
        for parent in parents.get(node, []):
            waiting[parent] -= 1
            if waiting[parent] == 0:
                free.append(parent)
    return len(free) == len(waiting)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list) and not isinstance(value, Pairs)


def are_objects(values: Sequence[Any]) -> bool:
    return all(isinstance(value, Pairs) for value in values)


def is_scalar(value: Any) -> bool:
    return (isinstance(value, str) and bool(value.strip())) or (
        isinstance(value, int) and not isinstance(value, bool)
    )


def text_of(value: Any) -> str:
    return str(value).strip()
