"""Nodes of the labels of a file, and the error on labels that are not in the taxonomy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from labeltree.counted_nouns import say_count
from labeltree.errors import TaxonomyError
from labeltree.taxonomy import AnyTaxonomy
from labeltree.taxonomy.files.breadcrumbs import spaced_path, written_paths
from labeltree.taxonomy.naming import near_names, some, split_path
from labeltree.taxonomy.placeholders import PLACEHOLDERS, plain_name
from labeltree.taxonomy.versions.near_names import plain_key
from labeltree.text_files import split_packed

__all__ = ["nodes_of_labels"]

_SHOWN = 3  # labels, and rows
_SEPARATORS = ("::", "->", "|", ">", "›", "»", "→", ";", "\\", ":", ",", ".", "__")


class _Repair(NamedTuple):
    """A change of all labels after which the taxonomy has them: in words, as code, and as a function."""

    words: str
    code: str
    apply: Callable[[str], str]


def nodes_of_labels(path: Path, column: str, labels: np.ndarray[Any, Any], taxonomy: AnyTaxonomy) -> Tensor:
    """The nodes `(n,)` int64 of labels `(n,)` str, −1 for an empty one.

    A label is a name, a path `a/b/c`, or `a > b > c` if the taxonomy has this path and no such name.

    Args:
        path: The file, for errors.
        column: The name of its column, for errors.
        labels: The labels.
        taxonomy: That they are of.

    Raises:
        TaxonomyError: If labels are ambiguous or not in the taxonomy. It says how many samples have such a
            label, in which rows, and what would help.
    """
    distinct, first, codes, counts = np.unique(
        labels, return_index=True, return_inverse=True, return_counts=True
    )
    nodes = np.full(len(distinct), -1, dtype=np.int64)
    unknown = np.zeros(len(distinct), dtype=bool)
    for place, text in enumerate(distinct.tolist()):
        if not text.strip():
            continue
        candidates = taxonomy.candidates(text)
        if not candidates:
            candidates = next(filter(None, map(taxonomy.candidates, written_paths(text))), [])
        if len(candidates) > 1:
            several = some([taxonomy.path_name(node) for node in candidates], _SHOWN)
            raise TaxonomyError(
                f"'{path}', column '{column}': the label '{text}' of "
                f"{say_count(int(counts[place]), 'sample')}, first in "
                f"{_say_rows(path, first[place : place + 1])}; it is the name of {len(candidates)} nodes, "
                f"{several}: write its path"
            )
        unknown[place] = not candidates
        nodes[place] = candidates[0] if candidates else -1
    if unknown.any():
        rows = np.flatnonzero(unknown[codes.reshape(-1)])
        where = f"'{path}', column '{column}': {len(rows):,} of {len(labels):,} samples"
        told = _unknown_labels(column, distinct.tolist(), counts, unknown, taxonomy)
        raise TaxonomyError(
            f"{where} have a label that is not in the taxonomy ({_say_rows(path, rows)}): {told}"
        )
    return torch.from_numpy(nodes[codes.reshape(-1)])


def _say_rows(path: Path, rows: np.ndarray[Any, Any]) -> str:
    """The first of some rows: the lines of a text, the indices of arrays."""
    lines = split_packed(path)[0].lower() in (".csv", ".tsv")
    shown = ", ".join(map(str, (rows[:_SHOWN] + 2 * lines).tolist())) + (" …" if len(rows) > _SHOWN else "")
    unit = "line" if lines else "row"
    return f"{unit}{'s' * (len(rows) > 1)} {shown}" + ("" if lines else ", counted from 0")


def _unknown_labels(
    column: str,
    distinct: list[str],
    counts: np.ndarray[Any, Any],
    unknown: np.ndarray[Any, Any],
    taxonomy: AnyTaxonomy,
) -> str:
    """What the error says of the labels: which and how often, and what to do."""
    order = np.flatnonzero(unknown)[np.argsort(-counts[unknown], kind="stable")]
    lost = [distinct[place] for place in order.tolist()]
    repair = _repair(distinct, lost, taxonomy)
    names = [name for name in taxonomy.names[1:] if not name.isdigit()]
    numbers = bool(names) and all(_is_number(text) for text in lost) and repair is None
    near = _Near(taxonomy)
    first = order[:_SHOWN].tolist()
    hints = ["" if numbers or repair is not None else near.hint(distinct[place]) for place in first]
    shown = [
        f"'{distinct[place]}' ({say_count(int(counts[place]), 'sample')}{hint})"
        for place, hint in zip(first, hints, strict=True)
    ]
    more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    said = f"{', '.join(shown)}{more}."
    if repair is not None:
        return f"{said} {repair.words}: {column} = {repair.code.format(column)}"
    leaves = [taxonomy.path_name(int(leaf)) for leaf in taxonomy.leaves[:_SHOWN].tolist()]
    like = f"such as {some(leaves)}" if leaves else ""
    if numbers:
        return (
            f"{said} These are numbers, and a label is a name of the taxonomy, {like}. If they number "
            f"classes, write {column} = np.array(names)[{column}], with the names of the classes in the "
            "order of their numbers"
        )
    if not any(hints):
        said += f" The taxonomy has labels {like}."
    return (
        f"{said} Correct these labels, add nodes to the taxonomy, or write an empty text for each: samples "
        "without a label are left out"
    )


class _Near:
    """Looks for names of a taxonomy that a label may mean."""

    def __init__(self, taxonomy: AnyTaxonomy) -> None:
        self._taxonomy = taxonomy
        self._plain: dict[str, list[str]] = {}
        for name in dict.fromkeys(taxonomy.names[1:]):
            self._plain.setdefault(plain_key(name), []).append(name)

    def hint(self, label: str) -> str:
        """What a label probably means, as the end of a bracket; empty if nothing is like it."""
        if plain_name(label) in PLACEHOLDERS:
            return "; a missing label is an empty text"
        if said := self._taxonomy.say_instead(label):
            return f"; {said}"
        names = dict.fromkeys(self._taxonomy.names[1:])
        for path in (split_path(label), spaced_path(label)):
            if len(path) > 1:
                candidates = self._taxonomy.candidates(path[-1])
                node = candidates[0] if len(candidates) == 1 else self._taxonomy.nearest_path(path)
                if node is not None:
                    return f"; did you mean '{self._taxonomy.path_name(node)}'?"
                for name in path:  # one above the name that is misspelt is not what is meant
                    names.pop(name, None)
        alike = self._plain.get(plain_key(label), []) or near_names(label, names)[:1]
        return f"; did you mean '{alike[0]}'?" if alike else ""


def _repair(distinct: Sequence[str], lost: Sequence[str], taxonomy: AnyTaxonomy) -> _Repair | None:
    """The first change after which the taxonomy has every label, also those that it has already."""
    for repair in _repairs(lost[0]):
        if all(
            repair.apply(text) != text and _is_known(repair.apply(text), taxonomy) for text in lost
        ) and all(_is_known(repair.apply(text), taxonomy) for text in distinct if text.strip()):
            return repair
    return None


def _repairs(like: str) -> list[_Repair]:
    """Changes that may help, the simplest first, where labels look like this one."""
    repairs = [
        _Repair("The taxonomy has lower case", "np.char.lower({})", str.lower),
        _Repair(
            "The taxonomy has spaces where the labels have '_'",
            "np.char.replace({}, '_', ' ')",
            lambda text: text.replace("_", " "),
        ),
        _Repair(
            "The taxonomy has '_' where the labels have spaces",
            "np.char.replace({}, ' ', '_')",
            lambda text: text.replace(" ", "_"),
        ),
        _Repair(
            "The taxonomy has lower case, and spaces where the labels have '_'",
            "np.char.lower(np.char.replace({}, '_', ' '))",
            lambda text: text.lower().replace("_", " "),
        ),
        _Repair(
            "The taxonomy has whole numbers",
            "{}.astype(float).astype(int)",
            lambda text: text.removesuffix(".0"),
        ),
    ]
    for mark in _SEPARATORS:
        if mark in like:
            repairs.append(_replace_separator(f" {mark} " if f" {mark} " in like else mark))
    return repairs


def _replace_separator(mark: str) -> _Repair:
    return _Repair(
        f"In a path, '/' stands between the names, not {mark!r}",
        f"np.char.replace({{}}, {mark!r}, '/')",
        lambda text: text.replace(mark, "/"),
    )


def _is_known(text: str, taxonomy: AnyTaxonomy) -> bool:
    return len(taxonomy.candidates(text)) == 1


def _is_number(text: str) -> bool:
    return text.removesuffix(".0").removeprefix("-").isdecimal()
