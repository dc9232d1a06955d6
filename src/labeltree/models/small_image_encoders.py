"""Encoders for images of 28 to 64 pixels: small ones that train without an accelerator, ResNet-18 and -50."""

from collections.abc import Sequence

from torch import Tensor, nn

from labeltree.models.encoder import Encoder
from labeltree.models.encoder_registry import register_encoder

__all__ = ["BasicBlock", "Bottleneck", "StagedEncoder"]


class StagedEncoder(Encoder):
    """Stages one after the other, then the mean over all positions.

    Args:
        name: See `Encoder`.
        stages: Modules from (b, c, h, w) to (b, feature_dim, h', w').
        feature_dim: Channels of the last stage.
    """

    def __init__(self, name: str, stages: Sequence[nn.Module], feature_dim: int) -> None:
        super().__init__(name, feature_dim)
        self.body = nn.Sequential(*stages)

    @property
    def stages(self) -> list[nn.Module]:
        """The stages in order."""
        return list(self.body)

    def forward(self, images: Tensor) -> Tensor:
        """Features (b, feature_dim) of images (b, c, h, w)."""
        maps: Tensor = self.body(images)
        return maps.mean(dim=(2, 3))


class BasicBlock(nn.Module):
    """Two 3×3 convolutions beside a shortcut (He et al. 2016).

    The weight of the last norm starts at 0: a fresh block passes its input on.
    """

    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        super().__init__()
        self.first = _convolution(in_channels, out_channels, 3, stride)
        self.second = nn.Sequential(
            nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False), nn.BatchNorm2d(out_channels)
        )
        self.shortcut = _shortcut(in_channels, out_channels, stride)
        self.activation = nn.ReLU(inplace=True)
        nn.init.zeros_(self.second[1].weight)  # type: ignore[arg-type]

    def forward(self, maps: Tensor) -> Tensor:
        """Maps (b, out_channels, h/stride, w/stride) of maps (b, in_channels, h, w)."""
        result: Tensor = self.activation(self.second(self.first(maps)) + self.shortcut(maps))
        return result


class Bottleneck(nn.Module):
    """Convolutions 1×1, 3×3 and 1×1 beside a shortcut; the last has four times the width (He et al. 2016).

    The weight of the last norm starts at 0: a fresh block passes its input on.
    """

    def __init__(self, in_channels: int, width: int, stride: int = 1) -> None:
        super().__init__()
        out_channels = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(in_channels, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, out_channels, 1, bias=False),
            nn.BatchNorm2d(out_channels),
        )
        self.shortcut = _shortcut(in_channels, out_channels, stride)
        self.activation = nn.ReLU(inplace=True)
        nn.init.zeros_(self.body[-1].weight)  # type: ignore[arg-type]

    def forward(self, maps: Tensor) -> Tensor:
        """Maps (b, 4·width, h/stride, w/stride) of maps (b, in_channels, h, w)."""
        result: Tensor = self.activation(self.body(maps) + self.shortcut(maps))
        return result


def _shortcut(in_channels: int, out_channels: int, stride: int) -> nn.Module:
    if stride == 1 and in_channels == out_channels:
        return nn.Identity()
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, 1, stride, bias=False), nn.BatchNorm2d(out_channels)
    )


def _convolution(in_channels: int, out_channels: int, kernel: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, kernel, stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(inplace=True),
    )


def _residual_stage(in_channels: int, out_channels: int, blocks: int, stride: int) -> nn.Sequential:
    rest = [BasicBlock(out_channels, out_channels) for _ in range(blocks - 1)]
    return nn.Sequential(BasicBlock(in_channels, out_channels, stride), *rest)


@register_encoder("small-conv", summary="four convolutions, 0.1 M parameters: the quick one for a CPU")
def small_conv(channels: int, image_size: int) -> Encoder:
    """Three strided convolutions and one more; the first layers are narrow, as they take the most time."""
    stages = [
        _convolution(channels, 24, 5, 2),
        _convolution(24, 48, 3, 2),
        _convolution(48, 96, 3, 2),
        _convolution(96, 96, 3, 1),
    ]
    return StagedEncoder("small-conv", stages, 96)


@register_encoder("small-resnet", summary="seven residual blocks, 1 M parameters: more accurate, slower")
def small_resnet(channels: int, image_size: int) -> Encoder:
    """Residual stages of 32, 64 and 128 channels on maps of half the image's size and below."""
    stages = [
        _convolution(channels, 32, 3, 2),
        _residual_stage(32, 32, 2, 1),
        _residual_stage(32, 64, 2, 2),
        _residual_stage(64, 128, 3, 2),
    ]
    return StagedEncoder("small-resnet", stages, 128)


@register_encoder("resnet18-small", summary="ResNet-18 with a 3×3 stem and no max-pooling, 11 M parameters")
def resnet18_small(channels: int, image_size: int) -> Encoder:
    """ResNet-18 for images of 32 pixels; needs an accelerator."""
    stages = [
        _convolution(channels, 64, 3, 1),
        _residual_stage(64, 64, 2, 1),
        _residual_stage(64, 128, 2, 2),
        _residual_stage(128, 256, 2, 2),
        _residual_stage(256, 512, 2, 2),
    ]
    return StagedEncoder("resnet18-small", stages, 512)


@register_encoder("resnet50-small", summary="ResNet-50 with a 3×3 stem and no max-pooling, 24 M parameters")
def resnet50_small(channels: int, image_size: int) -> Encoder:
    """ResNet-50 for images of 32 pixels, as SupCon and MLCL train it on CIFAR; needs an accelerator."""
    stages, in_channels = [_convolution(channels, 64, 3, 1)], 64
    for number, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        first = Bottleneck(in_channels, width, stride=1 if number == 0 else 2)
        in_channels = 4 * width
        stages.append(nn.Sequential(first, *(Bottleneck(in_channels, width) for _ in range(blocks - 1))))
    return StagedEncoder("resnet50-small", stages, in_channels)
