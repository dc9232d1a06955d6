"""From a trained run to embeddings tables: its own, and the baselines' that every table shows beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from labeltree.data import Source, list_datasets, open_source
from labeltree.errors import TaxonomyError
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.training.fit import Trainee, open_recipe_source, prepare
from labeltree.training.labels import TrainingLabels
from labeltree.training.module import RepresentationModule
from labeltree.training.reading import read_recipe
from labeltree.training.record import check_labels, check_samples

TableName = Literal["trained", "untrained", "pixels"]

__all__ = ["embed_source", "load_run", "open_other", "pixel_table", "run_tables"]


def load_run(path: str | Path) -> Trainee:
    """Build a finished run again, with the weights of its best epoch.

    Raises:
        RunError: if the folder is not a run's, its training has not finished, or its samples have changed.
    """
    folder = RunFolder(path).require()
    weights = folder.load_weights()
    recipe = read_recipe(folder.recipe)
    source = open_recipe_source(recipe)
    check_samples(folder, recipe, source)
    trainee = prepare(recipe, source, start_weights=False)
    check_labels(folder, recipe, trainee.labels)
    _load(trainee.module.evaluated_encoder, weights, "encoder.")
    _load(trainee.module.objective, weights, "objective.")
    return trainee


def open_other(trainee: Trainee, spec: str, *, unlabelled: bool = False) -> Source:
    """Open other samples in the shape that a trained run's encoder takes, labelled in the run's taxonomy.

    Args:
        trainee: the run.
        spec: a folder, a table or a data set.
        unlabelled: the labels that the samples bring do not matter: all are missing.

    Raises:
        TaxonomyError: if a label is not in the run's taxonomy.
    """
    recipe, taxonomy = trainee.module.recipe, trainee.source.taxonomy
    channels, height, _ = trainee.source.image_shape
    named = spec in list_datasets()
    # Aspects are for training alone; a table to be embedded need not have them.
    columns = {} if named or Path(spec).is_dir() else recipe.table.columns | {"aspect_columns": None}
    if unlabelled and columns:
        columns |= {"label_columns": None}
    try:
        source = open_source(
            spec,
            image_size=height,
            channels=channels,
            taxonomy=None if named or (unlabelled and _has_folders(spec)) else taxonomy,
            on_error=recipe.on_error,
            **columns,
        )
    except TaxonomyError as error:
        raise TaxonomyError(f"{error}; or embed without labels: --unlabelled") from error
    if unlabelled:
        return dataclasses.replace(source, taxonomy=taxonomy, nodes=torch.full_like(source.nodes, -1))
    if source.taxonomy != taxonomy:
        raise TaxonomyError(f"'{spec}' has another taxonomy than the run; embed without labels: --unlabelled")
    return source


def _has_folders(spec: str) -> bool:
    return Path(spec).is_dir() and any(entry.is_dir() for entry in Path(spec).iterdir())


def _load(module: torch.nn.Module, weights: dict[str, Tensor], prefix: str) -> None:
    module.load_state_dict({k.removeprefix(prefix): v for k, v in weights.items() if k.startswith(prefix)})


def embed_source(
    module: RepresentationModule, source: Source, labels: TrainingLabels | None = None, batch_size: int = 512
) -> EmbeddingTable:
    """Features and embeddings of all samples of a source, unaugmented, in order.

    Args:
        module: of the run.
        source: the samples.
        labels: of the run's training. With them the table holds what the model itself answers, if it does,
            as nodes of the data's taxonomy.
        batch_size: samples at a time.
    """
    device = torch.device(
        "cuda" if torch.cuda.is_available() and module.recipe.accelerator != "cpu" else "cpu"
    )
    module = module.to(device).eval()
    features, embeddings, answers = [], [], []
    with torch.inference_mode():
        for positions in _chunks(len(source), batch_size):
            images = module.plain(
                source.load(positions).to(device), source.instances[positions].to(device), 0, 0
            )
            if module.recipe.channels_last:
                images = images.contiguous(memory_format=torch.channels_last)
            rows = module.evaluated_encoder(images).float()
            features.append(rows.cpu())
            embeddings.append(module.objective.embed(rows).float().cpu())
            answer = None if labels is None else module.objective.predict(rows)
            if labels is not None and answer is not None:
                answers.append(labels.from_training[answer.cpu()])
    geometry = module.objective.geometry
    return _table(
        source,
        torch.cat(embeddings),
        features=torch.cat(features),
        geometry=geometry.name,
        curvature=module.recipe.curvature,
        predictions=torch.cat(answers) if answers else None,
    )


def pixel_table(source: Source, batch_size: int = 512) -> EmbeddingTable:
    """The baseline of raw pixels: each image's values, centred by channel, as its features and embedding.

    Images above 32 pixels a side are reduced to 32 first.
    """
    rows = []
    for positions in _chunks(len(source), batch_size):
        images = source.load(positions).float().div(255)
        if images.shape[-1] > 32:
            images = torch.nn.functional.interpolate(images, size=(32, 32), mode="area")
        rows.append(images.flatten(1))
    pixels = torch.cat(rows)
    pixels = pixels - pixels[torch.from_numpy(np.asarray(source.split) == "train")].mean(0)
    return _table(source, pixels, features=pixels, geometry="sphere")


def run_tables(
    path: str | Path, names: Sequence[TableName] = ("trained", "untrained", "pixels")
) -> tuple[Trainee, dict[str, EmbeddingTable]]:
    """The named embeddings tables of a finished run; each is made once, then read.

    ``trained`` is the run's own; ``untrained`` is that of the encoder with the weights that training started
    from, and ``pixels`` that of the images themselves.
    """
    folder = RunFolder(path)
    trainee = load_run(path)
    tables: dict[str, EmbeddingTable] = {}
    for name in names:
        file = folder.embeddings(name)
        # A table from before the weights were last written is not this run's.
        if not file.is_file() or file.stat().st_mtime < folder.encoder.stat().st_mtime:
            _make_table(name, trainee).save(file)
        tables[name] = EmbeddingTable.load(file, trainee.source.taxonomy)
    return trainee, tables


def _make_table(name: TableName, trainee: Trainee) -> EmbeddingTable:
    if name == "pixels":
        return pixel_table(trainee.source)
    if name == "untrained":
        return embed_source(prepare(trainee.module.recipe, trainee.source).module, trainee.source)
    return embed_source(trainee.module, trainee.source, trainee.labels)


def _table(source: Source, embeddings: Tensor, **columns: object) -> EmbeddingTable:
    paths = source.paths(torch.arange(len(source)))
    return EmbeddingTable(
        embeddings=embeddings,
        nodes=source.nodes,
        split=None if source.split is None else np.asarray(source.split, dtype=str),
        instances=source.instances,
        paths=np.asarray(paths, dtype=str) if paths else None,
        **columns,  # type: ignore[arg-type]
    )


def _chunks(n: int, size: int) -> Iterator[Tensor]:
    return (torch.arange(start, min(start + size, n)) for start in range(0, n, size))
