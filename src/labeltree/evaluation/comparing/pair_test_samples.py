"""Which test samples of several runs are the same: by their ids, or else by their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from labeltree.errors import DataError
from labeltree.evaluation.outcomes import Outcomes
from labeltree.runs import RunFolder, SampleRecord
from labeltree.runs.sample_record import NamedTwice
from labeltree.runs.table_file_columns import read_columns
from labeltree.text_files import split_packed
from labeltree.text_tables import TextTable

__all__ = ["name_sample", "pair_by_ids", "pair_samples"]


@dataclass(frozen=True)
class _Run:
    """The outcomes of a run or a table, and what is known of their samples.

    Attributes:
        place: Where it lies.
        outcomes: The outcomes.
        record: The samples that were evaluated, with contents; None if they were not recorded.
        names: Instance → the id of the sample, as `SampleRecord.given_names`; None if samples have no ids.
    """

    place: str
    outcomes: Outcomes
    record: SampleRecord | None
    names: dict[int, NamedTwice] | None

    def renumbered(self, numbers: dict[NamedTwice, int]) -> _Run:
        """The same with the numbers that `numbers` has for the samples' ids; new ids are added to it."""
        assert self.names is not None
        of = {instance: numbers.setdefault(name, len(numbers)) for instance, name in self.names.items()}
        record, outcomes = self.record, self.outcomes
        return _Run(
            self.place,
            replace(outcomes, instances=_through(of, outcomes.instances)),
            None if record is None else replace(record, instances=_through(of, record.instances)),
            {of[instance]: name for instance, name in self.names.items()},
        )

    def with_elsewhere(self, name: str, outcomes: Outcomes) -> _Run:
        """The same with outcomes of the other table that a protocol measured."""
        elsewhere = self.outcomes.elsewhere | {name: outcomes}
        return replace(self, outcomes=replace(self.outcomes, elsewhere=elsewhere))

    def with_ids(self, first: _Run) -> Outcomes:
        """The outcomes with the ids of their samples, those of a first run for the samples that it has."""
        if self.names is None:
            return self.outcomes
        known = self.names | (first.names or {})
        names = [known[instance] for instance in self.outcomes.instances.tolist()]
        ids = [f"{name} #{number + 1}" if number else name for name, number in names]
        return replace(self.outcomes, ids=np.array(ids, dtype=str))


def pair_samples(runs: Sequence[tuple[str | Path, Outcomes]]) -> tuple[list[Outcomes], list[str]]:
    """Give the same samples of all runs the same numbers, and say what that rests on if contents differ.

    Samples with ids are paired by these, wherever they stand; others by their rows. Contents that were
    recorded must agree, unless they are another form of the same samples: the vectors of another encoder,
    texts from another column of the same table, images beside vectors.

    Returns:
        The outcomes in the order of the runs, and notes.

    Raises:
        DataError: If runs have different samples under the same ids: the comparison would pair them.
    """
    known = [_open(path, outcomes) for path, outcomes in runs]
    named = all(one.names is not None for one in known)
    known = _number_alike(known)
    for name in dict.fromkeys(name for one in known for name in one.outcomes.elsewhere):
        having = [place for place, one in enumerate(known) if name in one.outcomes.elsewhere]
        tables = [_open_elsewhere(runs[place][0], known[place].outcomes.elsewhere[name]) for place in having]
        for place, table in zip(having, _number_alike(tables), strict=True):
            known[place] = known[place].with_elsewhere(name, table.with_ids(table))
    notes = dict.fromkeys(note for one in known[1:] for note in _check_contents(known[0], one, named=named))
    return [one.with_ids(known[0]) for one in known], list(notes)


def pair_by_ids(runs: Sequence[Outcomes]) -> list[Outcomes]:
    """Outcomes in which the same ids have the same numbers, if all have ids; else as they are."""
    known = _number_alike([_named_by_ids("", outcomes) for outcomes in runs])
    return [one.outcomes for one in known]


def name_sample(path: str | Path, instance: int) -> str:
    """What a sample without an id is called elsewhere: its line or row, and of which data.

    Args:
        path: The run, or the file of a table.
        instance: The number of the sample.
    """
    path = Path(path)
    if not path.is_file():
        record = _load_record(path, None)
        numbers = [] if record is None else record.instances.tolist()
        if record is None or record.names is None or instance not in numbers:
            return f"sample number {instance}"
        return f"{record.names[numbers.index(instance)]} of the data '{record.data}'"
    given = read_columns(path)
    for name in ("instances", "instance"):
        if name in given:
            return f"the one with {instance} in the column '{name}'"
    if split_packed(path)[0].lower() not in (".csv", ".tsv"):
        return f"row {instance + 1}"
    rows = len(next(iter(given.values())))
    return f"line {TextTable.at(path).row_lines(rows)[instance]}"


def _number_alike(known: list[_Run]) -> list[_Run]:
    """The runs with the same numbers for samples of the same ids, if all have ids."""
    if not all(one.names is not None for one in known):
        return known
    if all(_are_alike(known[0], one) for one in known[1:]):
        return known
    numbers: dict[NamedTwice, int] = {}
    return [one.renumbered(numbers) for one in known]


def _open(path: str | Path, outcomes: Outcomes) -> _Run:
    record = _load_record(path, outcomes)
    if record is None:
        return _named_by_ids(str(path), outcomes)
    return _Run(str(path), outcomes, record, record.given_names())


def _open_elsewhere(path: str | Path, outcomes: Outcomes) -> _Run:
    """What a protocol measured on other samples: of a table, or the run's own, such as those of training."""
    record = _load_record(path, outcomes)
    if outcomes.ids is not None or record is None:
        return _named_by_ids(str(path), outcomes)
    labels = dict(zip(record.instances.tolist(), record.nodes.tolist(), strict=True))
    measured = zip(outcomes.instances.tolist(), outcomes.nodes.tolist(), strict=True)
    own = all(labels.get(instance) == node for instance, node in measured)
    return _Run(str(path), outcomes, None, record.given_names() if own else None)


def _load_record(path: str | Path, outcomes: Outcomes | None) -> SampleRecord | None:
    """The samples of a run, those that were evaluated if outcomes are given, if contents were recorded."""
    file = RunFolder(path).samples
    if not file.is_file() and Path(path).name.startswith("on-"):  # a run on another taxonomy
        file = RunFolder(Path(path).parent).samples
    record = SampleRecord.load(file) if file.is_file() else None
    if record is None or not record.has_contents:
        return None
    return record if outcomes is None else record.of(outcomes.instances)


def _named_by_ids(place: str, outcomes: Outcomes) -> _Run:
    if outcomes.ids is None:
        return _Run(place, outcomes, None, None)
    rows = np.unique(outcomes.instances, return_index=True)[1]
    seen: dict[str, int] = {}
    names: dict[int, NamedTwice] = {}
    for row in np.sort(rows).tolist():
        name = str(outcomes.ids[row])
        names[int(outcomes.instances[row])] = name, seen.get(name, 0)
        seen[name] = seen.get(name, 0) + 1
    return _Run(place, outcomes, None, names)


def _are_alike(first: _Run, other: _Run) -> bool:
    """Whether samples of the same number have the same content, or the same id where that is not known.

    They do not have to be the same samples, but none that both have may be of two numbers: a shorter table
    tests samples of other rows.
    """
    assert first.names is not None
    assert other.names is not None
    ids = set(first.names.values())
    if any(name in ids for instance, name in other.names.items() if instance not in first.names):
        return False
    if first.record is not None and other.record is not None:
        return not first.record.different_contents(other.record)
    return all(first.names.get(instance, name) == name for instance, name in other.names.items())


def _check_contents(first: _Run, other: _Run, *, named: bool) -> list[str]:
    """A note if samples are paired whose contents differ; see `pair_samples` for the error."""
    if first.record is None or other.record is None:
        return []
    differ = first.record.different_contents(other.record)
    if not differ:
        return []
    both = f"'{first.place}' and '{other.place}'"
    if not _are_other_forms(first.record, other.record):
        mine, theirs = differ[0]
        raise DataError(
            f"{both} have different samples under the same ids, {len(differ)} of "
            f"those that were evaluated: '{mine}' in the one is '{theirs}' in the other, or holds "
            "something else there; compare runs on the same data"
        )
    if named:
        return [f"Samples are paired by their ids: {both} read them in other forms, with the same labels."]
    if first.record.num_data != other.record.num_data:
        counts = f"{first.record.num_data:,} and {other.record.num_data:,}"
        raise DataError(
            f"which samples of {both} are the same is not known: their data have {counts} rows of different "
            "contents, and no ids in common. Write the same ids in both, in a column 'id', and train again"
        )
    return [
        f"Samples are paired by their rows: {both} read as many, with the same labels, in other forms; "
        "a column 'id' in both would make sure of it."
    ]


def _are_other_forms(first: SampleRecord, other: SampleRecord) -> bool:
    """Whether contents may differ although the samples are the same: they are read in another form."""
    if first.modalities != other.modalities or "vector" in first.modalities:
        return True
    columns = [record.columns.get("texts", ()) for record in (first, other)]
    return "text" in first.modalities and columns[0] != columns[1] and first.data == other.data


def _through(numbers: dict[int, int], instances: np.ndarray) -> np.ndarray:
    return np.array([numbers[one] for one in instances.tolist()], dtype=np.int64)
