"""Embeddings tables of a run, of its starting encoder and of the raw samples that both are compared with."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from labeltree.data import Source
from labeltree.data.source import Modality
from labeltree.errors import WriteError
from labeltree.inference.loading import load_run
from labeltree.progress import Progress
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.training.batches import open_inputs
from labeltree.training.experiment import Experiment, prepare
from labeltree.training.frozen import encode_rows
from labeltree.training.labels import TrainingLabels
from labeltree.training.module import RepresentationModule
from labeltree.training.reading import read_recipe
from labeltree.training.recipe import Recipe

__all__ = ["RAW_NAMES", "TableName", "embed_source", "raw_table", "run_tables", "start_name"]

TableName = Literal["trained", "untrained", "raw"]
RAW_NAMES: dict[Modality, str] = {"image": "raw pixels", "text": "raw words"}

_WORDS_DIM = 256


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
        module: module of the run.
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
        for positions in torch.arange(len(source)).split(batch_size):  # type: ignore[no-untyped-call]
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
    return _table_of(
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
) -> tuple[Experiment, dict[str, EmbeddingTable]]:
    """The named embeddings tables of a finished run; each is made once, then read.

    ``trained`` is the run's own; ``untrained`` is that of the encoder with the weights that training started
    from, and ``raw`` that of the samples themselves, without an encoder. ``progress`` is told how far it is.
    With ``verify``, all files of the samples are read again and the tables are recomputed.
    """
    folder = RunFolder(path)
    experiment = load_run(path, progress, verify=verify)
    tables: dict[str, EmbeddingTable] = {}
    for name in names:
        file = folder.embeddings(name)
        # A table from before the weights were last written is not this run's.
        if verify or not file.is_file() or file.stat().st_mtime < folder.encoder.stat().st_mtime:
            made = _make_table(name, experiment, path, progress)
            try:
                made.save(file)
            except WriteError as error:  # a run that may only be read can still be measured
                if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                    raise
                tables[name] = replace(made, groups=experiment.source.groups)
                continue
        # a table from before tables had groups has those of the data, whose samples are the same
        table = EmbeddingTable.load(file, experiment.source.taxonomy)
        source = experiment.source
        tables[name] = replace(table, groups=source.groups, group_names=source.group_names)
    return experiment, tables


def _make_table(
    name: TableName, experiment: Experiment, path: str | Path, progress: Progress | None
) -> EmbeddingTable:
    if name == "raw":
        return raw_table(experiment.source, experiment.module.encoder.modality)
    if name == "untrained":
        recipe = read_recipe(RunFolder(path).recipe)
        start = prepare(recipe, experiment.source).module
        return embed_source(start, experiment.source, adapted=False, progress=progress)
    return embed_source(experiment.module, experiment.source, experiment.labels, progress=progress)


def start_name(recipe: Recipe) -> str:
    """What to call the encoder as training finds it, by a resolved recipe."""
    trained = recipe.pretrained or recipe.weights is not None
    return "pretrained encoder" if trained else "untrained encoder"


def raw_table(source: Source, modality: Modality, batch_size: int = 512) -> EmbeddingTable:
    """The samples' own values as features and embedding.

    Of images, the pixels, centred by channel; above 32 pixels a side they are reduced to 32 first. Of texts,
    the words of two letters and more, or every sign where there are none: tf-idf with sublinear counts,
    fitted on the training samples, reduced to 256 dimensions by a truncated singular value decomposition
    (latent semantic analysis, Deerwester et al. 1990).
    """
    points = _words(source) if modality == "text" else _pixels(source, batch_size)
    return _table_of(source, points, features=points, geometry="sphere")


def _train_mask(source: Source) -> np.ndarray[Any, Any]:
    mask: np.ndarray[Any, Any] = np.asarray(source.split) == "train"
    return mask


def _pixels(source: Source, batch_size: int) -> torch.Tensor:
    rows = []
    for positions in torch.arange(len(source)).split(batch_size):  # type: ignore[no-untyped-call]
        images = source.load(positions).float().div(255)
        if images.shape[-1] > 32:
            images = torch.nn.functional.interpolate(images, size=(32, 32), mode="area")
        rows.append(images.flatten(1))
    pixels = torch.cat(rows)
    return pixels - pixels[torch.from_numpy(_train_mask(source))].mean(0)


def _words(source: Source) -> torch.Tensor:
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = np.asarray(source.read(torch.arange(len(source))), dtype=object)
    learned = texts[_train_mask(source)]
    vectorizer = TfidfVectorizer(sublinear_tf=True)
    try:
        vectorizer.fit(learned)
    except ValueError:  # no word of two letters: then each sign is one
        vectorizer = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\S").fit(learned)
    words = vectorizer.transform(texts)
    dim = min(_WORDS_DIM, min(words.shape) - 1)
    if dim < 1:
        return torch.from_numpy(words.toarray()).float()
    with np.errstate(invalid="ignore"):  # of a single text it asks for the share of a variance of 0
        svd = TruncatedSVD(dim, random_state=0).fit(words[_train_mask(source)])
    return torch.from_numpy(svd.transform(words)).float()


def _table_of(source: Source, embeddings: Tensor, **columns: object) -> EmbeddingTable:
    """The table of these embeddings ``(n, d)``, with what the source knows of its n samples."""
    paths = source.paths(torch.arange(len(source)))
    return EmbeddingTable(
        embeddings=embeddings,
        nodes=source.nodes,
        split=None if source.split is None else np.asarray(source.split, dtype=str),
        instances=source.instances,
        groups=source.groups,
        group_names=source.group_names,
        paths=np.asarray(paths, dtype=str) if paths else None,
        aspects=source.aspects,
        aspect_taxonomies=source.aspect_taxonomies,
        **columns,  # type: ignore[arg-type]
    )
