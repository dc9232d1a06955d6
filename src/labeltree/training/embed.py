"""From a trained run to embeddings tables: its own, and the baselines' that every table shows beside it."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch

from labeltree.data import Source
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
from labeltree.training.record import check_labels, check_samples
from labeltree.training.tables import chunks, table_of
from labeltree.training.trainee import Trainee, open_recipe_source, prepare

TableName = Literal["trained", "untrained", "raw"]

__all__ = ["embed_source", "load_run", "run_tables"]


def load_run(path: str | Path, progress: Progress | None = None) -> Trainee:
    """Build a finished run again, with the weights of its best epoch.

    Args:
        path: the run folder.
        progress: is told how far reading the data is.

    Raises:
        RunError: if the folder is not a run's, its training has not finished, or its samples have changed.
    """
    folder = RunFolder(path).require()
    weights = folder.load_weights()
    recipe = read_recipe(folder.recipe)
    source = open_recipe_source(recipe, progress)
    check_samples(folder, recipe, source)
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
) -> tuple[Trainee, dict[str, EmbeddingTable]]:
    """The named embeddings tables of a finished run; each is made once, then read.

    ``trained`` is the run's own; ``untrained`` is that of the encoder with the weights that training started
    from, and ``raw`` that of the samples themselves, without an encoder. ``progress`` is told how far it is.
    """
    folder = RunFolder(path)
    trainee = load_run(path, progress)
    tables: dict[str, EmbeddingTable] = {}
    for name in names:
        file = folder.embeddings(name)
        # A table from before the weights were last written is not this run's.
        if not file.is_file() or file.stat().st_mtime < folder.encoder.stat().st_mtime:
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
        names = trainee.source.group_names
        tables[name] = replace(table, groups=trainee.source.groups, group_names=names)
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
