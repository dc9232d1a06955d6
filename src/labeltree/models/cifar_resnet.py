"""Residual networks for images of 32 pixels, as the papers on CIFAR have them: shortcuts without weights."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional as F

from labeltree.models.encoder import Encoder
from labeltree.models.registry import register_encoder
from labeltree.models.small import StagedEncoder

__all__ = ["PaddedShortcut", "cifar_resnet", "resnet_110w", "start_residual"]


class PaddedShortcut(nn.Module):
    """A shortcut without weights: mean pooling where positions get fewer, zeros for channels that are new.

    Args:
        in_channels: of the input.
        out_channels: of the output, at least as many.
        stride: of the block that the shortcut goes around.
        centred: half of the zeros before the channels and half behind; otherwise all behind.
    """

    def __init__(self, in_channels: int, out_channels: int, stride: int, *, centred: bool) -> None:
        super().__init__()
        new = out_channels - in_channels
        self.stride = stride
        self.before = new // 2 if centred else 0
        self.behind = new - self.before

    def forward(self, maps: Tensor) -> Tensor:
        """Maps (b, out_channels, ⌈h/stride⌉, ⌈w/stride⌉) of maps (b, in_channels, h, w)."""
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
        name: of the encoder.
        depth: 6n + 2, the last layer (the classifier or embedding on top) counted but not part of it.
        widths: channels of the three stages; 16, 32 and 64 in that paper.
        channels: of the images.

    Raises:
        ValueError: no n gives this depth.

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
    start_residual(encoder)
    return encoder


def start_residual(encoder: nn.Module) -> None:
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
