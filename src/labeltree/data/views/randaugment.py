"""RandAugment on batches (Cubuk et al. 2020): every sample has its own operations."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from labeltree.data.views import colour, counters

__all__ = ["OPERATIONS", "RandAugment"]

_MAGNITUDES = 30
Operation = Callable[[Tensor, Tensor], Tensor]


def _affine(images: Tensor, matrix: Tensor) -> Tensor:
    """Sample each image at ``matrix`` times its coordinates, which run from -1 to 1; black outside."""
    grid = F.affine_grid(matrix, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def _matrix(*entries: Tensor) -> Tensor:
    return torch.stack(entries, 1).view(-1, 2, 3)


def _rotate(images: Tensor, amount: Tensor) -> Tensor:
    """Up to 30 degrees."""
    angle = amount * math.radians(30)
    ratio = images.shape[2] / images.shape[3]
    cosine, sine, zero = torch.cos(angle), torch.sin(angle), torch.zeros_like(angle)
    return _affine(images, _matrix(cosine, -sine * ratio, zero, sine / ratio, cosine, zero))


def _shear_x(images: Tensor, amount: Tensor) -> Tensor:
    """Up to 0.3."""
    one, zero = torch.ones_like(amount), torch.zeros_like(amount)
    return _affine(images, _matrix(one, 0.3 * amount, zero, zero, one, zero))


def _shear_y(images: Tensor, amount: Tensor) -> Tensor:
    """Up to 0.3."""
    one, zero = torch.ones_like(amount), torch.zeros_like(amount)
    return _affine(images, _matrix(one, zero, zero, 0.3 * amount, one, zero))


def _translate_x(images: Tensor, amount: Tensor) -> Tensor:
    """Up to 45 % of the width; coordinates span 2."""
    one, zero = torch.ones_like(amount), torch.zeros_like(amount)
    return _affine(images, _matrix(one, zero, 0.9 * amount, zero, one, zero))


def _translate_y(images: Tensor, amount: Tensor) -> Tensor:
    """Up to 45 % of the height."""
    one, zero = torch.ones_like(amount), torch.zeros_like(amount)
    return _affine(images, _matrix(one, zero, zero, zero, one, 0.9 * amount))


def _enhance(images: Tensor, brightness: Tensor, contrast: Tensor, saturation: Tensor) -> Tensor:
    return colour.jitter(images, colour.Factors(brightness, contrast, saturation, torch.zeros_like(contrast)))


def _brightness(images: Tensor, amount: Tensor) -> Tensor:
    one = torch.ones_like(amount)
    return _enhance(images, 1 + 0.9 * amount, one, one)


def _contrast(images: Tensor, amount: Tensor) -> Tensor:
    one = torch.ones_like(amount)
    return _enhance(images, one, 1 + 0.9 * amount, one)


def _colour(images: Tensor, amount: Tensor) -> Tensor:
    one = torch.ones_like(amount)
    return _enhance(images, one, one, 1 + 0.9 * amount)


def _sharpness(images: Tensor, amount: Tensor) -> Tensor:
    """Away from the mean of the neighbourhood (the centre counts five times), or towards it."""
    if min(images.shape[2:]) < 3:
        return images
    # Sums of shifted images: the result of a convolution can depend on the batch's size in its last bits.
    rows = images[:, :, :-2] + images[:, :, 1:-1] + images[:, :, 2:]
    total = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]
    inner = images[:, :, 1:-1, 1:-1]
    smooth = images.clone()
    smooth[:, :, 1:-1, 1:-1] = (total + 4 * inner) / 13
    return (smooth + (1 + 0.9 * amount)[:, None, None, None] * (images - smooth)).clamp_(0, 1)


def _solarize(images: Tensor, amount: Tensor) -> Tensor:
    """Invert what is brighter than a threshold."""
    threshold = (1 - amount.abs())[:, None, None, None]
    return torch.where(images >= threshold, 1 - images, images)


def _posterize(images: Tensor, amount: Tensor) -> Tensor:
    """Keep 8 to 4 bits."""
    step = torch.exp2((4 * amount.abs()).round())[:, None, None, None]
    return ((images * 255).round() / step).floor() * step / 255


def _autocontrast(images: Tensor, amount: Tensor) -> Tensor:
    """Stretch each channel to the full range."""
    low = images.amin((2, 3), keepdim=True)
    span = images.amax((2, 3), keepdim=True) - low
    return torch.where(span > 0, (images - low) / span.clamp(min=1 / 255), images).clamp_(0, 1)


def _equalize(images: Tensor, amount: Tensor) -> Tensor:
    """Map each channel's values to their ranks, so that all 256 occur about equally often."""
    n, c, h, w = images.shape
    values = (images * 255).round().long().view(n * c, h * w)
    offset = torch.arange(n * c, device=images.device)[:, None] * 256
    counts = torch.bincount((values + offset).flatten(), minlength=n * c * 256).view(n * c, 256)
    largest = counts.gather(1, values.amax(1, keepdim=True))
    step = (h * w - largest) // 255
    before = counts.cumsum(1) - counts
    table = ((before + step // 2) // step.clamp(min=1)).clamp(max=255)
    mapped = table.gather(1, values).to(images.dtype) / 255
    return torch.where(step > 0, mapped, images.view(n * c, h * w)).view(n, c, h, w)


def _identity(images: Tensor, amount: Tensor) -> Tensor:
    return images


OPERATIONS: tuple[Operation, ...] = (
    _identity,
    _autocontrast,
    _equalize,
    _rotate,
    _solarize,
    _colour,
    _posterize,
    _contrast,
    _brightness,
    _sharpness,
    _shear_x,
    _shear_y,
    _translate_x,
    _translate_y,
)


class RandAugment:
    """A number of operations per sample, each drawn from fourteen, all with one magnitude and a random sign.

    Args:
        operations: How many operations a view goes through.
        magnitude: 0 (nothing happens, mostly) to 30.
    """

    def __init__(self, operations: int = 2, magnitude: float = 9) -> None:
        if operations < 0:
            raise ValueError(f"operations is {operations}; it must be 0 or more")
        if not 0 <= magnitude <= _MAGNITUDES:
            raise ValueError(f"magnitude is {magnitude}; it must be from 0 to {_MAGNITUDES}")
        self.operations = operations
        self.magnitude = magnitude

    def __call__(self, images: Tensor, keys: Tensor, first: int = 0) -> Tensor:
        """Augment images ``(n, c, h, w)`` in [0, 1] by the random streams of their keys from ``first`` on."""
        images = images.clone(memory_format=torch.contiguous_format)
        for turn in range(self.operations):
            numbers = counters.uniform(keys, 2, first + 2 * turn)
            choice = (numbers[:, 0] * len(OPERATIONS)).long()
            amount = torch.where(numbers[:, 1] < 0.5, -1.0, 1.0) * (self.magnitude / _MAGNITUDES)
            for number, operation in enumerate(OPERATIONS):
                chosen = (choice == number).nonzero()[:, 0]
                if number and len(chosen):
                    images[chosen] = operation(images[chosen], amount[chosen])
        return images
