"""From samples to what the encoder reads: pixels or tokens, and their views."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from labeltree.data import Source, TextViews, TokenStore, ViewGenerator
from labeltree.models import Encoder, TextEncoder
from labeltree.training.recipe import Recipe

__all__ = ["InputStore", "ViewPair", "Views", "open_inputs", "open_views"]

# What published weights of images expect of pixels in [0, 1], per channel, unless the encoder says otherwise.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class InputStore(Protocol):
    """What the encoder reads of every row of a source: images, tokens, or features known beforehand."""

    def load(self, rows: Tensor) -> Tensor:
        """Of the rows ``(n,)``."""


class Views(Protocol):
    """Makes a view of every sample of a batch."""

    def __call__(self, samples: Tensor, instances: Tensor, /, epoch: int = 0, view: int = 0) -> Tensor:
        """The view with this number in this epoch."""


@dataclass(frozen=True)
class ViewPair:
    """The views of training, and the samples as they are, for validation and evaluation."""

    training: Views
    plain: Views


class _Tokens:
    """The tokens of a source's texts, by row; they are made when the first are asked for."""

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
        """Tokens ``(n, 2, t)`` of the rows."""
        return self._store.load(torch.searchsorted(self._rows, rows))

    def __getstate__(self) -> dict[str, Any]:
        # Loader processes get the tokens, not the encoder that made them.
        return {"_rows": self._rows, "_store": self._store}


def open_inputs(source: Source, encoder: Encoder, recipe: Recipe) -> InputStore:
    """What the encoder reads of a source, by row: its images, or its texts as tokens of the encoder."""
    encoder = encoder.without_adapter
    if isinstance(encoder, TextEncoder):
        return _Tokens(source, encoder, recipe.max_length)
    assert source.store is not None
    return source.store


def open_views(source: Source, encoder: Encoder, recipe: Recipe) -> ViewPair:
    """The views that a settled recipe asks for."""
    encoder = encoder.without_adapter
    if isinstance(encoder, TextEncoder):
        name: Any = recipe.views
        return ViewPair(TextViews(name, recipe.seed, recipe.deletion), TextViews("identity", recipe.seed))
    channels, height, _ = source.image_shape
    mean, std = _normalisation(encoder, channels) if recipe.pretrained else (None, None)

    def views(name: Any, **options: Any) -> ViewGenerator:
        return ViewGenerator(
            name, size=height, channels=channels, seed=recipe.seed, mean=mean, std=std, **options
        )

    return ViewPair(views(recipe.views, flip=recipe.flip, erasing=recipe.erasing), views("identity"))


def _normalisation(encoder: Encoder, channels: int) -> tuple[list[float], list[float]]:
    mean = list(encoder.mean or IMAGENET_MEAN)
    std = list(encoder.std or IMAGENET_STD)
    return (mean, std) if channels == 3 else ([sum(mean) / 3], [sum(std) / 3])
