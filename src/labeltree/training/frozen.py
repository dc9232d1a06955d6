"""Features of an encoder that does not change: computed once for each sample, and kept."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from labeltree.atomic import atomic_write
from labeltree.cache import data_home
from labeltree.data import Source
from labeltree.data.images.files import file_key
from labeltree.data.progress import Progress, silent
from labeltree.training.inputs import InputStore, base_of
from labeltree.training.module import RepresentationModule
from labeltree.training.recipe import Recipe
from labeltree.training.tables import chunks
from labeltree.training.trainee import Trainee

__all__ = ["KnownFeatures", "encode_rows", "features_are_known", "use_known_features"]

_BATCH = 256
_SAVE_EVERY = 8192


class KnownFeatures:
    """Features by row, in place of images or tokens.

    Args:
        rows: ``(m,)`` the rows that have features, ascending.
        features: ``(m, f)``.
    """

    def __init__(self, rows: Tensor, features: Tensor) -> None:
        self._rows = rows
        self._features = features

    def load(self, rows: Tensor) -> Tensor:
        """Features ``(n, f)`` of the rows."""
        return self._features[torch.searchsorted(self._rows, rows)]


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
    features = encode_rows(module, trainee.source, trainee.batches.inputs, used, progress)
    trainee.batches.inputs = KnownFeatures(used, features)
    module.reads_features = True


def encode_rows(
    module: RepresentationModule,
    source: Source,
    inputs: InputStore,
    rows: Tensor,
    progress: Progress | None = None,
) -> Tensor:
    """Features ``(n, f)`` of the rows of a source, unaugmented, without those of an adapter on top.

    Those of a frozen encoder are kept on disk.

    Args:
        module: has the encoder.
        source: the samples.
        inputs: what the encoder reads, by row.
        rows: ``(n,)``.
        progress: is told how many are done.
    """
    report = progress or silent
    known = _Kept(module, source) if features_are_known(module.recipe) else None
    missing = torch.arange(len(rows)) if known is None else known.missing(rows)
    device = torch.device(
        "cuda" if torch.cuda.is_available() and module.recipe.accelerator != "cpu" else "cpu"
    )
    encoder = base_of(module.to(device).evaluated_encoder.eval())
    made = []
    with torch.inference_mode():
        for done, positions in enumerate(chunks(len(missing), _BATCH)):
            some = rows[missing[positions]]
            samples = inputs.load(some).to(device)
            made.append(encoder(module.plain(samples, some.to(device))).float().cpu())
            if known is not None and (done + 1) * _BATCH % _SAVE_EVERY == 0:
                known.add(rows[missing[: (done + 1) * _BATCH]], torch.cat(made))
            report("computing features", int(positions[-1]) + 1, len(missing))
    features = torch.cat(made).clone() if made else torch.empty(0, base_of(module.encoder).feature_dim)
    if known is None:
        return features
    known.add(rows[missing], features)
    return known.load(rows)


class _Kept:
    """Features of one encoder on one source, in a file of the cache folder."""

    def __init__(self, module: RepresentationModule, source: Source) -> None:
        self._path = data_home() / "features" / f"{_key(module, source)}.npz"
        self._total = len(source.texts) if source.texts is not None else len(source.store or ())
        self._done = torch.zeros(self._total, dtype=torch.bool)
        self._features = torch.zeros(self._total, base_of(module.encoder).feature_dim)
        self._read()

    def _read(self) -> None:
        try:
            with np.load(self._path, allow_pickle=False) as kept:
                done, features = torch.from_numpy(kept["done"]), torch.from_numpy(kept["features"])
        except (OSError, ValueError, KeyError):
            return
        if done.shape == self._done.shape and features.shape == (int(done.sum()), self._features.shape[1]):
            self._features[done] = features
            self._done |= done

    def missing(self, rows: Tensor) -> Tensor:
        """Positions in ``rows`` of those that are not there."""
        return (~self._done[rows]).nonzero()[:, 0]

    def load(self, rows: Tensor) -> Tensor:
        """Features of rows that are there."""
        return self._features[rows]

    def add(self, rows: Tensor, features: Tensor) -> None:
        """Keep the features of further rows, beside those that another process has added meanwhile."""
        if not len(rows):
            return
        self._read()
        self._features[rows] = features
        self._done[rows] = True
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(self._path) as temporary, Path(temporary).open("wb") as out:
            np.savez(out, done=self._done.numpy(), features=self._features[self._done].numpy())


def _key(module: RepresentationModule, source: Source) -> str:
    """What features depend on: the encoder's weights, how samples are read, and the samples."""
    recipe = module.recipe
    digest = hashlib.sha256(f"1 {recipe.encoder} {recipe.max_length} {recipe.pretrained}\n".encode())
    for name, value in sorted(base_of(module.encoder).state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    if module.encoder.modality == "text":
        for text in source.texts or ():
            digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    elif source.files is not None:
        names = [os.fsdecode(name) for name in source.files]
        digest.update(file_key(names, names).encode())
        digest.update(str(source.image_shape).encode())
    elif source.store is not None:
        for rows in chunks(len(source.store), 4096):
            digest.update(source.store.load(rows).numpy().tobytes())
    return digest.hexdigest()[:32]
