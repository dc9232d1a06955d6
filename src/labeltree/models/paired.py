"""An image encoder and a text encoder with one feature space: `small-conv+small-text`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from labeltree.models.encoder import Encoder, Modality
from labeltree.models.text_encoders.text_encoder import TextEncoder

__all__ = ["ImagesAndTexts", "PairedEncoder", "Towers", "only", "paired"]

_SIDES = ("image", "text")
_EPS = 1e-6


@dataclass(frozen=True, eq=False)
class ImagesAndTexts:
    """Images and texts of n samples; either may be missing.

    Attributes:
        images: `(n, c, h, w)`; any values where the image is missing.
        texts: Tokens `(n, 2, t)` int32 or, as a view, `(n, t)` int64, −1 behind the end of a text.
        present: `(n, 2)` bool: whether a sample has an image, and a text.
    """

    images: Tensor
    texts: Tensor
    present: Tensor

    def __len__(self) -> int:
        return len(self.present)

    def __getitem__(self, rows: Any) -> ImagesAndTexts:
        return ImagesAndTexts(self.images[rows], self.texts[rows], self.present[rows])

    def _each(self, change: Any) -> ImagesAndTexts:
        return ImagesAndTexts(change(self.images), change(self.texts), change(self.present))

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        return self.present.device

    def to(self, *args: Any, **options: Any) -> ImagesAndTexts:
        """The same on another device."""
        return self._each(lambda part: part.to(*args, **options))

    def pin_memory(self) -> ImagesAndTexts:
        """The same in pinned memory."""
        return self._each(lambda part: part.pin_memory())

    def tensor_split(self, sections: int) -> list[ImagesAndTexts]:
        """The samples in `sections` parts of nearly equal size."""
        return [self[rows] for rows in torch.arange(len(self), device=self.device).tensor_split(sections)]

    @classmethod
    def cat(cls, parts: Sequence[ImagesAndTexts]) -> ImagesAndTexts:
        """The samples of several batches; shorter texts are filled up with −1."""
        width = max(part.texts.shape[-1] for part in parts)
        texts = [nn.functional.pad(part.texts, (0, width - part.texts.shape[-1]), value=-1) for part in parts]
        return cls(
            torch.cat([part.images for part in parts]),
            torch.cat(texts),
            torch.cat([part.present for part in parts]),
        )


class Towers(Encoder):
    """An image encoder beside a text encoder: what a `PairedEncoder` is below its projections.

    `forward` maps `ImagesAndTexts` of n samples to `(n, f + g + 2)`: the features of the images, those of
    the texts (zeros where one is missing), and two columns that say which of them are there, 0 or 1.

    Args:
        name: See `Encoder`.
        image: The image encoder, f features.
        text: The text encoder, g features.
    """

    modality: Modality = "both"

    def __init__(self, name: str, image: Encoder, text: TextEncoder) -> None:
        super().__init__(name, image.feature_dim + text.feature_dim + 2)
        self.image = image
        self.text = text
        self.mean, self.std = image.mean, image.std

    @property
    def stages(self) -> list[nn.Module]:
        """The stages of both encoders, counted from their outputs: "last:K" trains K of each."""
        images, texts = self.image.stages[::-1], self.text.stages[::-1]
        pairs = [
            nn.ModuleList(part[at] for part in (images, texts) if at < len(part))
            for at in range(max(len(images), len(texts)))
        ]
        return list(pairs[::-1])

    def forward(self, samples: ImagesAndTexts) -> Tensor:  # type: ignore[override]
        """Features of both, and what is there; see the class."""
        sides = [
            _encode(encoder, part, there)
            for encoder, part, there in zip(
                (self.image, self.text),
                (samples.images, samples.texts),
                samples.present.unbind(1),
                strict=True,
            )
        ]
        return torch.cat([*sides, samples.present.to(sides[0].dtype)], dim=1)

    def save_config(self, folder: Path) -> None:
        """Write what each encoder writes, in a folder of its own."""
        for name, encoder in zip(_SIDES, (self.image, self.text), strict=True):
            (folder / name).mkdir()
            encoder.save_config(folder / name)
            if not any((folder / name).iterdir()):
                (folder / name).rmdir()


class PairedEncoder(Encoder):
    """An image encoder and a text encoder whose features are projected to one space.

    A feature of an image or of a text is its encoder's output, projected linearly (as in CLIP) and scaled to
    the length √f. The feature of a sample is the mean of those that it has, so either alone suffices.

    Args:
        towers: Both encoders.
        width: Number f of features; None = the larger of the encoders' own.
        project: Whether there are projections. Encoders of one checkpoint share a space without.
    """

    modality: Modality = "both"

    def __init__(self, towers: Towers, width: int | None = None, *, project: bool = True) -> None:
        sizes = (towers.image.feature_dim, towers.text.feature_dim)
        width = max(sizes) if width is None else width
        super().__init__(towers.name, width)
        self.base = towers
        self.projections = nn.ModuleList(
            nn.Linear(size, width, bias=False) if project else nn.Identity() for size in sizes
        )
        self.mean, self.std = towers.mean, towers.std

    @property
    def stages(self) -> list[nn.Module]:
        """The stages of both encoders; the projections, like an adapter, are always trained."""
        return self.base.stages

    @property
    def without_adapter(self) -> Encoder:
        """Both encoders without the projections."""
        return self.base

    def save_config(self, folder: Path) -> None:
        """What both encoders write; see `Towers.save_config`."""
        self.base.save_config(folder)

    def each(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The projected features of images and of texts `(n, f)`, and what is there `(n, 2)` bool.

        Args:
            features: `(n, ·)` features of `Towers`.
        """
        sizes = (self.base.image.feature_dim, self.base.text.feature_dim, 2)
        images, texts, present = features.split_with_sizes(sizes, dim=1)
        image, text = (
            _scale(project(part)) for project, part in zip(self.projections, (images, texts), strict=True)
        )
        return image, text, present > 0.5

    def text_features(self, encoded: Tensor) -> Tensor:
        """The projected features `(n, f)` of texts alone, from the text encoder's `(n, g)`."""
        return _scale(self.projections[1](encoded))

    def adapt(self, features: Tensor) -> Tensor:
        """Features `(n, f)` of samples from features of `Towers`: the mean of what each sample has."""
        images, texts, present = self.each(features)
        return self.mean_of(images, texts, present)

    @staticmethod
    def mean_of(images: Tensor, texts: Tensor, seen: Tensor) -> Tensor:
        """The mean of the features of images and texts `(n, f)` that are `seen (n, 2)`; 0 for neither."""
        shares = seen.to(images.dtype)
        shares = shares / shares.sum(1, keepdim=True).clamp(min=1)
        return images * shares[:, :1] + texts * shares[:, 1:]

    def forward(self, samples: ImagesAndTexts) -> Tensor:  # type: ignore[override]
        """Features `(n, f)` of samples, of which each has an image, a text or both."""
        return self.adapt(self.base(samples))


def paired(name: str, image: Encoder, text: Encoder, *, one_checkpoint: bool = False) -> PairedEncoder:
    """The encoder of images and texts from one for each.

    Raises:
        ValueError: They are not an image encoder and a text encoder.
    """
    if image.modality != "image" or not isinstance(text, TextEncoder):
        raise ValueError(
            f"encoder {name!r} must name an encoder of images, then one of texts, such as "
            "'small-conv+small-text'"
        )
    return PairedEncoder(Towers(name, image, text), project=not one_checkpoint)


def only(features: Tensor, modality: Modality) -> Tensor:
    """Features of `Towers` as if samples had only their image, or only their text.

    Args:
        features: `(n, ·)`, see `Towers`.
        modality: "image" or "text"; "both" changes nothing.
    """
    if modality == "both":
        return features
    hidden = features.clone()
    hidden[:, -1 if modality == "image" else -2] = 0
    return hidden


def _encode(encoder: Encoder, samples: Tensor, there: Tensor) -> Tensor:
    """Features of the samples that are there, and zeros elsewhere."""
    if bool(there.all()) and len(there):
        encoded: Tensor = encoder(samples)
        return encoded
    rows = there.nonzero()[:, 0]
    if not len(rows):
        # Distributed training waits for a gradient of every weight, zero though it is.
        nothing = torch.zeros((), device=there.device)
        for weight in encoder.parameters():
            if weight.requires_grad:
                nothing = nothing + 0.0 * weight.sum()
        zeros: Tensor = torch.zeros(len(there), encoder.feature_dim, device=there.device) + nothing
        return zeros
    features: Tensor = encoder(samples[rows])
    empty = features.new_zeros(len(there), features.shape[1])
    return empty.index_copy(0, rows, features)


def _scale(features: Tensor) -> Tensor:
    """Features of length √f, or 0 where there are none."""
    unit: Tensor = nn.functional.normalize(features, dim=1, eps=_EPS)
    scale: float = float(features.shape[1]) ** 0.5
    return unit * scale
