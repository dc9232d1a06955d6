"""An encoder to which every sample is by itself, whatever else is in its batch."""

import torch
from torch import nn

from labeltree.models import Encoder, register_encoder

NAME = "test-by-itself"


class ByItself(Encoder):
    """Layer normalisation, and nothing at random."""

    def __init__(self, channels: int) -> None:
        super().__init__(NAME, 16)
        self.body = nn.Sequential(
            nn.Conv2d(channels, 16, 4, stride=4),
            nn.GELU(),
            nn.Flatten(),
            nn.LayerNorm(256),
            nn.Linear(256, 16),
        )

    @property
    def stages(self) -> list[nn.Module]:
        return [self.body]

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.body(images)
        return features


@register_encoder(NAME, summary="every sample by itself")
def by_itself(channels: int, image_size: int) -> Encoder:
    return ByItself(channels)
