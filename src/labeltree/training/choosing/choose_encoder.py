"""Choose the encoder of a recipe that leaves it open, by what the samples of the data set are like."""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
from dataclasses import dataclass
from typing import Literal

from labeltree.cache import data_home
from labeltree.data import Source, fetch, get_dataset, list_datasets, usual_input
from labeltree.errors import DataError
from labeltree.models import (
    check_encoder,
    encoder_modality,
    pinned_encoder,
    usual_images,
    usually_pretrained,
)
from labeltree.offline import offline
from labeltree.preprocessing import ImageInput, ImageLook
from labeltree.training.recipe import Recipe

__all__ = [
    "AUTO_ENCODER",
    "IMAGE_ENCODER",
    "SMALL_ENCODER",
    "SMALL_TEXT_ENCODER",
    "EncoderChoice",
    "choose_encoder",
    "choose_text_encoder",
    "chosen_input",
    "with_encoder",
]

AUTO_ENCODER = "auto"
IMAGE_ENCODER = "LABELTREE_IMAGE_ENCODER"
"""The environment variable that names the pretrained encoder for photographs."""

SMALL_ENCODER = "small-conv"
SMALL_TEXT_ENCODER = "small-text"
_PHOTOGRAPHS = "efficientnet-lite0"
_TEXTS = "minilm"
_SMALL = 64  # pixels of the shorter side up to which the small encoder reads images as they are
_USUAL_SIZE = 224  # pixels, of an encoder that does not say its own
_LARGE = 96  # from which photographs are worth an encoder of photographs
_log = logging.getLogger("labeltree.training")


@dataclass(frozen=True)
class EncoderChoice:
    """The encoder of a recipe that leaves it open.

    Attributes:
        encoder: Its name.
        pretrained: Whether it starts from pretrained weights, which then stay as they are.
        images: The images that it reads.
        why: a clause for the user.
        kind: What the images are: `photographs`, `small` ones, or what lies `between`, of which
            validation knows more than a look.
        warning: What was to be had instead, if the weights are missing.
    """

    encoder: str
    pretrained: bool
    images: ImageInput
    why: str
    kind: Literal["photographs", "small", "between"]
    warning: str | None = None

    def __str__(self) -> str:
        frozen = "pretrained and frozen" if self.pretrained else "trained from scratch"
        size = self.images.size
        return f"{self.encoder} at {size} × {size} pixels, {frozen}: {self.why}"


def choose_encoder(recipe: Recipe, look: ImageLook) -> EncoderChoice:
    """The image encoder for a data set whose images look like this.

    Photographs get a pretrained encoder at its own resolution: the one that `LABELTREE_IMAGE_ENCODER`
    names, else EfficientNet-Lite0, whose weights are fetched unless `offline`. Images of at most 64 pixels
    get the small encoder; so does everything if there are no pretrained weights.
    """
    small = usual_input(look)
    if recipe.image_size is not None:
        small = dataclasses.replace(small, size=recipe.image_size)
    of_size = f"images of {look.width} × {look.height} pixels (the median)"
    kind = _kind(look)
    if kind == "small":
        return EncoderChoice(SMALL_ENCODER, False, small, f"{of_size} are small", "small")
    if recipe.pretrained is False or recipe.weights is not None:
        setting = "pretrained is false" if recipe.weights is None else "weights are given"
        return EncoderChoice(SMALL_ENCODER, False, small, setting, kind)
    name = os.environ.get(IMAGE_ENCODER) or _PHOTOGRAPHS
    usual = _expected_input(name)
    if recipe.image_size is not None and 2 * recipe.image_size < (usual.size or 0):
        why = f"image_size is {recipe.image_size}, too small for {name} ({usual.size} pixels)"
        return EncoderChoice(SMALL_ENCODER, False, small, why, "small")
    missing = _missing_weights(name, data_home().as_posix(), offline())
    if missing is not None:
        warning = (
            f"{SMALL_ENCODER} is trained from scratch, because the pretrained encoder {name} is not to be "
            f"had: {missing}. On photographs such an encoder often answers half as well"
        )
        return EncoderChoice(SMALL_ENCODER, False, small, f"{name} is not to be had", "small", warning)
    if encoder_modality(name) != "image":
        raise ValueError(f"{IMAGE_ENCODER} is '{name}', which reads no images; name an image encoder")
    name = pinned_encoder(name, pretrained=True)
    images = dataclasses.replace(usual, size=recipe.image_size or usual.size or _USUAL_SIZE)
    if kind == "photographs":
        return EncoderChoice(name, True, images, f"{of_size}, in colour, are photographs", kind)
    what = "gray" if look.gray else "drawn" if look.drawn else "neither small nor large"
    return EncoderChoice(name, True, images, f"{of_size} are {what}", kind)


def _kind(look: ImageLook) -> Literal["photographs", "small", "between"]:
    if look.shorter <= _SMALL:
        return "small"
    return "between" if look.gray or look.drawn or look.shorter < _LARGE else "photographs"


def _expected_input(name: str) -> ImageInput:
    """The images that an encoder's weights were made for; nothing is known of one that is not there."""
    try:
        return usual_images(name) or ImageInput(None, None)
    except (DataError, ImportError):
        return ImageInput(None, None)


@functools.cache
def _missing_weights(name: str, home: str, unreachable: bool) -> str | None:
    """Why an encoder's pretrained weights are not to be had; None if they are, perhaps only now.

    Args:
        name: Name of the encoder.
        home: The cache folder: the answer holds for one.
        unreachable: Whether nothing may be fetched.
    """
    try:
        check_encoder(name, pretrained=True)
        return None
    except ImportError as error:
        return str(error)
    except DataError as error:
        if name not in list_datasets(name):
            return str(error)
        if unreachable:
            return f"nothing may be fetched (offline); 'labeltree data get {name}' fetches it elsewhere"
    entry = get_dataset(name)
    _log.warning(
        "fetching the %s (%s; licence: %s); LABELTREE_OFFLINE=1 or --offline does without",
        entry.summary,
        entry.size,
        entry.licence,
    )
    try:
        fetch(name, seconds=10)
        check_encoder(name, pretrained=True)
    except (DataError, ImportError) as error:
        return str(error)
    return None


def choose_text_encoder(recipe: Recipe) -> tuple[Recipe, str | None]:
    """The recipe with an encoder of texts, if it leaves that open, and a warning if no weights are to be had.

    Texts get all-MiniLM-L6-v2, whose weights are fetched unless `offline`, as those for photographs are; else
    `small-text`.
    """
    if recipe.pretrained is False or recipe.weights is not None:
        return recipe, None
    missing = _missing_weights(_TEXTS, data_home().as_posix(), offline())
    if missing is None:
        return dataclasses.replace(recipe, encoder=_TEXTS), None
    return dataclasses.replace(recipe, encoder=SMALL_TEXT_ENCODER, pretrained=False), (
        f"{SMALL_TEXT_ENCODER} is trained from scratch, because the pretrained encoder {_TEXTS} is not to be "
        f"had: {missing}. It learns words from these texts alone"
    )


def chosen_input(recipe: Recipe, look: ImageLook) -> ImageInput:
    """The images that the encoder of a recipe reads if it is left open, for `choose` of `open_source`."""
    return choose_encoder(recipe, look).images


def with_encoder(recipe: Recipe, source: Source) -> Recipe:
    """The recipe with an encoder: its own, or if it leaves that open, the one for these images.

    Texts, and images that are in memory or whose size is given, are left to `resolve_modality`.
    """
    if recipe.encoder != AUTO_ENCODER or source.modalities[0] != "image" or source.look is None:
        return recipe
    choice = choose_encoder(recipe, source.look)
    pretrained = choice.pretrained or (recipe.weights is not None and usually_pretrained(choice.encoder))
    return dataclasses.replace(
        recipe,
        encoder=choice.encoder,
        pretrained=pretrained,
        image_size=source.image_shape[1],
        channels=1 if source.image_shape[0] == 1 else 3,
    )
