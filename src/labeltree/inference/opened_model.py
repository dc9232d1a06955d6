"""A run opened as a model: what it is made of, and how samples become its inputs."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeltree.data import ArrayStore, Source
from labeltree.data.images.decode import pixels_of
from labeltree.errors import DataError
from labeltree.file_kinds import is_data_file
from labeltree.inference.calibrate_run import open_decider
from labeltree.inference.decider import Decider
from labeltree.inference.load_run import TrainedRun, load_run
from labeltree.inference.named_samples import (
    NamedSamples,
    open_images,
    open_texts,
    open_vectors,
    with_texts,
)
from labeltree.inference.other_version import run_on
from labeltree.models import Encoder, ImagesAndTexts
from labeltree.options.choices import ClassifierChoice
from labeltree.runs import RunFolder
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.versions.between_versions import check_version
from labeltree.training.network import Network
from labeltree.training.recipe import Recipe
from labeltree.training.tokens_and_views import Inputs

__all__ = ["OpenedModel"]


class OpenedModel:
    """A run opened as a model: what it is made of, and how samples become its inputs; see `Model`."""

    def __init__(
        self,
        run: str | os.PathLike[str],
        *,
        classifier: ClassifierChoice | None = None,
        taxonomy: str | Path | None = None,
        mapping: str | Path | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        self.folder = (run if isinstance(run, RunFolder) else RunFolder(run)).require()
        check_version(taxonomy, mapping)
        self.run: TrainedRun = load_run(self.folder.path, own_data=False, device=device)
        if taxonomy is not None:
            self.run = run_on(self.run, taxonomy, mapping)
        self._version = {
            "taxonomy": None if taxonomy is None else str(taxonomy),
            "mapping": None if mapping is None else str(mapping),
        }
        self._classifier = classifier
        self._opening = threading.Lock()
        self._opened: Decider | None = None
        self._warning: str | None = None

    @property
    def decider(self) -> Decider:
        """The classifier and decision rule of the run; a run that is not calibrated yet is calibrated."""
        with self._opening:
            if self._opened is None:
                self._opened = open_decider(self.run, self._classifier)
            return self._opened

    @property
    def taxonomy(self) -> Taxonomy:
        """The taxonomy of the run's labels and answers."""
        return self.run.taxonomy

    @property
    def recipe(self) -> Recipe:
        """All settings that the run was trained with."""
        return self.run.recipe

    @property
    def network(self) -> Network:
        """Encoder and head, a PyTorch module from the encoder's inputs to features and embeddings."""
        return self.run.network

    @property
    def encoder(self) -> Encoder:
        """The encoder, a PyTorch module from pixels or tokens to features."""
        return self.run.network.encoder

    @property
    def digest(self) -> str:
        """A fingerprint of everything that answers depend on: weights, classifier, calibration, taxonomy."""
        return self.decider.digest

    def inputs(self, samples: Sequence[Any], *, first: int = 0) -> Inputs:
        """Samples that are in memory as the network reads them, for `embed_inputs`.

        Args:
            samples: n samples, see `embed_batch`.
            first: Position of the first one, for messages.

        Returns:
            Images `(n, c, h, w)` uint8, for a run on texts tokens `(n, 2, t)`, for one on vectors these
            `(n, d)` float32, on the CPU; or both of the first.

        Raises:
            DataError: If a sample is broken or of the wrong kind.
        """
        if isinstance(samples, str | os.PathLike):
            raise DataError(f"'{str(samples)[:50]}' is one sample; give a list of samples, [sample]")
        if self.encoder.modality == "both":
            return self._both_inputs(samples, first)
        if self.encoder.modality == "text":
            for place, text in enumerate(samples, first):
                if not isinstance(text, str) or not text.strip():
                    raise DataError(f"sample {place} is {_kind(text)}; the run reads texts")
            return self.network.tokens(samples) if len(samples) else torch.empty(0, 2, 1, dtype=torch.int32)
        if self.encoder.modality == "vector":
            width = self.encoder.without_adapter.feature_dim
            return torch.from_numpy(
                np.stack([_vector(one, at, width) for at, one in enumerate(samples, first)])
                if len(samples)
                else np.zeros((0, width), np.float32)
            )
        if not len(samples):
            assert self.network.image_shape is not None
            return torch.empty(0, *self.network.image_shape, dtype=torch.uint8)
        return torch.from_numpy(np.stack([self._pixels(one, at) for at, one in enumerate(samples, first)]))

    def _both_inputs(self, samples: Sequence[Any], first: int) -> ImagesAndTexts:
        """Images, texts, and pairs of them, as `inputs` returns them."""
        assert self.network.image_shape is not None
        pixels = np.zeros((len(samples), *self.network.image_shape), np.uint8)
        texts, present = [], torch.zeros(len(samples), 2, dtype=torch.bool)
        for row, sample in enumerate(samples):
            pair = (
                sample
                if isinstance(sample, tuple)
                else (None, sample)
                if isinstance(sample, str)
                else (sample, None)
            )
            if len(pair) != 2:
                raise DataError(
                    f"sample {first + row} is a tuple of {len(pair)}; expected an image and a text"
                )
            image, text = pair
            if image is not None:
                pixels[row] = self._pixels(image, first + row)
            if text is not None and not isinstance(text, str):
                raise DataError(f"sample {first + row} is {_kind(text)}; expected a text beside its image")
            texts.append(text or "")
            present[row] = torch.tensor([image is not None, bool(texts[-1].strip())])
            if not bool(present[row].any()):
                raise DataError(f"sample {first + row} has neither an image nor a text")
        tokens = self.network.tokens(texts) if texts else torch.empty(0, 2, 1, dtype=torch.int32)
        return ImagesAndTexts(torch.from_numpy(pixels), tokens, present)

    def _take_data(self, samples: Any, data: str | Path | None) -> tuple[Any, str | Path | None]:
        """Samples and data; the path of a folder, a table or vectors among the samples becomes the data.

        A text is the path of a file only if there is one, in a run that reads texts.

        Raises:
            DataError: If there are more samples beside it.
        """
        single = isinstance(samples, str | os.PathLike)
        given = [samples] if single else samples if isinstance(samples, list | tuple) else []
        place = next(filter(self._holds_many, given), None)
        if place is None:
            return samples, data
        if len(given) > 1 or data is not None:
            raise DataError(f"'{place}' holds many samples; give it alone")
        return (), Path(place) if not isinstance(place, str) else place

    def _holds_many(self, sample: Any) -> bool:
        if not isinstance(sample, str | os.PathLike):
            return False
        try:
            place = Path(sample).expanduser()
            is_text = isinstance(sample, str) and self.encoder.modality == "text"
            if is_text and not (is_data_file(place) and place.is_file()):
                return False
            return is_data_file(place) or place.is_dir()
        except (OSError, ValueError):  # a text that is the name of no file
            return False

    def _array(self, samples: Any) -> np.ndarray[Any, Any]:
        """Vectors `(n, d)` of one or several vectors in memory."""
        if isinstance(samples, str | Path):
            raise DataError(f"the run reads vectors: give an array (n, d), or the file by data='{samples}'")
        try:
            array = np.asarray(samples)
        except ValueError as error:
            raise DataError(f"the vectors differ in length, or hold no numbers: {error}") from error
        return array[None] if array.ndim == 1 else array

    def _pixels(self, sample: Any, place: int) -> np.ndarray[Any, Any]:
        from PIL import Image

        assert self.network.image_shape is not None
        channels, size, _ = self.network.image_shape
        image = sample
        if isinstance(sample, Tensor):
            sample = sample.numpy()
        if isinstance(sample, np.ndarray):
            if sample.dtype != np.uint8 or not (sample.ndim == 2 or sample.shape[2:] in ((3,), (4,))):
                raise DataError(
                    f"sample {place} is an array {sample.dtype} {sample.shape}; expected uint8 (h, w) or "
                    "(h, w, 3)"
                )
            image = Image.fromarray(sample)
        if not isinstance(image, Image.Image):
            raise DataError(f"sample {place} is {_kind(sample)}; expected a PIL image or an array of pixels")
        try:
            return pixels_of(image, size, channels, self.network.preprocessing)
        except DataError as error:
            raise DataError(f"sample {place} cannot be read: {error}") from error

    def _named(
        self, samples: Any, texts: Sequence[str | None] | str, data: str | Path | None
    ) -> NamedSamples | None:
        """The samples of `embed` and `predict`; None if they are data."""
        from PIL import Image

        if self.encoder.modality == "vector" and data is None and not len(texts) and len(samples):
            return open_vectors(self.run, self._array(samples))
        single = isinstance(samples, str | Path | Image.Image | np.ndarray | Tensor)
        given = [samples] if single else list(samples)
        words = [texts] if isinstance(texts, str) else list(texts)
        if self.encoder.modality == "both" and data is None and given and words:
            return self._pairs(given, words)
        if bool(given) + bool(words) + (data is not None) != 1:
            if not (given or words or data is not None):
                raise ValueError(
                    "no samples are named, or an empty list of them; name samples in one way: samples, "
                    "texts=[...] or data=..."
                )
            raise ValueError("name samples in one way: samples, texts=[...] or data=...")
        if data is not None:
            return None
        reads_texts = self.encoder.modality == "text"
        if words or (reads_texts and all(isinstance(one, str) for one in given)):
            return open_texts(self.run, [one or "" for one in words or given])
        if all(isinstance(one, str | Path) for one in given):
            return open_images(self.run, given)
        return self._read_samples(given)

    def _pairs(self, images: Sequence[Any], texts: Sequence[str | None]) -> NamedSamples:
        """Images with texts, of which either may be None."""
        if len(images) != len(texts):
            raise ValueError(
                f"there are {len(images)} images and {len(texts)} texts; give a text for each image, None "
                "where there is none"
            )
        given = [image is not None for image in images]
        shown = [image for image in images if image is not None]
        if all(isinstance(one, str | Path) for one in shown):
            opened = open_images(self.run, shown)
        else:
            opened = self._read_samples(shown)
        return with_texts(self.run, opened, given, [text or "" for text in texts])

    def _read_samples(self, samples: Sequence[Any]) -> NamedSamples:
        if self.encoder.modality == "text":
            wrong = next(one for one in samples if not isinstance(one, str))
            raise DataError(
                f"the run's encoder '{self.recipe.encoder}' reads texts, not {_kind(wrong)}: give texts, or "
                "data=TABLE"
            )
        names = [f"sample {place}" for place in range(len(samples))]
        pixels, rows, reasons = [], [], {}
        for place, sample in enumerate(samples):
            try:
                pixels.append(self._pixels(sample, place))
                rows.append(place)
            except DataError as error:
                reasons[place] = str(error).removeprefix(f"sample {place} ")
        if not rows:
            return NamedSamples(names, None, reasons)
        source = Source.in_order(
            "images",
            self.taxonomy,
            torch.full((len(rows),), -1),
            store=ArrayStore(np.stack(pixels)),
            texts=[""] * len(rows) if self.encoder.modality == "both" else None,
        )
        return NamedSamples(names, source, reasons)

    def __repr__(self) -> str:
        classes = len(self.taxonomy.leaves)
        return f"Model({str(self.folder.path)!r}: {self.recipe.objective}, {classes} classes)"


def _vector(sample: Any, place: int, width: int) -> np.ndarray[Any, Any]:
    """A vector `(width,)` float32.

    Raises:
        DataError: If it holds no numbers, is of another length, or a number is not finite.
    """
    try:
        vector = np.asarray(sample, np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"sample {place} is {_kind(sample)}; the run reads vectors of numbers") from error
    if vector.shape != (width,):
        shape = " × ".join(map(str, vector.shape)) or "1"
        raise DataError(f"sample {place} has {shape} numbers; the run reads vectors of {width}")
    if not np.isfinite(vector).all():
        at = int(np.flatnonzero(~np.isfinite(vector))[0])
        raise DataError(f"sample {place} has {vector[at]} as number {at}; the run reads finite numbers")
    return vector


def _kind(value: object) -> str:
    if isinstance(value, str) and not value.strip():
        return "an empty text"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
