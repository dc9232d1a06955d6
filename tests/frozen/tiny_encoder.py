"""An encoder of a few hundred weights, so that a frozen run is small; see `make.py`."""

import numpy as np
import torch
from torch import Tensor, nn

from labeltree.models import Encoder, register_encoder

NAME = "frozen-tiny"


class TinyEncoder(Encoder):
    """One convolution of 4 × 4 pixels, then the mean over all positions."""

    def __init__(self, channels: int) -> None:
        super().__init__(NAME, 6)
        self.body = nn.Sequential(nn.Conv2d(channels, 6, 4, 4), nn.BatchNorm2d(6), nn.ReLU())

    @property
    def stages(self) -> list[nn.Module]:
        return [self.body]

    def forward(self, images: Tensor) -> Tensor:
        maps: Tensor = self.body(images)
        return maps.mean(dim=(2, 3))


def register() -> None:
    """Make the encoder known by its name."""
    register_encoder(NAME, summary="for the frozen files")(lambda channels, image_size: TinyEncoder(channels))


def image(leaf: int, number: int) -> np.ndarray:
    """Pixels (16, 16, 3) of a sample by arithmetic alone, so that they never change."""
    row, column, channel = np.meshgrid(np.arange(16), np.arange(16), np.arange(3), indexing="ij")
    tint = np.array([[200, 60, 60], [190, 110, 50], [60, 60, 200], [50, 130, 190]])[leaf]
    wave = (row * (leaf + 2) + column * (number % 5 + 1) + channel * 7) % 32
    noise = (row * 31 + column * 17 + channel * 11 + number * 37) * 2654435761 % 61
    return (tint[channel] + wave + noise - 45).clip(0, 255).astype(np.uint8)


def pixels(count: int) -> Tensor:
    """Images ``(count, 3, 16, 16)`` uint8 that no frozen run was trained on."""
    made = np.stack([image(number % 4, 1000 + number) for number in range(count)])
    return torch.from_numpy(made).permute(0, 3, 1, 2)
