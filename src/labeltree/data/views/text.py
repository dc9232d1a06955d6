"""Texts as tokens, and their views: batched, each a function of (seed, epoch, instance, view)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.data import counter_rng
from labeltree.errors import DataError

__all__ = ["TEXT_RECIPES", "TextRecipe", "TextViews", "TokenStore"]

Array = np.ndarray[Any, Any]
TextRecipe = Literal["dropout", "word-deletion", "identity"]
TEXT_RECIPES: tuple[TextRecipe, ...] = ("dropout", "word-deletion", "identity")
# Word w of a text draws from stream _WORD + w: far from the streams of images, since a sample can have both.
_WORD = 1 << 20


class TokenStore:
    """The tokens of n texts, one text after the other; arrays in mapped files will do.

    Args:
        ids: Ids of all tokens, `(total,)` integers, 0 or more.
        words: Number of the word in its text that each token belongs to, `(total,)`; -1 for tokens that
            belong to none.
        offsets: Offset of each text's first token, and the total at the end, `(n + 1,)` int64.

    Raises:
        DataError: If the arrays do not fit together.

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
            rows: Rows of the texts, `(b,)`.

        Returns:
            `(b, 2, t)` int32, t the length of the longest of them: the ids, then the words; texts that are
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


class TextViews:
    """Makes one view of every text of a batch.

    Recipes:

    - `dropout`: the text itself. The encoder's dropout makes two passes differ, and that is the
      augmentation (SimCSE: Gao et al. 2021).
    - `word-deletion`: each word is left out with probability `deletion`, with all its tokens; one word
      stays in any case. Tokens that belong to no word stay.
    - `identity`: the text itself, for encoders that read it once.

    A view does not depend on the batch that the text is in, on its order, or on how far texts are filled up.

    Args:
        recipe: `dropout`, `word-deletion` or `identity`.
        seed: Seed of the run.
        deletion: Probability of leaving out a word.

    Example:
        >>> import torch
        >>> tokens = torch.tensor([[[101, 7, 8, 9, 102], [-1, 0, 0, 1, -1]]], dtype=torch.int32)
        >>> TextViews("word-deletion", deletion=0.99)(tokens, torch.tensor([0]))
        tensor([[101,   7,   8, 102,  -1]])
    """

    def __init__(self, recipe: TextRecipe = "dropout", seed: int = 0, deletion: float = 0.1) -> None:
        check_choice("recipe", recipe, TEXT_RECIPES)
        if not 0 <= deletion <= 1:
            raise ValueError(f"deletion is {deletion}; it must be a probability, 0 to 1")
        self.recipe: TextRecipe = recipe
        self.seed = seed
        self.deletion = deletion

    def __repr__(self) -> str:
        return f"TextViews({self.recipe!r}, seed={self.seed}, deletion={self.deletion})"

    def __call__(self, tokens: Tensor, instances: Tensor, epoch: int = 0, view: int = 0) -> Tensor:
        """Make the view with number `view` of every text.

        Args:
            tokens: `(b, 2, t)` int32, ids and words, as `TokenStore.load` gives them.
            instances: Instance ids `(b,)`, int64.
            epoch: Epoch number.
            view: View number.

        Returns:
            Token ids `(b, t)`, int64, filled up with -1, on the device of `tokens`.
        """
        if tokens.dtype != torch.int32 or tokens.ndim != 3 or tokens.shape[1] != 2:
            raise ValueError(f"tokens is {tokens.dtype} {tuple(tokens.shape)}; it must be int32 (b, 2, t)")
        if instances.shape != tokens.shape[:1]:
            raise ValueError(f"instances has shape {tuple(instances.shape)}; it must be ({len(tokens)},)")
        ids, words = tokens.long().unbind(1)
        if self.recipe != "word-deletion" or not ids.numel():
            return ids
        keys = counter_rng.sample_keys(self.seed, epoch, view, instances.to(tokens.device))
        return self._without_words(ids, words, keys)

    def _without_words(self, ids: Tensor, words: Tensor, keys: Tensor) -> Tensor:
        of_words = counter_rng.uniform(keys, int(words.max().clamp(min=0)) + 1, _WORD)
        numbers = of_words.gather(1, words.clamp(min=0)).where(words >= 0, -1.0)
        stays = (numbers >= self.deletion) | (words < 0) | (numbers == numbers.amax(1, keepdim=True))
        # A stable sort closes the gaps; padding has no word, so it stays and keeps behind the tokens.
        order = stays.logical_not().to(torch.uint8).argsort(dim=1, stable=True)
        closed = ids.gather(1, order)
        places = torch.arange(ids.shape[1], device=ids.device)
        return closed.where(places < stays.sum(1, keepdim=True), -1)
