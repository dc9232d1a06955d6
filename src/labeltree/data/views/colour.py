"""Colour jitter as one affine map of the channels per sample.

Brightness scales a pixel, contrast draws it to the image's mean grey, saturation scales its chroma (its
difference from grey) and hue turns the chroma in the YIQ plane; grayscale is saturation 0. Chroma
operations keep grey values, so until values are clipped all four commute and are together ``x' = A x + b``:
no order has to be drawn, and values are clipped once, at the end. (The usual implementations clip after
each step and turn hue in HSV.)
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["JitterStrength", "jitter", "mean_grey", "random_factors"]

LUMA = (0.299, 0.587, 0.114)
# The I and Q axes of YIQ: together with LUMA an invertible map of RGB.
_YIQ = ((0.299, 0.587, 0.114), (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))


class JitterStrength(NamedTuple):
    """Largest relative changes, and the largest turn of hue (1 = the full circle)."""

    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.1


class Factors(NamedTuple):
    """What is done to each sample: all ``(n,)``; 1, 1, 1, 0 changes nothing."""

    brightness: Tensor
    contrast: Tensor
    saturation: Tensor
    turn: Tensor


def random_factors(
    numbers: Tensor, strength: JitterStrength, jitter_share: float, gray_share: float
) -> Factors:
    """Factors from six uniform numbers per sample: four amounts, whether to jitter, whether to gray."""
    amount = 2 * numbers[:, :4] - 1
    jittered = numbers[:, 4] < jitter_share
    one = torch.ones_like(amount[:, 0])

    def scaled(column: int, largest: float) -> Tensor:
        low = max(0.0, 1 - largest)
        factor = low + (1 + largest - low) * (amount[:, column] + 1) / 2
        return torch.where(jittered, factor, one)

    saturation = torch.where(
        numbers[:, 5] < gray_share, torch.zeros_like(one), scaled(2, strength.saturation)
    )
    turn = torch.where(jittered, amount[:, 3] * strength.hue, torch.zeros_like(one))
    return Factors(scaled(0, strength.brightness), scaled(1, strength.contrast), saturation, turn)


@functools.cache
def _yiq() -> tuple[Tensor, Tensor]:
    """To YIQ and back, float64."""
    to_yiq = torch.tensor(_YIQ, dtype=torch.float64)
    return to_yiq, torch.linalg.inv(to_yiq)


def _chroma_map(saturation: Tensor, turn: Tensor) -> Tensor:
    """``(n, 3, 3)``: keep Y, scale and turn (I, Q)."""
    to_yiq, from_yiq = (matrix.to(saturation) for matrix in _yiq())
    cosine = saturation * torch.cos(2 * math.pi * turn)
    sine = saturation * torch.sin(2 * math.pi * turn)
    zero, one = torch.zeros_like(cosine), torch.ones_like(cosine)
    inner = torch.stack((one, zero, zero, zero, cosine, -sine, zero, sine, cosine), 1).view(-1, 3, 3)
    mapped: Tensor = from_yiq @ inner @ to_yiq
    return mapped


def mean_grey(images: Tensor) -> Tensor:
    """Mean luma of each image ``(n,)``; the plain mean where channels are no colours."""
    if images.shape[1] != 3:
        return images.mean((1, 2, 3))
    luma = torch.tensor(LUMA, dtype=images.dtype, device=images.device)
    return (images.mean((2, 3)) * luma).sum(1)


def jitter(images: Tensor, factors: Factors) -> Tensor:
    """Apply the factors to images ``(n, c, h, w)`` in [0, 1]; the result is clipped."""
    n, c, h, w = images.shape
    scale = factors.brightness * factors.contrast
    offset = factors.brightness * (1 - factors.contrast) * mean_grey(images)
    if c != 3:  # colour has no meaning; brightness and contrast still have
        return (images * scale[:, None, None, None]).add_(offset[:, None, None, None]).clamp_(0, 1)
    matrix = _chroma_map(factors.saturation, factors.turn) * scale[:, None, None]
    changed = torch.bmm(matrix, images.reshape(n, c, h * w)).add_(offset[:, None, None])
    return changed.view(n, c, h, w).clamp_(0, 1)
