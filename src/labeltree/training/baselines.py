"""What every table shows beside a run: the samples themselves, without any encoder."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from labeltree.data import Source
from labeltree.data.source import Modality
from labeltree.runs import EmbeddingTable
from labeltree.training.recipe import Recipe
from labeltree.training.tables import chunks, table_of

__all__ = ["RAW_NAMES", "raw_table", "start_name"]

RAW_NAMES: dict[Modality, str] = {"image": "raw pixels", "text": "raw words"}

_WORDS_DIM = 256


def start_name(recipe: Recipe) -> str:
    """What to call the encoder as training finds it, by a settled recipe."""
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
    return table_of(source, points, features=points, geometry="sphere")


def _train_mask(source: Source) -> np.ndarray[Any, Any]:
    mask: np.ndarray[Any, Any] = np.asarray(source.split) == "train"
    return mask


def _pixels(source: Source, batch_size: int) -> torch.Tensor:
    rows = []
    for positions in chunks(len(source), batch_size):
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
