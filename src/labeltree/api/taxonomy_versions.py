"""Versions of a taxonomy: what changed, written down, carried out, and joined."""

from __future__ import annotations

import inspect
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeltree.api.taxonomies import as_tree, open_labels, open_tree
from labeltree.atomic import refuse_inputs
from labeltree.options.schema import takes
from labeltree.options.taxonomy_options import (
    ApplyOptions,
    ComposeOptions,
    DiffOptions,
    MapOptions,
    ReviewOptions,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from labeltree.data.tables.relabelled_table import RelabelledTable
    from labeltree.taxonomy import AnyTaxonomy, Change, Guess, Taxonomy, TaxonomyMapping
    from labeltree.taxonomy.review_names import Review

__all__ = [
    "AppliedChanges",
    "ReviewedTaxonomy",
    "Touched",
    "VersionDifference",
    "apply_changes",
    "check_unedited",
    "compose_changes",
    "count_changes",
    "diff_taxonomies",
    "map_taxonomies",
    "review_taxonomy",
    "say_changes",
]

_DONE = {
    "rename": "renamed",
    "move": "moved",
    "merge": "merged",
    "split": "split",
    "remove": "removed",
    "add": "added",
}


@dataclass(frozen=True)
class VersionDifference:
    """What changed between two versions of a taxonomy.

    Attributes:
        mapping: What became of each node.
        guesses: Further changes that are likely, none of which is in the mapping.
        touched: The samples that are counted, if data were named.
    """

    mapping: TaxonomyMapping
    guesses: list[Guess]
    touched: Touched | None = None

    def __repr__(self) -> str:
        """The two versions, a line for each change, and the guesses."""
        from labeltree.taxonomy.versions.mapping_file import describe_version

        old, new = self.mapping.old, self.mapping.new
        lines = [f"old: {describe_version(old)}", f"new: {describe_version(new)}"]
        if old.names[0] != new.names[0]:
            lines.append(f"the root is called {new.names[0]!r}, before {old.names[0]!r}")
        changes = self.mapping.changes()
        touched = "" if self.touched is None else f"; {self.touched.sentence(changes)}"
        lines += [*_rows(changes, self.touched), f"{say_changes(changes)}{touched}"]
        if self.guesses:
            lines.append(
                "guesses, of which none is used ('labeltree taxonomy map' writes them as comments, for you "
                "to confirm):"
            )
        return "\n".join([*lines, *(f"  {guess.change}  ({guess.reason})" for guess in self.guesses)])


@dataclass(frozen=True)
class AppliedChanges:
    """A new version of a taxonomy, the changes that led to it, and what became of a table's labels."""

    taxonomy: Taxonomy
    mapping: TaxonomyMapping
    table: RelabelledTable | None = None

    def __repr__(self) -> str:
        """What was changed, or what became of the labels, in a sentence."""
        from labeltree.taxonomy.versions.mapping_file import describe_version

        if self.table is not None:
            return str(self.table)
        return f"{say_changes(self.mapping.changes())}; {describe_version(self.taxonomy)}"


@takes(DiffOptions)
def diff_taxonomies(options: DiffOptions) -> VersionDifference:
    """Say what was renamed, moved, merged, split, removed and added between two versions of a taxonomy.

    Raises:
        TaxonomyError: If a version cannot be read or is a DAG, or the changes are of other versions.
        DataError: If the data have no samples.
    """
    from labeltree.taxonomy import TaxonomyMapping

    old, new = open_tree(options.old), open_tree(options.new)
    if options.mapping is None:
        mapping, guesses = _between(options.synonyms, old, new)
    else:
        mapping, guesses = TaxonomyMapping.load(options.mapping, old=old, new=new), []
    touched = None if options.data is None else Touched.of_data(options.data, old, options.old, options.table)
    return VersionDifference(mapping, guesses, touched)


@takes(MapOptions)
def map_taxonomies(options: MapOptions) -> VersionDifference:
    """Write what became of each class of a version in another one, to be edited by hand.

    Raises:
        TaxonomyError: If a version cannot be read or is a DAG, or the file may not be replaced.
    """
    old, new = open_tree(options.old), open_tree(options.new)
    check_unedited(options.out, old, replace=options.replace)
    mapping, guesses = _between(options.synonyms, old, new)
    if options.accept:
        mapping = mapping.with_guesses([guess for guess in guesses if not guess.needs_decision])
        guesses = [guess for guess in guesses if guess.needs_decision]
    mapping.save(options.out, guesses)
    return VersionDifference(mapping, guesses)


@takes(ApplyOptions)
def apply_changes(options: ApplyOptions) -> AppliedChanges:
    """Make the new version of a taxonomy from a file of changes, and write it, or a table with its labels.

    Raises:
        TaxonomyError: If the changes do not fit the old version, or the file that would be written is one of
            those that are read.
        DataError: If the table cannot be read or written, or has no labels of the old version.
    """
    inputs = [options.changes, options.old, *([] if options.data is None else [options.data])]
    refuse_inputs(options.out, *map(str, inputs))
    _refuse_mapping(options.out)
    mapping = _load(options.changes, open_tree(options.old))
    if options.data is not None:
        return AppliedChanges(mapping.new, mapping, _relabel(Path(options.data), options, mapping))
    new = mapping.revised(options.release)
    new.save(options.out)
    return AppliedChanges(new, mapping)


def _relabel(data: Path, options: ApplyOptions, mapping: TaxonomyMapping) -> RelabelledTable:
    from labeltree.data.tables.relabelled_table import relabel_table
    from labeltree.errors import DataError
    from labeltree.file_kinds import is_table_file
    from labeltree.inference.named_samples import table_settings

    if not is_table_file(data):
        raise DataError(f"--data '{data}' is not a table (.csv, .tsv, .xlsx, .jsonl, .parquet); name one")
    settings = asdict(table_settings(options.table))
    given = {name: value for name, value in settings.items() if value is not None and value != ()}
    known = set(inspect.signature(relabel_table).parameters)
    if idle := [f"--table.{name}" for name in given if name not in known]:
        raise DataError(
            f"{', '.join(idle)}: labels are read as they stand; there are only --table.label_columns, "
            "fill_down, separator, label_separator, encoding and sheet"
        )
    of_run = {name: value for name, value in _run_settings(data, options.old, given).items() if name in known}
    done = relabel_table(data, Path(options.out), mapping, **of_run | given)
    for note in done.notes:
        print(f"labeltree: {note}", file=sys.stderr)
    return done


@takes(ComposeOptions)
def compose_changes(options: ComposeOptions) -> TaxonomyMapping:
    """From the changes A to B and B to C, write those of A to C.

    Raises:
        TaxonomyError: If the changes do not fit, or a person has edited the file that would be written.
    """
    refuse_inputs(options.out, options.first, options.second, options.old)
    old = open_tree(options.old)
    check_unedited(options.out, old, replace=options.replace)
    first = _load(options.first, old)
    joined = first.then(_load(options.second, first.new))
    joined.save(options.out)
    return joined


@dataclass(frozen=True)
class ReviewedTaxonomy:
    """A taxonomy, and what might be repaired in it.

    Attributes:
        taxonomy: The tree.
        review: Likely duplicates and names that mean nothing.
        samples: The number of samples at or below each node, if there are samples.
        unknown: The labels of the data that the taxonomy lacks → their samples.
    """

    taxonomy: Taxonomy
    review: Review
    samples: list[int] | None
    unknown: dict[str, int] = field(default_factory=dict)


@takes(ReviewOptions)
def review_taxonomy(options: ReviewOptions) -> ReviewedTaxonomy:
    """Find likely duplicates and names that mean nothing, and write proposals for a person to accept.

    Raises:
        TaxonomyError: If the taxonomy cannot be read or is a DAG, or a person has edited the file that would
            be written.
    """
    from labeltree.data.names.cleaning import Cleaner
    from labeltree.taxonomy.review_names import review
    from labeltree.taxonomy.versions.mapping_file import write_mapping

    given = options.taxonomy_table
    taxonomy, labels = open_labels(options.taxonomy, column=options.column, table=given)
    tree = as_tree(options.taxonomy, taxonomy)
    if options.out is not None:
        check_unedited(options.out, tree, replace=options.replace)
    touched = None
    if options.data is not None:
        touched = Touched.of_data(options.data, tree, options.taxonomy, options.data_table)
    elif labels is not None:
        touched = Touched(tree, tree, labels)
    cleaner = Cleaner("scientific")
    if options.scientific:
        cleaner.learn(tree.names[1:])
    samples = None if touched is None else touched.at_or_below()
    reviewed = review(tree, cleaner.key if options.scientific else None, samples)
    guesses = [finding.guess for finding in reviewed.findings]
    if options.out is not None and guesses:
        write_mapping(options.out, tree, tree, (), guesses)
    return ReviewedTaxonomy(tree, reviewed, samples, {} if touched is None else touched.elsewhere)


def _table_labels(
    data: str, place: str | None, table: Mapping[str, Any] | None, old: Taxonomy
) -> tuple[AnyTaxonomy, Tensor] | None:
    """The labels of a table by settings: those of the run at `place`, and those given.

    A table without columns of samples, which would be a taxonomy elsewhere, is one of labels, too. None if it
    is read as any other data.

    Raises:
        DataError: If there are settings, but no table.
    """
    from labeltree.data.tables.table_source import labels_by_settings
    from labeltree.errors import DataError
    from labeltree.file_kinds import is_table_file
    from labeltree.inference.named_samples import table_settings

    path, is_run = Path(data), place is not None and _is_trained(place)
    if table and not is_table_file(path):
        raise DataError(f"--data '{data}' is no table, and has no settings of one; leave --table.… out")
    is_of_labels = _holds_labels_alone(path)
    if not is_table_file(path) or not (table or is_run or is_of_labels):
        return None
    given = table_settings(table).columns
    settings = {} if place is None else _run_settings(path, place, given)
    allowed = inspect.signature(labels_by_settings).parameters
    chosen = {name: value for name, value in {**settings, **given}.items() if name in allowed}
    if is_of_labels or is_run:
        chosen["known"] = old
    read = labels_by_settings(path, **{name: value for name, value in chosen.items() if value is not None})
    for note in read.notes:
        print(f"labeltree: {note}", file=sys.stderr)
    return read.taxonomy, read.nodes


def _is_trained(place: str) -> bool:
    """Whether a place is the folder of a run."""
    from labeltree.runs import RunFolder

    folder = RunFolder(place)
    return folder.recipe.is_file() and folder.description.is_file()


def _run_settings(path: Path, place: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """How the run at a place read the labels of its table, for another one; empty if there is no run."""
    if not _is_trained(place):
        return {}
    from labeltree.data.table_columns import read_header, settings_of_another
    from labeltree.inference.named_samples import label_settings
    from labeltree.runs import ModelDescription, RunFolder
    from labeltree.training.read_recipes import read_recipe

    folder = RunFolder(place)
    recipe, columns = read_recipe(folder.recipe), ModelDescription.load(folder.description).columns
    known = None if "sheet" in given else recipe.table.sheet
    text = settings_of_another(path, recipe.table.encoding, known)
    text |= {name: given[name] for name in text if name in given}
    there = read_header(path, **text).columns
    settings = label_settings(recipe.table, columns, there) | text
    labels = [name for name in columns.get("labels", ()) if name in there]
    if "label_columns" not in settings and settings.get("evidence") is None and labels:
        settings["label_columns"] = labels
    return settings | {"missing_labels": recipe.missing_labels or ()}


def _holds_labels_alone(path: Path) -> bool:
    """Whether a file is a table in which no column holds samples, rather than a list or a tree of names."""
    from labeltree.data import is_data_table
    from labeltree.file_kinds import is_table_file
    from labeltree.text_files import split_packed

    other = (".txt", ".json", ".zip")
    return (
        path.is_file()
        and is_table_file(path)
        and split_packed(path)[0] not in other
        and not is_data_table(path)
    )


def _between(synonyms_file: Path | None, old: Taxonomy, new: Taxonomy) -> tuple[TaxonomyMapping, list[Guess]]:
    from labeltree.taxonomy import TaxonomyMapping

    synonyms = None if synonyms_file is None else _synonyms(synonyms_file, old, new)
    return TaxonomyMapping.between(old, new, synonyms)


def count_changes(changes: Sequence[Change]) -> dict[str, int]:
    """How many changes of each kind there are, of those that there are."""
    return {
        kind: count
        for kind in ("add", "remove", "rename", "move", "merge", "split")
        if (count := sum(change.kind == kind for change in changes))
    }


def say_changes(changes: Sequence[Change]) -> str:
    """How many changes of each kind there are, in words."""
    counts = count_changes(changes)
    said = [f"{count:,} {_DONE[kind]}" + _into(changes, kind, count) for kind, count in counts.items()]
    return ", ".join(said) or "nothing changed"


def _into(changes: Sequence[Change], kind: str, count: int) -> str:
    """How many classes the merged ones became, where that says more than their number."""
    became = len({change.new for change in changes if change.kind == kind}) if kind == "merge" else count
    return f" into {became:,}" if became < count else ""


def _rows(changes: Sequence[Change], touched: Touched | None) -> list[str]:
    """A line for each change; the numbers of samples stand in a column before the paths."""
    counts = [""] * len(changes)
    if touched is not None:
        counts = [f"{touched.by(change):>7,}  " if change.old else " " * 9 for change in changes]
    rows = [] if touched is None or not changes else ["          samples"]
    for change, count in zip(changes, counts, strict=True):
        kind, paths = str(change).split(": ", 1)
        rows.append(f"  {kind:<6}  {count}{paths}")
    return rows


def _refuse_mapping(out: str | Path) -> None:
    """Raise an error if a taxonomy would replace a mapping."""
    from labeltree.errors import TaxonomyError
    from labeltree.taxonomy.versions.mapping_file import described_versions

    try:
        described_versions(out)
    except (TaxonomyError, OSError):
        return
    raise TaxonomyError(f"--out '{out}' is a mapping, and would become a taxonomy; name another file")


def _load(path: Path, old: Taxonomy) -> TaxonomyMapping:
    """The mapping of a file; a note says if it was written for another version."""
    from labeltree.taxonomy import TaxonomyMapping
    from labeltree.taxonomy.versions.mapping_file import describe_version, other_version

    mapping = TaxonomyMapping.load(path, old=old)
    if (other := other_version(path, "old", old)) is not None:
        said = f"'{path}' was made for {other}; it was applied to {describe_version(old)}"
        print(f"labeltree: {said}", file=sys.stderr)
    return mapping


def check_unedited(out: Path, old: Taxonomy, *, replace: bool) -> None:
    """Raise an error if `--out` is a file that a person has edited, or of another old version, to be kept."""
    from labeltree.errors import TaxonomyError
    from labeltree.taxonomy.versions.mapping_file import is_edited, other_version

    if replace or not out.exists():
        return
    why = ""
    if is_edited(out):
        why = "was written or edited by a person"
    elif (other := other_version(out, "old", old)) is not None:
        why = f"says what became of {other}"
    if why:
        raise TaxonomyError(f"'{out}' {why}; --replace overwrites it, --out FILE names another file")


class Touched:
    """The samples of data that are labelled with the old version, to be counted by change.

    Args:
        old: The old version.
        taxonomy: The taxonomy of the labels.
        nodes: `(n,)` labels, -1 where missing.
    """

    def __init__(self, old: Taxonomy, taxonomy: AnyTaxonomy, nodes: Tensor) -> None:
        import torch

        from labeltree.taxonomy.versions.matching import match_labels

        labels = nodes[nodes >= 0]
        places = match_labels(taxonomy, old).nodes[labels]
        self._old, self.samples = old, len(nodes)
        lost, counts = torch.unique(labels[places < 0], return_counts=True)
        self.elsewhere: dict[str, int] = {
            taxonomy.path_name(node): count
            for node, count in zip(lost.tolist(), counts.tolist(), strict=True)
        }
        self.unmatched = int((places < 0).sum())
        self._own: Tensor = torch.bincount(places[places >= 0], minlength=old.num_nodes)
        self._before = torch.cat([torch.zeros(1, dtype=torch.int64), self._own.cumsum(0)])

    @classmethod
    def of_data(
        cls, data: str, old: Taxonomy, place: str | None = None, table: Mapping[str, Any] | None = None
    ) -> Touched:
        """The samples of a folder, a table, a run or a data set.

        Args:
            data: Where they are.
            old: The old version.
            place: Where it was read: if that is a run, a table is read as that of its training.
            table: Settings of the table that differ from these, by name.
        """
        from labeltree.errors import DataError

        read = _table_labels(data, place, table, old)
        taxonomy, nodes = open_labels(data, known=old) if read is None else read
        if nodes is None:
            raise DataError(
                f"--data '{data}' is a taxonomy without samples; name a folder, a table, a run or a data set"
            )
        return cls(old, taxonomy, nodes)

    def _below(self, change: Change) -> tuple[int, int]:
        node = self._old.follow(change.old)
        assert node is not None
        return node, int(self._old.subtree_end[node])

    def by(self, change: Change) -> int:
        """The number of samples at or below the old node of a change."""
        if not change.old:
            return 0
        start, end = self._below(change)
        return int(self._before[end] - self._before[start])

    def at_or_below(self) -> list[int]:
        """The number of samples at or below each node of the old version."""
        ends = self._old.subtree_end
        return [int(n) for n in self._before[ends] - self._before[:-1]]

    def all_of(self, changes: Sequence[Change]) -> int:
        """The number of samples that at least one change touches."""
        touched = self._own.new_zeros(len(self._own)).bool()
        for change in changes:
            if change.old:
                start, end = self._below(change)
                touched[start:end] = True
        return int(self._own[touched].sum())

    def sentence(self, changes: Sequence[Change]) -> str:
        """How many samples the changes touch, and how many have labels that the old version lacks."""
        from labeltree.taxonomy.naming import some

        text = f"{self.all_of(changes):,} of {self.samples:,} samples touched"
        if self.unmatched:
            text += f"; {self.unmatched:,} have labels that OLD has not: {some(list(self.elsewhere), 3)}"
        return text


def _synonyms(path: Path, old: Taxonomy, new: Taxonomy) -> dict[str, str]:
    """The path in the new version of each old node whose name a table calls a synonym."""
    from labeltree.data.names.synonyms import SynonymTable
    from labeltree.taxonomy.naming import join_path

    table = SynonymTable.load(path)
    named: dict[str, list[int]] = {}
    for node in range(1, new.num_nodes):
        named.setdefault(new.names[node], []).append(node)
    known_names: dict[str, str] = {}
    for node in range(1, old.num_nodes):
        here = old.path(node)
        entry = table.accepted(here)
        if entry is None or new.follow(here) is not None:
            continue
        accepted = entry[1]
        places = [
            place
            for place in named.get(accepted[-1], [])
            if new.path(place)[-len(accepted) :] == tuple(accepted)
        ]
        if places:  # of several, the name alone says that it is ambiguous
            known = new.path_name(places[0]) if len(places) == 1 else join_path(accepted)
            known_names[old.path_name(node)] = known
    return known_names
