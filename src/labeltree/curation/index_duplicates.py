"""Near duplicates among the samples of an index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from labeltree.curation.duplicates import Duplicates, find_duplicates
from labeltree.curation.duplicates_text import DuplicateNames, duplicates_text
from labeltree.index import Index
from labeltree.index.opened_tables import read_once, recorded_digests
from labeltree.options.choices import Format
from labeltree.options.schema import as_place
from labeltree.options.search import DuplicatesOptions

__all__ = ["IndexDuplicates", "index_duplicates"]


@dataclass(frozen=True)
class IndexDuplicates:
    """The near duplicates of an index.

    Attributes:
        duplicates: The pairs and the sets that they make.
        names: The names of its samples.
    """

    duplicates: Duplicates
    names: DuplicateNames

    def __repr__(self) -> str:
        """The pairs as a table, its first hundred lines."""
        lines = self.text().splitlines()
        return "\n".join([*lines[:100], *(["…"] if len(lines) > 100 else [])])

    def text(self, form: Format = "table") -> str:
        """Findings in sentences with the closest pairs, a CSV of the pairs, or everything as JSON."""
        return duplicates_text(self.duplicates, self.names, form)


def index_duplicates(options: DuplicatesOptions) -> IndexDuplicates:
    """Find the near duplicates of an index, with the names of its samples.

    Contents are compared by the digests that the index's run has recorded, where its samples are those of the
    index, and otherwise by the files.

    Raises:
        OptionError: If a cosine is given, and the index has another geometry.
    """
    index = Index.open(as_place(options.index))
    threshold = options.threshold
    if options.cosine is not None:
        if index.geometry != "cosine":
            raise options.refusal(
                f"`cosine` does not suit an index that is {index.geometry}; give `threshold`"
            )
        threshold = (2.0 - 2.0 * options.cosine) ** 0.5
    read = read_once(index, ["id", "node", "path", "split", "group"])
    columns: dict[str, list[Any]] = {name: read.rows[name].to_pylist() for name in read.rows.column_names}
    nodes = read.rows["node"].to_numpy()
    splits = columns["split"] if any(columns["split"]) else None
    groups = columns["group"] if any(columns["group"]) else None
    duplicates = find_duplicates(
        read.vectors,
        read.geometry,
        threshold=threshold,
        nodes=nodes,
        taxonomy=read.taxonomy,
        splits=splits,
        groups=groups,
        paths=columns["path"],
        digests=recorded_digests(index, columns["id"]),
        most_pairs=options.pairs,
    )
    names = DuplicateNames(columns["id"], nodes.tolist(), read.taxonomy, splits, groups, columns["path"])
    return IndexDuplicates(duplicates, names)
