"""MiniLM: a small transformer for sentences, with weights that come as a package."""

from __future__ import annotations

from labeltree.cache import need_weights
from labeltree.models.encoder import Encoder
from labeltree.models.registry import register_encoder
from labeltree.models.text_loading import load_text_encoder, need_text_library

__all__ = ["minilm"]

NAME = "minilm"


def _pretrained(channels: int, image_size: int) -> Encoder:
    return load_text_encoder(NAME, str(need_weights(NAME)), pretrained=True)


def _check() -> None:
    need_text_library(NAME)
    need_weights(NAME)


@register_encoder(
    NAME,
    summary="all-MiniLM-L6-v2: six layers, 384 features, 22.6 M parameters",
    pretrained=_pretrained,
    usually_pretrained=True,
    modality="text",
    check=lambda pretrained: _check(),
)
def minilm(channels: int, image_size: int) -> Encoder:
    """The architecture of all-MiniLM-L6-v2 (Wang et al. 2020, MiniLM) with fresh weights.

    Raises:
        DataError: the package was not fetched; its vocabulary is needed in any case.
    """
    return load_text_encoder(NAME, str(need_weights(NAME)), pretrained=False)
