"""RandAugment on batches (Cubuk et al. 2020): every sample has its own operations."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from labeltree.data import counter_rng
from labeltree.data.views import crops_and_colours

__all__ = ["OPERATIONS", "RandAugment"]

_MAGNITUDES = 30
Operation = Callable[[Tensor, Tensor], Tensor]
_Row = tuple[float, float, float]


@functools.lru_cache(maxsize=64)  # a run has ten grids: five operations, forth and back
def _grid(across: _Row, down: _Row, height: int, width: int, device: torch.device) -> Tensor:
    """`(1, height, width, 2)`: where each pixel is taken from."""
    y, x = (torch.arange(1, 2 * size, 2, device=device) / size - 1 for size in (height, width))
    return torch.stack([a * x + b * y[:, None] + t for a, b, t in (across, down)], dim=2)[None]


def _warp(images: Tensor, across: _Row, down: _Row) -> Tensor:
    """Sample all images at `x' = across · (x, y, 1)` and `y' = down · (x, y, 1)`; black outside.

    Coordinates run from -1 to 1. The images are taken for the channels of one, so that places and weights are
    computed once for all of them: less than a third of the time of a grid an image.
    """
    n, c, h, w = images.shape
    grid = _grid(across, down, h, w, images.device)
    planes = images.reshape(1, n * c, h, w)
    sampled = F.grid_sample(planes, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    return sampled.view(n, c, h, w)


def _rotate(images: Tensor, amount: Tensor) -> Tensor:
    """Up to 30 degrees."""
    angle, ratio = float(amount[0]) * math.radians(30), images.shape[2] / images.shape[3]
    cosine, sine = math.cos(angle), math.sin(angle)
    return _warp(images, (cosine, -sine * ratio, 0), (sine / ratio, cosine, 0))


def _shear_x(images: Tensor, amount: Tensor) -> Tensor:
    """Up to 0.3."""
    return _warp(images, (1, 0.3 * float(amount[0]), 0), (0, 1, 0))


def _shear_y(images: Tensor, amount: Tensor) -> Tensor:
    """Up to 0.3."""
    return _warp(images, (1, 0, 0), (0.3 * float(amount[0]), 1, 0))


def _translate_x(images: Tensor, amount: Tensor) -> Tensor:
    """Up to 45 % of the width; coordinates span 2."""
    return _warp(images, (1, 0, 0.9 * float(amount[0])), (0, 1, 0))


def _translate_y(images: Tensor, amount: Tensor) -> Tensor:
    """Up to 45 % of the height."""
    return _warp(images, (1, 0, 0), (0, 1, 0.9 * float(amount[0])))


def _factor(amount: Tensor) -> Tensor:
    return (1 + 0.9 * amount)[:, None, None, None]


def _brightness(images: Tensor, amount: Tensor) -> Tensor:
    return (images * _factor(amount)).clamp_(0, 1)


def _contrast(images: Tensor, amount: Tensor) -> Tensor:
    """Towards the mean grey, or away from it."""
    factor = _factor(amount)
    offset = (1 - factor) * crops_and_colours.mean_grey(images)[:, None, None, None]
    return (images * factor).add_(offset).clamp_(0, 1)


def _colour(images: Tensor, amount: Tensor) -> Tensor:
    one = torch.ones_like(amount)
    return crops_and_colours.jitter(
        images, crops_and_colours.Factors(one, one, 1 + 0.9 * amount, torch.zeros_like(one))
    )


def _sharpness(images: Tensor, amount: Tensor) -> Tensor:
    """Away from the mean of the neighbourhood (the centre counts five times), or towards it."""
    if min(images.shape[2:]) < 3:
        return images
    # Sums of shifted images: the result of a convolution can depend on the batch's size in its last bits.
    rows = images[:, :, :-2] + images[:, :, 1:-1] + images[:, :, 2:]
    total = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]
    inner = images[:, :, 1:-1, 1:-1]
    smooth = images.clone()
    smooth[:, :, 1:-1, 1:-1] = total.add_(inner, alpha=4).div_(13)
    return (images - smooth).mul_(_factor(amount)).add_(smooth).clamp_(0, 1)


def _solarize(images: Tensor, amount: Tensor) -> Tensor:
    """Invert what is brighter than a threshold."""
    bright = images >= (1 - amount.abs())[:, None, None, None]
    # x + (1 - 2 x) is 1 - x; a choice between the two by `torch.where` takes three times as long.
    return (1 - 2 * images).mul_(bright).add_(images)


def _posterize(images: Tensor, amount: Tensor) -> Tensor:
    """Keep 8 to 4 bits."""
    step = torch.exp2((4 * amount.abs()).round())[:, None, None, None]
    return (images * 255).round_().div_(step).floor_().mul_(step).div_(255)


def _autocontrast(images: Tensor, amount: Tensor) -> Tensor:
    """Stretch each channel to the full range."""
    low = images.amin((2, 3), keepdim=True)
    span = images.amax((2, 3), keepdim=True) - low
    varies = span > 0
    return (images - low.mul_(varies)).div_(torch.where(varies, span.clamp_(min=1 / 255), 1.0)).clamp_(0, 1)


def _equalize(images: Tensor, amount: Tensor) -> Tensor:
    """Map each channel's values to their ranks, so that all 256 occur about equally often."""
    n, c, h, w = images.shape
    values = (images * 255).round_().long().view(n * c, h * w)
    offset = torch.arange(n * c, device=images.device)[:, None] * 256
    counts = torch.bincount((values + offset).flatten(), minlength=n * c * 256).view(n * c, 256)
    largest = counts.gather(1, values.amax(1, keepdim=True))
    step = (h * w - largest) // 255
    before = counts.cumsum(1) - counts
    table = ((before + step // 2) // step.clamp(min=1)).to(images.dtype).clamp_(max=255).div_(255)
    mapped = table.gather(1, values)
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


# These get images of one amount at a time.
_MOVES = frozenset((_rotate, _shear_x, _shear_y, _translate_x, _translate_y))


class RandAugment:
    """A number of operations per sample, each drawn from fourteen, all with one magnitude and a random sign.

    Args:
        operations: Number of operations per view.
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
        """Augment images `(n, c, h, w)` in [0, 1] in place, by their random streams from `first` on."""
        for turn in range(self.operations):
            numbers = counter_rng.uniform(keys, 2, first + 2 * turn)
            choice = (numbers[:, 0] * len(OPERATIONS)).long()
            amount = torch.where(numbers[:, 1] < 0.5, -1.0, 1.0) * (self.magnitude / _MAGNITUDES)
            for operation, rows in _draws(choice, numbers[:, 1] < 0.5):
                chosen = images.index_select(0, rows)  # a fraction of the time of images[rows]
                images.index_copy_(0, rows, operation(chosen, amount[rows]))
        return images


def _draws(choice: Tensor, negative: Tensor) -> Iterator[tuple[Operation, Tensor]]:
    """Every operation that some samples have drawn, with their rows; the first one changes nothing."""
    kind = 2 * choice + negative
    order = torch.argsort(kind, stable=True)
    ends = torch.bincount(kind, minlength=2 * len(OPERATIONS)).cumsum(0).tolist()
    for number, operation in enumerate(OPERATIONS[1:], 1):
        start, middle, end = ends[2 * number - 1 : 2 * number + 2]
        for part in ((start, middle), (middle, end)) if operation in _MOVES else ((start, end),):
            if part[0] < part[1]:
                yield operation, order[slice(*part)]
