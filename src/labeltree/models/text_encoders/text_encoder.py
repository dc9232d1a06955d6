"""Text encoders: texts become tokens once, tokens become features in every step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from labeltree.models.encoder import Encoder, Modality

__all__ = ["TextEncoder", "TokenizedTexts"]

Array = np.ndarray[Any, Any]


class TokenizedTexts(NamedTuple):
    """The tokens of n texts, one text after the other.

    Attributes:
        ids: Ids of the tokens, int32.
        words: Number of the word in its text that each token belongs to, int32; -1 for tokens that the
            encoder adds itself.
        offsets: Index of each text's first token, and the number of tokens, `(n + 1,)` int64.
    """

    ids: Array
    words: Array
    offsets: Array


class TextEncoder(Encoder):
    """A text encoder: `forward` maps tokens (b, t) to features (b, feature_dim).

    Args:
        name: See `Encoder`.
        feature_dim: See `Encoder`.
    """

    modality: Modality = "text"

    @abstractmethod
    def tokenize(self, texts: Sequence[str], max_length: int | None = None) -> TokenizedTexts:
        """The tokens of texts.

        Args:
            texts: n texts; a text may be empty.
            max_length: Largest number of tokens of a text, which is truncated at the end; None = the maximum
                of the encoder, which is never exceeded.

        Raises:
            ValueError: An entry is not a text, or `max_length` leaves no room for a word.
        """

    @abstractmethod
    def forward(self, tokens: Tensor) -> Tensor:
        """Features (b, feature_dim) of tokens (b, t) int64; texts are padded to t with -1."""

    @abstractmethod
    def set_dropout(self, p: float) -> None:
        """Set the probability of all dropout in the encoder to `p`."""


def check_texts(texts: Sequence[str]) -> None:
    """Raise a ValueError that names the first entry that is not a text."""
    if isinstance(texts, str):
        raise ValueError("texts is a single text; expected a sequence of them")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"text {number} is {text!r}; expected a string, which may be empty")


def check_dropout(p: float) -> None:
    """Raise a ValueError unless `p` is a probability below 1."""
    if not 0 <= p < 1:
        raise ValueError(f"dropout is {p}; it must be at least 0 and below 1")


def trimmed(tokens: Tensor) -> Tensor:
    """Tokens (b, t) without the last columns in which no text has a token; at least one column is left.

    Raises:
        ValueError: `tokens` is not (b, t) int64.
    """
    if tokens.dim() != 2 or tokens.dtype != torch.int64:
        raise ValueError(f"tokens is {tokens.dtype} {tuple(tokens.shape)}; it must be int64 (b, t)")
    if torch.compiler.is_exporting():  # padding changes nothing, it only costs time
        return tokens
    width = int((tokens >= 0).any(0).sum())
    return tokens[:, :width] if width else tokens.new_full((len(tokens), 1), -1)
