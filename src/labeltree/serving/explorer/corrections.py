"""Files of the review: suspects that are read, corrections that are written."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from labeltree.atomic import atomic_write
from labeltree.errors import DataError
from labeltree.safe_files import Reader, read_text
from labeltree.serving.explorer.collection import Collection
from labeltree.serving.explorer.review import Action, Decision, Suspect

__all__ = ["CorrectionsFile", "read_suspects"]

COLUMNS = ("sample", "label", "corrected", "action")
_READER = Reader("a table of corrections", "correct it, or name another file", DataError)
_SUSPECTS = Reader("a table of suspects", "write it again with: labeltree suspects", DataError)
_ACTIONS: tuple[Action, ...] = ("accept", "keep", "relabel")


class CorrectionsFile:
    """A CSV with a row for each sample that somebody decided about.

    The columns are ``sample`` (its id), ``label`` (at the time), ``corrected`` (the label from now on, as a
    path; the same where it was kept) and ``action``. Rows of samples that are not in the collection, and
    further columns, stay as they are.

    Args:
        path: the file; it need not exist.
        collection: whose samples are decided about.

    Raises:
        DataError: if the file cannot be read.
    """

    def __init__(self, path: Path, collection: Collection) -> None:
        self.path = path
        self._collection = collection
        self._nodes: dict[str, int] = {}
        taxonomy = collection.taxonomy
        for node in range(taxonomy.num_nodes - 1, -1, -1):  # of equal paths, the first node counts
            self._nodes[taxonomy.path_name(node)] = node
        self.read()

    def read(self) -> dict[str, Decision]:
        """See `DecisionFile`."""
        _, rows = self._rows()
        decisions = {}
        for line, row in enumerate(rows, 2):
            sample = row["sample"]
            if sample not in self._collection.row_of or not row["corrected"]:
                continue
            node = self._nodes.get(row["corrected"])
            if node is None:
                raise DataError(
                    f"line {line} of '{self.path}' corrects '{sample}' to '{row['corrected']}', which is no "
                    "node of the taxonomy; write its path, such as animal/mammal/dog"
                )
            action: Action = next((one for one in _ACTIONS if one == row.get("action")), "relabel")
            decisions[sample] = Decision(action, node)
        return decisions

    def write(self, decisions: Mapping[str, Decision]) -> None:
        """See `DecisionFile`."""
        columns, rows = self._rows()
        kept, seen = [], set()
        for row in rows:
            decision = decisions.get(row["sample"])
            if decision is not None and row["sample"] not in seen:
                row |= self._row(row["sample"], decision)
            elif row["sample"] in self._collection.row_of and row["corrected"]:
                continue  # taken back, or a second row of the sample
            seen.add(row["sample"])
            kept.append(row)
        kept += [self._row(sample, one) for sample, one in decisions.items() if sample not in seen]
        with atomic_write(self.path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(kept)

    def _row(self, sample: str, decision: Decision) -> dict[str, str]:
        label = int(self._collection.nodes[self._collection.row_of[sample]])
        name = self._collection.taxonomy.path_name
        return {
            "sample": sample,
            "label": "" if label < 0 else name(label),
            "corrected": "" if decision.node < 0 else name(decision.node),
            "action": decision.action,
        }

    def _rows(self) -> tuple[list[str], list[dict[str, str]]]:
        if not self.path.exists():
            return list(COLUMNS), []
        columns, rows = _read_table(self.path, ("sample", "corrected"), _READER)
        return [*columns, *(name for name in COLUMNS if name not in columns)], rows


def read_suspects(path: Path, collection: Collection) -> list[Suspect]:
    """The suspects of a file, in its order; rows of other samples are left out.

    Raises:
        DataError: if it cannot be read, or none of its samples is in the collection.
    """
    _, rows = _read_table(path, ("sample",), _SUSPECTS)
    names = collection.taxonomy
    nodes = {names.path_name(node): node for node in range(names.num_nodes - 1, -1, -1)}
    found: dict[int, Suspect] = {}
    for row in rows:
        place = collection.row_of.get(row["sample"])
        if place is not None and place not in found:
            score = row.get("score", "")
            found[place] = Suspect(
                row=place,
                suggested=nodes.get(row.get("likelier", ""), -1),
                reason=row.get("reason", ""),
                score=_number(score),
            )
    if rows and not found:
        raise DataError(f"no sample of '{path}' is in the index; it is of another one")
    return list(found.values())


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _read_table(
    path: Path, needed: tuple[str, ...], reader: Reader
) -> tuple[list[str], list[dict[str, str]]]:
    with reader.reading(path, "it is no table with commas"):
        lines = csv.DictReader(io.StringIO(read_text(path, reader), newline=""), strict=True, restval="")
        columns = list(lines.fieldnames or [])
        rows = [{name: value for name, value in row.items() if name is not None} for row in lines]
    missing = [name for name in needed if name not in columns]
    if missing:
        raise reader.failure(path, f"it has no column '{missing[0]}'")
    return columns, rows
