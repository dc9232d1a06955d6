"""Labels of new samples in the taxonomy of a run, read as the table of its training was."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from labeltree.data.biology.rank_gaps import LabelFinder
from labeltree.data.names.label_names import LabelNames
from labeltree.data.tables.row_labels import cut_label, split_label
from labeltree.errors import TaxonomyError
from labeltree.inference.load_run import TrainedRun
from labeltree.taxonomy.files.breadcrumbs import breadcrumbs_of, written_paths
from labeltree.taxonomy.naming import join_path
from labeltree.taxonomy.placeholders import MissingNames
from labeltree.taxonomy.versions.between_versions import LabelsOfBoth

__all__ = ["MISSING", "UNKNOWN", "RunLabels"]

MISSING, UNKNOWN = -1, -2
"""In place of a node: there is no label, or the taxonomy lacks it."""

Names = tuple[str, ...]


class RunLabels:
    """Finds labels in the taxonomy of a run; threads can share one.

    Args:
        run: The run.
        kind: Where labels stand: in `folders`, in `one` column, or in `several`, of which one between given
            ones may be empty.
    """

    def __init__(self, run: TrainedRun, kind: Literal["folders", "one", "several"]) -> None:
        table = run.recipe.table
        self._kind = kind
        self._taxonomy = run.taxonomy if run.change is None else LabelsOfBoth(run.change.mapping).taxonomy
        self._missing = MissingNames(run.recipe.missing_labels or ())
        self._separator = table.separator
        cleaned = kind != "folders"
        self._names = LabelNames(table.names or "exact", table.synonyms) if cleaned else LabelNames()
        self._finder = LabelFinder(self._taxonomy) if kind == "several" else None
        self._known: dict[tuple[Names, ...], int] = {}

    def split(self, text: str) -> Names:
        """The names of a label in one column; see `separator` of `open_table`."""
        separator = self._separator
        if (
            separator not in (None, "none", "/")
            and (crumb_lists := breadcrumbs_of([text], separator)) is not None
        ):
            return crumb_lists.paths[0]
        path = split_label(text)
        if separator is not None or self._taxonomy.candidates(path):
            return path
        return next(filter(self._taxonomy.candidates, written_paths(text)), path)

    def find(self, *tries: Names) -> int:
        """The node of the first of these paths that the taxonomy has, else `MISSING` or `UNKNOWN`."""
        if tries not in self._known:
            self._known[tries] = self._find(tries)
        return self._known[tries]

    def _find(self, tries: Sequence[Names]) -> int:
        for names in tries:
            label = cut_label(names, self._missing, 0) if names else None
            if label is None:
                return MISSING
            node = self._encode(label)
            if node is not None:
                return node
        read: list[Names] = []
        for names in tries if self._names.changes else ():
            (clean,) = self._names.read([names], [1], taxonomy=self._taxonomy, whole=False).labels
            label = cut_label(clean, self._missing, 0) if clean else None
            if label is None:
                return MISSING
            node = None if None in label else self._encode(label)
            if node is not None:
                return node
            read.append(tuple(name for name in clean if name))
        path = next(iter(read), tries[0])
        known = None if self._finder is None else self._finder.find(path)
        return UNKNOWN if known is None else int(self._taxonomy.encode([known])[0])

    def _encode(self, label: Names) -> int | None:
        """The node of a label; the only name of one column is that of a node at any depth."""
        anywhere = [join_path(label)] if self._kind == "one" and len(label) == 1 else []
        for form in (label, *anywhere):
            with suppress(TaxonomyError):
                return int(self._taxonomy.encode([form])[0])
        return None
