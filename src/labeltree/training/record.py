"""What a run folder records: its samples, which must not change, and the versions it was trained with."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor

from labeltree.data import DataSummary, Source
from labeltree.errors import DataError, RunError
from labeltree.runs import RunFolder, SampleRecord
from labeltree.runs.samples import Changes
from labeltree.runs.versions import versions
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.naming import some
from labeltree.training.labels import TrainingLabels
from labeltree.training.recipe import Recipe

__all__ = [
    "ContentChangedError",
    "VersionRecord",
    "abandon_run",
    "begin_run",
    "check_labels",
    "check_samples",
    "recorded_samples",
    "samples_without_content",
]

_log = logging.getLogger("labeltree.training")


class ContentChangedError(RunError):
    """Samples of a run hold something else than they did, by what is known of their files."""


def begin_run(
    folder: RunFolder,
    recipe: Recipe,
    data: Source,
    source: Source,
    labels: TrainingLabels,
    summary: DataSummary,
) -> bool:
    """Write the taxonomies, what the data hold, the record of the samples, and last the recipe: from then on
    it is a run.

    Of a run that has begun, the taxonomy of training is checked instead.

    Args:
        folder: of the run.
        recipe: of the run.
        data: the whole data set.
        source: the samples that the recipe takes of it, with their splits.
        labels: what training sees of theirs.
        summary: what the data hold.

    Returns:
        Whether the run has begun now.
    """
    if folder.recipe.is_file():
        check_labels(folder, recipe, labels)
        return False
    folder.path.mkdir(parents=True, exist_ok=True)
    source.taxonomy.save(folder.taxonomy)
    if recipe.train_taxonomy is not None or recipe.taxonomy_noise:
        labels.taxonomy.save(folder.training_taxonomy)
    folder.write_json(folder.data, summary.to_dict())
    _record_of(source, len(data), _split_of(data)[_places(data, source)]).save(folder.samples)
    recipe.save(folder.recipe)
    return True


def abandon_run(folder: RunFolder) -> None:
    """Take back what `begin_run` has written."""
    for file in (
        folder.recipe,
        folder.samples,
        folder.data,
        folder.training_taxonomy,
        folder.taxonomy,
        folder.versions,
    ):
        file.unlink(missing_ok=True)


def check_labels(folder: RunFolder, recipe: Recipe, labels: TrainingLabels) -> None:
    """Make sure that the taxonomy of training is the one that the run began with.

    Raises:
        RunError: if it is not. Otherwise a classifier's columns would be other classes than it learned.
    """
    known = folder.training_taxonomy
    if known.is_file() and Taxonomy.from_file(known) != labels.taxonomy:
        raise RunError(
            f"the taxonomy of training '{recipe.train_taxonomy}' has changed since the run in "
            f"'{folder.path}' began; restore it, it was '{known.name}' there, or train into another --out"
        )


def check_samples(folder: RunFolder, recipe: Recipe, data: Source, source: Source) -> None:
    """Make sure, before training goes on, that the samples are those that the run began with: their names,
    contents, labels and splits, all of them and no others.

    Args:
        folder: of the run.
        recipe: of the run.
        data: the whole data set as it is now.
        source: the samples that the recipe takes of it now, with their splits.

    Raises:
        RunError: if they are not, with the samples that have changed. Otherwise the run would learn from
            other samples than those that it is said to have learned from, or be tested on some of them.
    """
    taxonomy = folder.load_taxonomy()
    if source.taxonomy != taxonomy:
        raise RunError(
            f"the taxonomy of '{recipe.data}' is no longer that of the run in '{folder.path}'"
            f"{_other_nodes(taxonomy, source.taxonomy)}; {_REMEDY}"
        )
    record = folder.load_samples()
    if not record.has_contents:
        _check_ids(folder, recipe, record, source)
        return
    if source.aspect_taxonomies != record.aspect_taxonomies:
        raise _changed(folder, recipe, "their aspects have other taxonomies")
    split = np.zeros(len(data), dtype="<U6")
    split[_places(data, source)] = _split_of(source)
    present = dataclasses.replace(_record_of(data, len(data), _split_of(data)), split=split)
    changes = record.changes(present, taxonomy, whole=True)
    if changes:
        raise _changed(folder, recipe, changes)


def recorded_samples(folder: RunFolder, recipe: Recipe, record: SampleRecord, data: Source) -> Source:
    """The samples of a run that has ended, with its own ids, splits and groups.

    Nothing is drawn anew, so samples that were added to the data set since then move no other.

    Args:
        folder: of the run.
        recipe: of the run.
        record: of its samples, with contents.
        data: the whole data set as it is now.

    Raises:
        RunError: if a sample of the run is not there as it was, with the samples that have changed. Otherwise
            a sample that was trained on could turn up in the test split.
    """
    taxonomy = folder.load_taxonomy()
    if data.aspect_taxonomies != record.aspect_taxonomies:
        raise _changed(folder, recipe, "their aspects have other taxonomies")
    nodes = _nodes_in(taxonomy, data)
    present = dataclasses.replace(_record_of(data, len(data), _split_of(data)), nodes=nodes.numpy())
    changes = record.changes(present, taxonomy, whole=False)
    if changes:
        raise _changed(folder, recipe, changes)
    if len(data) != record.num_data:
        _log.warning(
            "'%s' had %d samples when the run in '%s' began and has %d now; the run keeps its own samples "
            "and splits, without the others",
            recipe.data,
            record.num_data,
            folder.path,
            len(data),
        )
    labelled = dataclasses.replace(data, taxonomy=taxonomy, nodes=nodes.clamp_min(-1))
    chosen = labelled.subset(torch.from_numpy(record.places_in(present)))
    return dataclasses.replace(
        chosen,
        instances=torch.from_numpy(record.instances),
        split=np.asarray(record.split, dtype=str),
        groups=None if record.groups is None else torch.from_numpy(record.groups),
    )


def samples_without_content(record: SampleRecord, taxonomy: Taxonomy) -> Source:
    """The samples of a run by their labels and splits alone: enough to build it again, for other samples.

    No file of theirs is opened, none need be there, and what they hold cannot be read.
    """
    shape = record.image_shape
    rows = torch.arange(len(record))
    return Source(
        name=record.data,
        taxonomy=taxonomy,
        nodes=torch.from_numpy(record.nodes),
        instances=torch.from_numpy(record.instances),
        store=_NoImages(len(record), shape) if shape is not None else None,
        rows=rows,
        groups=None if record.groups is None else torch.from_numpy(record.groups),
        split=np.asarray(record.split, dtype=str),
        texts=_NoTexts(len(record)) if "text" in record.modalities else None,
        aspect_taxonomies=record.aspect_taxonomies,
        aspects=None if record.aspects is None else torch.from_numpy(record.aspects),
        ratings=None if record.ratings is None else torch.from_numpy(record.ratings),
        names=record.names,
        columns=record.columns,
        missing_labels=record.missing_labels,
    )


_REMEDY = (
    "put them back as they were, or train on the data as they are now into another --out ('predict', and "
    "'embed' with --data, work without them)"
)


def _changed(folder: RunFolder, recipe: Recipe, what: Changes | str) -> RunError:
    kind = ContentChangedError if isinstance(what, Changes) and what.of_content else RunError
    return kind(
        f"samples of '{recipe.data}' have changed since the run in '{folder.path}' began: {what}; {_REMEDY}"
    )


def _check_ids(folder: RunFolder, recipe: Recipe, record: SampleRecord, source: Source) -> None:
    """What can be checked of a run from before names and contents were recorded: ids, labels, splits."""
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
            raise _changed(folder, recipe, f"their {_COLUMN_NAMES.get(name, name)} are others")


_COLUMN_NAMES = {"instances": "ids", "nodes": "labels", "split": "splits"}


def _record_of(source: Source, num_data: int, given_split: np.ndarray[Any, Any]) -> SampleRecord:
    def array(column: Tensor | None) -> np.ndarray[Any, Any] | None:
        return None if column is None else column.numpy()

    return SampleRecord(
        instances=source.instances.numpy(),
        nodes=source.nodes.numpy(),
        split=_split_of(source),
        aspects=array(source.aspects),
        ratings=array(source.ratings),
        names=source.sample_names(),
        digests=source.sample_digests(),
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
    """Where the samples of a source are in the data set that they are taken from."""
    order = np.argsort(data.instances.numpy(), kind="stable")
    return order[np.searchsorted(data.instances.numpy()[order], source.instances.numpy())]


def _nodes_in(taxonomy: Taxonomy, source: Source) -> Tensor:
    """The labels of a source as nodes of another taxonomy, by their whole path; -2 where it has none."""
    if source.taxonomy == taxonomy:
        return source.nodes
    known = {taxonomy.path(node): node for node in range(taxonomy.num_nodes)}
    nodes = [known.get(source.taxonomy.path(node), -2) for node in range(source.taxonomy.num_nodes)]
    return torch.tensor([*nodes, -1])[source.nodes]


def _other_nodes(before: Taxonomy, after: Taxonomy) -> str:
    """Which nodes came and went, for a sentence."""
    old, new = ({tree.path_name(node): None for node in range(tree.num_nodes)} for tree in (before, after))
    parts = [("new", [n for n in new if n not in old]), ("gone", [n for n in old if n not in new])]
    said = [f"{what}: {some(names, 3)}" for what, names in parts if names]
    return f" ({'; '.join(said)})" if said else ""


class _NoImages:
    """In place of images that are not opened."""

    def __init__(self, n: int, image_shape: tuple[int, int, int]) -> None:
        self._n = n
        self.image_shape = image_shape

    def __len__(self) -> int:
        return self._n

    def load(self, rows: Tensor) -> Tensor:
        """Always an error."""
        raise _not_open()


class _NoTexts(Sequence[str]):
    """In place of texts that are not opened."""

    def __init__(self, n: int) -> None:
        self._n = n

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, row: Any) -> Any:
        raise _not_open()


def _not_open() -> DataError:
    return DataError("the run was opened without the contents of its samples: open it with own_data=True")


class VersionRecord(Callback):
    """Appends an entry to the run's ``versions.json`` when training begins, and when it goes on.

    Args:
        folder: of the run.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Write it, by the first rank."""
        if not trainer.is_global_zero:
            return
        self.folder.add_versions(
            {
                "began": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
                "epoch": trainer.current_epoch,
                "step": trainer.global_step,
                **dict(versions()),
                "device": _device(trainer.strategy.root_device),
                "devices": trainer.world_size,
                "threads": torch.get_num_threads(),
                "precision": str(trainer.precision),
                "samples": _digest(self.folder),
            }
        )


def _device(device: torch.device) -> str:
    """What kind of device it is, never which machine's."""
    if device.type == "cuda":
        libraries = f"CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}"  # type: ignore[no-untyped-call]
        return f"{torch.cuda.get_device_name(device)} ({libraries})"
    if device.type == "cpu":
        return f"CPU ({torch.backends.cpu.get_cpu_capability()})"
    return device.type


def _digest(folder: RunFolder) -> str:
    """First half of the SHA-256 of the run's samples, their ids, contents, labels and splits, and of the
    taxonomy.
    """
    digest = hashlib.sha256(folder.taxonomy.read_bytes())
    for name, column in sorted(folder.load_samples().arrays().items()):
        digest.update(f"{name} {column.dtype} {column.shape}".encode())
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()[:32]
