"""Training a run from its recipe, from the start or from where it stopped."""

from __future__ import annotations

import dataclasses
import logging
import os
import signal
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import lightning as L
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import Callback, EarlyStopping, TQDMProgressBar
from lightning.pytorch.utilities import rank_zero_only

from labeltree.data import DataSummary, ProgressLine, Source, summarize
from labeltree.data.progress import Progress
from labeltree.errors import OtherSettingsError, RunError
from labeltree.models import check_encoder, misfits, normalises_by_batch
from labeltree.processes import Terminated, end_with_parent
from labeltree.runs import RunFolder
from labeltree.training.checkpoints import AtomicCheckpointIO, Checkpoints, TrainingInterrupted
from labeltree.training.compiling import compile_encoders
from labeltree.training.divergence import (
    CALMING,
    TrainingDiverged,
    Watch,
    goes_on_calmer,
    has_diverged,
    record_divergence,
)
from labeltree.training.experiment import open_recipe_data, prepare, split_by_recipe
from labeltree.training.frozen import use_known_features
from labeltree.training.loggers import check_logger, open_logger
from labeltree.training.module import VALIDATION_METRICS, RepresentationModule
from labeltree.training.reading import read_recipe
from labeltree.training.recipe import Recipe
from labeltree.training.record import (
    ContentChangedError,
    VersionRecord,
    abandon_run,
    begin_run,
    check_samples,
)
from labeltree.training.resolution import LEFT_OPEN, resolve_recipe

__all__ = ["Patience", "is_first_rank", "train"]

_FIRST_RANK = "LABELTREE_FIRST_RANK"  # its process id, for those that it starts
_log = logging.getLogger("labeltree.data")
_PLACES = ("data", "data_path")  # where the samples lie; which they are is checked by name and content
_PRECISIONS: dict[str, Any] = {"32": "32-true", "bf16": "bf16-mixed", "16": "16-mixed"}


def train(
    recipe: Recipe,
    path: str | Path,
    *,
    callbacks: list[Callback] | None = None,
    progress_bar: bool = True,
    every_n_steps: int | None = None,
    on_data: Callable[[DataSummary], object] | None = None,
    verify: bool = False,
) -> RunFolder:
    """Train what the recipe says into a run folder, or continue the run that is there.

    On a CPU, a run that was killed and continued ends with the same weights, bit for bit, as one that was
    not.

    Args:
        recipe: all settings.
        path: the run folder.
        callbacks: further Lightning callbacks.
        progress_bar: show one.
        every_n_steps: save the training state this often besides ``recipe.checkpoint_minutes``.
        on_data: is given what the data hold and what cannot be measured on them, before training begins; None
            = warnings are logged.
        verify: read all files of the samples again; see `read_again`. Otherwise those with the size and the
            time of change that they had are taken for what they were.

    Raises:
        RunError: if the folder holds a run with another recipe, or its samples are not those that it began
            with, by name, content, label and split. Data that were moved as a whole are the same.
        FolderInUseError: if another process trains, or writes something else, in the folder.
        TrainingDiverged: at a step whose loss or gradient is not finite; nothing of it is saved, and the same
            folder goes on with a smaller learning rate.
        TrainingInterrupted: after Ctrl-C or SIGTERM, when the state has been saved.
    """
    folder = RunFolder(path)
    _check_monitor(recipe)
    if not is_first_rank():
        _end_with_first_rank()
    elif folder.encoder.is_file():
        folder.clear_after_kill()
    writes = is_first_rank() and not folder.encoder.is_file()  # a finished run is only looked at
    with folder.locked() if writes else nullcontext():
        return _train(
            recipe,
            folder,
            list(callbacks or []),
            progress_bar,
            every_n_steps,
            on_data or _log_warnings,
            verify,
        )


def _train(
    recipe: Recipe,
    folder: RunFolder,
    hooks: list[Callback],
    progress_bar: bool,
    every_n_steps: int | None,
    on_data: Callable[[DataSummary], object],
    verify: bool,
) -> RunFolder:
    known = read_recipe(folder.recipe) if folder.recipe.is_file() else recipe
    free = CALMING if has_diverged(folder) else ()
    _check_settings(folder, known.differences(recipe, but=(*LEFT_OPEN, *_PLACES, *free)))
    if folder.encoder.is_file() and not known.differences(recipe) and not verify:
        return folder
    check_logger(recipe)
    if recipe.encoder != "auto":
        check_encoder(recipe.encoder, pretrained=recipe.pretrained, weights=recipe.weights)
    progress = ProgressLine() if progress_bar else None
    try:
        data, source = _open_samples(folder, known, recipe, progress, verify=verify)
    except ContentChangedError:
        if verify:
            raise
        # What is kept of the files may be wrong: they are read before anything is said of them.
        data, source = _open_samples(folder, known, recipe, progress, verify=True)
    if folder.encoder.is_file():
        return folder
    summary = summarize(source)
    if is_first_rank():
        on_data(summary)
    experiment = prepare(recipe, source)
    use_known_features(experiment, progress)
    _tell_of_chunks(experiment.module)
    _quiet()
    if recipe.patience is not None:
        hooks.append(Patience(recipe))
    if progress_bar:
        hooks.append(TQDMProgressBar(leave=True))
    watch = Watch(folder, experiment.module.recipe)
    hooks.append(
        Checkpoints(folder, watch, f"val_{recipe.monitor}", recipe.checkpoint_minutes, every_n_steps)
    )
    hooks.append(VersionRecord(folder))
    trainer = _trainer(recipe, folder, hooks, progress_bar)
    if recipe.compile:
        compile_encoders(experiment.module, trainer.strategy.root_device)
    begun = False
    if is_first_rank():
        begun = begin_run(folder, recipe, data, experiment.source, experiment.labels, summary)
        if free and (said := goes_on_calmer(folder, known, recipe)):
            warnings.warn(said, stacklevel=2)
    last = folder.last_checkpoint
    if last.is_file():
        _load_state(folder, experiment.module, last)  # damage is told of before anything is changed
    try:
        if is_first_rank():
            os.environ[_FIRST_RANK] = str(os.getpid())
        trainer.fit(
            experiment.module,
            datamodule=experiment.batches,
            ckpt_path=str(last) if last.is_file() else None,
            weights_only=True,
        )
    except SystemExit as stop:  # what Lightning makes of a signal that does not wait for the step to end
        raise TrainingInterrupted(
            f"stopped at once; the same command continues the run in '{folder.path}' from its last state",
            signal.SIGTERM if isinstance(stop.__context__, Terminated) else signal.SIGINT,
        ) from stop
    except Exception as error:
        if isinstance(error, TrainingDiverged) and last.is_file() and is_first_rank():
            record_divergence(folder, error)
        if begun and not last.is_file():  # a first step that fails leaves no run that bars the way
            abandon_run(folder)
        raise
    finally:
        if is_first_rank():
            os.environ.pop(_FIRST_RANK, None)
    if trainer.is_global_zero:
        _keep_best(folder, experiment.module)
    trainer.strategy.barrier()
    return folder


def _trainer(recipe: Recipe, folder: RunFolder, hooks: list[Callback], progress_bar: bool) -> L.Trainer:
    try:
        trainer = L.Trainer(
            accelerator=recipe.accelerator,
            devices=recipe.devices,
            strategy="ddp" if recipe.devices > 1 else "auto",
            precision=_PRECISIONS[recipe.precision],
            max_epochs=recipe.epochs,
            gradient_clip_val=recipe.optimizer.clip_norm,
            callbacks=hooks,
            plugins=[AtomicCheckpointIO()],
            logger=open_logger(recipe, folder, first_rank=is_first_rank()) or False,
            log_every_n_steps=10,
            enable_model_summary=False,
            enable_progress_bar=progress_bar,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
            default_root_dir=folder.path,
        )
    except MisconfigurationException as error:
        raise ValueError(
            f"accelerator '{recipe.accelerator}' with devices {recipe.devices} is not to be had here: {error}"
        ) from error
    if trainer.precision != _PRECISIONS[recipe.precision]:  # Lightning takes another one where it has to
        raise ValueError(f"precision is '{recipe.precision}', which a CPU does not have; take 'bf16' or '32'")
    return trainer


def is_first_rank() -> bool:
    """Whether this process is the one that writes, also before the trainer has begun."""
    return getattr(rank_zero_only, "rank", 0) == 0


def _end_with_first_rank() -> None:
    """Let a process that Lightning started for another device end with the one that started it."""
    first = os.environ.get(_FIRST_RANK)
    if first is not None:
        end_with_parent(int(first))


def _log_warnings(summary: DataSummary) -> None:
    for warning in summary.warnings:
        _log.warning("%s: %s", summary.name, warning)


def _tell_of_chunks(module: RepresentationModule) -> None:
    size = module.recipe.batch_size * module.objective.num_views // module.recipe.devices
    chunk = module.recipe.encode_chunk
    if chunk is None or chunk >= size or module.reads_features or not is_first_rank():
        return
    if normalises_by_batch(module.encoder):
        warnings.warn(
            f"encoder '{module.recipe.encoder}' has batch normalisation: with encode_chunk {chunk} it "
            f"normalises each chunk by itself, as if batches were that small, not all {size} views together; "
            "an encoder with layer normalisation learns exactly what it would without encode_chunk",
            stacklevel=2,
        )


def _check_settings(folder: RunFolder, differences: list[str]) -> None:
    if differences:
        raise OtherSettingsError(
            f"'{folder.path}' holds a run with other settings ({'; '.join(differences[:3])}); "
            f"give another --out, or delete that folder"
        )


def _open_samples(
    folder: RunFolder, known: Recipe, recipe: Recipe, progress: Progress | None, *, verify: bool
) -> tuple[Source, Source]:
    """The whole data set, and the samples that the recipe takes of it, which must be those of a run that is
    there.
    """
    data = open_recipe_data(recipe, progress, verify=verify)
    source = split_by_recipe(recipe, data)
    # What one recipe leaves open may be what the other says.
    free = (*_PLACES, *(CALMING if has_diverged(folder) else ()))
    _check_settings(
        folder, resolve_recipe(known, source).differences(resolve_recipe(recipe, source), but=free)
    )
    if folder.recipe.is_file():
        _check_data(folder, known, recipe, data, source)
    return data, source


def _check_data(folder: RunFolder, known: Recipe, recipe: Recipe, data: Source, source: Source) -> None:
    """Make sure that the samples are the run's; where they lie somewhere else now, the run is told."""
    elsewhere = known.differences(dataclasses.replace(known, data=recipe.data, data_path=recipe.data_path))
    if elsewhere and not folder.load_samples().has_contents:
        _check_settings(folder, elsewhere)
    try:
        check_samples(folder, recipe, data, source)
    except RunError as error:
        if not elsewhere:
            raise
        raise OtherSettingsError(
            f"'{folder.path}' holds a run on other data ({'; '.join(elsewhere)}; {error})"
        ) from error
    if elsewhere and is_first_rank():
        with folder.locked() if folder.encoder.is_file() else nullcontext():  # else training holds the lock
            dataclasses.replace(known, data=recipe.data, data_path=recipe.data_path).save(folder.recipe)


def _check_monitor(recipe: Recipe) -> None:
    known = [*VALIDATION_METRICS, *(f"embeddings_{name}" for name in VALIDATION_METRICS)]
    if recipe.monitor not in known:
        raise ValueError(f"monitor is '{recipe.monitor}'; it must be one of {', '.join(known)}")


def _keep_best(folder: RunFolder, module: RepresentationModule) -> None:
    """Write the weights of the best epoch as safetensors."""
    state = _load_state(folder, module, folder.best_checkpoint)
    module.load_state_dict(state["state_dict"])
    weights = {f"encoder.{k}": v for k, v in module.evaluated_encoder.state_dict().items()}
    weights |= {f"objective.{k}": v for k, v in module.objective.state_dict().items()}
    folder.save_weights(weights, {"epoch": str(state["epoch"]), "objective": module.recipe.objective})


def _load_state(folder: RunFolder, module: RepresentationModule, path: Path) -> dict[str, Any]:
    """A training state whose weights are those of this module."""
    state = folder.load_checkpoint(path)
    module.on_load_checkpoint(state)
    if problems := misfits(module.state_dict(), state["state_dict"]):
        raise RunError(
            f"the training state '{path}' has not the weights of its recipe: {problems}; delete it and the "
            "same command begins anew"
        )
    return state


def _quiet() -> None:
    """Silence Lightning's advice that does not fit this use; its warnings about real trouble stay."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    for message in (
        ".*does not have many workers.*",
        ".*smaller than the logging interval.*",
        ".*ended before the epoch ended and your dataloader is not resumable.*",  # ours is: batches.py
        ".*sync_dist=True.*",  # every rank validates all samples
        ".*LeafSpec.*",
        ".*lr_scheduler.step\\(\\)` before `optimizer.step.*",  # where float16 skips the first steps
        ".*AMP with fp16 is not supported.*",  # an error of ours says it
        ".*module\\(s\\) in eval mode at the start of training.*",  # what is frozen is meant to be
    ):
        warnings.filterwarnings("ignore", message=message)


class Patience(EarlyStopping):
    """Early stopping that remembers, when a finished run is continued, that it was finished."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(
            monitor=f"val_{recipe.monitor}",
            mode="max",
            patience=recipe.patience or 1,
            check_on_train_epoch_end=True,
            check_finite=False,  # an undefined value is an epoch without progress, not a failure
        )

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Stop at once where patience had run out already."""
        super().on_train_start(trainer, pl_module)
        if self.wait_count >= self.patience:
            trainer.should_stop = True
