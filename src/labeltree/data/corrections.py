"""Corrections of labels: a table that a person has gone through, and what it does to samples.

`labeltree suspects` writes such a table; anything else that gives the same columns will do.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.atomic import atomic_write
from labeltree.counted_nouns import say_count
from labeltree.data.source import Source, printable
from labeltree.errors import DataError
from labeltree.lazy import torch
from labeltree.safe_files import Reader
from labeltree.taxonomy import AnyTaxonomy
from labeltree.taxonomy.naming import some
from labeltree.taxonomy.versions.label_reader import LabelReader
from labeltree.workbooks import spreadsheet_rows

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "COLUMNS",
    "CONTENT",
    "DECISIONS",
    "Applied",
    "Correction",
    "Corrections",
    "is_decided",
    "is_label",
    "sample_contents",
    "sample_ids",
    "shorten_text",
]

COLUMNS = ("sample", "label", "suggested", "decision")
"""The columns that a table must have; of others, `CONTENT` is read, and the rest is for the person."""
CONTENT = "content"
"""The column with a fingerprint of each sample that is named by its row; see `sample_contents`."""
_WORDS = {
    "accept": ("accept", "accepted", "yes", "y", "x", "1"),
    "remove": ("remove", "remove the sample", "delete"),
    "no label": ("no label", "unlabel", "none"),
    "keep": ("", "keep", "reject", "rejected", "no", "n", "0"),
}
DECISIONS = {word: decision for decision, words in _WORDS.items() for word in words}
"""What may stand in the column `decision`, in lower case, and what it means."""
_READER = Reader("a table of corrections", "save it again as .xlsx or as CSV in UTF-8", DataError)
_NUMBERED = re.compile(r"(.*/)?row \d+( of the sheet)?|line \d+|\d+|.* #\d+", re.DOTALL)
_MOST_SHOWN = 1000  # characters of a text
_DIGITS = str.maketrans("0123456789", "ghijklmnop")  # no cell that a spreadsheet could take for a number


@dataclass(frozen=True)
class Correction:
    """A decision about one sample.

    Attributes:
        sample: Id of the sample, see `sample_ids`.
        label: The label at the time of the decision, as its name or path; empty if it had none.
        decision: `accept` (the label becomes `node`), `remove` (the sample is left out) or
            `no label`.
        node: Name or path of the new label, which may be a coarser node; empty unless `accept`.
        content: Fingerprint of the sample, see `sample_contents`; empty if it is not known.
    """

    sample: str
    label: str
    decision: str
    node: str = ""
    content: str = ""


@dataclass(frozen=True, eq=False)
class Applied:
    """What corrections do to n samples.

    Attributes:
        nodes: `(n,)` int64 labels afterwards.
        keep: `(n,)` bool, False for a sample that is removed.
        counts: Number of corrections by outcome: `relabelled`, `unlabelled`, `removed`, `unchanged`
            (the label is already as corrected), `unknown` (no such sample), `gone` (an earlier table has
            removed it), `ambiguous` (several samples have the id), `moved` (another sample has its row
            number now), `changed` (the label is no longer the one that was judged) and `no node` (the new
            label is not in the taxonomy).
        sentence: The same for people.
    """

    nodes: Tensor
    keep: Tensor
    counts: dict[str, int]
    sentence: str


@dataclass(frozen=True)
class Corrections:
    """The accepted rows of one table of corrections; `CorrectionRounds` holds several tables in order.

    Attributes:
        entries: The corrections, one for a sample.
        name: Where they come from, for messages.
    """

    entries: tuple[Correction, ...]
    name: str = "corrections"

    @classmethod
    def load(cls, path: str | Path) -> Corrections:
        """Read a table; rows without a decision, or with `keep` or `reject`, are not corrections.

        The file is a workbook (`.xlsx`) or CSV, as a spreadsheet saves it, with the columns `sample`,
        `label`, `suggested` and `decision` in any order; of others only `content` is read, if it is
        there. `decision` is `accept` (also `yes`, `y`, `x` or `1`), `remove`, `no label`, `reject`
        (also `keep`, `no`, `n` or `0`) or empty. To give another label than the suggested one, change
        `suggested` and accept it.

        Raises:
            DataError: If the file is missing or unreadable, has no such columns, a decision is another word,
                nothing is suggested in an accepted row, or two rows decide differently about one sample.
        """
        path = Path(path).expanduser()
        if not path.is_file():
            raise DataError(f"no table of corrections at '{path}'")
        lines = spreadsheet_rows(path, _READER)
        names = [name.strip().lower() for name in lines[0][1]] if lines else []
        missing = [column for column in COLUMNS if column not in names]
        if missing:
            raise DataError(
                f"'{path}' is not a table of corrections: it has no column "
                f"{' or '.join(map(repr, missing))}; 'labeltree suspects' writes one, with "
                f"{', '.join(COLUMNS)}"
            )
        double = [column for column in (*COLUMNS, CONTENT) if names.count(column) > 1]
        if double:
            raise DataError(f"'{path}' has more than one column '{double[0]}'; leave one of them")
        entries: dict[str, tuple[Correction, int]] = {}
        for number, line in lines[1:]:
            cells = dict.fromkeys((*COLUMNS, CONTENT), "") | dict(zip(names, line, strict=False))
            entry = _read_row(cells, f"'{path}', row {number}") if any(line) else None
            if entry is None:
                continue
            first, there = entries.setdefault(entry.sample, (entry, number))
            if first != entry:
                raise DataError(
                    f"'{path}', rows {there} and {number} decide differently about sample '{entry.sample}': "
                    f"{_describe(first)}, and {_describe(entry)}; empty the column 'decision' of one of them"
                )
        return cls(tuple(entry for entry, _ in entries.values() if entry.decision != "keep"), path.name)

    def save(self, path: str | Path) -> None:
        """Write the corrections as `load` reads them, atomically."""
        with atomic_write(Path(path)) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow((*COLUMNS, CONTENT))
            writer.writerows((e.sample, e.label, e.node, e.decision, e.content) for e in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def renamed(self, names: Mapping[str, str]) -> Corrections:
        """The same corrections, of samples that have other names now."""
        entries = (replace(entry, sample=names.get(entry.sample, entry.sample)) for entry in self.entries)
        return Corrections(tuple(entries), self.name)

    def same_as(self, other: Corrections) -> bool:
        """Whether both correct the same samples in the same way, in whatever order."""
        return set(self.entries) == set(other.entries)

    def resolve(
        self,
        ids: Sequence[str],
        nodes: Tensor,
        taxonomy: AnyTaxonomy,
        *,
        reader: LabelReader | None = None,
        contents: Sequence[str] | None = None,
        gone: Collection[str] = (),
    ) -> Applied:
        """What the corrections do to samples with these ids and labels.

        Args:
            ids: n ids.
            nodes: `(n,)` labels, −1 where missing.
            taxonomy: Taxonomy of the labels, in which the new ones must be.
            reader: Reads the labels that the table names; None = by the taxonomy.
            contents: n fingerprints, see `sample_contents`; None = not compared.
            gone: Ids of samples that earlier corrections have removed.

        Raises:
            DataError: If there are corrections and not one of their samples is known.
        """
        rows: dict[str, int] = {}
        double: set[str] = set()
        for row, name in enumerate(ids):
            if name in rows:
                double.add(name)
            rows[name] = row
        after, keep = nodes.clone(), torch.ones(len(nodes), dtype=torch.bool)
        outcomes: dict[str, list[str]] = {}
        reader = self._suit(reader or LabelReader(taxonomy), rows, nodes)
        for entry in self.entries:
            row = rows.get(entry.sample, -1)
            if row < 0:
                outcome = "gone" if entry.sample in gone else "unknown"
            elif entry.sample in double:
                outcome = "ambiguous"
            elif contents is not None and entry.content and contents[row] not in ("", entry.content):
                outcome = "moved"
            else:
                outcome, node = _outcome(entry, int(nodes[row]), reader)
                if outcome == "removed":
                    keep[row] = False
                elif outcome in ("relabelled", "unlabelled"):
                    after[row] = node
            outcomes.setdefault(outcome, []).append(entry.node if outcome == "no node" else entry.sample)
        if self.entries and set(outcomes) <= {"unknown", "ambiguous", "moved"}:
            raise DataError(self._refusal(outcomes, ids))
        counts = {name: len(samples) for name, samples in sorted(outcomes.items())}
        return Applied(after, keep, counts, _sentence(self.name, outcomes, taxonomy))

    def _suit(self, reader: LabelReader, rows: Mapping[str, int], nodes: Tensor) -> LabelReader:
        """The reader of the version of the taxonomy that the table is about."""
        texts = [text for entry in self.entries for text in (entry.label, entry.node) if text]
        known = [entry for entry in self.entries if entry.sample in rows and entry.label]
        return reader.for_texts(texts, [(entry.label, int(nodes[rows[entry.sample]])) for entry in known])

    def _refusal(self, outcomes: dict[str, list[str]], ids: Sequence[str]) -> str:
        if "moved" in outcomes:
            return (
                f"the samples of '{self.name}' are named by their rows, and rows of the data have been "
                f"inserted, removed or changed since: '{outcomes['moved'][0]}' is another sample now; "
                "restore the data, or look for suspects anew"
            )
        known, names = set(ids), (one.sample for one in self.entries)
        if misread := next((name for name in names if _read_as_utf8(name) in known), None):
            return (
                f"letters of '{self.name}' were misread before it was saved ('{misread}' is "
                f"'{_read_as_utf8(misread)}'): a spreadsheet has opened UTF-8 as Windows-1252; open the "
                "table anew as UTF-8 (in Excel: Data, From Text/CSV)"
            )
        example = f"'{ids[0]}'" if len(ids) else "none"
        return (
            f"none of the {len(self.entries)} corrected samples of '{self.name}' is among the data "
            f"('{self.entries[0].sample}'; the data have {example}); the table belongs to other data"
        )


def _read_as_utf8(text: str) -> str | None:
    """A text that was read as Windows-1252, as UTF-8; None if it was not misread."""
    try:
        mended = text.encode("cp1252").decode("utf-8")
    except UnicodeError:
        return None
    return None if mended == text else mended


def sample_ids(source: Source) -> list[str]:
    """An id for each sample that stays the same while the data set does: its name within the data set.

    Where several rows of the data set share a name, such as rows of a table with one file, their numbers
    follow it (`a.png #7`), also where the others of that name have been left out. Samples without names
    have numbers. An id with a number stays the same only as long as no
    row is inserted or removed before it; `sample_contents` tells whether that happened.
    """
    numbers = source.instances.tolist()
    if source.names is None:
        return [str(number) for number in numbers]
    names = source.sample_names()
    times = Counter(map(printable, source.names))
    ids = [
        name if times[name] == 1 else f"{name} #{number}" for name, number in zip(names, numbers, strict=True)
    ]
    return ids if len(set(ids)) == len(ids) else [str(number) for number in numbers]


def sample_contents(ids: Sequence[str], digests: np.ndarray[Any, Any]) -> list[str]:
    """A fingerprint of the content of each sample that is named by a row number; empty for the others.

    A sample with a name of its own is found by it, also when its file is saved anew.

    Args:
        ids: n ids, see `sample_ids`.
        digests: `(n, 16)` uint8, see `Source.sample_digests`.
    """
    return [
        bytes(digest).hex()[:16].translate(_DIGITS) if _NUMBERED.fullmatch(name) else ""
        for name, digest in zip(ids, digests, strict=True)
    ]


def _read_row(cells: dict[str, str], where: str) -> Correction | None:
    word = " ".join(cells["decision"].lower().split())
    decision = DECISIONS.get(word)
    if decision is None:
        raise DataError(
            f"{where}: the decision '{cells['decision'][:60]}' does not say what is to happen: accept "
            "(yes, x) gives the suggested label, reject (no, keep) leaves the label as it is, and there are "
            "'remove' and 'no label'; to give another label, write it into 'suggested' and accept it"
        )
    if decision == "keep" and not (word and cells["sample"]):
        return None
    node = cells["suggested"].strip() if decision == "accept" else ""
    if decision == "accept" and not node:
        raise DataError(f"{where}: nothing is suggested that could be accepted; write a node, or 'no label'")
    if not cells["sample"]:
        raise DataError(f"{where}: the column 'sample' is empty, so nobody knows what is corrected")
    label, content = cells["label"].strip(), cells[CONTENT].strip()
    return Correction(cells["sample"], label, decision, node, content)


def _describe(entry: Correction) -> str:
    decided = {"accept": f"'{entry.node}' is accepted", "keep": "the label is kept"}
    return f"{decided.get(entry.decision, entry.decision)} where the label is '{entry.label}'"


def _outcome(entry: Correction, node: int, reader: LabelReader) -> tuple[str, int]:
    """What becomes of a sample with this label, and its new label."""
    target = -1
    if entry.decision == "accept":
        target = reader.find(entry.node)
        if target <= 0:
            return "no node", -1
    if not is_label(entry.label, node, reader):
        if entry.decision != "remove" and node == target:
            return "unchanged", node
        return "changed", node
    if entry.decision == "remove":
        return "removed", node
    if node == target:
        return "unchanged", node
    return ("unlabelled" if target < 0 else "relabelled"), target


def is_label(text: str, node: int, reader: LabelReader) -> bool:
    """Whether a text, a name or a path, is this node; an empty one, or the root, is a missing label."""
    there = reader.find(text) if text else 0
    return there == node if node > 0 else there == 0


_DONE = {
    "relabelled": ("label replaced", "labels replaced"),
    "unlabelled": ("label taken away", "labels taken away"),
    "removed": ("sample removed", "samples removed"),
    "unchanged": ("label was so already", "labels were so already"),
}
_NOT_DONE = {
    "unknown": "{} are of no sample here ({})",
    "gone": "{} are of samples that an earlier table removes ({})",
    "moved": "{} are of rows that hold another sample now: rows were inserted, removed or changed ({})",
    "ambiguous": "{} are of an id that several samples have ({})",
    "changed": "{} are of samples whose label has changed since ({})",
    "no node": "{} name a node that the taxonomy does not have, or not only once ({})",
}


def _sentence(name: str, outcomes: dict[str, list[str]], taxonomy: AnyTaxonomy) -> str:
    if not outcomes:
        return f"'{name}' holds no accepted correction"
    done = [say_count(len(outcomes[key]), *words) for key, words in _DONE.items() if key in outcomes]
    left = [
        text.format(len(samples := outcomes[key]), some(dict.fromkeys(samples), 3))
        for key, text in _NOT_DONE.items()
        if key in outcomes
    ]
    if "no node" in outcomes and taxonomy.max_depth > 1:
        left[-1] += f"; a path is written as '{taxonomy.path_name(int(taxonomy.leaves[0]))}'"
    said = f"corrections of '{name}': {', '.join(done) or 'nothing applied'}"
    return f"{said}; not applied: {'; '.join(left)}" if left else said


def shorten_text(text: str) -> str:
    """The beginning of a text, for a table of corrections: programs read cells of limited length."""
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]} …"


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
