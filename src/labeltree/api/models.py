"""Train, load, use and change models."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeltree.atomic import refuse_inputs
from labeltree.errors import RecipeError
from labeltree.options.answer_options import EmbedOptions, PredictOptions
from labeltree.options.model_options import (
    CalibrateOptions,
    ExportOptions,
    ExtendOptions,
    ForgetOptions,
    LoadOptions,
    MergeOptions,
)
from labeltree.options.name_options import ZeroShotOptions
from labeltree.options.schema import takes

if TYPE_CHECKING:  # each function imports what it needs: a service that loads a model does not train
    from labeltree.curation.forget_samples import Forgotten
    from labeltree.data import DataSummary
    from labeltree.inference.answers.answered import Answered
    from labeltree.inference.bulk import BulkDone
    from labeltree.inference.decider import Decider
    from labeltree.inference.embed_run import Embedded
    from labeltree.inference.extend import Extension
    from labeltree.inference.merging import Merged
    from labeltree.inference.model import Model
    from labeltree.runs import RunFolder

__all__ = [
    "calibrate", "embed", "export", "extend", "forget", "load", "merge", "predict", "train", "zero_shot",
]  # fmt: skip

_SETTING_OF_GROUP = re.compile(r"did you mean '(\w+)\.(\w+)'\?")


def train(
    data: str | Path | None = None,
    objective: str | None = None,
    *,
    out: str | Path | None = None,
    config: str | Path | None = None,
    progress_bar: bool = True,
    folds: int | None = None,
    on_data: Callable[[DataSummary], object] | None = None,
    verify: bool = False,
    **settings: Any,
) -> RunFolder:
    """Train a run, or continue the one in the folder, as `labeltree train` does.

    At the end its classifiers are learned and its answers calibrated, so that the run folder alone answers
    from then on, wherever it is taken.

    Args:
        data: a folder of nested folders, a table, or the name of a data set; see `open_data`.
        objective: The training objective, such as `hwc+lam`; None = the recipe's, or else `auto`, the one
            that suits the samples.
        out: The run folder; None = `runs/` and the name of the data.
        config: a recipe to start from: a YAML file, or the name of a recipe that comes with labeltree.
        progress_bar: Show a progress bar.
        folds: cross-validation: train one run for each of this many folds, tested on that fold;
            `evaluate` makes one result of all. None = one run.
        on_data: Called with a summary of the data, which also lists what cannot be measured on them;
            None = warnings are logged.
        verify: When a run is continued, read all files of its samples again.
        **settings: Settings of the recipe, such as `epochs=20`; settings of a group are given as
            `optimizer={"lr": 0.1}` or `**{"optimizer.lr": 0.1}`.

    Raises:
        RecipeError: If a setting is unknown (the message names the nearest one) or its value is not allowed.
        LabeltreeError: If the data cannot be read, or the folder holds another run.
    """
    from labeltree.errors import check_place
    from labeltree.inference.finish import finish_run
    from labeltree.training.fit import train as train_recipe
    from labeltree.training.read_recipes import default_folder, make_recipe, with_absolute_paths

    if data is not None:
        check_place("data", data)
    given = {"data": data if data is None else str(data), "objective": objective}
    chosen = {**settings, **{name: value for name, value in given.items() if value is not None}}
    try:
        recipe = with_absolute_paths(make_recipe(chosen, config))
    except RecipeError as error:  # settings of a group are written in another way here
        raise RecipeError(_SETTING_OF_GROUP.sub(r"did you mean \1={'\2': …}?", str(error))) from None
    if folds is not None:
        from labeltree.report.cross_validation import train_folds

        return train_folds(recipe, folds, out, progress_bar=progress_bar, on_data=on_data, verify=verify)
    folder = train_recipe(
        recipe, out or default_folder(recipe), progress_bar=progress_bar, on_data=on_data, verify=verify
    )
    finish_run(folder, progress_bar=progress_bar)
    return folder


@takes(LoadOptions)
def load(options: LoadOptions) -> Model:
    """Load a finished run as a model that embeds samples and predicts their labels.

    `hf:OWNER/NAME` and `hf:OWNER/NAME@REVISION` are exported models of the Hugging Face hub; they are
    fetched into the cache folder once, as `pull` fetches them.

    Raises:
        RunError: If the folder is not a finished run.
        DataError: If a model of the hub cannot be fetched.
    """
    from labeltree.inference.hub.pull_export import HUB_PREFIX, pulled_model
    from labeltree.inference.model import Model

    run = options.run
    if isinstance(run, str) and run.startswith(HUB_PREFIX):
        run = pulled_model(run)
    return Model(
        run,
        classifier=options.classifier,
        taxonomy=options.taxonomy,
        mapping=options.mapping,
        device=None if options.device is None else str(options.device),
    )


@takes(PredictOptions)
def predict(options: PredictOptions) -> Answered | BulkDone:
    """Answer for images or texts with a node of the taxonomy, as fine as is sure.

    With a folder as `out` (`FOLDER/`), or with shards as `data`, the answers of any number of samples
    go to Parquet files in it, and the same call goes on where it was ended. `load` gives a model that answers
    for samples in memory.

    Raises:
        LabeltreeError: If the run, the samples or the costs are missing, unreadable or unsuitable.
        ValueError: If an option is not valid, or does not go with others.
    """
    options = options.with_data()
    if (done := _bulk_done(options)) is not None:
        return done
    from labeltree.inference.predict import answer

    _check_writes(options)
    answered = answer(options)
    if options.out is not None:
        answered.save(options.out, options.format)
    return answered


@takes(ZeroShotOptions)
def zero_shot(options: ZeroShotOptions) -> Answered:
    """Answer for texts or images by the names of the classes of a taxonomy alone, without a run.

    The prototype of a class is the mean vector of its names, and its score the cosine to it, divided by the
    temperature of the encoder. Without labelled samples to calibrate on, each answer is the root, which
    is always right, beside the most probable classes.

    Raises:
        LabeltreeError: If the encoder reads no names, the names are codes, or samples are missing or
            unsuitable.
        ValueError: If an option is not valid, or does not go with others.
    """
    from labeltree.api.taxonomies import as_tree, open_labels
    from labeltree.inference.by_name.zero_shot import answer_by_names

    options = options.with_data()
    _check_writes(options)
    name = str(options.taxonomy)
    answered = answer_by_names(options, as_tree(name, open_labels(name)[0]))
    if options.out is not None:
        answered.save(options.out, options.format)
    return answered


def _check_writes(options: PredictOptions | ZeroShotOptions) -> None:
    """Raise an error, before anything is read, if the answers cannot be written, or would replace samples.

    Those may be what a run has learned from, too.
    """
    if options.out is not None:
        read = [options.data, options.taxonomy, *options.images]
        if isinstance(options, PredictOptions):
            read += [options.mapping, options.cost if isinstance(options.cost, str) else None]
            read.append(_training_data(options.run))
        refuse_inputs(options.out, *read)
    if options.format == "xlsx":
        from labeltree.workbooks import require_openpyxl

        require_openpyxl(str(options.out), "write .csv")


def _training_data(run: str | os.PathLike[str]) -> str | None:
    """The path of the samples that a run has learned from, where it is known."""
    from labeltree.runs import ModelDescription, RunFolder

    folder = RunFolder(Path(run))
    if not folder.description.is_file():
        return None
    settings = ModelDescription.load(folder.description).settings
    return str(settings.get("data_path") or settings.get("data") or "") or None


@takes(EmbedOptions)
def embed(options: EmbedOptions) -> Embedded | BulkDone:
    """Write the embeddings of a trained run's samples, or of others, to one table or to a folder of parts.

    The taxonomy of the nodes is written beside the table. With a folder as `out` (`FOLDER/`), or with
    shards as `data`, any number of samples go to Parquet files in it.

    Raises:
        LabeltreeError: If the run or the samples are missing, unreadable or unsuitable.
        ValueError: If an option is not valid, or does not go with others.
    """
    if (done := _bulk_done(options)) is not None:
        return done
    from labeltree.inference.embed_run import embed_run

    if options.out is not None:
        refuse_inputs(options.out, options.data, _training_data(options.run))
    return embed_run(options)


def _bulk_done(options: PredictOptions | EmbedOptions) -> BulkDone | None:
    """What was done, if the options say that a folder of parts is written; else None."""
    folder = False
    if options.out is not None:
        from labeltree.inference.bulk.job import writes_folder

        folder = writes_folder(options.data, options.out)
    options.require_fit(folder=folder)
    if not folder:
        return None
    from labeltree.inference.bulk import BulkJob, run_bulk

    return run_bulk(BulkJob.of(options), devices=options.devices or 1, progress=options.progress)


@takes(CalibrateOptions)
def calibrate(options: CalibrateOptions) -> Decider:
    """Calibrate the answers of a run, which writes `decisions.json`.

    Afterwards probabilities match frequencies, and any coverage can be promised.

    Raises:
        RunError: If the folder is not a finished run.
        DataError: If there are no samples to learn from or to calibrate on.
    """
    from labeltree.inference.calibrate_run import calibrate_run

    return calibrate_run(options)


@takes(ExportOptions)
def export(options: ExportOptions) -> Path:
    """Write a trained run as one folder for others: ONNX, weights, labels, and a model card.

    Returns:
        The folder.

    Raises:
        RunError: If the folder is not a finished run, or `out` exists.
    """
    model = load(
        options.run,
        classifier=options.classifier,
        taxonomy=options.taxonomy,
        mapping=options.mapping,
        device="cpu",
    )
    return model.export(
        options.out,
        options.formats,
        name=options.name,
        with_reference=options.with_reference,
        replace=options.replace,
    )


@takes(ExtendOptions)
def extend(options: ExtendOptions) -> Extension:
    """Let a trained run answer with new classes, from a few samples and without training, or without some.

    `load` gives the extended model from then on; `labeltree.inference.extend.undo_extension` takes it back.

    Raises:
        LabeltreeError: See `labeltree.inference.extend.extend_run`.
    """
    from labeltree.inference.extend import extend_run

    return extend_run(options)


@takes(ForgetOptions)
def forget(options: ForgetOptions) -> Forgotten:
    """Let a run with objective `tree-ridge` forget samples: its head, its files, the cache and indexes.

    Raises:
        LabeltreeError: See `labeltree.curation.forget_samples.forget_samples`.
    """
    from labeltree.curation.forget_samples import forget_samples

    return forget_samples(options)


@takes(MergeOptions)
def merge(options: MergeOptions) -> Merged:
    """Make one model of several runs with objective `tree-ridge`, from their sums; no sample moves.

    Raises:
        LabeltreeError: See `labeltree.inference.merging.merge_runs`.
    """
    from labeltree.inference.merging import merge_runs

    return merge_runs(options)
