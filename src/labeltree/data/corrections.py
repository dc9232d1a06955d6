"""Corrections of labels: a table that a person has gone through, and what it does to samples.

`labeltree suspects` writes such a table; anything else that gives the same columns will do.
"""

from __future__ import annotations

import csv
import dataclasses
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from labeltree.atomic import atomic_write
from labeltree.data.source import Source
from labeltree.errors import DataError, TaxonomyError
from labeltree.safe_files import Reader, read_text
from labeltree.taxonomy import AnyTaxonomy
from labeltree.taxonomy.naming import some

__all__ = ["COLUMNS", "DECISIONS", "Applied", "Correction", "Corrections", "is_decided", "sample_ids"]

COLUMNS = ("sample", "label", "suggested", "decision")
"""The columns that are read; others are for the person."""
_WORDS = {
    "accept": ("accept", "accepted", "yes", "y", "x", "ok", "1", "true"),
    "remove": ("remove", "remove the sample", "delete"),
    "no label": ("no label", "unlabel", "none"),
    "keep": ("", "keep", "reject", "rejected", "no", "n", "0", "false"),
}
DECISIONS = {word: decision for decision, words in _WORDS.items() for word in words}
"""What may stand in the column ``decision``, in lower case, and what it means."""
_READER = Reader("a table of corrections", "save it again as CSV in UTF-8", DataError)
_DELIMITERS = ",;\t"


@dataclass(frozen=True)
class Correction:
    """A decision about one sample.

    Attributes:
        sample: id of the sample, see `sample_ids`.
        label: the label at the time of the decision, as its name or path; empty if it had none.
        decision: ``accept`` (the label becomes ``node``), ``remove`` (the sample is left out) or
            ``no label``.
        node: name or path of the new label, which may be a coarser node; empty unless ``accept``.
    """

    sample: str
    label: str
    decision: str
    node: str = ""


@dataclass(frozen=True, eq=False)
class Applied:
    """What corrections do to n samples.

    Attributes:
        nodes: ``(n,)`` int64 labels afterwards.
        keep: ``(n,)`` bool, False for a sample that is removed.
        counts: number of corrections by outcome: ``relabelled``, ``unlabelled``, ``removed``, ``unchanged``
            (the label is already as corrected), ``unknown`` (no such sample), ``ambiguous`` (several samples
            have the id), ``changed`` (the label is no longer the one that was judged) and ``no node`` (the
            new label is not in the taxonomy).
        sentence: the same for people.
    """

    nodes: Tensor
    keep: Tensor
    counts: dict[str, int]
    sentence: str


@dataclass(frozen=True)
class Corrections:
    """The accepted rows of a table of corrections.

    Attributes:
        entries: the corrections, one for a sample.
        name: where they come from, for messages.
    """

    entries: tuple[Correction, ...]
    name: str = "corrections"

    @classmethod
    def load(cls, path: str | Path) -> Corrections:
        """Read a table; rows without a decision, or with ``keep`` or ``reject``, are not corrections.

        The file is CSV in UTF-8, separated by commas, semicolons or tabs, with the columns ``sample``,
        ``label``, ``suggested`` and ``decision`` in any order; other columns are ignored. ``decision`` is
        ``accept`` (also ``yes`` or ``x``), ``remove``, ``no label``, ``reject`` or empty. To give another
        label than the suggested one, change ``suggested`` and accept it.

        Raises:
            DataError: if the file is missing or unreadable, has no such columns, a decision is another word,
                nothing is suggested in an accepted row, or two rows decide differently about one sample.
        """
        path = Path(path).expanduser()
        if not path.is_file():
            raise DataError(f"no table of corrections at '{path}'")
        text = read_text(path, _READER).removeprefix("\ufeff")
        header = text.split("\n", 1)[0]
        delimiter = max(_DELIMITERS, key=header.count)
        with _READER.reading(path, "it is no CSV"):
            rows = list(csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
            names = [
                name.strip().lower()
                for name in next(csv.reader([header.strip("\r")], delimiter=delimiter), [])
            ]
        missing = [column for column in COLUMNS if column not in names]
        if missing:
            raise DataError(
                f"'{path}' is no table of corrections: it has no column {' or '.join(map(repr, missing))}; "
                f"'labeltree suspects' writes one, with {', '.join(COLUMNS)}"
            )
        found: dict[str, Correction] = {}
        for number, row in enumerate(rows, 2):
            cells = {str(key).strip().lower(): (value or "") for key, value in row.items() if key is not None}
            entry = _read_row(cells, f"'{path}', row {number}")
            if entry is None:
                continue
            if found.setdefault(entry.sample, entry) != entry:
                raise DataError(
                    f"'{path}', row {number}: sample '{entry.sample}' has two corrections that differ; leave "
                    "one of them empty"
                )
        return cls(tuple(found.values()), path.name)

    def save(self, path: str | Path) -> None:
        """Write the corrections as `load` reads them, atomically."""
        with atomic_write(Path(path)) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows((e.sample, e.label, e.node, e.decision) for e in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def same_as(self, other: Corrections) -> bool:
        """Whether both correct the same samples in the same way, in whatever order."""
        return set(self.entries) == set(other.entries)

    def resolve(self, ids: Sequence[str], nodes: Tensor, taxonomy: AnyTaxonomy) -> Applied:
        """What the corrections do to samples with these ids and labels.

        Args:
            ids: n ids.
            nodes: ``(n,)`` labels, −1 where missing.
            taxonomy: taxonomy of the labels, in which the new ones must be.

        Raises:
            DataError: if there are corrections and not one of their samples is known.
        """
        rows: dict[str, int] = {}
        double: set[str] = set()
        for row, name in enumerate(ids):
            if name in rows:
                double.add(name)
            rows[name] = row
        after, keep = nodes.clone(), torch.ones(len(nodes), dtype=torch.bool)
        outcomes: dict[str, list[str]] = {}
        for entry in self.entries:
            outcome = "ambiguous" if entry.sample in double else "unknown"
            if outcome == "unknown" and (row := rows.get(entry.sample, -1)) >= 0:
                outcome, node = _outcome(entry, int(nodes[row]), taxonomy)
                if outcome == "removed":
                    keep[row] = False
                elif outcome in ("relabelled", "unlabelled"):
                    after[row] = node
            outcomes.setdefault(outcome, []).append(entry.node if outcome == "no node" else entry.sample)
        if self.entries and set(outcomes) <= {"unknown", "ambiguous"}:
            example = f"'{ids[0]}'" if len(ids) else "none"
            raise DataError(
                f"none of the {len(self.entries)} corrected samples of '{self.name}' is among the data "
                f"('{self.entries[0].sample}'; the data have {example}); the table belongs to other data"
            )
        counts = {name: len(found) for name, found in sorted(outcomes.items())}
        return Applied(after, keep, counts, _sentence(self.name, outcomes))

    def apply(self, data: Source, *others: Source) -> tuple[Source, ...]:
        """Correct a whole data set, and selections of its samples in the same way.

        Args:
            data: the whole data set, whose notes then say what was done.
            *others: samples of the same data set.

        Returns:
            The corrected data set, then the corrected selections.

        Raises:
            DataError: if not one of the corrected samples is in the data.
        """
        done = self.resolve(sample_ids(data), data.nodes, data.taxonomy)
        order = data.instances.argsort()
        known = data.instances[order]
        corrected = []
        for source in (data, *others):
            rows = order[torch.searchsorted(known, source.instances)]
            fresh = dataclasses.replace(source, nodes=done.nodes[rows], notes=(*source.notes, done.sentence))
            if not bool(done.keep.all()):
                fresh = fresh.subset(done.keep[rows].nonzero()[:, 0])
            corrected.append(fresh)
        return tuple(corrected)


def sample_ids(source: Source) -> list[str]:
    """An id for each sample that stays the same while the data set does: its name within the data set.

    Where several samples share a name, such as rows of a table with one file, their numbers follow it
    (``a.png #7``). Samples without names have numbers.
    """
    numbers = source.instances.tolist()
    if source.names is None:
        return [str(number) for number in numbers]
    names = source.sample_names()
    times = Counter(names)
    ids = [
        name if times[name] == 1 else f"{name} #{number}" for name, number in zip(names, numbers, strict=True)
    ]
    return ids if len(set(ids)) == len(ids) else [str(number) for number in numbers]


def _read_row(cells: dict[str, str], where: str) -> Correction | None:
    word = " ".join(cells["decision"].lower().split())
    decision = DECISIONS.get(word)
    if decision is None:
        raise DataError(
            f"{where}: the decision '{cells['decision'][:60]}' is none of accept, remove, no label and "
            "reject; another label than the suggested goes into the column 'suggested', and is then accepted"
        )
    if decision == "keep":
        return None
    node = cells["suggested"].strip() if decision == "accept" else ""
    if decision == "accept" and not node:
        raise DataError(f"{where}: nothing is suggested that could be accepted; write a node, or 'no label'")
    if not cells["sample"]:
        raise DataError(f"{where}: the column 'sample' is empty, so nobody knows what is corrected")
    return Correction(cells["sample"], cells["label"].strip(), decision, node)


def _outcome(entry: Correction, node: int, taxonomy: AnyTaxonomy) -> tuple[str, int]:
    """What becomes of a sample with this label, and its new label."""
    target = -1
    if entry.decision == "accept":
        try:
            target = taxonomy.find(entry.node)
        except TaxonomyError:
            return "no node", -1
        if target == 0:
            return "no node", -1
    if not _is_label(entry.label, node, taxonomy):
        if entry.decision != "remove" and node == target:
            return "unchanged", node
        return "changed", node
    if entry.decision == "remove":
        return "removed", node
    if node == target:
        return "unchanged", node
    return ("unlabelled" if target < 0 else "relabelled"), target


def _is_label(text: str, node: int, taxonomy: AnyTaxonomy) -> bool:
    if node <= 0 or not text:
        return node <= 0 and not text
    if text == taxonomy.path_name(node):
        return True
    try:
        return taxonomy.find(text) == node
    except TaxonomyError:
        return False


_DONE = {
    "relabelled": "{} labels replaced",
    "unlabelled": "{} labels taken away",
    "removed": "{} samples removed",
    "unchanged": "{} labels were so already",
}
_NOT_DONE = {
    "unknown": "{} are of no sample here ({})",
    "ambiguous": "{} are of an id that several samples have ({})",
    "changed": "{} are of samples whose label has changed since ({})",
    "no node": "{} name a node that the taxonomy does not have, or not only once ({})",
}


def _sentence(name: str, outcomes: dict[str, list[str]]) -> str:
    if not outcomes:
        return f"'{name}' holds no accepted correction"
    done = [text.format(len(outcomes[key])) for key, text in _DONE.items() if key in outcomes]
    left = [
        text.format(len(found := outcomes[key]), some(dict.fromkeys(found), 3))
        for key, text in _NOT_DONE.items()
        if key in outcomes
    ]
    said = f"corrections of '{name}': {', '.join(done) or 'nothing applied'}"
    return f"{said}; not applied: {'; '.join(left)}" if left else said


def is_decided(path: Path) -> bool:
    """Whether a file is no such CSV, or has a decision."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            return "decision" not in (rows.fieldnames or ()) or any(
                (row["decision"] or "").strip() for row in rows
            )
    except (OSError, UnicodeDecodeError, csv.Error):
        return True
