"""The samples of a run: names, contents, labels and splits, recorded when the run begins."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from labeltree.atomic import atomic_write
from labeltree.errors import RunError
from labeltree.safe_files import Reader, fits, read_arrays, value_from_json
from labeltree.split_names import SPLIT_WORDS, most_taught
from labeltree.taxonomy import Taxonomy

__all__ = ["Changes", "NamedTwice", "SampleRecord"]

Array = np.ndarray[Any, Any]
NamedTwice = tuple[str, int]
"""A name, and the number of earlier samples that have it, too."""

_VERSION = 1
_SHOWN = 3  # samples of each kind of change
_CONTENT = "with another content"


@dataclass(frozen=True)
class SampleRecord:
    """The n samples of a run, or of the data set as it is now, in the order of the data set.

    Attributes:
        instances: Ids `(n,)` int64.
        nodes: Labels `(n,)` int64.
        split: Split of each sample in the run, `(n,)` str; empty if the run leaves the sample out.
        label_sets: All labels `(n, k)` int64 of samples with several, -1 where there is no further one;
            None if every sample has one.
        has_label_sets: Whether several labels were recorded; not in runs that began before they were.
        aspects: Labels of the aspects `(n, A)` int64, or None.
        ratings: Ordinal ratings `(n, R)` int64, or None.
        names: Name of each sample within the data set. None, like all attributes below, in runs that
            began before names were recorded.
        digests: Digest of the content of each sample, `(n, 16)` uint8.
        plain_digests: The same of texts without case and blanks; None without texts, and in runs that began
            before they were recorded.
        given_split: The data set's own split `(n,)` str, empty where it has none.
        groups: Group of each sample `(n,)` int64; None if there are no groups.
        data: Name of the data set.
        num_data: Number of samples in the whole data set, including those that the run leaves out.
        modalities: Modalities of every sample: `image`, `text` or both.
        image_shape: Image shape `(c, h, w)`; None for texts.
        aspect_taxonomies: One taxonomy per aspect.
        columns: For a table: the columns that were read, by purpose.
        missing_labels: Names of classes that stand for missing labels, with their numbers of samples.
        forgotten: How many samples the run had and has forgotten since.
    """

    instances: Array
    nodes: Array
    split: Array
    label_sets: Array | None = None
    has_label_sets: bool = False
    aspects: Array | None = None
    ratings: Array | None = None
    names: Sequence[str] | None = None
    digests: Array | None = None
    plain_digests: Array | None = None
    given_split: Array | None = None
    groups: Array | None = None
    data: str = ""
    num_data: int = 0
    modalities: tuple[str, ...] = ()
    image_shape: tuple[int, int, int] | None = None
    aspect_taxonomies: tuple[Taxonomy, ...] = ()
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing_labels: Mapping[str, int] = field(default_factory=dict)
    forgotten: int = 0

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def has_contents(self) -> bool:
        """Whether names and contents are recorded: runs of early versions have only ids and labels."""
        return self.names is not None

    @property
    def copy_digests(self) -> Array | None:
        """Digests `(n, k, 16)` by which copies of the samples are known, see `Source.copy_digests`."""
        known = [each for each in (self.digests, self.plain_digests) if each is not None]
        return np.stack(known, axis=1) if known else None

    def arrays(self) -> dict[str, Array]:
        """The record as named arrays, in the form of the file."""
        about = {
            "data": self.data,
            "num_data": self.num_data,
            "modalities": self.modalities,
            "image_shape": self.image_shape,
            "aspect_taxonomies": [taxonomy.to_dict() for taxonomy in self.aspect_taxonomies],
            "columns": dict(self.columns),
            "missing_labels": dict(self.missing_labels),
        }
        if self.has_label_sets:  # the file of an earlier run stays as it was
            about["label_sets"] = True
        if self.forgotten:
            about["forgotten"] = self.forgotten
        columns: dict[str, Array | None] = {name: getattr(self, name) for name in _COLUMNS}
        if self.has_contents:
            columns |= {
                "version": np.array(_VERSION),
                "about": _encode(about),
                "names": _encode(self.names),
            }
        return {name: column for name, column in columns.items() if column is not None}

    def save(self, path: Path) -> None:
        """Write the record, atomically: a compressed `.npz` with a member for each column."""
        with atomic_write(path) as temporary:
            np.savez_compressed(temporary, allow_pickle=False, **self.arrays())

    @classmethod
    def load(cls, path: Path) -> SampleRecord:
        """Read what `save` wrote, now or in an earlier version.

        Raises:
            RunError: If the file is missing or cannot be read.
        """
        reader = Reader("the samples of a run", "restore it, or train again into another --out", RunError)
        columns: dict[str, Any] = read_arrays(path, reader)
        with reader.reading(path, "a column is missing or damaged"):
            version = int(columns.get("version", 0))
            if version > _VERSION:
                raise RunError(
                    f"'{path}' was written by a later version of labeltree (format {version}); update it"
                )
            about = value_from_json(columns["about"].tobytes().decode()) if version else {}
            record = cls(
                **{name: columns.get(name) for name in _COLUMNS},  # type: ignore[arg-type]
                names=value_from_json(columns["names"].tobytes().decode()) if version else None,
                data=str(about.get("data", "")),
                num_data=int(about.get("num_data", 0)),
                modalities=tuple(about.get("modalities", ())),
                image_shape=tuple(about["image_shape"]) if about.get("image_shape") else None,
                aspect_taxonomies=tuple(map(Taxonomy.from_dict, about.get("aspect_taxonomies", ()))),
                columns={kind: tuple(names) for kind, names in about.get("columns", {}).items()},
                missing_labels=dict(about.get("missing_labels", {})),
                has_label_sets=bool(about.get("label_sets", False)),
                forgotten=int(about.get("forgotten", 0)),
            )
            record._check()
        return record

    def _check(self) -> None:
        """Check the lengths and types of all columns."""
        for name in _COLUMNS:
            column, axes = getattr(self, name), 2 if name in _WIDE else 1
            kind = {"split": "U", "given_split": "U", "digests": "u", "plain_digests": "u"}.get(name, "i")
            if column is not None and (column.ndim != axes or column.dtype.kind != kind):
                raise ValueError(f"the column {name} is {column.dtype} {column.shape}")
        if not fits(self.names, list[str] | None):
            raise ValueError("names are not texts")
        columns = [self.instances, self.nodes, self.split]
        columns += [getattr(self, name) for name in ("names", *_COLUMNS) if getattr(self, name) is not None]
        if {len(column) for column in columns} != {len(self.nodes)}:
            raise ValueError("columns differ in length")
        if self.has_contents and (self.digests is None or self.given_split is None):
            raise ValueError("columns are missing")

    def places_in(self, present: SampleRecord) -> Array:
        """The position of each sample in `present`, by name, `(n,)` int64; -1 if none has its name.

        Samples that share a name, such as rows of a table with the same file, are matched in order.
        """
        where = {key: place for place, key in enumerate(_keys(present.names))}
        return np.fromiter((where.get(key, -1) for key in _keys(self.names)), np.int64, len(self))

    @property
    def ids(self) -> list[str]:
        """What commands call each sample: its name, with its number where several samples share it."""
        numbers = self.instances.tolist()
        if self.names is None or list(self.names) == [f"sample {number}" for number in numbers]:
            return list(map(str, numbers))
        times = Counter(self.names)
        return [
            name if times[name] == 1 else f"{name} #{number}"
            for name, number in zip(self.names, numbers, strict=True)
        ]

    def given_names(self) -> dict[int, NamedTwice] | None:
        """Instance → the name that the data give the sample, with the number of earlier samples of that name.

        None if samples have no names, or are named by their places, such as `line 7` of a table.
        """
        places = r"(row|sample) \d+( of the sheet)?|line \d+"
        if all(re.fullmatch(places, name) for name in self.names or ("row 1",)):
            return None
        return dict(zip(self.instances.tolist(), _keys(self.names), strict=True))

    def of(self, instances: Array) -> SampleRecord:
        """The record of the samples with these ids, with the same data set name."""
        return self.rows(np.flatnonzero(np.isin(self.instances, instances)))

    def rows(self, rows: Array) -> SampleRecord:
        """The record of the samples in these rows `(m,)`."""
        names = None if self.names is None else [self.names[row] for row in rows.tolist()]
        picked: dict[str, Any] = {"names": names}
        for name in _COLUMNS:
            column = getattr(self, name)
            picked[name] = None if column is None else column[rows]
        return replace(self, **picked)

    def splits_in(self, names: Sequence[str], digests: Array) -> Array:
        """The split `(m,)` that the run gave to samples of these names and contents; empty if it has none.

        A sample is known by name and content, else by content: of several splits it has the one that teaches
        most. One whose content has changed is known by its name, if that is so for no more than half of the
        samples whose names are there.

        Args:
            names: Names `(m,)` within their data set.
            digests: Digests of their contents, `(m, k, 16)` uint8, see `Source.copy_digests`.
        """
        splits = np.zeros(len(names), dtype="<U6")
        known = self.copy_digests
        if self.digests is None or known is None:
            return splits
        ours = [row.tobytes() for row in np.asarray(self.digests)]
        theirs, plain = (  # zeros: unreadable
            [row.tobytes() if row.any() else b"" for row in digests[:, form]] for form in (0, -1)
        )
        by_content: dict[bytes, str] = {}
        for copies, split in zip(known, np.asarray(self.split).tolist(), strict=True):
            for content in {row.tobytes() for row in copies}:
                by_content[content] = most_taught(split, by_content.get(content, ""))
        taught = [
            most_taught(*(by_content.get(content, "") for content in contents))
            for contents in zip(theirs, plain, strict=True)
        ]
        places = {key: place for place, key in enumerate(_keys(self.names))}
        at = [places.get(key, -1) for key in _keys(names)]
        alike = [place >= 0 and ours[place] == content for place, content in zip(at, theirs, strict=True)]
        there, changed = set(theirs), 2 * sum(alike) >= sum(place >= 0 for place in at)
        for row, place in enumerate(at):
            if not alike[row] and taught[row]:
                splits[row] = taught[row]
            elif alike[row] or (place >= 0 and changed and ours[place] not in there):
                splits[row] = self.split[place]
        return splits

    def different_contents(self, other: SampleRecord) -> list[tuple[str, str]]:
        """The names in both records of samples with the same id but different contents."""
        _, mine, theirs = np.intersect1d(self.instances, other.instances, return_indices=True)
        differ = (np.asarray(self.digests)[mine] != np.asarray(other.digests)[theirs]).any(1)
        here, there = list(self.names or ()), list(other.names or ())
        return [(here[i], there[j]) for i, j in zip(mine[differ], theirs[differ], strict=True)]

    def changes(self, present: SampleRecord, taxonomy: Taxonomy, *, whole: bool) -> Changes:
        """Compare the samples of a run with the present data set.

        Args:
            present: All samples of the data set, labelled in the run's taxonomy (-2 = not in it), with the
                splits that the run's recipe gives them now.
            taxonomy: Taxonomy of the run.
            whole: If True, as for training, the splits made anew must equal the recorded ones, without
                additional samples. If False, only the data set's own splits must be unchanged, and
                additional samples are ignored.
        """
        changes = Changes()
        names, now = list(self.names or ()), list(present.names or ())
        if not len(present):
            changes.add("gone or unreadable", [f"'{name}'" for name in names])
            return changes
        places = self.places_in(present)
        there = places >= 0
        at = np.where(there, places, 0)

        def note(kind: str, which: Array, say: Callable[[int], str] = lambda _: "") -> None:
            rows = np.flatnonzero(which).tolist()
            changes.add(kind, [f"'{names[row]}'{say(row)}" for row in rows])

        renamed = self._find_renamed(present, places)
        changes.add("renamed", [f"'{names[row]}' is now '{now[place]}'" for row, place in renamed.items()])
        gone = ~there
        gone[list(renamed)] = False
        note("gone or unreadable", gone)
        digests, digests_now = np.asarray(self.digests), np.asarray(present.digests)
        note(_CONTENT, there & (digests != digests_now[at]).any(1))
        note(
            "with another label",
            there & (self.nodes != present.nodes[at]),
            lambda row: (
                f" was {_label(taxonomy, self.nodes[row])}, is {_label(taxonomy, present.nodes[at[row]])}"
            ),
        )
        several = self.label_sets is not None or present.label_sets is not None
        if several and self.has_label_sets and present.has_label_sets:
            sets, now_sets = _alike(self._label_sets(), present._label_sets()[at])
            note(
                "with other labels",
                there & (self.nodes == present.nodes[at]) & (sets != now_sets).any(1),
                lambda row: f" were {_labels(taxonomy, sets[row])}, are {_labels(taxonomy, now_sets[row])}",
            )
        for kind in ("aspects", "ratings"):
            note(f"with other {kind}", there & _different(getattr(self, kind), getattr(present, kind), at))
        before = np.asarray(self.split if whole else self.given_split)
        after = np.asarray(present.split if whole else present.given_split)[at]
        note(
            "moved to another split",
            there & (before != after),
            lambda row: f" from {_split(self.split[row])} to {_split(after[row])}",
        )
        note("in another group", there & _find_parted(self.groups, present.groups, at, there))
        if whole:
            new = np.asarray(present.split) != ""
            new[[*at[there], *renamed.values()]] = False
            changes.add("new", [f"'{now[place]}'" for place in np.flatnonzero(new).tolist()])
        return changes

    def _label_sets(self) -> Array:
        """The labels of each sample `(n, k)` in the order of nodes, the last first."""
        sets = self.nodes[:, None] if self.label_sets is None else self.label_sets
        ordered: Array = np.sort(sets, axis=1)[:, ::-1]
        return ordered

    def _find_renamed(self, present: SampleRecord, places: Array) -> dict[int, int]:
        """Find renamed samples: those whose name is gone but whose content exists under a new name."""
        new = np.ones(len(present), bool)
        new[places[places >= 0]] = False
        by_content: dict[bytes, list[int]] = {}
        for place in np.flatnonzero(new)[::-1].tolist():
            by_content.setdefault(np.asarray(present.digests)[place].tobytes(), []).append(place)
        renamed: dict[int, int] = {}
        for row in np.flatnonzero(places < 0).tolist():
            if same := by_content.get(np.asarray(self.digests)[row].tobytes()):
                renamed[row] = same.pop()
        return renamed


class Changes:
    """Changes of samples, by kind of change."""

    def __init__(self) -> None:
        self._kinds: dict[str, list[str]] = {}

    def add(self, kind: str, samples: Sequence[str]) -> None:
        """Record the samples with one kind of change, each as text for a sentence."""
        if samples:
            self._kinds[kind] = list(samples)

    def __bool__(self) -> bool:
        return bool(self._kinds)

    @property
    def has_new_content(self) -> bool:
        """Whether the content of some samples has changed."""
        return _CONTENT in self._kinds

    def __str__(self) -> str:
        """For a sentence: `2 renamed ('a/0.png' is now 'a/zz.png', …); 1 new ('b/7.png')`."""
        return "; ".join(f"{len(samples)} {kind} ({_some(samples)})" for kind, samples in self._kinds.items())


_WIDE = ("label_sets", "aspects", "ratings", "digests", "plain_digests")
_COLUMNS = ("instances", "nodes", "split", *_WIDE, "given_split", "groups")


def _encode(value: Any) -> Array | None:
    """Encode a value as JSON in an array of bytes, which avoids padding every row to the longest name."""
    return None if value is None else np.frombuffer(json.dumps(value).encode(), np.uint8)


def _keys(names: Sequence[str] | None) -> Iterator[NamedTwice]:
    """Each name with the number of its earlier occurrences."""
    seen: dict[str, int] = {}
    for name in names or ():
        number = seen.get(name, 0)
        seen[name] = number + 1
        yield name, number


def _different(before: Array | None, after: Array | None, at: Array) -> Array:
    """Mask of the rows `(n, k)` that have changed; all, if one array is None or k differs."""
    if before is None or after is None or before.shape[1:] != after.shape[1:]:
        return np.full(len(at), (before is None) != (after is None) or before is not None)
    different: Array = (before != after[at]).any(1)
    return different


def _find_parted(before: Array | None, after: Array | None, at: Array, there: Array) -> Array:
    """Mask of the samples whose group has changed its members, among samples that are still present."""
    n = len(at)
    mine = _companions(np.full(n, -1) if before is None else before, there)
    theirs = _companions(np.full(n, -1) if after is None else after[at], there)
    parted: Array = mine != theirs
    return parted


def _companions(groups: Array, there: Array) -> Array:
    """Position of the first sample of each sample's group; its own if it is alone."""
    n = len(groups)
    own = np.where((groups >= 0) & there, groups, groups.max(initial=0) + 1 + np.arange(n))
    _, first, code = np.unique(own, return_index=True, return_inverse=True)
    companions: Array = first[code]
    return companions


def _label(taxonomy: Taxonomy, node: int) -> str:
    if node == -2:
        return "one that the run does not know"
    return "none" if node < 0 else f"'{taxonomy.path_name(int(node))}'"


def _alike(first: Array, second: Array) -> tuple[Array, Array]:
    """Two tables of labels with as many columns, filled up with -1."""
    width = max(first.shape[1], second.shape[1])
    wide = [np.pad(t, ((0, 0), (0, width - t.shape[1])), constant_values=-1) for t in (first, second)]
    return wide[0], wide[1]


def _labels(taxonomy: Taxonomy, nodes: Array) -> str:
    known = sorted(node for node in nodes.tolist() if node != -1)
    return " and ".join(_label(taxonomy, node) for node in known) or "none"


def _split(name: str) -> str:
    return SPLIT_WORDS.get(str(name), str(name))


def _some(samples: Sequence[str]) -> str:
    shown = ", ".join(samples[:_SHOWN])
    return f"{shown} and {len(samples) - _SHOWN} more" if len(samples) > _SHOWN else shown
