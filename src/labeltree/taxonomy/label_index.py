"""Conversion between labels as text (a name, or a path) and nodes."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from labeltree.errors import TaxonomyError, UnknownLabelError
from labeltree.lazy import torch
from labeltree.taxonomy.files.breadcrumbs import spaced_path
from labeltree.taxonomy.naming import (
    is_missing,
    join_path,
    near_names,
    nearest_hint,
    some,
    spelt_alike,
    split_path,
)
from labeltree.taxonomy.numbering import IntArray

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Label", "LabelIndex"]

Label = str | Sequence[str]
"""A name that only one node has, or a path: `a/b/c`, or a tuple of names."""

ROOT_PATH = "/"


class LabelIndex:
    """Looks labels up in a taxonomy whose nodes come after their parents.

    A string may be a node's name, if it is unique, or the path from depth 1 to the node, `a/b/c`. A path with
    a leading `/` is never read as a name; `/` alone is the root. A name that is not there as it is written is
    sought composed and decomposed, as Unicode has accented letters.

    What is looked up by name, path or alias is made when it is first needed.

    Args:
        names: The name of each node.
        main_parent: (N,) for each node the parent that `path` uses, -1 for the root.
        parents: (E,) the parent of each edge; in a DAG every path of a node is accepted.
        children: (E,) the child of each edge.
        aliases: Gives what else each node is called; looked up where no name and no path is the label.
        considered: For labels of former classes, what may be meant instead; errors say it.
    """

    def __init__(
        self,
        names: Sequence[str],
        main_parent: IntArray,
        parents: IntArray,
        children: IntArray,
        aliases: Callable[[], Sequence[Sequence[str]]] = tuple,
        considered: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        self._names, self._main_parent = names, main_parent
        self._parents, self._children, self._aliases = parents, children, aliases
        self._considered = considered

    @cached_property
    def _parent(self) -> list[int]:
        parents: list[int] = self._main_parent.tolist()
        return parents

    @cached_property
    def _child(self) -> dict[tuple[int, str], int]:
        """The child of each parent and name."""
        children, names = self._children.tolist(), self._names
        return {(above, names[v]): v for above, v in zip(self._parents.tolist(), children, strict=True)}

    @cached_property
    def _first(self) -> dict[str, int]:
        """The first node of each name; the root has its name if no other node has it."""
        first: dict[str, int] = {}
        for v, name in enumerate(self._names):
            if v:
                first.setdefault(name, v)
        first.setdefault(self._names[0], 0)
        return first

    @cached_property
    def _further(self) -> dict[str, list[int]]:
        """The nodes of each name that several have, without the first."""
        further: dict[str, list[int]] = {}
        for v, name in enumerate(self._names):
            if v and self._first[name] != v:
                further.setdefault(name, []).append(v)
        return further

    @cached_property
    def _aliased(self) -> dict[str, list[int]]:
        aliased: dict[str, list[int]] = {}
        for v, texts in enumerate(self._aliases()):
            for text in texts:
                aliased.setdefault(text, []).append(v)
        return aliased

    def _named(self, name: str) -> list[int]:
        """The nodes of a name, ascending."""
        first = self._first.get(name)
        return [] if first is None else [first, *self._further.get(name, ())]

    def path(self, node: int) -> tuple[str, ...]:
        """Names from depth 1 to the node."""
        reverse = []
        while node > 0:
            reverse.append(self._names[node])
            node = self._parent[node]
        return tuple(reversed(reverse))

    def path_name(self, node: int) -> str:
        """The node's path as a string that `find` maps to this node only."""
        if node == 0:
            return ROOT_PATH
        text = join_path(self.path(node))
        named = self._named(text)
        return text if named in ([], [node]) else ROOT_PATH + text

    def follow(self, path: Sequence[str]) -> int | None:
        """The node at the end of a path of names, or None."""
        node = 0
        for name in path:
            child = self._child.get((node, name.strip()))
            if child is None and not name.isascii():
                other_forms = (self._child.get((node, form)) for form in _forms(name))
                child = next((other for other in other_forms if other is not None), None)
            if child is None:
                return None
            node = child
        return node

    def nearest_path(self, path: Sequence[str]) -> int | None:
        """The node whose path is spelt most similarly, name by name from the root; else None."""
        node = 0
        for name in path:
            child = self._child.get((node, name.strip()))
            if child is None:
                near = near_names(name, self._children_of(node))
                child = self._child[node, near[0]] if near else None
            if child is None:
                return None
            node = child
        return node

    def _children_of(self, node: int) -> list[str]:
        return [name for parent, name in self._child if parent == node]

    @property
    def names(self) -> Sequence[str]:
        """The name of each node."""
        return self._names

    @property
    def versions(self) -> tuple[LabelIndex, ...]:
        """The labels that are looked up: these, or those of an older version first; see `LabelsOfBoth`."""
        return (self,)

    def why_coarser(self, label: Label) -> str | None:
        """Why the node of a label is coarser than the label says; None if it is not.

        In a taxonomy's own labels it never is; see `LabelsOfBoth`.
        """
        return None

    def candidates(self, label: Label) -> list[int]:
        """All nodes that a label may refer to, ascending."""
        if not isinstance(label, str):
            node = self.follow(label)
            return [] if node is None else [node]
        text = label.strip()
        node = self.follow(split_path(text))
        if text.startswith("/") and node is not None:
            return [node]
        nodes = self._named(text)
        if node is None and not nodes:
            for form in (text, *_forms(text)):
                nodes = self._named(form) or self._aliased.get(form, [])
                if nodes:
                    return nodes
        return nodes if node is None or node in nodes else sorted([node, *nodes])

    def find(self, label: Label) -> int:
        """The only node that a label refers to.

        Raises:
            TaxonomyError: If there is no such node (the message gives similar names) or several (their
                paths).
        """
        node = self._find(label)
        if node < 0:
            raise TaxonomyError(self._unknown_sentence([label]))
        return node

    def _find(self, label: Label) -> int:
        """The node of a label, or -1 if there is none; an ambiguous label raises an error."""
        candidates = self.candidates(label)
        if len(candidates) > 1:
            paths = some([self.path_name(v) for v in candidates])
            raise TaxonomyError(f"label {label!r} is ambiguous, it may be {paths}; give the path")
        return candidates[0] if candidates else -1

    def encode(self, labels: Iterable[object]) -> Tensor:
        """The nodes of labels, shape (n,); -1 for a missing one."""
        if isinstance(labels, str):
            raise TaxonomyError(
                f"labels is the string {labels!r}, expected a sequence; use find for one label"
            )
        known: dict[Label, int] = {}
        nodes = [-1 if (key := _key(label)) is None else self._remember(known, key) for label in labels]
        if unknown := [label for label, node in known.items() if node < 0]:
            paths = [split_path(label) if isinstance(label, str) else tuple(label) for label in unknown]
            raise UnknownLabelError(self._unknown_sentence(unknown), paths)
        return torch.tensor(nodes, dtype=torch.int64)

    def _remember(self, known: dict[Label, int], label: Label) -> int:
        node = known.get(label)
        if node is None:
            node = known[label] = self._find(label)
        return node

    def _unknown_sentence(self, unknown: Sequence[Label]) -> str:
        """One sentence about labels that are not in the tree."""
        shown = "; ".join(f"{label!r}{self._hint(label)}" for label in unknown[:3])
        if len(unknown) == 1:
            return f"label {unknown[0]!r} is not in the taxonomy{self._hint(unknown[0])}"
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        return f"{len(unknown)} labels are not in the taxonomy: {shown}{more}"

    def say_instead(self, label: object) -> str:
        """What the taxonomy says may be meant by the label of a former class; empty if it says nothing."""
        instead = self._considered.get(label.strip(), ()) if isinstance(label, str) else ()
        nodes = [node for each in instead for node in self.candidates(each)[:1]]
        paths = " or ".join(repr(self.path_name(node)) for node in dict.fromkeys(nodes))
        return f"obsolete: the taxonomy names {paths} instead" if paths else ""

    def _hint(self, label: Label) -> str:
        if said := self.say_instead(label):
            return f" ({said})"
        path = split_path(label) if isinstance(label, str) else tuple(label)
        if len(path) <= 1 and isinstance(label, str):
            path = spaced_path(label)
        known = next(k for k in range(len(path), -1, -1) if self.follow(path[:k]) is not None)
        if len(path) <= 1 or known == len(path):
            return f" ({nearest_hint(label if isinstance(label, str) else ''.join(label), self._first)})"
        children = self._children_of(self.follow(path[:known]) or 0)
        if isinstance(label, str):  # a name that holds a separator, such as T-shirt/top
            names = [name for name in near_names(label, self._first) if name not in path]
            if names and spelt_alike(label, names[0]) > spelt_alike(
                path[known], next(iter(near_names(path[known], children)), "")
            ):
                return f" ({nearest_hint(label, names)})"
        place = repr(join_path(path[:known])) if known else "the root"
        hint = f"{place} has no child {path[known]!r}; " if children else f"{place} is a leaf"
        return f" ({hint}{nearest_hint(path[known], children)})"


def _forms(name: str) -> list[str]:
    """A name composed and decomposed (NFC and NFD); none for one of ASCII."""
    text = name.strip()
    return [] if text.isascii() else [unicodedata.normalize(form, text) for form in ("NFC", "NFD")]


def _key(label: object) -> Label | None:
    """A label as a dictionary key; None if it is missing."""
    if isinstance(label, str):
        return label if label and not label.isspace() else None
    if is_missing(label):
        return None
    if isinstance(label, (tuple, list)) and all(isinstance(name, str) for name in label):
        return tuple(label)
    raise TaxonomyError(
        f"label {label!r} is of type {type(label).__name__}, expected a name, a path or None; "
        "nodes need no encoding"
    )
