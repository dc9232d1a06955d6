"""Features of a frozen encoder, computed once per sample and kept in a file."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from labeltree.atomic import temporary_beside
from labeltree.data import Source, data_home
from labeltree.data.images.stores import FileStore
from labeltree.errors import DataError
from labeltree.models import encode_in_chunks
from labeltree.progress import Progress, silent
from labeltree.training.inputs import InputStore
from labeltree.training.network import Network
from labeltree.training.recipe import Recipe

if TYPE_CHECKING:
    from labeltree.training.experiment import Experiment

__all__ = ["FeatureFile", "encode_rows", "has_fixed_features", "use_precomputed_features"]


class FeatureFile:
    """File of features of the rows of a source, some of which may be missing.

    The file begins with one byte per row, 1 if its features are present; the features ``(n, f)`` float32
    follow. Only rows that are written take disk space, and only rows that are read take memory. A row is
    marked after its features are on disk: a process that dies leaves rows unmarked, and processes that write
    the same rows at the same time write the same values.

    Args:
        path: path of the file; it is created if it is missing or has another length.
        num_rows: number of rows, n.
        width: number of features, f.

    Raises:
        DataError: if the file cannot be made.
    """

    def __init__(self, path: Path, num_rows: int, width: int) -> None:
        self._is = (path, num_rows, width)
        self._start = -(-num_rows // 64) * 64
        try:
            if not path.is_file() or path.stat().st_size != self._size:
                self._make()
            self._file = path.open("r+b")
            self._done = np.memmap(self._file, np.uint8, "r", 0, (num_rows,))
            self._features = np.memmap(self._file, np.float32, "r", self._start, (num_rows, width))
        except OSError as error:
            raise self._not_kept(error) from error

    @property
    def _size(self) -> int:
        _, num_rows, width = self._is
        return self._start + 4 * num_rows * width

    def _make(self) -> None:
        """Create an empty file, unless another process just has; replace one of another length."""
        path = self._is[0]
        with temporary_beside(path) as fresh:
            if path.is_file():
                path.unlink()
            with fresh.open("wb") as empty:
                empty.truncate(self._size)
            with contextlib.suppress(FileExistsError):
                os.link(fresh, path)

    def missing(self, rows: Tensor) -> Tensor:
        """Positions in ``rows`` of the rows whose features are missing."""
        return torch.from_numpy(np.flatnonzero(self._done[rows.numpy()] != 1))

    def load(self, rows: Tensor) -> Tensor:
        """Features ``(m, f)`` of the rows ``(m,)``.

        Raises:
            DataError: if some are missing because the file has been deleted meanwhile.
        """
        if len(self.missing(rows)):
            raise DataError(f"features have vanished from '{self._is[0]}'; the same command makes them again")
        return torch.from_numpy(self._features[rows.numpy()])

    def add(self, rows: Tensor, features: Tensor) -> None:
        """Keep the features ``(m, f)`` of further rows ``(m,)``.

        Raises:
            DataError: if the disk is full.
        """
        if not len(rows):
            return
        order = rows.argsort()
        places = rows[order].numpy()
        values = np.ascontiguousarray(features[order].numpy(), dtype=np.float32)
        runs = np.split(np.arange(len(places)), np.flatnonzero(np.diff(places) != 1) + 1)
        try:
            for run in runs:
                self._file.seek(self._start + int(places[run[0]]) * values.itemsize * values.shape[1])
                self._file.write(values[run[0] : run[-1] + 1].tobytes())
            self._file.flush()
            os.fsync(self._file.fileno())
            for run in runs:
                self._file.seek(int(places[run[0]]))
                self._file.write(b"\1" * len(run))
            self._file.flush()
        except OSError as error:
            raise self._not_kept(error) from error

    def __getstate__(self) -> tuple[Path, int, int]:
        return self._is

    def __setstate__(self, state: tuple[Path, int, int]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def _not_kept(self, error: OSError) -> DataError:
        return DataError(
            f"features cannot be kept in '{self._is[0].parent}' ({error.strerror}); choose another cache "
            "folder with LABELTREE_DATA"
        )


_BATCH = 256
_SAVE_SECONDS = 30
_VERSION = 3  # of the definition of a key


def has_fixed_features(recipe: Recipe) -> bool:
    """Whether features stay fixed: the encoder is frozen and samples are not augmented.

    Not if unreadable images are found, and replaced, only when they are read.
    """
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
    experiment.batches.inputs = _kept(
        experiment.network, experiment.source, experiment.batches.inputs, used, progress
    )
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
    """Features ``(n, f)`` of the rows of a source, unaugmented, without an adapter.

    Args:
        network: the network with the encoder.
        source: the samples.
        inputs: the encoder's input for each row of the source.
        rows: rows to encode ``(n,)``.
        progress: callback that reports progress.
        keep: keep features of a frozen encoder on disk, for further runs with the same encoder.
    """
    if keep and has_fixed_features(network.recipe):
        return _kept(network, source, inputs, rows, progress).load(rows)
    none = torch.empty(0, network.encoder.without_adapter.feature_dim)
    return torch.cat([none, *_encoded(network, inputs, rows, progress)])


def _kept(
    network: Network,
    source: Source,
    inputs: InputStore,
    rows: Tensor,
    progress: Progress | None,
) -> FeatureFile:
    """The feature file of a frozen encoder, with any missing rows added."""
    samples = source.texts if network.encoder.modality == "text" else source.store
    assert samples is not None
    path = data_home() / "features" / f"{_key(network, source)}.bin"
    known = FeatureFile(path, len(samples), network.encoder.without_adapter.feature_dim)
    missing = rows[known.missing(rows)]
    waiting: list[Tensor] = []
    start, saved = 0, time.monotonic()
    for features in _encoded(network, inputs, missing, progress):
        waiting.append(features)
        if time.monotonic() - saved > _SAVE_SECONDS:
            made = torch.cat(waiting)
            known.add(missing[start : start + len(made)], made)
            start, saved, waiting = start + len(made), time.monotonic(), []
    if waiting:
        known.add(missing[start:], torch.cat(waiting))
    return known


def _encoded(
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
    """Key of everything that features depend on: encoder, weights, reading of samples, and the samples."""
    recipe, encoder = network.recipe, network.encoder.without_adapter
    read: list[object] = [_VERSION, recipe.encoder, recipe.pretrained, network.device.type]
    if encoder.modality == "text":
        read += [recipe.max_length]
    else:
        read += [source.image_shape, *map(_values, network.normalisation), recipe.channels_last]
        read += [] if source.preprocessing is None else [source.preprocessing]
    if recipe.pooling != "auto":
        read += [recipe.pooling]
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
