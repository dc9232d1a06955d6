"""`labeltree forget`: a solved run without some of its samples, and every trace of them deleted."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from labeltree.cache import data_home
from labeltree.counted_nouns import say_count
from labeltree.data import data_exist
from labeltree.data.images.image_files import forget_pixels
from labeltree.data.shards.shard_files import find_shards
from labeltree.errors import DataError, RunError, typed
from labeltree.index.addresses import is_address
from labeltree.index.index_changes import forget_rows, ids_in
from labeltree.index.open_store import is_index
from labeltree.inference.finish import finish_run
from labeltree.inference.forgetting import (
    Chosen,
    check_can_forget,
    choose_samples,
    group_names_of,
    head_without,
    stage_files,
)
from labeltree.inference.load_run import TrainedRun, load_run, own_samples
from labeltree.options.model_options import ForgetOptions
from labeltree.options.schema import takes
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.safe_files import Reader, read_text
from labeltree.split_names import CALIB, SPLITS, UNSEEN
from labeltree.training.features.feature_store import forget_features
from labeltree.training.read_recipes import read_recipe

__all__ = ["Forgotten", "forget_samples"]

_LIST = Reader("a list of samples", "save it again as text in UTF-8, an id on every line", DataError)
_OTHERS = (
    "the run was calibrated on samples from elsewhere, which are gone from it, and is now on its own; "
    "'labeltree calibrate RUN --data DATA' does it on those again"
)
_KNOWN = {"index", "checkpoints", "embeddings", "encoder_config", "extensions", "logs", ".lock"}


@dataclass(frozen=True)
class Forgotten:
    """What a run has forgotten.

    Attributes:
        folder: Of the run.
        samples: Number of samples by split.
        solved: Whether the head was solved anew; not if no training sample was among them.
        removed: Files of the run that showed them and are gone: reports, results, decisions.
        indexes: Number of rows deleted from each index.
        notes: Sentences on what was done, and where the samples may still be.
    """

    folder: RunFolder
    samples: dict[str, int]
    solved: bool
    removed: tuple[str, ...]
    indexes: dict[str, int]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        count = sum(self.samples.values())
        parts = ", ".join(f"{number:,} of {split or 'no split'}" for split, number in self.samples.items())
        lines = [f"forgotten: {say_count(count, 'sample')}{f' ({parts})' if parts else ''}"]
        if self.solved:
            lines.append("  the head was solved without them at the same settings, and calibrated anew")
        if self.removed:
            lines.append(f"  removed, as they showed them: {', '.join(self.removed)}")
        lines += [f"  index {place}: {rows:,} rows deleted" for place, rows in self.indexes.items()]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


@takes(ForgetOptions)
def forget_samples(options: ForgetOptions) -> Forgotten:
    """Let a solved run forget samples, as if they had never been there, at the same settings.

    The head equals one that was solved without them at the same λ, and is calibrated on the remaining
    samples. They are deleted from every file of the run, from the features and decoded images in the cache,
    from the index in its folder and from `indexes`. A process that is killed leaves the run as it was or as
    it is afterwards; the same call finishes the rest.

    Raises:
        RunError: If the samples are in what the run has learned by steps, or the data are gone.
        DataError: If a sample or group is unknown, or the run cannot do without them.
        FolderInUseError: If another process is writing to the run.
    """
    folder = RunFolder(options.run).require().home
    if not folder.samples.is_file():
        raise RunError(
            f"'{folder.path}' holds a model without a record of its samples, so there is none to forget; "
            "forget them in the run that it was made from, and make it anew"
        )
    with folder.locked():
        indexes = _indexes(folder, options.indexes)
        record = folder.load_samples()
        if not record.has_contents:
            raise RunError(
                f"the run in '{folder.path}' has no names of its samples; train it anew without them"
            )
        chosen = choose_samples(
            folder,
            [*options.samples, *_listed(options.listed)],
            options.groups,
            elsewhere=lambda ids: {known for place in indexes for known in ids_in(place, ids)},
            group_names=lambda: group_names_of(folder, lambda: own_samples(folder, options.progress)),
        )
        run = load_run(folder.path, own_data=False)
        check_can_forget(run, chosen)
        source = solved = None
        if chosen.gone.any():
            source = own_samples(folder, options.progress, record=chosen.rest)
            if chosen.in_split("train"):
                solved = head_without(run, source, options.progress)
        names = _names_in_indexes(folder, chosen)
        done = {str(place): forget_rows(place, names) for place in indexes}
        _clear_cache(run, chosen)
        removed = [path for path in folder.made_from_samples if path.exists()]
        answered = folder.decisions.is_file()
        others = answered and folder.calibration_samples.is_file()
        folder.change(stage_files(run, chosen, source, solved))
        if answered:
            finish_run(folder, progress_bar=False)
            _clear_cache(run, chosen)  # opening the data has decoded what they still hold
    return Forgotten(
        folder,
        {split: chosen.in_split(split) for split in (*SPLITS, CALIB, UNSEEN, "") if chosen.in_split(split)},
        solved is not None,
        tuple(path.name for path in removed if not path.exists()),
        done,
        (*([_OTHERS] if others else []), *_places_left(folder, done)),
    )


def _listed(file: str | Path | None) -> list[str]:
    if file is None:
        return []
    if not Path(file).is_file():
        raise DataError(f"no list of samples at '{file}'")
    lines = read_text(file, _LIST).removeprefix("\ufeff").splitlines()
    return [line.strip() for line in lines if line.strip()]


def _indexes(folder: RunFolder, named: Sequence[str | Path]) -> list[str | Path]:
    """The indexes to delete from: those that are named, and that in the folder of the run."""
    for place in named:
        if is_address(place):
            raise DataError(
                f"the index '{place}' is on a server, which keeps deleted rows for a while as it is set up; "
                "delete them there ('labeltree index INDEX --delete'), and see its own manual"
            )
        ids_in(place, ())  # raises if there is none
    own = folder.path / "index"
    known = {Path(place).resolve() for place in named}
    return [*named, *([own] if is_index(own) and own.resolve() not in known else [])]


def _names_in_indexes(folder: RunFolder, chosen: Chosen) -> Collection[str]:
    """What indexes may call the samples: their ids and names, or the files that they lie in."""
    names = set(chosen.names)
    if (file := folder.embeddings()).is_file():
        table = EmbeddingTable.load(file, folder.load_taxonomy())
        if table.paths is not None and table.instances is not None:
            rows = np.isin(table.instances.numpy(), chosen.record.instances[chosen.gone])
            names.update(np.asarray(table.paths)[rows].tolist())
    return names


def _clear_cache(run: TrainedRun, chosen: Chosen) -> None:
    """Delete the features and the decoded images of the samples from the cache folder."""
    forget_features(data_home() / "features", chosen.digests)
    modality = run.network.modality
    if modality in ("image", "both"):  # digests of pairs are of both
        forget_pixels(chosen.digests if modality == "image" else None)
        recipe = read_recipe(run.folder.recipe)
        if data_exist(recipe.data) and find_shards(recipe.data) is not None:
            shutil.rmtree(data_home() / "shards", ignore_errors=True)


def _places_left(folder: RunFolder, indexes: Collection[str]) -> tuple[str, ...]:
    """Sentences on where the samples may still be."""
    recipe = read_recipe(folder.recipe)
    notes = [
        f"the data at '{recipe.data}' are left as they are: while they hold the samples, whatever reads them "
        "may put their decoded images into the cache again; delete them there"
    ]
    files = {path.name for path in _files_of(folder)}
    others = sorted(path.name for path in folder.path.iterdir() if path.name not in files | _KNOWN)
    if others:
        notes.append(f"other files in the run were not looked into: {', '.join(others)}")
    if indexes:
        notes.append(
            "vectors of the other samples in an index are those of the head before; 'labeltree index "
            f"{typed(folder.path)} --overwrite' makes it anew"
        )
    notes.append(
        "not looked for: exported models, reports and embeddings written elsewhere, other runs and studies "
        "on the same data, indexes that were not named, services that run, logs on servers, backups and "
        "snapshots of disks"
    )
    return tuple(notes)


def _files_of(folder: RunFolder) -> list[Path]:
    known = [getattr(folder, name) for name in dir(type(folder)) if name not in ("home", "extensions")
             and isinstance(getattr(folder, name), Path)]  # fmt: skip
    return [*known, *folder.correction_files, folder.suspects.with_suffix(".json")]
