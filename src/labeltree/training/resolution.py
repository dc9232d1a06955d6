"""Resolving a recipe: the settings it leaves open until the samples are known (encoder, weights, views)."""

from __future__ import annotations

import dataclasses

from labeltree.data import Source
from labeltree.data.source import Modality
from labeltree.models import encoder_modality, usually_pretrained
from labeltree.training.checks import check_idle
from labeltree.training.recipe import Recipe

__all__ = ["LEFT_OPEN", "resolve_recipe"]

LEFT_OPEN = ("encoder", "views", "pretrained")

_USUAL: dict[Modality, tuple[str, str]] = {"image": ("small-conv", "simclr"), "text": ("minilm", "dropout")}
_VIEWS: dict[Modality, tuple[str, ...]] = {
    "image": ("simclr", "randaugment", "crop", "identity"),
    "text": ("dropout", "word-deletion", "identity"),
}
_OF_TEXTS = ["max_length", "deletion", "dropout"]
_OF_IMAGES = ["image_size", "channels", "erasing", "flip", "channels_last"]


def resolve_recipe(recipe: Recipe, source: Source) -> Recipe:
    """The recipe with its encoder, views and start decided.

    Samples that have images and texts are read as images, unless the encoder reads texts. A frozen text
    encoder drops nothing out, so its views are the texts as they are unless the recipe names others.

    Raises:
        ValueError: if the encoder reads what the samples do not have, or the views or another setting do not
            fit what it reads.
    """
    encoder = recipe.encoder
    if encoder == "auto":
        encoder = _USUAL[source.modalities[0]][0]
    modality = encoder_modality(encoder)
    if modality not in source.modalities:
        raise ValueError(
            f"encoder '{encoder}' reads {modality}s, but the samples of '{recipe.data}' are "
            f"{source.modalities[0]}s; take another, such as '{_USUAL[source.modalities[0]][0]}'"
        )
    frozen_texts = modality == "text" and recipe.trainable == "head"
    usual = "identity" if frozen_texts else _USUAL[modality][1]
    views = usual if recipe.views == "auto" else recipe.views
    if views not in _VIEWS[modality]:
        raise ValueError(
            f"views is '{views}', but encoder '{encoder}' reads {modality}s, whose views are "
            f"{', '.join(_VIEWS[modality])}"
        )
    idle = _OF_TEXTS if modality == "image" else _OF_IMAGES
    check_idle(recipe, idle, True, f"for encoder '{encoder}', which reads {modality}s")
    if frozen_texts and (views == "dropout" or recipe.dropout is not None):
        raise ValueError(
            "a frozen encoder drops nothing out: with trainable 'head' leave dropout out, and let views be "
            "'word-deletion' or 'identity'"
        )
    pretrained = recipe.pretrained
    if pretrained is None:
        pretrained = recipe.weights is None and usually_pretrained(encoder)
    return dataclasses.replace(
        recipe,
        encoder=encoder,
        views=views,  # type: ignore[arg-type]
        pretrained=pretrained,
    )
