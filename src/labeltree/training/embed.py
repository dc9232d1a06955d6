"""From a trained run to embeddings tables: its own, and the baselines' that every table shows beside it."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch

from labeltree.data import Source, list_datasets
from labeltree.data.progress import Progress
from labeltree.errors import RunError, WriteError
from labeltree.models import misfits
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.training.baselines import raw_table
from labeltree.training.frozen import encode_rows
from labeltree.training.inputs import open_inputs
from labeltree.training.labels import TrainingLabels
from labeltree.training.module import RepresentationModule
from labeltree.training.reading import read_recipe
from labeltree.training.recipe import Recipe
from labeltree.training.record import (
    ContentChangedError,
    check_labels,
    check_samples,
    recorded_samples,
    samples_without_content,
)
from labeltree.training.tables import chunks, table_of
from labeltree.training.trainee import Trainee, open_recipe_data, prepare, split_by_recipe

TableName = Literal["trained", "untrained", "raw"]

__all__ = ["embed_source", "load_run", "run_tables"]


def load_run(
    path: str | Path, progress: Progress | None = None, *, own_data: bool = True, verify: bool = False
) -> Trainee:
    """Build a finished run again, with the weights of its best epoch.

    Args:
        path: the run folder.
        progress: is told how far reading the data is.
        own_data: open the run's own samples, which must be those that it was trained and is to be tested on.
            Without, they need not be there, and the run serves for other samples alone; only runs from before
            samples were recorded open them all the same.
        verify: read all files of its samples again; see `read_again`.

    Raises:
        RunError: if the folder is not a run's, its training has not finished, or its samples have changed.
    """
    folder = RunFolder(path).require()
    weights = folder.load_weights()
    recipe = read_recipe(folder.recipe)
    source = _own_samples(folder, recipe, progress, own_data=own_data, verify=verify)
    trainee = prepare(recipe, source, start_weights=False)
    check_labels(folder, recipe, trainee.labels)
    for module, prefix in (
        (trainee.module.evaluated_encoder, "encoder."),
        (trainee.module.objective, "objective."),
    ):
        own = {key.removeprefix(prefix): value for key, value in weights.items() if key.startswith(prefix)}
        if problems := misfits(module.state_dict(), own):
            raise RunError(
                f"the weights of '{folder.encoder}' are not those of its recipe: {problems}; restore it, or "
                "train again into another --out"
            )
        module.load_state_dict(own)
    return trainee


def _own_samples(
    folder: RunFolder, recipe: Recipe, progress: Progress | None, *, own_data: bool, verify: bool
) -> Source:
    record = folder.load_samples()
    if record.has_contents and not own_data:
        return samples_without_content(record, folder.load_taxonomy())
    place = Path(recipe.data).expanduser()
    if recipe.data not in list_datasets() and not place.exists():
        raise RunError(
            f"the data of the run in '{folder.path}' are no longer at '{recipe.data}'; put them back, or, if "
            f"they were moved, say where: 'labeltree train --config {folder.recipe} --data PLACE --out "
            f"{folder.path}' trains nothing anew"
        )
    data = open_recipe_data(recipe, progress, image_shape=record.image_shape, verify=verify)
    if record.has_contents:
        try:
            return recorded_samples(folder, recipe, record, data)
        except ContentChangedError:
            if verify:
                raise
        # What is kept of the files may be wrong: they are read before anything is said of them.
        return _own_samples(folder, recipe, progress, own_data=own_data, verify=True)
    source = split_by_recipe(recipe, data)
    check_samples(folder, recipe, data, source)
    return source


def embed_source(
    module: RepresentationModule,
    source: Source,
    labels: TrainingLabels | None = None,
    batch_size: int = 512,
    *,
    adapted: bool = True,
    progress: Progress | None = None,
) -> EmbeddingTable:
    """Features and embeddings of all samples of a source, unaugmented, in order.

    Args:
        module: of the run.
        source: the samples.
        labels: of the run's training. With them the table holds what the model itself answers, if it does,
            as nodes of the data's taxonomy.
        batch_size: samples at a time.
        adapted: the features are those of an adapter, where the run has one. Without, those of the encoder
            below it: a fresh adapter is no part of the encoder that training starts from.
        progress: is told how many samples the encoder has read.
    """
    module = module.eval()
    inputs = open_inputs(source, module.encoder, module.recipe)
    rows, places = source.rows.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    known = encode_rows(module, source, inputs, rows, progress)[places]
    device = next(module.parameters()).device
    features, embeddings, answers, aspects = [], [], [], []
    with torch.inference_mode():
        for positions in chunks(len(source), batch_size):
            some = module.evaluated_encoder.adapt(known[positions].to(device)).float()
            features.append(some.cpu() if adapted else known[positions])
            embeddings.append(module.objective.embed(some).float().cpu())
            answer = None if labels is None else module.objective.predict(some)
            if labels is not None and answer is not None:
                answers.append(labels.from_training[answer.cpu()])
            by_aspect = module.objective.predict_aspects(some) if source.aspects is not None else None
            if by_aspect is not None:
                aspects.append(by_aspect.cpu())
    geometry = module.objective.geometry
    return table_of(
        source,
        torch.cat(embeddings),
        features=torch.cat(features),
        geometry=geometry.name,
        curvature=module.recipe.curvature,
        predictions=torch.cat(answers) if answers else None,
        aspect_predictions=torch.cat(aspects) if aspects else None,
    )


def run_tables(
    path: str | Path,
    names: Sequence[TableName] = ("trained", "untrained", "raw"),
    progress: Progress | None = None,
    *,
    verify: bool = False,
) -> tuple[Trainee, dict[str, EmbeddingTable]]:
    """The named embeddings tables of a finished run; each is made once, then read.

    ``trained`` is the run's own; ``untrained`` is that of the encoder with the weights that training started
    from, and ``raw`` that of the samples themselves, without an encoder. ``progress`` is told how far it is.
    With ``verify`` all files of the samples are read again, and the tables made anew.
    """
    folder = RunFolder(path)
    trainee = load_run(path, progress, verify=verify)
    tables: dict[str, EmbeddingTable] = {}
    for name in names:
        file = folder.embeddings(name)
        # A table from before the weights were last written is not this run's.
        if verify or not file.is_file() or file.stat().st_mtime < folder.encoder.stat().st_mtime:
            made = _make_table(name, trainee, path, progress)
            try:
                made.save(file)
            except WriteError as error:  # a run that may only be read can still be measured
                if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                    raise
                tables[name] = replace(made, groups=trainee.source.groups)
                continue
        # a table from before tables had groups has those of the data, whose samples are the same
        table = EmbeddingTable.load(file, trainee.source.taxonomy)
        source = trainee.source
        tables[name] = replace(table, groups=source.groups, group_names=source.group_names)
    return trainee, tables


def _make_table(
    name: TableName, trainee: Trainee, path: str | Path, progress: Progress | None
) -> EmbeddingTable:
    if name == "raw":
        return raw_table(trainee.source, trainee.module.encoder.modality)
    if name == "untrained":
        recipe = read_recipe(RunFolder(path).recipe)
        start = prepare(recipe, trainee.source).module
        return embed_source(start, trainee.source, adapted=False, progress=progress)
    return embed_source(trainee.module, trainee.source, trainee.labels, progress=progress)
