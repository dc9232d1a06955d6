"""Text encoders of sentence-transformers and transformers, MiniLM among them.

The libraries are imported when an encoder needs them.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from torch import nn

from labeltree.cache import need_weights
from labeltree.errors import DataError
from labeltree.models.encoder import Encoder
from labeltree.models.encoder_config import READER, read_config
from labeltree.models.encoder_registry import register_encoder
from labeltree.models.hub import hub_folder
from labeltree.models.hub_cache import HubName
from labeltree.models.local_folders import (
    first_line,
    need_library,
    quiet_transformers,
    without_first_weights,
)
from labeltree.models.text_encoders.text_transformer import TransformerEncoder

__all__ = ["PREFIX", "load_text_encoder", "minilm", "need_text_library", "rebuild_text_encoder"]

PREFIX = "text:"
_MINILM = "minilm"  # its weights come as a package
_DEFAULT_LENGTH = 512
_CONFIG = "config.json"


def load_text_encoder(name: str, model: str, pretrained: bool) -> TransformerEncoder:
    """Load a text encoder from the folder `model`, or from the Hugging Face hub.

    No code of a model is run: weights are read from safetensors only, and code is never loaded.

    Args:
        name: Name of the encoder; "text:hf-hub:OWNER/NAME@COMMIT" is one of the hub.
        model: Folder of a model of sentence-transformers or transformers, unless it is one of the hub. The
            latter library's get the mean over their tokens.
        pretrained: Load its weights; otherwise the same architecture has random weights.

    Raises:
        ImportError: sentence-transformers is not installed.
        DataError: There is no such model, it cannot be had, or its weights are not in safetensors.
        ValueError: The model is not a transformer for texts.
    """
    if not model:
        raise ValueError(f"encoder is {name!r}; the name or the folder of a model must follow")
    loaded = _load(name, model)
    transformer: Any = getattr(loaded[0], "auto_model", None)
    if transformer is None or getattr(loaded.tokenizer, "backend_tokenizer", None) is None:
        raise ValueError(f"encoder {name!r} is not a transformer that reads texts by a fast tokenizer")
    if len(loaded.tokenizer) <= len(loaded.tokenizer.all_special_tokens):
        raise DataError(f"encoder {name!r} has no vocabulary: the files of its tokenizer are missing")
    if getattr(transformer, "pooler", None) is not None:
        transformer.pooler = None  # pooling is done afterwards, so this would not be used
    if not pretrained:
        fresh = type(transformer)(transformer.config)
        transformer.load_state_dict(fresh.state_dict(), strict=False)
        for module in (part for after in list(loaded)[1:] for part in after.modules()):
            if isinstance(module, nn.Linear | nn.LayerNorm):
                module.reset_parameters()
    limits = [loaded.max_seq_length, loaded.tokenizer.model_max_length]
    encoder = TransformerEncoder(
        name,
        transformer.float(),
        list(loaded)[1:],
        loaded.tokenizer,
        min([_DEFAULT_LENGTH if not limits[0] else limits[0], *limits[1:]]),
        (loaded.prompts or {}).get(loaded.default_prompt_name) or "",
    )
    return encoder.train()


def rebuild_text_encoder(name: str, folder: Path) -> TransformerEncoder:
    """The encoder whose `save_config` wrote `folder`; its weights are to be loaded next.

    Raises:
        ImportError: sentence-transformers is not installed.
        DataError: a file is missing or damaged, or names a class of neither library.
    """
    need_text_library(name)
    from transformers import AutoConfig, AutoTokenizer

    kinds: dict[str, Any] = {"model": str, "max_length": int, "prompt": str, "after": list[str]}
    kept = read_config(folder, kinds)
    with READER.reading(folder / _CONFIG, "it is not a configuration of transformers"), quiet_transformers():
        offline: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        config = AutoConfig.from_pretrained(folder, **offline)
        with without_first_weights():
            transformer = _library_class(f"transformers.{kept['model']}")(config)
        if getattr(transformer, "pooler", None) is not None:
            transformer.pooler = None
    with READER.reading(folder / "tokenizer.json", "it is not a tokenizer"), quiet_transformers():
        tokenizer = AutoTokenizer.from_pretrained(folder, **offline)
    with (
        READER.reading(folder / "after_0", "it is not a module of sentence-transformers"),
        quiet_transformers(),
    ):
        after = [
            _library_class(kind).load(str(folder / f"after_{number}"), local_files_only=True)
            for number, kind in enumerate(kept["after"])
        ]
    encoder = TransformerEncoder(
        name, transformer.float(), after, tokenizer, kept["max_length"], kept["prompt"]
    )
    return encoder.train()


def _library_class(name: str) -> Any:
    """A module of transformers or sentence-transformers by its full name, and nothing else."""
    module, _, kind = name.rpartition(".")
    if module.partition(".")[0] not in ("transformers", "sentence_transformers"):
        raise ValueError(f"{name} belongs to neither library")
    library_class = getattr(importlib.import_module(module), kind, None)
    if not isinstance(library_class, type) or not issubclass(library_class, nn.Module):
        raise ValueError(f"{name} is not a module")
    return library_class


def need_text_library(name: str) -> None:
    """Raise an ImportError unless sentence-transformers is installed; it is not loaded."""
    need_library(f"encoder {name!r}", "sentence_transformers", "sentence-transformers", "text")


def _load(name: str, model: str) -> Any:
    """The model loaded by sentence-transformers."""
    need_text_library(name)
    from sentence_transformers import SentenceTransformer

    folder = Path(model).expanduser() if HubName.of(name) is None else hub_folder(name)
    if not folder.is_dir():
        raise DataError(
            f"encoder {name!r}: there is no folder '{folder}'; name the folder of a model, or one of "
            "the Hugging Face hub as 'text:OWNER/NAME'"
        )
    if not list(folder.rglob("*.safetensors")):
        raise DataError(
            f"encoder {name!r}: there is no file of safetensors in '{folder}'; weights in another form could "
            "run code when read: convert them (save_pretrained of transformers writes safetensors)"
        )
    try:
        with quiet_transformers():
            return SentenceTransformer(
                str(folder),
                device="cpu",
                local_files_only=True,
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True},
            )
    except Exception as error:
        raise DataError(
            f"encoder {name!r} cannot be loaded: {first_line(error)}; expected a model of "
            "sentence-transformers or transformers, with its weights in safetensors"
        ) from error


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
    from_config=lambda folder, channels, image_size: rebuild_text_encoder(_MINILM, folder),
)
def minilm(channels: int, image_size: int) -> Encoder:
    """The architecture of all-MiniLM-L6-v2 (Wang et al. 2020, MiniLM) with random weights.

    Raises:
        DataError: The package has not been downloaded; its vocabulary is always needed.
    """
    return load_text_encoder(_MINILM, str(need_weights(_MINILM)), pretrained=False)
