"""Train a run by its recipe, from the beginning or from the last saved state."""

from __future__ import annotations

import logging
import os
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lightning as L
from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import Callback, TQDMProgressBar

from labeltree.counted_nouns import say_count
from labeltree.data import DataSummary, summarize
from labeltree.data.data_summary import UNUSED_ROWS, check_held_out_labels
from labeltree.data.images.image_files import LEFT_OUT
from labeltree.data.opening_sources import check_named, data_exist
from labeltree.errors import RunError
from labeltree.models import (
    check_encoder,
    encoder_pair,
    misfits,
    need_lora,
    normalises_by_batch,
    pinned_encoder,
)
from labeltree.processes import Terminated, end_with_parent
from labeltree.progress import progress_line, silent
from labeltree.runs import RunFolder
from labeltree.taxonomy.review_names import review_hint
from labeltree.training.callbacks.checkpoints import AtomicCheckpointIO, Checkpoints, ResumedEarlyStopping
from labeltree.training.callbacks.divergence import (
    DivergenceWatch,
    TrainingDiverged,
    continue_after_divergence,
    has_diverged,
    record_divergence,
)
from labeltree.training.callbacks.stop_after_step import TrainingInterrupted
from labeltree.training.carried_weights import start_file
from labeltree.training.choosing.choose_encoder import (
    AUTO_ENCODER,
    EncoderChoice,
    choose_encoder,
    choose_text_encoder,
    with_encoder,
)
from labeltree.training.choosing.choose_objective import choose_objective
from labeltree.training.choosing.earlier_splits import say_earlier_splits
from labeltree.training.encoder_candidates import better_encoder, drop_candidates
from labeltree.training.experiment import Experiment, prepare
from labeltree.training.features.frozen import use_precomputed_features
from labeltree.training.features.solve import add_posterior_space, save_network, solve, untrained_encoder
from labeltree.training.module import (
    IMAGE_TEXT_METRIC,
    VALIDATION_METRICS,
    RepresentationModule,
    compile_encoders,
)
from labeltree.training.read_recipes import read_recipe
from labeltree.training.recipe import Recipe
from labeltree.training.recipe_data import plain_key_of
from labeltree.training.records.epoch_lines import EpochLines
from labeltree.training.records.loggers import check_logger, logger_of_run
from labeltree.training.records.record import (
    abandon_run,
    as_begun,
    begin_run,
    changed_sources,
    check_settings,
    is_first_rank,
    open_recorded,
    open_samples,
    run_corrections,
)
from labeltree.training.records.version_record import VersionRecord
from labeltree.training.registry import AUTO_OBJECTIVE, is_solved
from labeltree.training.resolution import left_open, training_size
from labeltree.training.training_length import epochs_and_batch_size, length_note, length_warning
from labeltree.training.training_time import cost_note

if TYPE_CHECKING:
    from lightning.pytorch.loggers import Logger

    from labeltree.training.batches import SourceDataModule

__all__ = ["train"]

_FIRST_RANK = "_LABELTREE_FIRST_RANK"  # process id of the first rank, for the ranks it starts
_PRECISIONS: dict[str, Any] = {"32": "32-true", "bf16": "bf16-mixed", "16": "16-mixed"}
_log = logging.getLogger("labeltree.data")


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
    """Train a run, or continue the run in the folder. A finished run is only checked against its samples.

    On a CPU, an interrupted and resumed run ends with the same weights, bit for bit, as an uninterrupted one.

    Args:
        recipe: All settings.
        path: The run folder.
        callbacks: Further Lightning callbacks.
        progress_bar: Whether to show a progress bar; in a file or a pipe, a line for each epoch instead.
        every_n_steps: Also save the training state after this many steps, in addition to
            `recipe.checkpoint_minutes`.
        on_data: Callback that receives a summary of the data, with its warnings, before training begins;
            None = warnings are logged.
        verify: Read all sample files again. Otherwise a file with the same size and modification time counts
            as unchanged.

    Raises:
        RunError: If the folder holds a run with another recipe, or its samples have changed in name, content,
            label or split since it began. Data that were moved as a whole count as unchanged.
        FolderInUseError: If another process trains, or writes something else, in the folder.
        TrainingDiverged: If the loss or gradient of a step is not finite; the step is not saved, and the run
            can be continued with a smaller learning rate.
        TrainingInterrupted: After Ctrl-C or SIGTERM; the state has been saved.
    """
    folder = RunFolder(path)
    if folder.encoder.is_file() and not folder.recipe.is_file():
        raise RunError(f"'{folder.path}' holds an exported model, not a run to continue; give another --out")
    finished = folder.encoder.is_file()
    _check_monitor(recipe)
    _check_processes(recipe)
    if not is_first_rank():
        _end_with_first_rank()
    elif finished:
        folder.require().clear_after_kill()
    # A finished run is only checked.
    with folder.locked() if is_first_rank() and not finished else nullcontext():
        known = read_recipe(folder.recipe) if folder.recipe.is_file() else recipe
        recipe, known = as_begun(folder, known, recipe), as_begun(folder, known, known)
        check_settings(folder, known, recipe, but=left_open(known, recipe))
        run_corrections(folder, recipe)
        if is_first_rank() and (changed := changed_sources(folder)):
            warnings.warn(
                f"the source of objective '{changed[0]}' has changed since the run in '{folder.path}' began; "
                "train into another folder if it computes something else now",
                stacklevel=2,
            )
        if folder.encoder.is_file() and not known.differences(recipe):
            if is_first_rank():
                _check_finished(folder, recipe, progress_bar, verify)
            return folder
        check_logger(recipe)
        if not folder.recipe.is_file():
            if recipe.weights is None:
                check_named(recipe.data, recipe.data_path)  # before anything is asked of a hub
            recipe = known = _pin_encoder(recipe, progress_bar)
        if recipe.encoder != AUTO_ENCODER:
            check_encoder(recipe.encoder, pretrained=recipe.pretrained, weights=start_file(recipe))
        if recipe.trainable == "lora":
            need_lora()
        with progress_line(progress_bar) as progress:
            data, source = open_samples(folder, known, recipe, progress, verify=verify)
        if folder.encoder.is_file():
            return folder
        choice = None
        if recipe.encoder == AUTO_ENCODER and source.look is not None:
            choice = choose_encoder(recipe, source.look)
            if choice.kind == "between" and choice.pretrained and recipe.world_size == 1:
                one = partial(
                    train, progress_bar=progress_bar, every_n_steps=every_n_steps, on_data=lambda _: None
                )
                recipe, choice = better_encoder(folder, recipe, choice, lambda r, f: one(r, f.path))
                with progress_line(progress_bar) as progress:
                    data, source = open_samples(folder, recipe, recipe, progress)
        warning = None
        if recipe.encoder == AUTO_ENCODER and source.modalities == ("text",):
            recipe, warning = choose_text_encoder(recipe)
        summary = summarize(source)
        check_held_out_labels(source, summary)
        if warning is not None:
            summary = replace(summary, warnings=(*summary.warnings, warning), closing=warning)
        if choice is not None:
            summary = _note_encoder(summary, choice)
        if recipe.objective == AUTO_OBJECTIVE:
            objective = choose_objective(with_encoder(recipe, source), source)
            summary = replace(summary, notes=(f"objective: {objective}", *summary.notes))
        experiment = prepare(recipe, source)
        if said := review_hint(source.taxonomy, folder.path, plain_key_of(recipe)):
            summary = replace(summary, notes=(*summary.notes, said))
        summary = _note_length(summary, recipe, training_size(source), experiment.batches)
        summary = _note_searched(summary, experiment)
        kept, taught = say_earlier_splits(recipe, source)
        summary = replace(summary, warnings=(*summary.warnings, *taught))
        if data.unread:
            summary = _note_unreadable(summary, len(data.unread))
        if is_first_rank():
            (on_data or _log_warnings)(summary)
        if experiment.carried is not None and is_first_rank() and not folder.last_checkpoint.is_file():
            logging.getLogger("labeltree.training").warning(
                "; ".join(filter(None, [experiment.carried, kept]))
            )
        if source.label_sets is not None:
            use = experiment.module.objective.use_of_several_labels()
            summary = replace(summary, notes=(*summary.notes, use))
            if is_first_rank():
                logging.getLogger("labeltree.training").warning(use)
        with progress_line(progress_bar) as progress:
            use_precomputed_features(experiment, progress)
        if is_first_rank() and not folder.last_checkpoint.is_file() and (cost := cost_note(experiment)):
            logging.getLogger("labeltree.training").warning(cost)
        _warn_of_chunks(experiment.module)
        _quiet()
        hooks = [*(callbacks or ()), *_callbacks(folder, experiment.module.recipe, every_n_steps)]
        with logger_of_run(experiment.module.recipe, folder) as logger:
            trainer = _trainer(experiment.module.recipe, folder, hooks, progress_bar, logger)
            if recipe.compile:
                compile_encoders(experiment.module, trainer.strategy.root_device)
            begun = False
            if is_first_rank():
                module, labels = experiment.module, experiment.labels
                begun = begin_run(folder, recipe, data, experiment.source, labels, summary, module)
                if has_diverged(folder) and (said := continue_after_divergence(folder, known, recipe)):
                    warnings.warn(said, stacklevel=2)
            if experiment.module.objective.is_solved:
                solve(trainer, experiment, folder, begun)
            else:
                _fit(trainer, experiment, folder, begun)
                if trainer.is_global_zero:
                    _keep_best(folder, experiment)
            if trainer.is_global_zero:
                drop_candidates(folder)
            trainer.strategy.barrier()
    return folder


def _check_finished(folder: RunFolder, recipe: Recipe, progress_bar: bool, verify: bool) -> None:
    """Check the samples of a finished run, which is not trained again; those added since are warned of."""
    if not data_exist(recipe.data):
        return  # it answers without them
    with progress_line(progress_bar) as progress:
        open_recorded(folder, recipe, folder.load_samples(), progress, verify=verify)


def _pin_encoder(recipe: Recipe, progress_bar: bool) -> Recipe:
    """The recipe of a new run with the commit of an encoder of the Hugging Face hub, which is downloaded."""
    with progress_line(progress_bar, counted="bytes") as line:
        encoder = pinned_encoder(
            recipe.encoder,
            pretrained=recipe.pretrained,
            weights=start_file(recipe),
            progress=line or silent,
        )
    return replace(recipe, encoder=encoder)


def _fit(trainer: L.Trainer, experiment: Experiment, folder: RunFolder, begun: bool) -> None:
    """Train with Lightning, from the last saved state if there is one.

    Args:
        trainer: The trainer.
        experiment: The experiment to train.
        folder: The run folder.
        begun: Whether the run is new.
    """
    last = folder.last_checkpoint
    if last.is_file():
        _load_state(folder, experiment.module, last)  # report damage before anything is changed
    try:
        if is_first_rank():
            os.environ[_FIRST_RANK] = str(os.getpid())
        trainer.fit(
            experiment.module,
            datamodule=experiment.batches,
            ckpt_path=str(last) if last.is_file() else None,
            weights_only=True,
        )
    except SystemExit as stop:  # Lightning raises it for a signal that does not wait for the step to end
        raise TrainingInterrupted(
            f"stopped at once; the same command continues the run in '{folder.path}' from its last state",
            signal.SIGTERM if isinstance(stop.__context__, Terminated) else signal.SIGINT,
        ) from stop
    except Exception as error:
        if isinstance(error, TrainingDiverged) and last.is_file() and is_first_rank():
            record_divergence(folder, error)
        if begun and not last.is_file():  # if the first step fails, no run is left behind to block the folder
            abandon_run(folder)
        raise
    finally:
        if is_first_rank():
            os.environ.pop(_FIRST_RANK, None)


def _callbacks(folder: RunFolder, recipe: Recipe, every_n_steps: int | None) -> list[Callback]:
    """labeltree's own callbacks for a resolved recipe."""
    monitor = f"val_{recipe.monitor}"
    stopping = [] if recipe.patience is None else [ResumedEarlyStopping(monitor, recipe.patience)]
    watch = DivergenceWatch(folder, recipe)
    checkpoints = Checkpoints(folder, watch, monitor, recipe.checkpoint_minutes, every_n_steps)
    return [*stopping, checkpoints, VersionRecord(folder)]


def _trainer(
    recipe: Recipe, folder: RunFolder, hooks: list[Callback], progress_bar: bool, logger: Logger | None
) -> L.Trainer:
    drawn = progress_bar and sys.stdout.isatty()
    if progress_bar:
        hooks = [*hooks, TQDMProgressBar(leave=True) if drawn else EpochLines()]
    try:
        trainer = L.Trainer(
            accelerator=recipe.accelerator,
            devices=recipe.devices,
            num_nodes=recipe.num_nodes,
            strategy="ddp" if recipe.world_size > 1 else "auto",
            precision=_PRECISIONS[recipe.precision],
            max_epochs=epochs_and_batch_size(recipe)[0],
            gradient_clip_val=recipe.optimizer.clip_norm,
            callbacks=hooks,
            plugins=[AtomicCheckpointIO(), *_cluster()],
            logger=logger or False,
            log_every_n_steps=10,
            enable_model_summary=False,
            enable_progress_bar=drawn,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
            default_root_dir=folder.path,
        )
    except MisconfigurationException as error:
        raise ValueError(
            f"accelerator '{recipe.accelerator}' with devices {recipe.devices} is not available here: {error}"
        ) from error
    if trainer.precision != _PRECISIONS[recipe.precision]:  # Lightning may fall back to another precision
        raise ValueError(f"precision is '{recipe.precision}', which a CPU does not have; take 'bf16' or '32'")
    return trainer


def _cluster() -> list[SLURMEnvironment]:
    """SLURM without Lightning's own requeueing, whose states would take precedence over the run's."""
    return [SLURMEnvironment(auto_requeue=False)] if SLURMEnvironment.detect() else []


def _check_processes(recipe: Recipe) -> None:
    """Check that a launcher has started this process if there are several machines: else it would wait."""
    if recipe.num_nodes > 1 and not {"RANK", "SLURM_PROCID"} & os.environ.keys():
        raise ValueError(
            f"num_nodes is {recipe.num_nodes}, but this process was started by neither torchrun nor srun; on "
            f"every machine run 'torchrun --nnodes {recipe.num_nodes} --nproc_per_node {recipe.devices} "
            "--rdzv_backend c10d --rdzv_endpoint HOST:PORT -m labeltree train …' with the host of one of them"
        )


def _end_with_first_rank() -> None:
    """End a process that Lightning started for another device when its parent process ends."""
    first = os.environ.get(_FIRST_RANK)
    if first is not None:
        end_with_parent(int(first))


def _note_length(
    summary: DataSummary, recipe: Recipe, samples: int, batches: SourceDataModule
) -> DataSummary:
    """The summary with what was chosen of epochs and batches, and warnings of what is too few or not used."""
    if is_solved(batches.recipe.objective):
        return replace(summary, warnings=(*summary.warnings, *untrained_encoder(batches.recipe)))
    steps, unused = batches.steps_per_epoch, batches.sampler.describe_unused()
    note, warning = length_note(recipe, samples, steps), length_warning(recipe, samples, steps)
    return replace(
        summary,
        notes=(*summary.notes, *([note] if note else [])),
        warnings=(*summary.warnings, *filter(None, [warning, unused])),
    )


def _note_searched(summary: DataSummary, experiment: Experiment) -> DataSummary:
    """The summary with what validation searches among where that is training samples, and a note of it."""
    validation, queries = experiment.batches.validation, experiment.module.num_queries
    count = 0 if queries is None else len(validation) - queries
    if not count:
        return summary
    searched = f"{say_count(count, 'training sample')}, one a class"
    note = (
        f"validation samples are searched for among {searched}, as fewer than half of them share their class "
        "with another: MAP@R and recall@1 of validation are about that search"
    )
    return replace(summary, notes=(*summary.notes, note), searched=searched)


def _note_encoder(summary: DataSummary, choice: EncoderChoice) -> DataSummary:
    """The summary with the encoder that was chosen, and a warning if that is not the best one."""
    return replace(
        summary,
        notes=(f"encoder: {choice}; change it with --encoder NAME", *summary.notes),
        warnings=(*summary.warnings, *([choice.warning] if choice.warning else [])),
        closing=choice.warning,
    )


def _note_unreadable(summary: DataSummary, count: int) -> DataSummary:
    """The summary with the file that lists what cannot be read, beside the note that names some of it."""
    listed = f"unreadable.csv in the run folder lists the {count:,} that cannot be read"
    said = [note for note in summary.notes if note.endswith(LEFT_OUT)]
    if len(said) != 1:
        return replace(summary, notes=(*summary.notes, listed))
    notes = [f"{note} ({listed})" if note is said[0] else note for note in summary.notes]
    return replace(summary, notes=tuple(notes))


def _log_warnings(summary: DataSummary) -> None:
    lost = [note for note in summary.notes if LEFT_OUT in note or UNUSED_ROWS in note]
    for warning in (*lost, *summary.warnings):
        _log.warning("%s: %s", summary.name, warning)


def _warn_of_chunks(module: RepresentationModule) -> None:
    batch_size = epochs_and_batch_size(module.recipe)[1]
    size = batch_size * module.objective.num_views // module.recipe.world_size
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


def _check_monitor(recipe: Recipe) -> None:
    known = [*VALIDATION_METRICS, *(f"embeddings_{name}" for name in VALIDATION_METRICS)]
    if encoder_pair(recipe.encoder) is not None:
        known.append(IMAGE_TEXT_METRIC)
    if recipe.monitor not in ("auto", *known):
        raise ValueError(f"monitor is '{recipe.monitor}'; it must be one of {', '.join(known)}")


def _keep_best(folder: RunFolder, experiment: Experiment) -> None:
    """Write the weights of the best epoch as safetensors, with the posterior space that they lead to."""
    module = experiment.module
    state = _load_state(folder, module, folder.best_checkpoint)
    module.load_state_dict(state["state_dict"])
    if module.recipe.space == "posterior":
        add_posterior_space(experiment, folder)
    save_network(folder, module, state["epoch"])


def _load_state(folder: RunFolder, module: RepresentationModule, path: Path) -> dict[str, Any]:
    """Read a training state whose weights fit this module."""
    state = folder.load_checkpoint(path)
    module.on_load_checkpoint(state)
    if problems := misfits(module.state_dict(), state["state_dict"]):
        raise RunError(
            f"the training state '{path}' does not have the weights of its recipe: {problems}; delete it and "
            "the same command starts again"
        )
    return state


def _quiet() -> None:
    """Silence advice of Lightning that does not apply here; its warnings about real problems stay."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    for message in (
        ".*does not have many workers.*",
        ".*smaller than the logging interval.*",
        ".*ended before the epoch ended and your dataloader is not resumable.*",  # labeltree's is: batches.py
        ".*sync_dist=True.*",  # every rank validates all samples
        ".*LeafSpec.*",
        ".*lr_scheduler.step\\(\\)` before `optimizer.step.*",  # where float16 skips the first steps
        ".*AMP with fp16 is not supported.*",  # labeltree raises its own error
        ".*module\\(s\\) in eval mode at the start of training.*",  # meant for frozen modules
    ):
        warnings.filterwarnings("ignore", message=message)
