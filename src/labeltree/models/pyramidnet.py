"""PyramidNet: a residual network that grows wider with every block."""

from __future__ import annotations

from torch import Tensor, nn

from labeltree.models.cifar_resnet import PaddedShortcut, start_residual
from labeltree.models.encoder import Encoder
from labeltree.models.registry import register_encoder
from labeltree.models.small import StagedEncoder

__all__ = ["pyramidnet", "pyramidnet_272_200"]

_START = 16
_EXPANSION = 4


class _Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions beside a shortcut, normalised before and after each (Han et al. 2017).

    There is a ReLU between the convolutions alone: none before the first, none after the last.
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
        name: of the encoder.
        depth: 9n + 2, the last layer (the classifier or embedding on top) counted but not part of it.
        alpha: how much wider the last block is than the first layer's 16 channels.
        channels: of the images.

    Raises:
        ValueError: no n gives this depth.

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
    start_residual(encoder)
    return encoder


@register_encoder(
    "pyramidnet-272-200", summary="PyramidNet of 272 layers, α = 200, 26 M parameters (Han et al. 2017)"
)
def pyramidnet_272_200(channels: int, image_size: int) -> Encoder:
    """The deepest of that paper's networks for CIFAR; wants an accelerator."""
    return pyramidnet("pyramidnet-272-200", 272, 200, channels)
