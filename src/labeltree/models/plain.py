"""Plain-11: a wide network without shortcuts for images of 32 pixels."""

from __future__ import annotations

from itertools import pairwise

from torch import nn

from labeltree.models.encoder import Encoder
from labeltree.models.registry import register_encoder
from labeltree.models.small import StagedEncoder

__all__ = ["plain_11"]

_SMALLEST = 8


@register_encoder(
    "plain-11", summary="ten plain layers of 64 to 512 channels, 3.3 M parameters (Barz & Denzler 2018)"
)
def plain_11(channels: int, image_size: int) -> Encoder:
    """Plain-11 of Barz & Denzler 2018 ("Deep learning is not a matter of depth but of good training").

    Convolutions of 3×3 with 64, 64 | 128, 128, 128 | 256, 256, 256 | 512 channels, each followed by ReLU and
    then batch normalisation; mean pooling of 2×2 between the groups, the mean over all positions, and a
    layer of 512 units. The eleventh layer is the classifier or the embedding on top, which is not part of
    an encoder.

    Raises:
        ValueError: the images have fewer than 8 pixels, too few for three poolings.
    """
    if image_size < _SMALLEST:
        raise ValueError(f"image_size is {image_size}; plain-11 halves it three times: expected 8 or more")
    stages = [
        _group(channels, 64, 64),
        nn.Sequential(nn.AvgPool2d(2), _group(64, 128, 128, 128)),
        nn.Sequential(nn.AvgPool2d(2), _group(128, 256, 256, 256)),
        nn.Sequential(nn.AvgPool2d(2), _group(256, 512)),
        nn.Sequential(nn.AdaptiveAvgPool2d(1), _layer(512, 512, kernel=1)),
    ]
    for module in (layer for stage in stages for layer in stage.modules()):
        if isinstance(module, nn.Conv2d):
            nn.init.xavier_uniform_(module.weight)
            assert module.bias is not None
            nn.init.zeros_(module.bias)
    return StagedEncoder("plain-11", stages, 512)


def _group(*widths: int) -> nn.Sequential:
    return nn.Sequential(*(_layer(a, b, kernel=3) for a, b in pairwise(widths)))


def _layer(in_channels: int, out_channels: int, kernel: int) -> nn.Sequential:
    # The bias is not idle here: ReLU stands between it and the normalisation.
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, kernel, padding=kernel // 2),
        nn.ReLU(inplace=True),
        nn.BatchNorm2d(out_channels),
    )
