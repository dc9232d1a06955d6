"""A small text encoder: hashed words and word bigrams, quick to train from scratch."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain

import numpy as np
import torch
from torch import Tensor, nn

from labeltree.models.encoder import Encoder
from labeltree.models.encoder_registry import register_encoder
from labeltree.models.text_encoders.text_encoder import (
    TextEncoder,
    TokenizedTexts,
    check_dropout,
    check_texts,
    trimmed,
)

__all__ = ["SmallTextEncoder"]

BUCKETS = 1 << 16
_WIDTH = 64
_FEATURES = 128
_MOST_WORDS = 512
_START = 0.1  # short vectors change direction quickly
_WORD = re.compile(r"\w+")
_MULTIPLIER = 0x9E3779B97F4A7C15 - (1 << 64)  # as int64


class SmallTextEncoder(TextEncoder):
    """The mean vector of a text's words and word bigrams (fastText: Joulin et al. 2017), and layers on it.

    Words and bigrams are hashed, each into buckets of their own. Bigrams are formed from the tokens given to
    `forward`: if a view drops a word, its neighbours form a bigram.

    Args:
        dropout: Dropout probability of the mean vector and of the hidden layer.

    Attributes:
        buckets: Number of token ids of words.
        most_words: Largest number of words of a text that are read.

    Example:
        >>> from labeltree.models import build_encoder
        >>> encoder = build_encoder("small-text")
        >>> texts = encoder.tokenize(["A small dog.", ""])
        >>> texts.words.tolist(), texts.offsets.tolist()
        ([0, 1, 2], [0, 3, 3])
    """

    buckets = BUCKETS
    most_words = _MOST_WORDS

    def __init__(self, dropout: float = 0.1) -> None:
        super().__init__("small-text", _FEATURES)
        self.table = nn.EmbeddingBag(2 * BUCKETS + 1, _WIDTH, mode="mean", padding_idx=2 * BUCKETS)
        with torch.no_grad():
            self.table.weight.mul_(_START)
        self.layers = nn.Sequential(
            nn.LayerNorm(_WIDTH),
            nn.Dropout(dropout),
            nn.Linear(_WIDTH, 2 * _FEATURES),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(2 * _FEATURES, _FEATURES),
        )

    @property
    def stages(self) -> list[nn.Module]:
        """The vectors of words and bigrams; the layers on their mean."""
        return [self.table, self.layers]

    def tokenize(self, texts: Sequence[str], max_length: int | None = None) -> TokenizedTexts:
        """Each word of a text in lower case is a token; see `TextEncoder.tokenize`."""
        check_texts(texts)
        most = _MOST_WORDS if max_length is None else min(max_length, _MOST_WORDS)
        if most < 1:
            raise ValueError(f"max_length is {max_length}; it must be 1 or more")
        ids = [[_bucket(word) for word in _WORD.findall(text.lower())[:most]] for text in texts]
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        offsets = np.concatenate(([0], lengths.cumsum()))
        flat = np.fromiter(chain.from_iterable(ids), np.int32, int(offsets[-1]))
        words = np.arange(len(flat), dtype=np.int64) - offsets[:-1].repeat(lengths)
        return TokenizedTexts(flat, words.astype(np.int32), offsets)

    def forward(self, tokens: Tensor) -> Tensor:
        """Features (b, 128) of tokens (b, t) int64; see `TextEncoder.forward`."""
        tokens = trimmed(tokens)
        rows = torch.cat((tokens, _bigrams(tokens)), 1)
        mean: Tensor = self._mean(rows.where(rows >= 0, 2 * BUCKETS))
        features: Tensor = self.layers(mean)
        return features

    def _mean(self, rows: Tensor) -> Tensor:
        """Mean vector of the rows (b, t) of the table, padding left out."""
        if not torch.compiler.is_exporting():
            mean: Tensor = self.table(rows)
            return mean
        vectors = nn.functional.embedding(rows, self.table.weight)  # ONNX has no bags
        there = (rows < 2 * BUCKETS)[:, :, None].to(vectors.dtype)
        return (vectors * there).sum(1) / there.sum(1).clamp(min=1)

    def set_dropout(self, p: float) -> None:
        """Drop out with probability `p`."""
        check_dropout(p)
        for layer in self.layers:
            if isinstance(layer, nn.Dropout):
                layer.p = p


def _bigrams(words: Tensor) -> Tensor:
    """Rows (b, t - 1) of the table for neighbouring words (b, t); -1 where one of the two is missing."""
    first, second = words[:, :-1], words[:, 1:]
    mixed = ((first * BUCKETS + second) * _MULTIPLIER >> 40) & (BUCKETS - 1)
    return (BUCKETS + mixed).where((first >= 0) & (second >= 0), -1)


@lru_cache(1 << 16)
def _bucket(word: str) -> int:
    return zlib.crc32(word.encode("utf-8", "surrogatepass")) % BUCKETS


@register_encoder(
    "small-text", summary="hashed words and bigrams, 8 M parameters: trains from nothing", modality="text"
)
def small_text(channels: int, image_size: int) -> Encoder:
    """fastText's bag of words and bigrams with two layers on it."""
    return SmallTextEncoder()
