"""The encoder's inputs: images, texts as tokens or vectors of samples, and the views of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from labeltree.data import Source, TextViews, TokenStore, ViewGenerator
from labeltree.models import Encoder, ImagesAndTexts, TextEncoder, usually_pretrained
from labeltree.models.paired import Towers
from labeltree.training.recipe import Recipe

__all__ = [
    "InputStore",
    "Inputs",
    "Normalisation",
    "ViewPair",
    "Views",
    "in_memory_format",
    "open_inputs",
    "open_views",
    "stack",
]

# Mean and standard deviation, per channel, for pixels in [0, 1]: used unless the encoder has its own.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


Inputs = Tensor | ImagesAndTexts
Normalisation = tuple[Sequence[float], Sequence[float]]  # mean and standard deviation, per channel


class InputStore(Protocol):
    """The encoder's input for each row of a source: images, tokens, vectors, or precomputed features."""

    def load(self, rows: Tensor) -> Inputs:
        """Return the inputs of the rows `(n,)`."""


class Views(Protocol):
    """Makes a view of every sample of a batch."""

    def __call__(self, samples: Any, instances: Tensor, /, epoch: int = 0, view: int = 0) -> Any:
        """Return view number `view` of each sample in epoch `epoch`."""


@dataclass(frozen=True)
class ViewPair:
    """The augmented views for training, and the plain view for validation and evaluation."""

    training: Views
    plain: Views


class _Tokens:
    """The tokens of a source's texts, by row; computed at the first request."""

    def __init__(self, source: Source, encoder: TextEncoder, max_length: int | None) -> None:
        self._source = source
        self._encoder = encoder
        self._max_length = max_length

    @cached_property
    def _rows(self) -> Tensor:
        rows: Tensor = self._source.rows.unique()  # type: ignore[no-untyped-call]
        return rows

    @cached_property
    def _store(self) -> TokenStore:
        assert self._source.texts is not None
        texts = [self._source.texts[row] for row in self._rows.tolist()]
        return TokenStore(*self._encoder.tokenize(texts, self._max_length))

    def load(self, rows: Tensor) -> Tensor:
        """Tokens `(n, 2, t)` of the rows."""
        return self._store.load(torch.searchsorted(self._rows, rows))

    def __getstate__(self) -> dict[str, Any]:
        # Loader processes get the tokens, not the encoder that made them.
        return {"_rows": self._rows, "_store": self._store}


class _Both:
    """The images and the tokens of a source, by row, and which of them are there."""

    def __init__(self, source: Source, tokens: _Tokens) -> None:
        assert source.store is not None
        self._images = source.store
        self._tokens = tokens
        self._present = source.present(torch.arange(len(source.store)))

    @property
    def unreadable(self) -> Any:
        """The rows whose image turned out to be unreadable."""
        return getattr(self._images, "unreadable", None)

    def load(self, rows: Tensor) -> ImagesAndTexts:
        """Images and tokens of the rows."""
        return ImagesAndTexts(self._images.load(rows), self._tokens.load(rows), self._present[rows])


@dataclass(frozen=True)
class _BothViews:
    """Views of images beside views of texts."""

    images: Views
    texts: Views

    @property
    def mean(self) -> Tensor | None:
        """The mean that pixels are normalised by."""
        return getattr(self.images, "mean", None)

    @property
    def std(self) -> Tensor | None:
        """The standard deviation that pixels are normalised by."""
        return getattr(self.images, "std", None)

    def __call__(
        self, samples: ImagesAndTexts, instances: Tensor, epoch: int = 0, view: int = 0
    ) -> ImagesAndTexts:
        return ImagesAndTexts(
            self.images(samples.images, instances, epoch, view),
            self.texts(samples.texts, instances, epoch, view),
            samples.present,
        )


class _Unchanged:
    """The views of vectors: themselves."""

    def __call__(self, samples: Tensor, instances: Tensor, epoch: int = 0, view: int = 0) -> Tensor:
        return samples


def stack(views: Sequence[Inputs]) -> Inputs:
    """The inputs of several views, one view after the other."""
    if isinstance(views[0], ImagesAndTexts):
        return ImagesAndTexts.cat(views)  # type: ignore[arg-type]
    return torch.cat(views)  # type: ignore[arg-type]


def open_inputs(source: Source, encoder: Encoder, recipe: Recipe) -> InputStore:
    """The encoder's inputs for each row of a source: its images, its texts as tokens, or its vectors."""
    encoder = encoder.without_adapter
    if source.vectors is not None:
        return source.vectors
    if isinstance(encoder, TextEncoder):
        return _Tokens(source, encoder, recipe.max_length)
    if isinstance(encoder, Towers):
        return _Both(source, _Tokens(source, encoder.text, recipe.max_length))
    assert source.store is not None
    return source.store


def open_views(
    recipe: Recipe,
    encoder: Encoder,
    image_shape: tuple[int, int, int] | None,
    normalisation: Normalisation | None = None,
) -> ViewPair:
    """The training views and the plain view of a resolved recipe.

    Args:
        recipe: The recipe.
        encoder: The encoder.
        image_shape: `(c, h, w)` of the images; None for texts and vectors.
        normalisation: Mean and standard deviation per channel, as an earlier run has recorded them; None = as
            the recipe and the encoder say.
    """
    encoder = encoder.without_adapter
    if encoder.modality == "vector":
        return ViewPair(_Unchanged(), _Unchanged())
    if isinstance(encoder, TextEncoder):
        name: Any = recipe.views
        return ViewPair(TextViews(name, recipe.seed, recipe.deletion), TextViews("identity", recipe.seed))
    if isinstance(encoder, Towers):
        images = open_views(recipe, encoder.image, image_shape, normalisation)
        deletes: Any = "word-deletion" if recipe.deletion > 0 and recipe.views != "identity" else "identity"
        texts = TextViews(deletes, recipe.seed, recipe.deletion)
        return ViewPair(
            _BothViews(images.training, texts),
            _BothViews(images.plain, TextViews("identity", recipe.seed)),
        )
    assert image_shape is not None
    channels, height, _ = image_shape
    # Weights from a file are most likely those of a run that started from the same checkpoint.
    trained = recipe.pretrained or (recipe.weights is not None and usually_pretrained(recipe.encoder))
    if normalisation is None and trained:
        normalisation = _normalisation(encoder, channels)
    mean, std = normalisation or (None, None)

    def views(name: Any, **options: Any) -> ViewGenerator:
        return ViewGenerator(
            name, size=height, channels=channels, seed=recipe.seed, mean=mean, std=std, **options
        )

    return ViewPair(views(recipe.views, flip=recipe.flip, erasing=recipe.erasing), views("identity"))


def in_memory_format(samples: Inputs, recipe: Recipe) -> Inputs:
    """Images `(n, c, h, w)` in the memory format of the recipe; tokens as they are."""
    if isinstance(samples, ImagesAndTexts):
        if not recipe.channels_last:
            return samples
        images = samples.images.contiguous(memory_format=torch.channels_last)
        return replace(samples, images=images)
    if samples.ndim == 4 and recipe.channels_last:
        return samples.contiguous(memory_format=torch.channels_last)
    return samples


def _normalisation(encoder: Encoder, channels: int) -> Normalisation:
    mean = list(encoder.mean or IMAGENET_MEAN)
    std = list(encoder.std or IMAGENET_STD)
    return (mean, std) if len(mean) == channels else ([sum(mean) / len(mean)], [sum(std) / len(std)])
