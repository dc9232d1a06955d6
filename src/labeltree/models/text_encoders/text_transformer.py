"""Transformers as text encoders."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from labeltree.models.encoder_config import write_config
from labeltree.models.local_folders import quiet_transformers
from labeltree.models.stages import layer_stages
from labeltree.models.text_encoders.text_encoder import (
    TextEncoder,
    TokenizedTexts,
    check_dropout,
    check_texts,
    trimmed,
)

__all__ = ["TransformerEncoder"]

_CHUNK = 4096  # texts tokenised at once: Python integers take ten times the memory of arrays
_TOGETHER = 16  # texts
_one_at_a_time = threading.Lock()


class TransformerEncoder(TextEncoder):
    """A transformer with the pooling, projection and normalisation of its authors.

    Args:
        name: See `Encoder`.
        transformer: Maps token ids and attention mask to token vectors.
        after: Modules of sentence-transformers that map token vectors to a text vector.
        tokenizer: Tokenizer of the transformer.
        max_length: Largest number of tokens of a text.
        prompt: Text to put before every text.
    """

    def __init__(
        self,
        name: str,
        transformer: nn.Module,
        after: Sequence[nn.Module],
        tokenizer: Any,
        max_length: int,
        prompt: str = "",
    ) -> None:
        super().__init__(name, 0)
        self.transformer = transformer
        self.after = nn.Sequential(*after)
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.prompt = prompt
        self._padding = tokenizer.pad_token_id or 0
        self.feature_dim = self._measure()

    @property
    def stages(self) -> list[nn.Module]:
        """The embeddings, then every layer of the transformer; pooling belongs to the last."""
        return layer_stages(self.transformer, list(self.after))

    def tokenize(self, texts: Sequence[str], max_length: int | None = None) -> TokenizedTexts:
        """The transformer's own tokens; see `TextEncoder.tokenize`."""
        check_texts(texts)
        most = self.max_length if max_length is None else min(max_length, self.max_length)
        added = self.tokenizer.num_special_tokens_to_add()
        if most <= added:
            raise ValueError(
                f"max_length is {max_length}; it must be above {added}, the tokens added to every text"
            )
        ids, words, lengths = [np.empty(0, np.int32)], [np.empty(0, np.int32)], [np.zeros(1, np.int64)]
        skipped = self._words_of_prompt()
        for start in range(0, len(texts), _CHUNK):
            encodings = self._tokenize([self.prompt + text for text in texts[start : start + _CHUNK]], most)
            numbers = chain.from_iterable(one.word_ids for one in encodings)
            ids.append(np.fromiter(chain.from_iterable(one.ids for one in encodings), np.int32))
            words.append(np.fromiter((-1 if n is None else max(n - skipped, -1) for n in numbers), np.int32))
            lengths.append(np.fromiter((len(one.ids) for one in encodings), np.int64))
        offsets = np.concatenate(lengths).cumsum()
        return TokenizedTexts(np.concatenate(ids), np.concatenate(words), offsets)

    def forward(self, tokens: Tensor) -> Tensor:
        """Features (b, feature_dim) of tokens (b, t) int64; see `TextEncoder.forward`.

        On a CPU, texts of similar length are batched together to reduce padding.
        """
        if torch.compiler.is_exporting() or tokens.device.type != "cpu" or len(tokens) <= _TOGETHER:
            return self._read(tokens)
        order = (tokens >= 0).sum(1).argsort(stable=True)
        parts = [self._read(tokens[part]) for part in torch.split(order, _TOGETHER)]
        return torch.cat(parts)[order.argsort()]

    def _read(self, tokens: Tensor) -> Tensor:
        tokens = trimmed(tokens)
        attended = tokens >= 0
        ids = tokens.where(attended, self._padding)
        attended[:, 0] = True  # attention over no tokens is NaN; a text without tokens attends to one padding
        mask = attended.long()
        vectors = self.transformer(input_ids=ids, attention_mask=mask)[0]
        pooled = self.after({"token_embeddings": vectors, "attention_mask": mask})
        features: Tensor = pooled["sentence_embedding"]
        return features

    def save_config(self, folder: Path) -> None:
        """Write the configurations of the transformer and of what comes after it, and `tokenizer.json`."""
        with quiet_transformers():
            config: Any = self.transformer.config
            config.save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)
        modules: Any = list(self.after)
        for number, module in enumerate(modules):
            part = folder / f"after_{number}"
            part.mkdir()
            module.save(str(part))
        write_config(
            folder,
            {
                "model": type(self.transformer).__name__,
                "max_length": self.max_length,
                "prompt": self.prompt,
                "after": [f"{type(m).__module__}.{type(m).__qualname__}" for m in modules],
            },
        )

    def set_dropout(self, p: float) -> None:
        """Set the probability of all dropout to `p`, including attention."""
        check_dropout(p)
        for module in self.modules():
            if isinstance(module, nn.Dropout):
                module.p = p
            for key, value in vars(module).items():  # some keep the number and call the function
                if "dropout" in key and isinstance(value, float):
                    setattr(module, key, p)

    def _tokenize(self, texts: Sequence[str], most: int) -> list[Any]:
        with _one_at_a_time:  # the tokenizer keeps the length of the last call
            encoded = self.tokenizer(list(texts), truncation=True, max_length=most, padding=False)
        return list(encoded.encodings)

    def _words_of_prompt(self) -> int:
        if not self.prompt:
            return 0
        (prompt,) = self._tokenize([self.prompt], self.max_length)
        return 1 + max((word for word in prompt.word_ids if word is not None), default=-1)

    def _measure(self) -> int:
        training = self.training
        self.eval()
        with torch.no_grad():
            length = self(torch.zeros(1, 1, dtype=torch.int64)).shape[1]
        self.train(training)
        return int(length)
