"""EfficientNet-Lite0, with ImageNet weights that come as a package."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labeltree.cache import need_weights
from labeltree.models.encoder import Encoder
from labeltree.models.encoder_registry import register_encoder
from labeltree.models.timm_and_torchvision import wrap_timm
from labeltree.models.weights import read_weights
from labeltree.preprocessing import ImageInput, Preprocessing

__all__ = ["efficientnet_lite0"]

NAME = "efficientnet-lite0"
WEIGHTS = "efficientnet-lite0-57934424.pth"
# The weights were trained in TensorFlow, which pads strided convolutions on one side and adds 1e-3 to the
# variance of a batch normalisation. This one of timm's two architectures does the same.
_ARCHITECTURE = "tf_efficientnet_lite0"
_CLASSIFIER = 2
# Bytes become (pixel - 127) / 128 for these weights.
_MEAN, _STD = 127 / 255, 128 / 255


@register_encoder(
    NAME,
    summary="EfficientNet-Lite0, 3.4 M parameters; ImageNet weights come as a package",
    pretrained=lambda channels, image_size: _pretrained(channels, image_size),
    check=lambda pretrained: need_weights(NAME) if pretrained else None,
    images=ImageInput(3, 224, Preprocessing(crop=0.875)),
)
def efficientnet_lite0(channels: int, image_size: int) -> Encoder:
    """EfficientNet (Tan & Le 2019) without squeeze-and-excitation and with ReLU6, from the library timm."""
    encoder = wrap_timm(_ARCHITECTURE, channels, image_size, pretrained=False)
    encoder.name = NAME
    encoder.mean, encoder.std = (_MEAN,) * channels, (_STD,) * channels
    return encoder


def _pretrained(channels: int, image_size: int) -> Encoder:
    encoder = efficientnet_lite0(channels, image_size)
    load_by_position(encoder, read_weights(need_weights(NAME) / WEIGHTS))
    return encoder


def load_by_position(encoder: nn.Module, weights: dict[str, Tensor]) -> None:
    """Load tensors with other names but in the encoder's order; the classifier at the end is ignored.

    If the images are not in colour, the first convolution is summed over colours and divided evenly among
    channels.

    Raises:
        ValueError: a tensor is missing or has another shape.
    """
    expected = encoder.state_dict()
    given = list(weights.values())[:-_CLASSIFIER]
    if len(given) != len(expected):
        raise ValueError(f"weights of {NAME}: {len(given)} tensors where {len(expected)} were expected")
    channels = next(iter(expected.values())).shape[1]
    if given[0].dim() == 4 and given[0].shape[1] != channels:
        given[0] = given[0].sum(1, keepdim=True).expand(-1, channels, -1, -1) / channels
    for (key, wanted), (name, tensor) in zip(
        expected.items(), zip(weights, given, strict=False), strict=True
    ):
        if tensor.shape != wanted.shape:
            raise ValueError(
                f"weights of {NAME}: {name} is {tuple(tensor.shape)} where {key} is {tuple(wanted.shape)}"
            )
    with torch.no_grad():
        encoder.load_state_dict(dict(zip(expected, given, strict=True)))
