"""Trees from nested mappings and lists, as in YAML and JSON; without recursion, so any depth works.

Every source is converted to a flat stream of marks, which one assembler turns into a tree:

- a key is a node, and the entries under it are its children;
- an item of a list is a leaf, or, if it is a mapping, one node per key;
- nothing (None) under a key makes it a leaf, a single name under it is its one child.

YAML is read from the parser's events instead of its objects: names stay as they are written (`no`, `1.0` and
`2024-01-01` are names), a repeated key is seen, and marks have line numbers.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from labeltree.errors import TaxonomyError
from labeltree.taxonomy.files.entries import Entries, root_entry, with_root
from labeltree.taxonomy.naming import clean_name, is_missing, some, tidy
from labeltree.taxonomy.numbering import depth_of

__all__ = ["Pairs", "data_from_yaml", "entries_from_nested", "entries_from_yaml", "yaml_from_tree"]

NOTHING = ("", "~", "null", "Null", "NULL")
LONGEST_KEY = 1000  # YAML allows a key 1024 characters


class Mark(NamedTuple):
    """One step through nested data: a mapping or list opens or ends, or there is a name (None: nothing)."""

    kind: Literal["{", "[", "end", "name"]
    name: object = None
    where: str = ""


class Pairs(list[tuple[str, Any]]):
    """A mapping as a list of pairs, so that a repeated key is detected and not overwritten."""


def entries_from_nested(data: object, root_name: str | None = "root") -> Entries:
    """Collect a tree from nested mappings, lists and names; see `Taxonomy.from_nested`.

    Raises:
        TaxonomyError: If the data are not a tree of names.
    """
    try:
        return _assemble(_marks(data), root_name)
    except TaxonomyError as error:
        raise TaxonomyError(_objects_sentence(data) or str(error)) from None


def entries_from_yaml(text: str, root_name: str | None = "root") -> Entries:
    """Collect a tree from one YAML document of nested names.

    Raises:
        TaxonomyError: If the text is not YAML, has aliases or several documents, or is not a tree; the
            message gives the line.
    """
    try:
        return _assemble(_marks_from_yaml(text), root_name)
    except TaxonomyError as error:
        try:
            said = _objects_sentence(data_from_yaml(text))
        except TaxonomyError:
            said = ""
        raise TaxonomyError(said or str(error)) from None


def _objects_sentence(data: object) -> str:
    """A sentence on objects that are listed in the data with the same fields; empty if there are none."""
    walked, seen = [data], {id(data)}
    for item in walked:  # grows while it is walked through
        kind, inner = _content(item)
        parts = [] if inner is None else list(inner)
        walked += [part for part in parts if _content(part)[1] is not None and id(part) not in seen]
        seen.update(map(id, parts))
        fields = [dict(part) for part in parts if kind == "[" and isinstance(part, (Pairs, Mapping))]
        alike = set(fields[0]).intersection(*fields) if len(fields) > 1 else set()
        if not alike or max(map(len, fields)) == 1:  # - a: b is a name, and what is below it
            continue
        known = [str(field) for field in fields[0] if field in alike]
        flat = all(_content(value)[1] is None for one in fields for value in one.values())
        return (
            f"objects with {some(known)} are listed, and nothing says which are below which: "
            + ("write a table (.csv) of the columns that are levels, or " if flat else "")
            + "give each object a name, and its children or the id of its parent"
        )
    return ""


def _marks(data: object) -> Iterator[Mark]:
    """Yield the marks of nested data in order; raises an error for data that contain themselves."""
    stack: list[tuple[int, Iterator[object]]] = [(0, iter([data]))]
    open_ids = {0}
    while stack:
        outer, items = stack[-1]
        try:
            item = next(items)
        except StopIteration:
            stack.pop()
            open_ids.discard(outer)
            if stack:
                yield Mark("end")
            continue
        kind, inner = _content(item)
        if inner is None:
            yield Mark("name", _scalar(item))
            continue
        if id(item) in open_ids:
            raise TaxonomyError("the nested data contain themselves: a mapping or list stands within itself")
        open_ids.add(id(item))
        stack.append((id(item), inner))
        yield Mark(kind)


def _content(item: object) -> tuple[Literal["{", "["], Iterator[object] | None]:
    if isinstance(item, Pairs):
        return "{", (part for pair in item for part in pair)
    if isinstance(item, Mapping):
        return "{", (part for pair in item.items() for part in pair)
    if isinstance(item, (list, tuple)):
        return "[", iter(item)
    return "{", None


def _scalar(item: object) -> object:
    if is_missing(item) or isinstance(item, str):
        return item
    if isinstance(item, int) and not isinstance(item, bool):
        return str(item)
    raise TaxonomyError(f"{item!r} is of type {type(item).__name__}, expected a name; put it in quotes")


@dataclass
class _Frame:
    """An open mapping or list: the parent node of its names, and the key that waits for its value."""

    kind: Literal["{", "["]
    node: int
    key: int | None = None


def _assemble(marks: Iterable[Mark], root_name: str | None) -> Entries:
    """Assemble the tree that a stream of marks describes.

    Raises:
        TaxonomyError: If the nesting has no meaning as a tree; the message says where.
    """
    tree = _Assembler(root_name)
    for mark in marks:
        tree.take(mark)
    if len(tree.names) == 1:
        raise TaxonomyError("there are no names; give at least one")
    entries = with_root(tree.names, tree.parents, root_name)
    return entries._replace(notes=_notes_on_numbers(tree.names, tree.parents))


def _notes_on_numbers(names: Sequence[str], parents: Sequence[int]) -> tuple[str, ...]:
    """A note if most names that have none below them are numbers, each below a name of its own."""
    children = Counter(parents)
    leaves = [node for node in range(1, len(names)) if not children[node]]
    numbers = [node for node in leaves if names[node].isdecimal() and parents[node]]
    alone = [node for node in numbers if children[parents[node]] == 1]
    if len(alone) < max(2, len(leaves) / 2):
        return ()
    first = f"{names[alone[0]]!r} below {names[parents[alone[0]]]!r}"
    return (
        f"{len(alone):,} classes are numbers, such as {first}; if they count or number what is above them, "
        "leave them out",
    )


class _Assembler:
    def __init__(self, root_name: str | None) -> None:
        self.names, self.parents = [root_entry(root_name)], [-1]
        self._siblings: set[tuple[int, str]] = set()
        self._stack: list[_Frame] = []

    def take(self, mark: Mark) -> None:
        frame = self._stack[-1] if self._stack else None
        if mark.kind == "end":
            self._stack.pop()
            if self._stack:
                self._stack[-1].key = None
        elif frame is None:
            if mark.kind == "name":
                raise TaxonomyError(
                    f"{_at(mark)}expected nested names, a mapping or a list, found only {mark.name!r}"
                )
            self._stack.append(_Frame(mark.kind, 0))
        elif frame.kind == "[":
            self._item(frame, mark)
        elif frame.key is None:
            if mark.kind != "name":
                raise TaxonomyError(
                    f"{_at(mark)}a mapping or list cannot be a name ({self._below(frame.node)})"
                )
            frame.key = self._add(mark, frame.node)
        else:
            self._value(frame, frame.key, mark)

    def _item(self, frame: _Frame, mark: Mark) -> None:
        if mark.kind == "name":
            self._add(mark, frame.node)
        elif mark.kind == "{":
            self._stack.append(_Frame("{", frame.node))
        elif mark.kind == "[":
            raise TaxonomyError(
                f"{_at(mark)}a list stands within a list ({self._below(frame.node)}): its node has no name"
            )

    def _value(self, frame: _Frame, key: int, mark: Mark) -> None:
        if mark.kind == "{" or mark.kind == "[":
            self._stack.append(_Frame(mark.kind, key))
            return
        if not is_missing(mark.name) and mark.name != "":
            self._add(mark, key)
        frame.key = None

    def _add(self, mark: Mark, parent: int) -> int:
        name = tidy(mark.name) or clean_name(mark.name, f"{_at(mark)}a node {self._below(parent)}")
        if (parent, name) in self._siblings:
            above = repr(self.names[parent]) if parent else "the root"
            raise TaxonomyError(
                f"{_at(mark)}{above} has two children named {name!r}; "
                "names may repeat, but not under one parent"
            )
        self._siblings.add((parent, name))
        self.names.append(name)
        self.parents.append(parent)
        return len(self.names) - 1

    def _below(self, node: int) -> str:
        return f"below {self.names[node]!r}" if node else "below the root"


def _at(mark: Mark) -> str:
    return f"{mark.where}: " if mark.where else ""


def _marks_from_yaml(text: str) -> Iterator[Mark]:
    """Yield the marks of one YAML document."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    documents = 0
    try:
        for event in yaml.parse(text, Loader=loader):
            where = f"line {event.start_mark.line + 1}"  # type: ignore[union-attr]
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise TaxonomyError(f"{where}: a second document begins; a taxonomy is one")
            elif isinstance(event, yaml.AliasEvent):
                raise TaxonomyError(f"{where}: the alias *{event.anchor} stands for a subtree; write it out")
            elif isinstance(event, yaml.ScalarEvent):
                nothing = event.implicit[0] and event.value in NOTHING
                yield Mark("name", None if nothing else event.value, where)
            elif isinstance(event, yaml.MappingStartEvent):
                yield Mark("{", where=where)
            elif isinstance(event, yaml.SequenceStartEvent):
                yield Mark("[", where=where)
            elif isinstance(event, yaml.CollectionEndEvent):
                yield Mark("end", where=where)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or error
        raise TaxonomyError(f"{where}not readable as YAML: {reason}") from None


def data_from_yaml(text: str) -> Any:
    """One YAML document as `Pairs`, lists and texts (None for nothing), without a limit to its nesting.

    Raises:
        TaxonomyError: As for `entries_from_yaml`.
    """
    top: list[Any] = []
    open_lists: list[list[Any]] = [top]
    for mark in _marks_from_yaml(text):
        if mark.kind == "end":
            open_lists.pop()
            continue
        value: Any = mark.name
        if mark.kind != "name":
            value = _Unpaired() if mark.kind == "{" else []
        open_lists[-1].append(value)
        if mark.kind != "name":
            open_lists.append(value)
    return _paired(top)[0] if top else None


class _Unpaired(list[Any]):
    """The keys and values of a mapping in turn."""


def _paired(top: list[Any]) -> list[Any]:
    """The data with mappings as `Pairs`, the innermost made first."""
    order: list[list[Any]] = [top]
    for values in order:  # grows while it is walked through
        order += [value for value in values if isinstance(value, list)]
    made: dict[int, Any] = {}
    for values in reversed(order):
        new = [made.get(id(value), value) if isinstance(value, list) else value for value in values]
        if isinstance(values, _Unpaired) and any(isinstance(key, list) for key in new[::2]):
            raise TaxonomyError("a mapping or list cannot be a name")
        made[id(values)] = (
            Pairs(zip(new[::2], new[1::2], strict=True)) if isinstance(values, _Unpaired) else new
        )
    return list(made[id(top)])


def yaml_from_tree(names: Sequence[str], parents: Sequence[int]) -> str:
    """Write the tree below the root, given in preorder, as nested mappings.

    Raises:
        TaxonomyError: If a name is too long for a key.
    """
    lines = []
    for name, depth in zip(names[1:], depth_of(parents)[1:], strict=True):
        key = _quote(name)
        if len(key) > LONGEST_KEY:
            raise TaxonomyError(f"the name {name[:40]!r}... is too long for YAML; save the taxonomy as .json")
        lines.append(f"{'  ' * (depth - 1)}{key}:\n")
    return "".join(lines)


def _quote(name: str) -> str:
    # Unquoted if it is a word that every YAML version reads as text
    if re.fullmatch(r"[^\W\d_][\w -]*", name) and name.isascii() and name.casefold() not in _RESERVED:
        return name
    return '"' + "".join(map(_escape, name)) + '"'


_RESERVED = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}


def _escape(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    code = ord(character)
    if character.isprintable() and code < 0xFFFE:
        return character
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
