"""A trained layer on top of an encoder, which may itself be frozen."""

from __future__ import annotations

from torch import Tensor, nn

from labeltree.models.encoder import Encoder

__all__ = ["AdaptedEncoder"]


class AdaptedEncoder(Encoder):
    """An encoder followed by an adapter: a linear layer and a ReLU, which are always trained.

    Heads and classifiers read the adapter's output, so that losses share something to shape although the
    encoder itself stays as it is.

    Args:
        base: the encoder; freeze it with `set_trainable` before.
        width: of the adapter, and of the features.
    """

    def __init__(self, base: Encoder, width: int) -> None:
        super().__init__(base.name, width)
        self.base = base
        self.adapter = nn.Sequential(nn.Linear(base.feature_dim, width), nn.ReLU())
        self.modality = base.modality

    @property
    def stages(self) -> list[nn.Module]:
        """Those of the base, then the adapter."""
        return [*self.base.stages, self.adapter]

    @property
    def without_adapter(self) -> Encoder:
        """The encoder below."""
        return self.base

    def adapt(self, features: Tensor) -> Tensor:
        """Features (b, width) from those of the base."""
        adapted: Tensor = self.adapter(features)
        return adapted

    def forward(self, samples: Tensor) -> Tensor:
        """Features (b, width) of what the base reads."""
        return self.adapt(self.base(samples))
