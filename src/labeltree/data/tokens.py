"""Texts as tokens: flat arrays, from which a batch is cut in one go."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeltree.errors import DataError

__all__ = ["TokenStore"]

Array = np.ndarray[Any, Any]


class TokenStore:
    """The tokens of n texts, one text after the other; arrays in mapped files will do.

    Args:
        ids: Of all tokens, ``(total,)`` integers, 0 or more.
        words: Number of the word in its text that each token belongs to, ``(total,)``; -1 for tokens that
            belong to none.
        offsets: Of each text's first token, and behind the last, ``(n + 1,)`` int64.

    Raises:
        DataError: The arrays do not fit together.

    Example:
        >>> import numpy as np, torch
        >>> store = TokenStore(np.array([7, 8, 9]), np.array([0, 1, 0]), np.array([0, 2, 3]))
        >>> store.load(torch.tensor([1, 0]))[:, 0]
        tensor([[ 9, -1],
                [ 7,  8]], dtype=torch.int32)
    """

    def __init__(self, ids: Array, words: Array, offsets: Array) -> None:
        if ids.ndim != 1 or ids.shape != words.shape:
            raise DataError(f"token ids are {ids.shape} and their words {words.shape}; expected one of each")
        if offsets.ndim != 1 or not len(offsets) or offsets[0] != 0 or offsets[-1] != len(ids):
            raise DataError(f"offsets of texts must run from 0 to {len(ids)}, the number of tokens")
        if (np.diff(offsets) < 0).any():
            raise DataError(f"offsets of texts fall behind text {int((np.diff(offsets) < 0).argmax())}")
        self._ids = ids
        self._words = words
        self._offsets = offsets.astype(np.int64, copy=False)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def load(self, rows: Tensor) -> Tensor:
        """The tokens of some texts.

        Args:
            rows: Of the texts, ``(b,)``.

        Returns:
            ``(b, 2, t)`` int32, t the length of the longest of them: the ids, then the words; texts that are
            shorter are filled up with -1.
        """
        texts = rows.numpy()
        start, end = self._offsets[texts], self._offsets[texts + 1]
        width = int((end - start).max(initial=0))
        places = start[:, None] + np.arange(width)
        inside = places < end[:, None]
        tokens = np.full((len(texts), 2, width), -1, np.int32)
        tokens[:, 0][inside] = self._ids[places[inside]]
        tokens[:, 1][inside] = self._words[places[inside]]
        return torch.from_numpy(tokens)
