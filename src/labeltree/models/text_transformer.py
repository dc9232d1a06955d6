"""Text encoders of sentence-transformers and transformers; the libraries load when an encoder needs them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from labeltree.errors import DataError
from labeltree.models.text import TextEncoder, TokenizedTexts, check_dropout, check_texts, trimmed
from labeltree.models.transformer_stages import transformer_stages

__all__ = ["PREFIX", "TransformerEncoder", "load_text_encoder"]

PREFIX = "text:"
_DEFAULT_LENGTH = 512
_CHUNK = 4096  # texts that are tokenised at once: bounds the memory
_LIBRARIES = ("sentence_transformers", "transformers", "huggingface_hub")


class TransformerEncoder(TextEncoder):
    """A transformer and the pooling, projection and normalisation that its authors put on it.

    Args:
        name: see `Encoder`.
        transformer: from token ids and attention mask to vectors of the tokens.
        after: modules of sentence-transformers from those vectors to one of the text.
        tokenizer: the transformer's.
        max_length: most tokens of a text.
        prompt: text that the model wants before every text.
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
        self.feature_dim = self._measured()

    @property
    def stages(self) -> list[nn.Module]:
        """The embeddings, then every layer of the transformer; pooling belongs to the last."""
        return transformer_stages(self.transformer, list(self.after))

    def tokenize(self, texts: Sequence[str], max_length: int | None = None) -> TokenizedTexts:
        """The transformer's own tokens; see `TextEncoder.tokenize`."""
        check_texts(texts)
        most = self.max_length if max_length is None else min(max_length, self.max_length)
        added = self.tokenizer.num_special_tokens_to_add()
        if most <= added:
            raise ValueError(
                f"max_length is {max_length}; it must be above {added}, the tokens added to every text"
            )
        ids: list[list[int]] = []
        words: list[list[int]] = []
        skipped = self._words_of_prompt()
        for start in range(0, len(texts), _CHUNK):
            for found in self._encoded([self.prompt + text for text in texts[start : start + _CHUNK]], most):
                ids.append(found.ids)
                words.append([-1 if w is None or w < skipped else w - skipped for w in found.word_ids])
        offsets = np.concatenate(([0], np.fromiter(map(len, ids), np.int64, len(ids)).cumsum()))
        total = int(offsets[-1])
        return TokenizedTexts(
            np.fromiter(chain.from_iterable(ids), np.int32, total),
            np.fromiter(chain.from_iterable(words), np.int32, total),
            offsets,
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Features (b, feature_dim) of tokens (b, t) int64; see `TextEncoder.forward`."""
        tokens = trimmed(tokens)
        attended = tokens >= 0
        ids = tokens.where(attended, self._padding)
        attended[:, 0] = True  # attention over nothing is not a number; a text without tokens has one padding
        mask = attended.long()
        vectors = self.transformer(input_ids=ids, attention_mask=mask)[0]
        pooled = self.after({"token_embeddings": vectors, "attention_mask": mask})
        features: Tensor = pooled["sentence_embedding"]
        return features

    def set_dropout(self, p: float) -> None:
        """Drop out with probability `p`, attention included."""
        check_dropout(p)
        for module in self.modules():
            if isinstance(module, nn.Dropout):
                module.p = p
            for key, value in vars(module).items():  # some keep the number and call the function
                if "dropout" in key and isinstance(value, float):
                    setattr(module, key, p)

    def _encoded(self, texts: Sequence[str], most: int) -> list[Any]:
        found = self.tokenizer(list(texts), truncation=True, max_length=most, padding=False)
        return list(found.encodings)

    def _words_of_prompt(self) -> int:
        if not self.prompt:
            return 0
        (found,) = self._encoded([self.prompt], self.max_length)
        return 1 + max((word for word in found.word_ids if word is not None), default=-1)

    def _measured(self) -> int:
        training = self.training
        self.eval()
        with torch.no_grad():
            length = self(torch.zeros(1, 1, dtype=torch.int64)).shape[1]
        self.train(training)
        return int(length)


def load_text_encoder(name: str, model: str, pretrained: bool) -> TransformerEncoder:
    """The text encoder in the folder `model`, or of that name in the library's hub.

    Nothing that a model brings is run: weights are read from safetensors alone, code is never loaded.

    Args:
        name: of the encoder.
        model: folder, or name of a model of sentence-transformers or transformers. The latter gets the mean
            over its tokens.
        pretrained: with its weights; otherwise fresh ones in the same architecture.

    Raises:
        ImportError: sentence-transformers is not installed.
        DataError: there is no such model, it cannot be fetched, or its weights are not in safetensors.
        ValueError: it is no transformer for texts.
    """
    found = _load(name, model)
    transformer: Any = getattr(found[0], "auto_model", None)
    if transformer is None or getattr(found.tokenizer, "backend_tokenizer", None) is None:
        raise ValueError(f"encoder {name!r} is no transformer that reads texts by a fast tokenizer")
    if getattr(transformer, "pooler", None) is not None:
        transformer.pooler = None  # pooling happens behind, so this would be computed for nothing
    if not pretrained:
        fresh = type(transformer)(transformer.config)
        transformer.load_state_dict(fresh.state_dict(), strict=False)
        for module in (part for after in list(found)[1:] for part in after.modules()):
            if isinstance(module, nn.Linear | nn.LayerNorm):
                module.reset_parameters()
    limits = [found.max_seq_length, found.tokenizer.model_max_length]
    encoder = TransformerEncoder(
        name,
        transformer.float(),
        list(found)[1:],
        found.tokenizer,
        min([_DEFAULT_LENGTH if not limits[0] else limits[0], *limits[1:]]),
        (found.prompts or {}).get(found.default_prompt_name) or "",
    )
    return encoder.train()


def _load(name: str, model: str) -> Any:
    """The model as sentence-transformers has it."""
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise ImportError(
            f"encoder {name!r} needs the library sentence-transformers; install it with: pip install "
            "'labeltree[text]'"
        ) from error
    folder = Path(model).expanduser()
    is_local = folder.is_dir()
    if is_local and not list(folder.rglob("*.safetensors")):
        raise DataError(
            f"encoder {name!r}: there is no file of safetensors in '{folder}'; weights in another form could "
            "run code when read: convert them (save_pretrained of transformers writes safetensors)"
        )
    try:
        with _quiet():
            return SentenceTransformer(
                str(folder) if is_local else model,
                device="cpu",
                local_files_only=is_local,
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True},
            )
    except Exception as error:
        said = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise DataError(
            f"encoder {name!r} cannot be loaded: {said}; expected the folder of a model, or the name of one "
            "that was fetched before or can be fetched now, with its weights in safetensors"
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the libraries from printing what they load."""
    import transformers

    bars: Any = transformers.utils.logging
    loggers = [logging.getLogger(library) for library in _LIBRARIES]
    before = [logger.level for logger in loggers]
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
        if shown:
            bars.enable_progress_bar()
