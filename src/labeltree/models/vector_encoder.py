"""The encoder of samples that are vectors: each number standardised, as the training samples have it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor, nn

from labeltree.models.encoder import Encoder, Modality
from labeltree.models.encoder_config import read_config, write_config
from labeltree.models.encoder_registry import register_encoder

__all__ = ["VectorEncoder"]

_LEAST = 1e-6  # spread, relative to the mean, below which a column is constant but for rounding


class VectorEncoder(Encoder):
    """Vectors standardised by column, `(x − mean) / standard deviation`; nothing in it is trained.

    What learns is on top of it: the head and, with `adapter`, a layer below all heads.

    Args:
        width: Length of a vector.

    Attributes:
        centre: Mean of each column `(width,)` float32 over the training samples.
        scale: 1 / standard deviation of each column; 0 for a constant one, which is thereby left out.

    Example:
        >>> import torch
        >>> from labeltree.models import VectorEncoder
        >>> encoder = VectorEncoder(2)
        >>> encoder.fit([torch.tensor([[1.0, 5.0], [3.0, 5.0]])])
        [1]
        >>> encoder(torch.tensor([[1.0, 6.0]])).tolist()
        [[-1.0, 0.0]]
    """

    modality: Modality = "vector"
    centre: Tensor
    scale: Tensor

    def __init__(self, width: int) -> None:
        super().__init__("vectors", width)
        self.width = width
        self.register_buffer("centre", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))

    @property
    def stages(self) -> list[nn.Module]:
        """None: nothing is trained."""
        return []

    def fit(self, parts: Iterable[Tensor]) -> list[int]:
        """Learn mean and spread of each column from vectors, in parts `(n, width)`.

        The sums are merged part by part (Chan, Golub and LeVeque 1983) in double precision.

        Returns:
            The columns that are constant.
        """
        count, mean = 0, torch.zeros(self.width, dtype=torch.float64)
        squares = torch.zeros_like(mean)
        for part in parts:
            values = part.double()
            own = values.mean(0)
            apart, total = own - mean, count + len(values)
            squares += (values - own).square().sum(0) + apart.square() * (count * len(values) / total)
            mean += apart * (len(values) / total)
            count = total
        spread = (squares / max(count, 1)).sqrt()
        constant = spread <= _LEAST * mean.abs()
        self.centre.copy_(mean)
        self.scale.copy_(torch.where(constant, 0.0, 1 / spread))
        return constant.nonzero()[:, 0].tolist()

    def leave_as_they_are(self) -> None:
        """Give vectors back as they are."""
        self.centre.zero_()
        self.scale.fill_(1.0)

    @property
    def is_identity(self) -> bool:
        """Whether vectors are given back as they are."""
        return not bool(self.centre.any()) and bool((self.scale == 1).all())

    def forward(self, vectors: Tensor) -> Tensor:
        """Features (b, width) of vectors (b, width)."""
        return (vectors - self.centre) * self.scale

    def save_config(self, folder: Path) -> None:
        """Write the width."""
        write_config(folder, {"width": self.width})


def _rebuild(folder: Path, channels: int, image_size: int) -> Encoder:
    return VectorEncoder(read_config(folder, {"width": int})["width"])


@register_encoder(
    "vectors",
    summary="vectors of another model or measurement, standardised by column; a head is trained on them",
    modality="vector",
    from_config=_rebuild,
)
def vectors(channels: int, image_size: int) -> Encoder:
    """The encoder of vectors of this length."""
    return VectorEncoder(image_size)
