"""An encoder: images, texts or vectors in, features out, in stages that a policy can freeze."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, Self

from torch import Tensor, nn

__all__ = ["BATCH_NORMS", "LORA", "AdaptedEncoder", "Encoder", "Modality", "set_trainable"]

Modality = Literal["both", "image", "text", "vector"]
LORA = "lora"
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


class Encoder(nn.Module):
    """An image encoder: `forward` maps images (b, c, h, w) to features (b, feature_dim).

    Subclasses implement `forward` and `stages`. Frozen stages (see `set_trainable`) stay in evaluation mode,
    also after `.train()`: their batch statistics are not updated, and dropout is off.

    Args:
        name: The name under which `build_encoder` builds it.
        feature_dim: Length of a feature vector.

    Attributes:
        modality: Input of `forward`: "image", "text" (see `TextEncoder`), "both" (see `PairedEncoder`) or
            "vector" (see `VectorEncoder`).
        mean: Per channel, of pixels in [0, 1]: published weights expect images as `(pixel - mean) / std`.
            Encoders with random weights have it, too, for weights loaded later. None if there are no such
            weights, or they do not specify it.
        std: Standard deviation per channel, likewise.
    """

    modality: Modality = "image"
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __init__(self, name: str, feature_dim: int) -> None:
        super().__init__()
        self.name = name
        self.feature_dim = feature_dim
        self._policy = "all"

    @property
    def stages(self) -> list[nn.Module]:
        """The parts of the encoder from input to output, which the policy "last:K" counts."""
        raise NotImplementedError

    @property
    def without_adapter(self) -> Encoder:
        """The encoder itself, or the encoder below an adapter."""
        return self

    def adapt(self, features: Tensor) -> Tensor:
        """Apply the adapter, if any, to features of the encoder: features (b, feature_dim)."""
        return features

    @property
    def trainable(self) -> str:
        """The policy in force: "all", "last:K", "head", or "lora" (see `add_lora`)."""
        return self._policy

    def forward(self, images: Tensor) -> Tensor:
        """Features (b, feature_dim) of images (b, c, h, w)."""
        raise NotImplementedError

    def save_config(self, folder: Path) -> None:
        """Write what `build_encoder(name, config=folder)` needs to build this encoder anew, but no weights.

        Encoders that are built by their name alone write nothing.

        Args:
            folder: An existing, empty folder.
        """

    def train(self, mode: bool = True) -> Self:
        """Set training mode on the parts that are trained, evaluation mode on the frozen ones."""
        if self._policy == "all":
            return super().train(mode)
        if self._policy == LORA:  # every layer takes part in training, but batch statistics stay
            super().train(mode)
            for module in self.modules():
                if isinstance(module, BATCH_NORMS):
                    module.eval()
            return self
        super().train(False)
        for stage in self._trained_stages():
            stage.train(mode)
        self.training = mode
        return self

    def _trained_stages(self) -> Iterable[nn.Module]:
        count = _last_stages(self._policy, len(self.stages))
        return self.stages[len(self.stages) - count :]


def set_trainable(encoder: Encoder, policy: str) -> None:
    """Choose which parameters of `encoder` are trained; batch statistics of the others are frozen with them.

    Args:
        encoder: Changed in place. The choice is not part of its state dict.
        policy: "all", "last:K" (the K stages nearest the output) or "head" (nothing of the encoder, only the
            layers on top of it).

    Raises:
        ValueError: The policy is unknown, or K exceeds the number of stages. ("lora" is set by `add_lora`.)
    """
    stages = encoder.stages
    count = _last_stages(policy, len(stages))
    encoder.requires_grad_(policy == "all")
    for stage in stages[len(stages) - count :]:
        stage.requires_grad_(True)
    encoder._policy = policy
    encoder.train(encoder.training)


def _last_stages(policy: str, num_stages: int) -> int:
    """How many stages, counted from the output, `policy` trains."""
    if policy == "all":
        return num_stages
    if policy == "head":
        return 0
    if policy == LORA:
        raise ValueError("trainable 'lora' needs its layers: call add_lora(encoder) instead of set_trainable")
    kind, _, number = str(policy).partition(":")
    if kind != "last" or not number.isdecimal() or int(number) < 1:
        raise ValueError(f"trainable is {policy!r}; expected 'all', 'last:K' with K ≥ 1, 'head' or 'lora'")
    if int(number) > num_stages:
        raise ValueError(
            f"trainable is {policy!r}, but the encoder has {num_stages} stages; use 'all' for all of it"
        )
    return int(number)


class AdaptedEncoder(Encoder):
    """An encoder followed by an adapter: a linear layer and a ReLU, which are always trained.

    Heads and classifiers read the adapter's output, so that losses train a shared representation although the
    encoder itself is frozen.

    Args:
        base: The encoder; freeze it with `set_trainable` before.
        width: Width of the adapter, and of the features.
    """

    def __init__(self, base: Encoder, width: int) -> None:
        super().__init__(base.name, width)
        self.base = base
        self.adapter = nn.Sequential(nn.Linear(base.feature_dim, width), nn.ReLU())
        self.modality = base.modality

    @property
    def stages(self) -> list[nn.Module]:
        """The stages of the base, then the adapter."""
        return [*self.base.stages, self.adapter]

    @property
    def without_adapter(self) -> Encoder:
        """The encoder below the adapter."""
        return self.base

    def save_config(self, folder: Path) -> None:
        """What the base writes; see `Encoder.save_config`."""
        self.base.save_config(folder)

    def adapt(self, features: Tensor) -> Tensor:
        """Features (b, width) from features of the base."""
        adapted: Tensor = self.adapter(features)
        return adapted

    def forward(self, samples: Tensor) -> Tensor:
        """Features (b, width) of samples for the base."""
        return self.adapt(self.base(samples))
