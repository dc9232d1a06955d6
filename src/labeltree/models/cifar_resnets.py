"""The encoders of Barz & Denzler 2019 for images of 32 pixels: Plain-11, ResNet-110w and PyramidNet-272-200.

The latter two have shortcuts without weights, as the papers on CIFAR do.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional as F

from labeltree.models.encoder import Encoder
from labeltree.models.encoder_registry import register_encoder
from labeltree.models.small_image_encoders import StagedEncoder

__all__ = ["PaddedShortcut", "cifar_resnet", "plain_11", "pyramidnet", "pyramidnet_272_200", "resnet_110w"]

_SMALLEST = 8  # pixels; the smallest size that Plain-11 can halve three times
_START = 16  # channels of PyramidNet's first layer
_EXPANSION = 4


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
        ValueError: The images have fewer than 8 pixels, too few for three poolings.
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
    # The bias has an effect here, as ReLU comes between it and the normalisation.
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, kernel, padding=kernel // 2),
        nn.ReLU(inplace=True),
        nn.BatchNorm2d(out_channels),
    )


class PaddedShortcut(nn.Module):
    """A shortcut without weights: mean pooling if the stride is above 1, zeros for additional channels.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output, at least `in_channels`.
        stride: Stride of the block that the shortcut bypasses.
        centred: Add half of the zeros before the channels and half after; otherwise all after.
    """

    def __init__(self, in_channels: int, out_channels: int, stride: int, *, centred: bool) -> None:
        super().__init__()
        new = out_channels - in_channels
        self.stride = stride
        self.before = new // 2 if centred else 0
        self.behind = new - self.before

    def forward(self, maps: Tensor) -> Tensor:
        """Map (b, in_channels, h, w) to (b, out_channels, ⌈h/stride⌉, ⌈w/stride⌉)."""
        if self.stride > 1:
            maps = F.avg_pool2d(maps, self.stride, ceil_mode=True)
        if self.before or self.behind:
            maps = F.pad(maps, (0, 0, 0, 0, self.before, self.behind))
        return maps


class _Block(nn.Module):
    """Two 3×3 convolutions beside a shortcut (He et al. 2016, Section 4.2)."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
        )
        self.shortcut = PaddedShortcut(in_channels, out_channels, stride, centred=True)

    def forward(self, maps: Tensor) -> Tensor:
        return F.relu(self.residual(maps) + self.shortcut(maps), inplace=True)


def cifar_resnet(name: str, depth: int, widths: Sequence[int], channels: int = 3) -> Encoder:
    """The residual network of He et al. 2016 for CIFAR: 6n + 2 layers in three stages of n blocks.

    Args:
        name: Name of the encoder.
        depth: 6n + 2, the last layer (the classifier or embedding on top) counted but not part of it.
        widths: Channels of the three stages; 16, 32 and 64 in that paper.
        channels: Channels of the images.

    Raises:
        ValueError: No n gives this depth.

    Example:
        >>> encoder = cifar_resnet("resnet-20", 20, (16, 32, 64))
        >>> round(sum(p.numel() for p in encoder.parameters()) / 1e6, 2)  # 0.27 in the paper
        0.27
    """
    blocks, rest = divmod(depth - 2, 6)
    if rest or blocks < 1:
        raise ValueError(f"depth is {depth}; expected 6n + 2, such as 20, 56 or 110")
    stem = nn.Sequential(
        nn.Conv2d(channels, widths[0], 3, padding=1, bias=False),
        nn.BatchNorm2d(widths[0]),
        nn.ReLU(inplace=True),
    )
    stages: list[nn.Module] = [stem]
    before = widths[0]
    for number, width in enumerate(widths):
        first = _Block(before, width, stride=1 if number == 0 else 2)
        stages.append(nn.Sequential(first, *(_Block(width, width, 1) for _ in range(blocks - 1))))
        before = width
    encoder = StagedEncoder(name, stages, before)
    _start_residual(encoder)
    return encoder


def _start_residual(encoder: nn.Module) -> None:
    """Initial weights of He et al. 2015 for every convolution."""
    for module in encoder.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


@register_encoder(
    "resnet-110w", summary="ResNet-110 with 32, 64 and 128 channels, 6.9 M parameters (Barz & Denzler 2019)"
)
def resnet_110w(channels: int, image_size: int) -> Encoder:
    """ResNet-110 with twice the channels, so that features are wider than the 100 classes of CIFAR-100."""
    return cifar_resnet("resnet-110w", 110, (32, 64, 128), channels)


class _Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions beside a shortcut, normalised before and after each (Han et al. 2017).

    There are ReLUs only between the convolutions: none before the first, none after the last.
    """

    def __init__(self, in_channels: int, width: int, stride: int) -> None:
        super().__init__()
        out_channels = _EXPANSION * width
        self.residual = nn.Sequential(
            nn.BatchNorm2d(in_channels),
            nn.Conv2d(in_channels, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, out_channels, 1, bias=False),
            nn.BatchNorm2d(out_channels),
        )
        self.shortcut = PaddedShortcut(in_channels, out_channels, stride, centred=False)

    def forward(self, maps: Tensor) -> Tensor:
        result: Tensor = self.residual(maps) + self.shortcut(maps)
        return result


def pyramidnet(name: str, depth: int, alpha: int, channels: int = 3) -> Encoder:
    """The additive PyramidNet with bottlenecks of Han et al. 2017 (Eq. 2): 9n + 2 layers.

    The k-th of 3n blocks has the width 16 + k·α/(3n), rounded, and four times as many channels out.

    Args:
        name: Name of the encoder.
        depth: 9n + 2, the last layer (the classifier or embedding on top) counted but not part of it.
        alpha: Width of the last block minus the first layer's 16 channels.
        channels: Channels of the images.

    Raises:
        ValueError: No n gives this depth.

    Example:
        >>> pyramidnet("pyramidnet-29-48", 29, 48).feature_dim  # (16 + 48) · 4
        256
    """
    blocks, rest = divmod(depth - 2, 9)
    if rest or blocks < 1:
        raise ValueError(f"depth is {depth}; expected 9n + 2, such as 164, 200 or 272")
    stem = nn.Sequential(nn.Conv2d(channels, _START, 3, padding=1, bias=False), nn.BatchNorm2d(_START))
    stages = [stem]
    before = _START
    for stage in range(3):
        parts: list[nn.Module] = []
        for block in range(blocks):
            width = round(_START + (stage * blocks + block + 1) * alpha / (3 * blocks))
            parts.append(_Bottleneck(before, width, stride=2 if stage and not block else 1))
            before = _EXPANSION * width
        stages.append(nn.Sequential(*parts))
    stages[-1].extend([nn.BatchNorm2d(before), nn.ReLU(inplace=True)])
    encoder = StagedEncoder(name, stages, before)
    _start_residual(encoder)
    return encoder


@register_encoder(
    "pyramidnet-272-200", summary="PyramidNet of 272 layers, α = 200, 26 M parameters (Han et al. 2017)"
)
def pyramidnet_272_200(channels: int, image_size: int) -> Encoder:
    """The deepest network for CIFAR of Han et al. 2017; needs an accelerator."""
    return pyramidnet("pyramidnet-272-200", 272, 200, channels)
