"""Text encoders of sentence-transformers and transformers, MiniLM among them.

The libraries are imported when an encoder needs them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import nn

from labeltree.cache import need_weights
from labeltree.errors import DataError
from labeltree.models.encoder import Encoder
from labeltree.models.registry import register_encoder
from labeltree.models.text_transformer import TransformerEncoder

__all__ = ["PREFIX", "load_text_encoder", "minilm", "need_text_library"]

PREFIX = "text:"
_MINILM = "minilm"  # its weights come as a package
_DEFAULT_LENGTH = 512
_PATIENCE_S = 10
_LIBRARIES = ("sentence_transformers", "transformers", "huggingface_hub")


def load_text_encoder(name: str, model: str, pretrained: bool) -> TransformerEncoder:
    """Load a text encoder from the folder `model`, or by that name from the library's hub.

    No code of a model is run: weights are read from safetensors only, and code is never loaded.

    Args:
        name: name of the encoder.
        model: folder, or name of a model of sentence-transformers or transformers. The latter gets the mean
            over its tokens.
        pretrained: load its weights; otherwise the same architecture has random weights.

    Raises:
        ImportError: sentence-transformers is not installed.
        DataError: there is no such model, it cannot be fetched, or its weights are not in safetensors.
        ValueError: the model is not a transformer for texts.
    """
    if not model:
        raise ValueError(f"encoder is {name!r}; the name or the folder of a model must follow")
    found = _load(name, model)
    transformer: Any = getattr(found[0], "auto_model", None)
    if transformer is None or getattr(found.tokenizer, "backend_tokenizer", None) is None:
        raise ValueError(f"encoder {name!r} is no transformer that reads texts by a fast tokenizer")
    if len(found.tokenizer) <= len(found.tokenizer.all_special_tokens):
        raise DataError(f"encoder {name!r} has no vocabulary: the files of its tokenizer are missing")
    if getattr(transformer, "pooler", None) is not None:
        transformer.pooler = None  # pooling is done afterwards, so this would not be used
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


def need_text_library(name: str) -> None:
    """Raise an ImportError unless sentence-transformers is installed; it is not loaded."""
    if importlib.util.find_spec("sentence_transformers") is None:
        raise ImportError(
            f"encoder {name!r} needs the library sentence-transformers; install it with: pip install "
            "'labeltree[text]'"
        )


def _load(name: str, model: str) -> Any:
    """The model loaded by sentence-transformers."""
    need_text_library(name)
    from sentence_transformers import SentenceTransformer

    folder = Path(model).expanduser()
    is_folder = folder.is_dir()
    if is_folder and not list(folder.rglob("*.safetensors")):
        raise DataError(
            f"encoder {name!r}: there is no file of safetensors in '{folder}'; weights in another form could "
            "run code when read: convert them (save_pretrained of transformers writes safetensors)"
        )
    try:
        with _quiet():
            return SentenceTransformer(
                str(folder) if is_folder else model,
                device="cpu",
                local_files_only=is_folder or not _hub_answers(model),
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True},
            )
    except Exception as error:
        said = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise DataError(
            f"encoder {name!r} cannot be loaded: {said.rstrip('.')}; expected the folder of a model, or the "
            "name of one that was fetched before or can be fetched now, with its weights in safetensors"
        ) from error


def _hub_answers(model: str) -> bool:
    """Whether the library's hub can be reached; without this check the library retries for a minute."""
    from huggingface_hub import model_info
    from huggingface_hub.errors import HfHubHTTPError

    try:
        model_info(model, timeout=_PATIENCE_S)
    except HfHubHTTPError:
        return True  # it answered, and gives the reason when asked again
    except Exception:
        return False
    return True


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the output of the libraries while they load."""
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


def _pretrained_minilm(channels: int, image_size: int) -> Encoder:
    return load_text_encoder(_MINILM, str(need_weights(_MINILM)), pretrained=True)


def _check_minilm() -> None:
    need_text_library(_MINILM)
    need_weights(_MINILM)


@register_encoder(
    _MINILM,
    summary="all-MiniLM-L6-v2: six layers, 384 features, 22.6 M parameters",
    pretrained=_pretrained_minilm,
    usually_pretrained=True,
    modality="text",
    check=lambda pretrained: _check_minilm(),
)
def minilm(channels: int, image_size: int) -> Encoder:
    """The architecture of all-MiniLM-L6-v2 (Wang et al. 2020, MiniLM) with random weights.

    Raises:
        DataError: the package has not been downloaded; its vocabulary is always needed.
    """
    return load_text_encoder(_MINILM, str(need_weights(_MINILM)), pretrained=False)
