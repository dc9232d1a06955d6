"""Features of an encoder that does not change: computed once for each sample, and kept."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from labeltree.data import Source, data_home
from labeltree.data.images.stores import FileStore
from labeltree.data.progress import Progress, silent
from labeltree.models import encode_in_chunks
from labeltree.training.feature_file import FeatureFile
from labeltree.training.inputs import InputStore
from labeltree.training.module import RepresentationModule
from labeltree.training.recipe import Recipe
from labeltree.training.trainee import Trainee

__all__ = ["encode_rows", "features_are_known", "use_known_features"]

_BATCH = 256
_SAVE_SECONDS = 30
_VERSION = 2  # of what a key stands for


def features_are_known(recipe: Recipe) -> bool:
    """Whether a settled recipe's features do not change: a frozen encoder that sees samples as they are."""
    return recipe.trainable == "head" and recipe.views == "identity" and recipe.ema == 0


def use_known_features(trainee: Trainee, progress: Progress | None = None) -> None:
    """Let training read features instead of samples, where the encoder is frozen and views are plain.

    They are kept in the cache folder, so that further runs with the same encoder on the same samples, and
    their evaluation, take them from there. Nothing else changes: the encoder stays in the run.
    """
    module = trainee.module
    if not features_are_known(module.recipe) or module.momentum is not None:
        return
    split = np.asarray(trainee.source.split)
    used = trainee.source.rows[torch.from_numpy(np.flatnonzero(split != "test"))].unique()  # type: ignore[no-untyped-call]
    trainee.batches.inputs = _kept(module, trainee.source, trainee.batches.inputs, used, progress)
    module.reads_features = True


def encode_rows(
    module: RepresentationModule,
    source: Source,
    inputs: InputStore,
    rows: Tensor,
    progress: Progress | None = None,
) -> Tensor:
    """Features ``(n, f)`` of the rows of a source, unaugmented, without an adapter.

    Those of a frozen encoder are kept on disk.

    Args:
        module: has the encoder.
        source: the samples.
        inputs: what the encoder reads, by row.
        rows: ``(n,)``.
        progress: is told how many are done.
    """
    if features_are_known(module.recipe):
        return _kept(module, source, inputs, rows, progress).load(rows)
    none = torch.empty(0, module.encoder.without_adapter.feature_dim)
    return torch.cat([none, *_encoded(module, inputs, rows, progress)])


def _kept(
    module: RepresentationModule,
    source: Source,
    inputs: InputStore,
    rows: Tensor,
    progress: Progress | None,
) -> FeatureFile:
    """The file of the features of a frozen encoder, completed by these rows."""
    samples = source.texts if module.encoder.modality == "text" else source.store
    assert samples is not None
    path = data_home() / "features" / f"{_key(module, source)}.bin"
    known = FeatureFile(path, len(samples), module.encoder.without_adapter.feature_dim)
    missing = rows[known.missing(rows)]
    waiting: list[Tensor] = []
    start, saved = 0, time.monotonic()
    for features in _encoded(module, inputs, missing, progress):
        waiting.append(features)
        if time.monotonic() - saved > _SAVE_SECONDS:
            made = torch.cat(waiting)
            known.add(missing[start : start + len(made)], made)
            start, saved, waiting = start + len(made), time.monotonic(), []
    if waiting:
        known.add(missing[start:], torch.cat(waiting))
    return known


def _encoded(
    module: RepresentationModule, inputs: InputStore, rows: Tensor, progress: Progress | None
) -> Iterator[Tensor]:
    """Features of the rows, a batch at a time."""
    report = progress or silent
    device = _device(module.recipe)
    encoder = module.to(device).evaluated_encoder.eval().without_adapter
    for start in range(0, len(rows), _BATCH):
        some = rows[start : start + _BATCH]
        with torch.no_grad():
            samples = module.plain(inputs.load(some).to(device), some.to(device))
            features = encode_in_chunks(encoder, samples, module.recipe.encode_chunk).float().cpu()
        yield features
        report("computing features", start + len(some), len(rows))


def _device(recipe: Recipe) -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() and recipe.accelerator != "cpu" else "cpu")


def _key(module: RepresentationModule, source: Source) -> str:
    """What features depend on: the encoder and its weights, how samples are read, and the samples."""
    recipe, encoder = module.recipe, module.encoder.without_adapter
    read: list[object] = [_VERSION, recipe.encoder, recipe.pretrained, _device(recipe).type]
    if encoder.modality == "text":
        read += [recipe.max_length]
    else:
        read += [source.image_shape, encoder.mean, encoder.std, recipe.channels_last]
    digest = hashlib.sha256(repr(read).encode())
    for name, value in sorted(encoder.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    if encoder.modality == "text":
        for text in source.texts or ():
            digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    elif isinstance(source.store, FileStore):
        digest.update(source.store.key())
    elif source.store is not None:
        for rows in torch.arange(len(source.store)).split(4096):  # type: ignore[no-untyped-call]
            digest.update(source.store.load(rows).numpy().tobytes())
    return digest.hexdigest()[:32]
