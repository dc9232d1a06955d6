"""Whether the samples of a run that goes on are those that it began with."""

from __future__ import annotations

import dataclasses
import logging
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeltree.data import Source
from labeltree.data.former_names import name_as_before, name_by_rows
from labeltree.errors import RunError, typed
from labeltree.runs import RunFolder, SampleRecord
from labeltree.runs.sample_record import Changes
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.naming import some
from labeltree.training.recipe import Recipe
from labeltree.training.training_labels import TrainingLabels

__all__ = [
    "ContentChangedError",
    "check_labels",
    "check_samples",
    "record_samples",
    "recorded_samples",
]

_log = logging.getLogger("labeltree.training")


class ContentChangedError(RunError):
    """The content of samples has changed since the run began, according to their files."""


def check_labels(folder: RunFolder, recipe: Recipe, labels: TrainingLabels) -> None:
    """Check that the training taxonomy is the one that the run began with.

    Raises:
        RunError: If it is not: a classifier's columns would no longer match the classes that it learned.
    """
    known = folder.training_taxonomy
    if known.is_file() and Taxonomy.from_file(known) != labels.taxonomy:
        raise RunError(
            f"the taxonomy of training '{recipe.train_taxonomy}' has changed since the run in "
            f"'{folder.path}' began; restore it, it was '{known.name}' there, or train into another --out"
        )


def check_samples(folder: RunFolder, recipe: Recipe, data: Source, source: Source) -> None:
    """Check, before training continues, that the samples are exactly those that the run began with.

    Names, contents, labels and splits are compared; no sample may be missing or new.

    Args:
        folder: The run folder.
        recipe: The recipe.
        data: The whole data set as it is now.
        source: The samples that the recipe selects from it now, with their splits.

    Raises:
        RunError: If samples have changed; the message lists them. Continuing would train on samples that are
            not in the record, or test on training samples.
    """
    taxonomy = folder.load_taxonomy()
    if source.taxonomy != taxonomy:
        raise RunError(
            f"the taxonomy of '{recipe.data}' is no longer that of the run in '{folder.path}'"
            f"{_other_nodes(taxonomy, source.taxonomy)}; {_remedy(folder, recipe)}"
        )
    record = folder.load_samples()
    if not record.has_contents:
        _check_ids(folder, recipe, record, source)
        return
    if source.aspect_taxonomies != record.aspect_taxonomies:
        raise _changed_error(folder, recipe, "their aspects have other taxonomies")
    split = np.zeros(len(data), dtype="<U6")
    split[_places(data, source)] = _split_of(source)
    present = dataclasses.replace(_record_of(data, len(data), _split_of(data)), split=split)
    _, _, changes = _name_as_recorded(data, present, record, taxonomy, whole=True)
    if changes:
        raise _changed_error(folder, recipe, changes)


def recorded_samples(folder: RunFolder, recipe: Recipe, record: SampleRecord, data: Source) -> Source:
    """The samples of a run that has ended, with its own ids, splits and groups.

    Splits are not drawn anew, so samples added to the data set since then do not change them.

    Args:
        folder: The run folder.
        recipe: The recipe.
        record: Record of the run's samples, with contents.
        data: The whole data set as it is now.

    Raises:
        RunError: If a sample of the run is missing or has changed; the message lists them. Otherwise a
            training sample could turn up in the test split.
    """
    taxonomy = folder.load_taxonomy()
    if data.aspect_taxonomies != record.aspect_taxonomies:
        raise _changed_error(folder, recipe, "their aspects have other taxonomies")
    nodes = _nodes_in(taxonomy, data, data.nodes)
    sets = None if data.label_sets is None else _nodes_in(taxonomy, data, data.label_sets)
    present = dataclasses.replace(
        _record_of(data, len(data), _split_of(data)),
        nodes=nodes.numpy(),
        label_sets=None if sets is None else sets.numpy(),
    )
    data, present, changes = _name_as_recorded(data, present, record, taxonomy, whole=False)
    if changes:
        raise _changed_error(folder, recipe, changes)
    if new := len(data) - record.num_data:
        _log.warning(
            "'%s' had %d samples when the run in '%s' began and has %d now%s; the run keeps its own samples "
            "and splits, without the others. To train on all, name another %s",
            recipe.data,
            record.num_data,
            folder.path,
            len(data),
            f" ({new} new)" if new > 0 else "",
            _elsewhere(folder, recipe),
        )
        now = f"as the data are now, with {len(data):,} samples; the run began with {record.num_data:,}"
        data = dataclasses.replace(data, notes=tuple(f"{note} ({now})" for note in data.notes))
    labelled = dataclasses.replace(
        data,
        taxonomy=taxonomy,
        nodes=nodes.clamp_min(-1),
        label_sets=None if sets is None else sets.clamp_min(-1),
    )
    chosen = labelled.subset(torch.from_numpy(record.places_in(present)))
    return dataclasses.replace(
        chosen,
        instances=torch.from_numpy(record.instances),
        split=np.asarray(record.split, dtype=str),
        groups=None if record.groups is None else torch.from_numpy(record.groups),
    )


def _name_as_recorded(
    data: Source, present: SampleRecord, record: SampleRecord, taxonomy: Taxonomy, *, whole: bool
) -> tuple[Source, SampleRecord, Changes]:
    """The data and their record with the names that a run has for its samples, and what has changed then.

    Where lines above the rows of a table came or went, or it was saved in another form, its samples stand
    elsewhere; they are the same if each row has what it had.
    """
    named = name_as_before(data, record.names or ())
    before = dict(zip(record.instances.tolist(), record.names or (), strict=False))
    by_rows = name_by_rows(named, before)
    tries = [(each, dataclasses.replace(present, names=each.sample_names())) for each in (named, by_rows)]
    changes = [record.changes(each, taxonomy, whole=whole) for _, each in tries]
    best = 1 if changes[0] and not changes[1] else 0
    return *tries[best], changes[best]


def _remedy(folder: RunFolder, recipe: Recipe) -> str:
    return (
        "put them back as they were, or train on the data as they are now into another "
        f"{_elsewhere(folder, recipe)} ('predict', and 'embed' with --data, work without them)"
    )


def _elsewhere(folder: RunFolder, recipe: Recipe) -> str:
    """What trains on the data as they are now: a command, unless the run is one of the folds of several."""
    if recipe.fold is not None:
        return "--out"
    place = next(place for n in count(2) if not (place := Path(f"{folder.path}-{n}")).exists())
    return f"--out: 'labeltree train --config {typed(folder.recipe)} --out {typed(place)}'"


def _changed_error(folder: RunFolder, recipe: Recipe, what: Changes | str) -> RunError:
    kind = ContentChangedError if isinstance(what, Changes) and what.has_new_content else RunError
    return kind(
        f"samples of '{recipe.data}' have changed since the run in '{folder.path}' began: {what}; "
        f"{_remedy(folder, recipe)}"
    )


def _check_ids(folder: RunFolder, recipe: Recipe, record: SampleRecord, source: Source) -> None:
    """Check ids, labels and splits of a run of an early version, which recorded no names and contents."""
    _log.warning(
        "the run in '%s' began before runs recorded the names and contents of their samples: whether '%s' "
        "still holds the same cannot be checked beyond their number, labels and splits",
        folder.path,
        recipe.data,
    )
    now = _record_of(source, len(source), _split_of(source))
    for name in ("instances", "nodes", "split", "aspects", "ratings"):
        before, after = getattr(record, name), getattr(now, name)
        if (before is None) != (after is None) or not np.array_equal(before, after):
            raise _changed_error(folder, recipe, f"their {_COLUMN_NAMES.get(name, name)} have changed")


_COLUMN_NAMES = {"instances": "ids", "nodes": "labels", "split": "splits"}


def record_samples(data: Source, source: Source) -> SampleRecord:
    """The record of the samples that a recipe selects from the whole data set."""
    return _record_of(source, len(data), _split_of(data)[_places(data, source)])


def _record_of(source: Source, num_data: int, given_split: np.ndarray[Any, Any]) -> SampleRecord:
    copies = source.copy_digests()

    def array(column: Tensor | None) -> np.ndarray[Any, Any] | None:
        return None if column is None else column.numpy()

    return SampleRecord(
        instances=source.instances.numpy(),
        nodes=source.nodes.numpy(),
        split=_split_of(source),
        label_sets=array(source.label_sets),
        has_label_sets=True,
        aspects=array(source.aspects),
        ratings=array(source.ratings),
        names=source.sample_names(),
        digests=copies[:, 0],
        plain_digests=copies[:, 1] if copies.shape[1] > 1 else None,
        given_split=given_split,
        groups=array(source.groups),
        data=source.name,
        num_data=num_data,
        modalities=source.modalities,
        image_shape=source.image_shape if source.store is not None else None,
        aspect_taxonomies=source.aspect_taxonomies,
        columns=source.columns,
        missing_labels=source.missing_labels,
    )


def _split_of(source: Source) -> np.ndarray[Any, Any]:
    """The split of every sample; empty where none is decided."""
    return np.zeros(len(source), "<U6") if source.split is None else np.asarray(source.split, dtype=str)


def _places(data: Source, source: Source) -> np.ndarray[Any, Any]:
    """Positions of the samples of a source in the data set that they are taken from."""
    order = np.argsort(data.instances.numpy(), kind="stable")
    return order[np.searchsorted(data.instances.numpy()[order], source.instances.numpy())]


def _nodes_in(taxonomy: Taxonomy, source: Source, labels: Tensor) -> Tensor:
    """Labels of a source as nodes of another taxonomy, matched by full path; -2 where there is none."""
    if source.taxonomy == taxonomy:
        return labels
    known = {taxonomy.path(node): node for node in range(taxonomy.num_nodes)}
    nodes = [known.get(source.taxonomy.path(node), -2) for node in range(source.taxonomy.num_nodes)]
    return torch.tensor([*nodes, -1])[labels]


def _other_nodes(before: Taxonomy, after: Taxonomy) -> str:
    """The nodes that were added and removed, as text for a sentence."""
    old, new = ({tree.path_name(node): None for node in range(tree.num_nodes)} for tree in (before, after))
    parts = [("new", [n for n in new if n not in old]), ("gone", [n for n in old if n not in new])]
    said = [f"{what}: {some(names, 3)}" for what, names in parts if names]
    return f" ({'; '.join(said)})" if said else ""
