"""ResNet-50 for images of 32 pixels, as SupCon and MLCL train it on CIFAR."""

from torch import Tensor, nn

from labeltree.models.encoder import Encoder
from labeltree.models.registry import register_encoder
from labeltree.models.small import StagedEncoder

__all__ = ["Bottleneck"]


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
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or in_channels != out_channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, 1, stride, bias=False), nn.BatchNorm2d(out_channels)
            )
        self.activation = nn.ReLU(inplace=True)
        nn.init.zeros_(self.body[-1].weight)  # type: ignore[arg-type]

    def forward(self, maps: Tensor) -> Tensor:
        """Maps (b, 4·width, h/stride, w/stride) of maps (b, in_channels, h, w)."""
        result: Tensor = self.activation(self.body(maps) + self.shortcut(maps))
        return result


@register_encoder("resnet50-small", summary="ResNet-50 with a 3×3 stem and no max-pooling, 24 M parameters")
def resnet50_small(channels: int, image_size: int) -> Encoder:
    """ResNet-50 as it is used for images of 32 pixels; wants an accelerator."""
    stem = nn.Sequential(
        nn.Conv2d(channels, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)
    )
    stages: list[nn.Module] = [stem]
    in_channels = 64
    for number, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        first = Bottleneck(in_channels, width, stride=1 if number == 0 else 2)
        in_channels = 4 * width
        stages.append(nn.Sequential(first, *(Bottleneck(in_channels, width) for _ in range(blocks - 1))))
    return StagedEncoder("resnet50-small", stages, in_channels)
