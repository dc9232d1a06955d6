"""Files of the review: suspects that are read, decisions that go into a table of corrections."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from labeltree.atomic import atomic_write
from labeltree.data.corrections import COLUMNS, CONTENT, DECISIONS
from labeltree.errors import DataError, TaxonomyError
from labeltree.file_kinds import SHEETS
from labeltree.safe_files import Reader
from labeltree.serving.explorer.collection import Collection
from labeltree.serving.explorer.review_decisions import Action, Decision, Kept, Suspect
from labeltree.taxonomy.versions.label_reader import LabelReader
from labeltree.text_files import split_packed
from labeltree.workbooks import spreadsheet_rows

__all__ = ["CorrectionsFile", "read_suspects"]

_READER = Reader("a table of corrections", "correct it, or name another file", DataError)
_ACTIONS: tuple[Action, ...] = ("accept", "keep", "remove", "no label")


class CorrectionsFile:
    """A table of corrections as `labeltree.data.corrections.Corrections` reads it, changed row by row.

    Rows of samples that are not in the collection, rows without a decision, rows that cannot be understood
    and further columns stay as they are, so that the table of `labeltree suspects` itself can be the file.

    Args:
        path: The file; it need not exist.
        collection: Whose samples are decided about.
        contents: Fingerprints of samples that are named by their rows, see `sample_contents`, by id.

    Raises:
        DataError: If the file cannot be read at all.
    """

    def __init__(self, path: Path, collection: Collection, contents: Mapping[str, str] | None = None) -> None:
        self.path = path
        self._collection = collection
        self._contents = {one: content for one, content in (contents or {}).items() if content}
        if split_packed(path)[0] in SHEETS:
            raise _READER.failure(path, "it is a workbook, and decisions are written as CSV")
        self._rows()

    def read(self) -> Kept:
        """See `DecisionFile`."""
        return self._understood(self._rows()[1])

    def _understood(self, rows: Mapping[int, Mapping[str, str]]) -> Kept:
        """What the rows say, as training takes them."""
        decisions: dict[str, Decision] = {}
        problems: dict[str, str] = {}
        corrected: dict[str, tuple[str, ...]] = {}
        for number, row in rows.items():
            sample = row["sample"]
            try:
                decision = self._decision(row)
                if decision is None:
                    continue
                new = row["suggested"].strip() if decision.action == "accept" else ""
                said = (decision.action, row["label"].strip(), new)
                if corrected.setdefault(sample, said) != said:
                    raise DataError("the sample has two corrections that differ; leave one of them empty")
                decisions[sample] = decision
            except DataError as error:
                name = f" (sample '{sample[:100]}')" if sample else ""
                problems.setdefault(sample, f"'{self.path.name}', row {number}{name}: {error}")
        return Kept({one: decision for one, decision in decisions.items() if one not in problems}, problems)

    def write(self, decisions: Mapping[str, Decision]) -> None:
        """See `DecisionFile`; what was taken back keeps its row, without a decision."""
        columns, numbered = self._rows()
        now, rows = self._understood(numbered).decisions, list(numbered.values())
        changed = {one for one in (*now, *decisions) if now.get(one) != decisions.get(one)}
        seen: set[str] = set()
        for row in rows:
            sample = row["sample"]
            if sample not in changed:
                continue  # so that it keeps the label that it was decided on
            decision = None if sample in seen else decisions.get(sample)
            if decision is not None:
                row |= self._row(sample, decision, row["suggested"])
            elif row["decision"]:
                row["decision"] = ""
            seen.add(sample)
        rows += [self._row(one, said, "") for one, said in decisions.items() if one in changed - seen]
        with atomic_write(self.path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    def _decision(self, row: Mapping[str, str]) -> Decision | None:
        """The decision of a row; None if it has none, or is of another collection's sample.

        Raises:
            DataError: If it cannot be understood.
        """
        word = " ".join(row["decision"].lower().split())
        if not word:
            return None
        action: Action | None = next((one for one in _ACTIONS if one == DECISIONS.get(word)), None)
        if action is None:
            raise DataError(f"the decision '{word[:60]}' is not one of {', '.join(_ACTIONS)}; correct it")
        if not row["sample"]:
            raise DataError("the column 'sample' is empty, so nobody knows what is corrected; fill it in")
        place = self._collection.row_of.get(row["sample"])
        if place is None:
            return None
        if action == "keep":
            return Decision(action, int(self._collection.nodes[place]))
        if action != "accept":
            return Decision(action, -1)
        return Decision(action, _node(self._collection, row["suggested"]))

    def _row(self, sample: str, decision: Decision, suggested: str) -> dict[str, str]:
        label = int(self._collection.nodes[self._collection.row_of[sample]])
        name = self._collection.taxonomy.path_name
        return {
            "sample": sample,
            "label": name(label) if label > 0 else "",
            "suggested": name(decision.node) if decision.action == "accept" else suggested,
            "decision": decision.action,
        } | ({CONTENT: self._contents.get(sample, "")} if self._contents else {})

    def _rows(self) -> tuple[list[str], dict[int, dict[str, str]]]:
        columns, rows = _read_table(self.path, COLUMNS) if self.path.exists() else (list(COLUMNS), {})
        if self._contents and CONTENT not in columns:
            columns.append(CONTENT)
        return columns, rows


def read_suspects(path: Path, collection: Collection) -> list[Suspect]:
    """The suspects of a table of `labeltree suspects`, in its order; rows of other samples are left out.

    Raises:
        DataError: If it cannot be read, or none of its samples is in the collection.
    """
    _, rows = _read_table(path, ("sample", "suggested"))
    suspects: dict[int, Suspect] = {}
    for row in rows.values():
        place = collection.row_of.get(row["sample"])
        if place is not None and place not in suspects:
            suspects[place] = Suspect(
                row=place,
                suggested=_suggested_node(collection, row["suggested"]),
                reason=row.get("reason", ""),
                score=_number(row.get("score", "")),
            )
    if rows and not suspects:
        raise DataError(f"no sample of '{path}' is in the index; the table belongs to other data")
    return list(suspects.values())


def _node(collection: Collection, text: str) -> int:
    """The node of a path, or of a name that only one node has, as training finds it.

    Raises:
        DataError: If there is none, or several.
    """
    try:
        node = LabelReader(collection.taxonomy).find(text.strip())
        node = collection.taxonomy.find(text.strip()) if node < 0 else node
    except TaxonomyError as error:
        raise DataError(str(error)) from None
    if node == 0:
        raise DataError("nothing is suggested that could be accepted; write a node, or 'no label'")
    return node


def _suggested_node(collection: Collection, text: str) -> int:
    try:
        return _node(collection, text)
    except DataError:
        return -1


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _read_table(path: Path, needed: tuple[str, ...]) -> tuple[list[str], dict[int, dict[str, str]]]:
    """Columns and rows of a table as a spreadsheet saves it; rows by the numbers that they have there."""
    (_, header), *numbered = spreadsheet_rows(path, _READER) or [(1, [])]
    lines = {number: line for number, line in numbered if line}
    columns = [name.strip() for name in header]
    columns = [name.lower() if name.lower() in {*needed, CONTENT} else name for name in columns]
    if twice := [name for name in columns if columns.count(name) > 1]:
        raise DataError(f"'{path}' has more than one column '{twice[0]}'; rename one, so that none is lost")
    if longer := [number for number, line in lines.items() if len(line) > len(columns)]:
        raise DataError(f"row {longer[0]} of '{path}' has more cells than there are columns; mend it first")
    missing = [name for name in needed if name not in columns]
    if missing:
        raise _READER.failure(path, f"it has no column '{missing[0]}'")
    empty = dict.fromkeys(columns, "")
    return columns, {number: empty | dict(zip(columns, line, strict=False)) for number, line in lines.items()}
