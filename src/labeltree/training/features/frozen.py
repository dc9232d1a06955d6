"""Features of a frozen encoder, computed once for each sample and kept for all runs."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from labeltree.data import Source, data_home
from labeltree.models import encode_in_chunks, encoder_modality
from labeltree.models.weights import add_weights
from labeltree.progress import Progress, silent
from labeltree.training.features.feature_store import FeatureStore, KeptFeatures
from labeltree.training.network import Network
from labeltree.training.recipe import Recipe
from labeltree.training.tokens_and_views import InputStore

if TYPE_CHECKING:
    from labeltree.training.experiment import Experiment

__all__ = ["encode_rows", "has_fixed_features", "use_precomputed_features"]


_BATCH = 256
_SAVE_SECONDS = 30
_VERSION = 4  # of the definition of a key


def has_fixed_features(recipe: Recipe) -> bool:
    """Whether features stay fixed, and cost enough to be kept: the encoder is frozen, views are the samples.

    Not if unreadable images are found, and replaced, only when they are read; nor those of vectors, which are
    the vectors themselves.
    """
    if encoder_modality(recipe.encoder) == "vector":
        return False
    replaced = recipe.pixel_cache == "never" and recipe.on_error == "skip"
    return recipe.trainable == "head" and recipe.views == "identity" and recipe.ema == 0 and not replaced


def use_precomputed_features(experiment: Experiment, progress: Progress | None = None) -> None:
    """Train on precomputed features if the encoder is frozen and samples are not augmented.

    Features are kept in the cache folder for evaluation and for further runs with the same encoder and
    samples. The encoder stays part of the run.
    """
    module = experiment.module
    if not has_fixed_features(module.recipe) or module.momentum is not None:
        return
    split = np.asarray(experiment.source.split)
    used = experiment.source.rows[torch.from_numpy(np.flatnonzero(split != "test"))].unique()  # type: ignore[no-untyped-call]
    batches = experiment.batches
    batches.inputs = _keep(experiment.network, experiment.source, batches.inputs, used, progress)
    module.reads_features = True


def encode_rows(
    network: Network,
    source: Source,
    inputs: InputStore,
    rows: Tensor,
    progress: Progress | None = None,
    *,
    keep: bool = True,
) -> Tensor:
    """Features `(n, f)` of the rows of a source, unaugmented, without an adapter.

    Args:
        network: The network with the encoder.
        source: The samples.
        inputs: The encoder's input for each row of the source.
        rows: Rows to encode `(n,)`.
        progress: Callback that reports progress.
        keep: Keep features of a frozen encoder on disk, for further runs with the same encoder.
    """
    if keep and has_fixed_features(network.recipe):
        return _keep(network, source, inputs, rows, progress).load(rows)
    made = torch.empty(len(rows), network.encoder.without_adapter.feature_dim)
    start = 0
    for features in _encode(network, inputs, rows, progress):
        made[start : start + len(features)] = features
        start += len(features)
    return made


def _keep(
    network: Network,
    source: Source,
    inputs: InputStore,
    rows: Tensor,
    progress: Progress | None,
) -> KeptFeatures:
    """The features of rows of a source under a frozen encoder; those that no run has computed are."""
    rows = rows.unique()  # type: ignore[no-untyped-call]
    digests = source.row_digests(rows)
    width = network.encoder.without_adapter.feature_dim
    known = FeatureStore(data_home() / "features" / _key(network, source), width)
    lacking = np.flatnonzero(known.places(digests)[:, 0] < 0)
    _, first = np.unique(digests[lacking], axis=0, return_index=True)  # equal samples have equal features
    missing = lacking[np.sort(first)]
    waiting: list[Tensor] = []
    start, saved = 0, time.monotonic()

    def save() -> None:
        nonlocal start, saved
        made = sum(map(len, waiting))
        known.add(digests[missing[start : start + made]], waiting)
        start, saved = start + made, time.monotonic()
        waiting.clear()

    for features in _encode(network, inputs, rows[torch.from_numpy(missing)], progress):
        waiting.append(features)
        if time.monotonic() - saved > _SAVE_SECONDS:
            save()
    save()
    return KeptFeatures(known, rows, digests)


def _encode(
    network: Network, inputs: InputStore, rows: Tensor, progress: Progress | None
) -> Iterator[Tensor]:
    """Compute features of the rows, batch by batch."""
    report = progress or silent
    device, encoder = network.device, network.encoder.eval().without_adapter
    size = network.batch_size(_BATCH)
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        with torch.no_grad():
            samples = network.plain(inputs.load(some).to(device), some.to(device))
            features = encode_in_chunks(encoder, samples, network.recipe.encode_chunk).float().cpu()
        yield features
        report("computing features", start + len(some), len(rows))


def _values(tensor: Tensor | None) -> list[float] | None:
    return None if tensor is None else tensor.tolist()


def _key(network: Network, source: Source) -> str:
    """Key of all that features depend on but the samples: encoder, weights, and how samples are read."""
    recipe, encoder = network.recipe, network.encoder.without_adapter
    read: list[object] = [_VERSION, recipe.encoder, recipe.pretrained, network.device.type]
    if encoder.modality == "text":
        read += [recipe.max_length]
    else:
        read += [source.image_shape, *map(_values, network.normalisation), recipe.channels_last]
        read += [] if source.preprocessing is None else [source.preprocessing.to_dict()]
        read += ["unchecked"] if getattr(source.store, "unchecked", None) else []  # digests of parts of files
    if recipe.pooling != "auto":
        read += [recipe.pooling]
    digest = hashlib.sha256(repr(read).encode())
    add_weights(digest, encoder)
    return digest.hexdigest()[:32]
