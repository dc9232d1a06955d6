"""Files of the review: suspects that are read, decisions that go into a table of corrections."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from labeltree.atomic import atomic_write
from labeltree.data.corrections import COLUMNS, DECISIONS
from labeltree.errors import DataError
from labeltree.safe_files import Reader, read_text
from labeltree.serving.explorer.collection import Collection
from labeltree.serving.explorer.review import Action, Decision, Suspect

__all__ = ["CorrectionsFile", "read_suspects"]

_READER = Reader("a table of corrections", "correct it, or name another file", DataError)
_ACTIONS: tuple[Action, ...] = ("accept", "keep", "remove", "no label")


class CorrectionsFile:
    """A table of corrections as `labeltree.data.corrections.Corrections` reads it, changed row by row.

    Rows of samples that are not in the collection, rows without a decision and further columns stay as they
    are, so that the table of `labeltree suspects` itself can be the file.

    Args:
        path: the file; it need not exist.
        collection: whose samples are decided about.

    Raises:
        DataError: if the file cannot be read.
    """

    def __init__(self, path: Path, collection: Collection) -> None:
        self.path = path
        self._collection = collection
        self._nodes = _nodes_by_path(collection)
        self.read()

    def read(self) -> dict[str, Decision]:
        """See `DecisionFile`."""
        _, rows = self._rows()
        decisions = {}
        for line, row in enumerate(rows, 2):
            found = self._decision(row, f"'{self.path}', row {line}")
            if found is not None:
                decisions[row["sample"]] = found
        return decisions

    def write(self, decisions: Mapping[str, Decision]) -> None:
        """See `DecisionFile`; what was taken back keeps its row, without a decision."""
        columns, rows = self._rows()
        seen = set()
        for row in rows:
            sample = row["sample"]
            if sample in self._collection.row_of:
                decision = None if sample in seen else decisions.get(sample)
                if decision is not None and decision == self._decision(row, str(self.path)):
                    pass  # what nobody decided anew keeps the label that it was decided on
                elif decision is not None:
                    row |= self._row(sample, decision, row["suggested"])
                elif row["decision"]:
                    row["decision"] = ""
                seen.add(sample)
        rows += [self._row(sample, one, "") for sample, one in decisions.items() if sample not in seen]
        with atomic_write(self.path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    def _decision(self, row: Mapping[str, str], where: str) -> Decision | None:
        """The decision of a row; None if it has none, or is of another collection's sample."""
        place = self._collection.row_of.get(row["sample"])
        word = " ".join(row["decision"].lower().split())
        if place is None or not word:
            return None
        action: Action | None = next((one for one in _ACTIONS if one == DECISIONS.get(word)), None)
        if action is None:
            raise DataError(
                f"{where}: the decision '{word[:60]}' is none of {', '.join(_ACTIONS)}; correct it"
            )
        if action == "keep":
            return Decision(action, int(self._collection.nodes[place]))
        if action != "accept":
            return Decision(action, -1)
        node = self._nodes.get(row["suggested"].strip())
        if node is None:
            raise DataError(
                f"{where}: '{row['suggested'][:100]}' is no node of the taxonomy; write its path, such as "
                "animal/mammal/dog"
            )
        return Decision(action, node)

    def _row(self, sample: str, decision: Decision, suggested: str) -> dict[str, str]:
        label = int(self._collection.nodes[self._collection.row_of[sample]])
        name = self._collection.taxonomy.path_name
        return {
            "sample": sample,
            "label": name(label) if label > 0 else "",
            "suggested": name(decision.node) if decision.action == "accept" else suggested,
            "decision": decision.action,
        }

    def _rows(self) -> tuple[list[str], list[dict[str, str]]]:
        if not self.path.exists():
            return list(COLUMNS), []
        return _read_table(self.path, COLUMNS)


def read_suspects(path: Path, collection: Collection) -> list[Suspect]:
    """The suspects of a table of `labeltree suspects`, in its order; rows of other samples are left out.

    Raises:
        DataError: if it cannot be read, or none of its samples is in the collection.
    """
    _, rows = _read_table(path, ("sample", "suggested"))
    nodes = _nodes_by_path(collection)
    found: dict[int, Suspect] = {}
    for row in rows:
        place = collection.row_of.get(row["sample"])
        if place is not None and place not in found:
            found[place] = Suspect(
                row=place,
                suggested=nodes.get(row["suggested"].strip(), -1),
                reason=row.get("reason", ""),
                score=_number(row.get("score", "")),
            )
    if rows and not found:
        raise DataError(f"no sample of '{path}' is in the index; the table belongs to other data")
    return list(found.values())


def _nodes_by_path(collection: Collection) -> dict[str, int]:
    taxonomy = collection.taxonomy
    return {taxonomy.path_name(node): node for node in range(taxonomy.num_nodes - 1, 0, -1)}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _read_table(path: Path, needed: tuple[str, ...]) -> tuple[list[str], list[dict[str, str]]]:
    """Columns and rows of a CSV, separated by commas, semicolons or tabs."""
    text = read_text(path, _READER)
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    with _READER.reading(path, "it is no CSV"):
        lines = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True, restval="")
        columns = [name.strip() for name in lines.fieldnames or []]
        lines.fieldnames = [name.lower() if name.lower() in needed else name for name in columns]
        columns = list(lines.fieldnames)
        rows = [{name: value for name, value in row.items() if name is not None} for row in lines]
    missing = [name for name in needed if name not in columns]
    if missing:
        raise _READER.failure(path, f"it has no column '{missing[0]}'")
    return columns, rows
