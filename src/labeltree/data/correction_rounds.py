"""Several tables of corrections: each is about the labels that those before it have left."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from labeltree.data.corrections import Applied, Corrections, is_label, sample_contents, sample_ids
from labeltree.data.former_names import former_names
from labeltree.data.source import Source
from labeltree.errors import DataError
from labeltree.lazy import torch
from labeltree.taxonomy import AnyTaxonomy
from labeltree.taxonomy.versions.label_reader import LabelReader

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["CorrectionFiles", "CorrectionRounds", "table_names"]

CorrectionFiles: TypeAlias = str | Path | Sequence[str | Path]
"""A table of corrections, or several in the order in which they are applied."""


@dataclass(frozen=True)
class CorrectionRounds:
    """Tables of corrections in order; each is compared with the labels that those before it have left.

    Attributes:
        tables: The corrections of each table.
    """

    tables: tuple[Corrections, ...]

    @classmethod
    def load(cls, files: CorrectionFiles) -> CorrectionRounds:
        """Read one table or several; see `Corrections.load`.

        Raises:
            DataError: If one cannot be read, or is named twice.
        """
        paths = [Path(file).expanduser() for file in ([files] if isinstance(files, str | Path) else files)]
        seen: set[Path] = set()
        for path in paths:
            if path.resolve() in seen:
                raise DataError(f"the corrections '{path}' are named twice; name each table once, in order")
            seen.add(path.resolve())
        named = zip(map(Corrections.load, paths), table_names(paths), strict=True)
        return cls(tuple(dataclasses.replace(table, name=name) for table, name in named))

    def without(self, known: CorrectionRounds) -> CorrectionRounds:
        """The tables after those at the beginning that are among the known ones, in the same order.

        Of three known tables the second alone is known, too: it would undo what the third says. A table in
        which nothing is decided stands nowhere in particular.
        """
        rest, done = list(known.tables), 0
        for table in self.tables:
            if not table.entries:
                done += 1
                continue
            place = next((at for at, other in enumerate(rest) if table.same_as(other)), None)
            if place is None:
                break
            rest, done = rest[place + 1 :], done + 1
        return CorrectionRounds(self.tables[done:])

    def same_as(self, other: CorrectionRounds) -> bool:
        """Whether both correct the same samples in the same way; see `Corrections.same_as`."""
        return len(self.tables) == len(other.tables) and all(
            first.same_as(second) for first, second in zip(self.tables, other.tables, strict=True)
        )

    def corrected_in(self, ids: Sequence[str], nodes: Tensor, reader: LabelReader) -> int:
        """How many of n samples have the label that the last decision about them gave them."""
        now = dict(zip(ids, nodes.tolist(), strict=True))
        last: dict[str, tuple[str, LabelReader]] = {}
        for table in self.tables:
            mine = [entry for entry in table.entries if entry.sample in now]
            texts = [text for entry in table.entries for text in (entry.label, entry.node) if text]
            suited = reader.for_texts(texts, [(each.node, now[each.sample]) for each in mine if each.node])
            last |= {entry.sample: (entry.node, suited) for entry in mine}
        return sum(is_label(text, now[name], suited) for name, (text, suited) in last.items())

    @property
    def need_contents(self) -> bool:
        """Whether a sample is named by its row, so that its content must be compared."""
        return any(entry.content for table in self.tables for entry in table.entries)

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
        """What the tables do to samples one after the other; arguments as of `Corrections.resolve`.

        Raises:
            DataError: If of one table not one sample is known.
        """
        after, keep = nodes.clone(), torch.ones(len(nodes), dtype=torch.bool)
        counts: Counter[str] = Counter()
        sentences = []
        removed = set(gone)
        for table in self.tables:
            rows = keep.nonzero()[:, 0]
            left = rows.tolist()
            done = table.resolve(
                [ids[row] for row in left],
                after[rows],
                taxonomy,
                reader=reader,
                contents=None if contents is None else [contents[row] for row in left],
                gone=removed,
            )
            after[rows], keep[rows] = done.nodes, done.keep
            removed |= {ids[row] for row in rows[~done.keep].tolist()}
            counts.update(done.counts)
            sentences.append(done.sentence)
        return Applied(after, keep, dict(sorted(counts.items())), ". ".join(sentences))

    @property
    def removed(self) -> frozenset[str]:
        """Ids of the samples that a table removes."""
        return frozenset(
            entry.sample for table in self.tables for entry in table.entries if entry.decision == "remove"
        )

    def of_source(self, source: Source, *, gone: Collection[str] = ()) -> Applied:
        """What the tables do to a whole data set, from which others were removed before; see `resolve`."""
        ids = sample_ids(source)
        known = set(ids)
        names = {old: one for old, one in zip(former_names(source), ids, strict=True) if old not in known}
        tables = tuple(table.renamed(names) for table in self.tables)
        contents = sample_contents(ids, source.sample_digests()) if self.need_contents else None
        gone = {names.get(one, one) for one in gone}
        rounds = dataclasses.replace(self, tables=tables)
        return rounds.resolve(
            ids, source.nodes, source.taxonomy, reader=source.read_labels, contents=contents, gone=gone
        )

    def apply(self, data: Source, *others: Source) -> tuple[Source, ...]:
        """Correct a whole data set, and selections of its samples in the same way.

        Args:
            data: The whole data set, whose notes then say what was done.
            *others: Samples of the same data set.

        Returns:
            The corrected data set, then the corrected selections.

        Raises:
            DataError: If not one of the corrected samples is in the data.
        """
        done = self.of_source(data)
        order = data.instances.argsort()
        known = data.instances[order]
        notes = (done.sentence,) if self.tables else ()
        corrected = []
        for source in (data, *others):
            rows = order[torch.searchsorted(known, source.instances)]
            fresh = dataclasses.replace(source, nodes=done.nodes[rows], notes=(*source.notes, *notes))
            if not bool(done.keep.all()):
                fresh = fresh.subset(done.keep[rows].nonzero()[:, 0])
            corrected.append(fresh)
        return tuple(corrected)


def table_names(files: Sequence[str | Path]) -> list[str]:
    """What tables are called in messages: the name of the file, or all of its path where names are equal."""
    paths = [Path(file) for file in files]
    times = Counter(path.name for path in paths)
    return [path.name if times[path.name] == 1 else str(path) for path in paths]
