"""Spaces of samples and words: a text encoder, or a checkpoint with an image tower and a text tower."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from labeltree.errors import DataError
from labeltree.models.build import (
    build_encoder,
    check_encoder,
    encoder_modality,
    pinned_encoder,
    usually_pretrained,
)
from labeltree.models.open_clip_images import OPEN_CLIP, load_open_clip_pair
from labeltree.models.text_encoders.text_encoder import TextEncoder
from labeltree.models.transformers_images import TRANSFORMERS, load_transformers_pair
from labeltree.preprocessing import ImageInput

__all__ = ["NameSpace", "open_name_space"]

_TOGETHER = 64
_TEXT_TEMPERATURE = 0.05
_SIGLIP = "siglip"  # its text tower was trained on padded texts alone


@dataclass(frozen=True)
class NameSpace:
    """A space that holds samples and words, compared by cosine.

    Attributes:
        name: Name of the encoder, see `build_encoder`; with the commit, if it is of a hub.
        reads: What the samples are.
        temperature: What cosines are divided by to be logits: that of the checkpoint's training; of text
            encoders 0.05, that of sentence-transformers.
        images: The images that it reads; None if it reads texts.
        embed_texts: Gives unit vectors `(n, d)` of n texts.
        embed_images: Gives those of images `(n, 3, h, w)` uint8.
    """

    name: str
    reads: Literal["text", "image"]
    temperature: float
    images: ImageInput | None
    embed_texts: Callable[[Sequence[str]], Tensor]
    embed_images: Callable[[Tensor], Tensor] | None = None


def open_name_space(name: str) -> NameSpace:
    """Load an encoder that reads names as well as samples.

    Args:
        name: A pretrained text encoder, such as "minilm" or "text:OWNER/NAME", or a checkpoint of images and
            texts with both towers: "open_clip:…" or "transformers:…"; see `build_encoder`.

    Raises:
        ImportError: a library is not installed.
        DataError: The encoder reads no texts, or its weights say nothing of words; or a file is missing or
            damaged.
        ValueError: There is no encoder of this name.
    """
    name = pinned_encoder(name, pretrained=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.startswith((OPEN_CLIP, TRANSFORMERS)):
        return _both_towers(name, device)
    reads = encoder_modality(name)
    if reads != "text" or not usually_pretrained(name):
        lacks = {
            "text": "starts from random weights, to which names say nothing",
            "both": "is of two encoders that share no space before training",
        }.get(reads, f"reads {reads}s alone, and no names")
        raise DataError(
            f"encoder {name!r} {lacks}; take 'minilm' or 'text:…' for texts, and for images a checkpoint "
            "with both towers, such as CLIP or SigLIP: 'open_clip:…' or 'transformers:…'"
        )
    check_encoder(name)
    encoder = build_encoder(name).eval().to(device)
    assert isinstance(encoder, TextEncoder)
    return NameSpace(name, "text", _TEXT_TEMPERATURE, None, _embed_parts(_reader(encoder, device)))


def _reader(encoder: TextEncoder, device: torch.device) -> Callable[[Sequence[str]], Tensor]:
    def read(texts: Sequence[str]) -> Tensor:
        ids, _, offsets = encoder.tokenize(texts)
        rows = [torch.from_numpy(ids[start:end]) for start, end in pairwise(offsets.tolist())]
        padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)
        features: Tensor = encoder(padded.long().to(device))
        return features

    return read


def _embed_parts(read: Callable[[Any], Tensor]) -> Callable[[Any], Tensor]:
    """Unit vectors of any number of samples, a part at a time."""

    def embed(samples: Any) -> Tensor:
        parts = range(0, max(len(samples), 1), _TOGETHER)
        with torch.inference_mode():
            vectors = [normalize(read(samples[at : at + _TOGETHER]).float(), dim=1).cpu() for at in parts]
        return torch.cat(vectors).clone()

    return embed


def _both_towers(name: str, device: torch.device) -> NameSpace:
    how: Mapping[str, Any]
    if name.startswith(OPEN_CLIP):
        net, tokenizer, images, how = load_open_clip_pair(name)
        show, read = net.encode_image, _open_clip_texts(net, tokenizer, device)
    else:
        net, tokenizer, images, how = load_transformers_pair(name)
        show, read = _transformers_images(net), _transformers_texts(name, net, tokenizer, device)
    net.to(device)
    if how["mean"] is None or how["std"] is None:
        raise DataError(f"encoder {name!r} has no preprocessor_config.json, which says how images are read")
    mean, std = (torch.tensor(how[key], device=device)[:, None, None] for key in ("mean", "std"))

    def see(pixels: Tensor) -> Tensor:
        features: Tensor = show((pixels.to(device).float() / 255 - mean) / std)
        return features

    temperature = 1 / float(net.logit_scale.detach().exp())
    return NameSpace(name, "image", temperature, images, _embed_parts(read), _embed_parts(see))


def _open_clip_texts(net: Any, tokenizer: Any, device: torch.device) -> Callable[[Sequence[str]], Tensor]:
    return lambda texts: net.encode_text(tokenizer(list(texts)).to(device))


def _transformers_images(net: Any) -> Callable[[Tensor], Tensor]:
    return lambda pixels: _pooled(net.get_image_features(pixel_values=pixels))


def _transformers_texts(
    name: str, net: Any, tokenizer: Any, device: torch.device
) -> Callable[[Sequence[str]], Tensor]:
    config = net.config.text_config
    length = int(config.max_position_embeddings)
    if len(tokenizer) > config.vocab_size:
        raise DataError(
            f"encoder {name!r}: its text tower knows {config.vocab_size:,} tokens, and its tokenizer has "
            f"{len(tokenizer):,}"
        )
    always = str(net.config.model_type).startswith(_SIGLIP)

    def read(texts: Sequence[str]) -> Tensor:
        words = tokenizer(
            list(texts),
            padding="max_length" if always else True,
            truncation=True,
            max_length=length,
            return_tensors="pt",
        )
        given = {"input_ids": words["input_ids"].to(device)}
        if not always:
            given["attention_mask"] = words["attention_mask"].to(device)
        return _pooled(net.get_text_features(**given))

    return read


def _pooled(output: Any) -> Tensor:
    features: Tensor = getattr(output, "pooler_output", output)  # a tensor in earlier versions
    return features
