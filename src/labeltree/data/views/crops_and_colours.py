"""Operations on a batch of images: crops, flips, resizing, blur, colour jitter, random erasing.

Crops, flips, resizing and blur act on rows and columns independently, so one matrix per axis and sample does
all of them at once, with antialiasing where a crop is shrunk: a view is `rows · image · columnsᵀ`. Two
batched matrix products cost a fraction of a bilinear gather on a CPU, and next to nothing on an accelerator.

Colour jitter is one affine map of the channels per sample. Brightness scales a pixel, contrast draws it to
the image's mean grey, saturation scales its chroma (its difference from grey) and hue turns the chroma in the
YIQ plane; grayscale is saturation 0. Chroma operations keep grey values, so until values are clipped all four
commute and are together `x' = A x + b`: no order has to be drawn, and values are clipped once, at the end.
(The usual implementations clip after each step and turn hue in HSV.)
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = [
    "Boxes",
    "JitterStrength",
    "axis_weights",
    "blur_weights",
    "erase",
    "jitter",
    "mean_grey",
    "random_boxes",
    "random_factors",
    "resample",
    "whole_image",
]

_LOG_CROP_RATIO = (math.log(3 / 4), math.log(4 / 3))  # of width / height
_ERASED, _LOG_ERASED_RATIO = (0.02, 1 / 3), (math.log(0.3), math.log(10 / 3))
LUMA = (0.299, 0.587, 0.114)
# The I and Q axes of YIQ: together with LUMA an invertible map of RGB.
_YIQ = ((0.299, 0.587, 0.114), (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))


class Boxes(NamedTuple):
    """Crops in pixels, each `(n,)` float32; pixel i covers the interval [i, i + 1]."""

    top: Tensor
    left: Tensor
    height: Tensor
    width: Tensor


def whole_image(count: int, height: int, width: int, device: torch.device | None = None) -> Boxes:
    """Boxes that cover the whole image."""
    zero = torch.zeros(count, device=device)
    return Boxes(zero, zero, zero + height, zero + width)


def random_boxes(
    numbers: Tensor,
    height: int,
    width: int,
    scale: tuple[float, float] = (0.2, 1.0),
) -> Boxes:
    """Random resized crops, from four uniform numbers per sample.

    The area is uniform in `scale` (a share of the image), the aspect ratio log-uniform from 3/4 to 4/3, cut
    to those at which a crop of this area fits into the image. Sampling from the cut interval takes the
    place of the usual retries.

    Args:
        numbers: Uniform numbers `(n, 4)`: area, aspect ratio, vertical and horizontal position.
        height: Height of the images.
        width: Width of the images.
        scale: Least and largest area as a share of the image's.
    """
    area, aspect, vertical, horizontal = numbers.unbind(1)
    share = scale[0] + (scale[1] - scale[0]) * area
    log_share = share.log()
    shape = math.log(width / height)
    low = (log_share + shape).clamp(*_LOG_CROP_RATIO)
    high = (shape - log_share).clamp(*_LOG_CROP_RATIO)
    log_ratio = low + (high - low) * aspect
    root = (share * (height * width)).sqrt()
    crop_width = (root * (log_ratio / 2).exp()).clamp(max=width)
    crop_height = (root * (-log_ratio / 2).exp()).clamp(max=height)
    return Boxes(
        vertical * (height - crop_height), horizontal * (width - crop_width), crop_height, crop_width
    )


def axis_weights(start: Tensor, length: Tensor, size: int, out: int, flip: Tensor | None = None) -> Tensor:
    """Weights that resample the interval `[start, start + length]` of an axis to `out` pixels.

    The kernel is a triangle, one pixel wide when enlarging (bilinear interpolation) and one output pixel
    wide when shrinking (antialiased). Pixels outside the image take no part: weights are normalised over
    those inside.

    Args:
        start: First coordinate `(n,)`.
        length: Length `(n,)` > 0.
        size: Number of input pixels.
        out: Number of output pixels.
        flip: Samples `(n,)` whose axis is mirrored, bool.

    Returns:
        Weights `(n, out, size)`; every row sums to 1.
    """
    step = length / out
    position = torch.arange(out, device=start.device) + 0.5
    if flip is not None:
        positions = torch.where(flip[:, None], out - position, position)
    else:
        positions = position.expand(start.shape[0], out)
    centre = start[:, None] + step[:, None] * positions - 0.5
    pixels = torch.arange(size, device=start.device, dtype=start.dtype)
    support = step.clamp(min=1.0)[:, None, None]
    # A centre beyond the outermost pixel's (the half pixel at the border) takes that pixel, as usual.
    centre = centre.clamp(0, size - 1)
    weights = (pixels - centre[:, :, None]).abs_().div_(-support).add_(1).clamp_(min=0)
    return weights.div_(weights.sum(2, keepdim=True))


def blur_weights(sigma: Tensor, size: int) -> Tensor:
    """Gaussian blur of an axis with mirrored borders, `(n, size, size)`; `sigma` 0 changes nothing."""
    distance = torch.arange(2 * size - 1, device=sigma.device, dtype=sigma.dtype)
    exponent = -0.5 * (distance / sigma.clamp(min=1e-3)[:, None]) ** 2
    # Beyond six standard deviations nothing is left but denormal numbers, which are slow to multiply.
    kernel = torch.where(exponent > -18, exponent.exp(), 0.0)
    # Row i, column j: kernel[|i - j|], and kernel at the distance to the mirror images of pixel j. A mirror
    # repeats no border pixel: pixel -k shows pixel k. All three are windows that slide over one vector.
    mirrored = torch.cat((kernel[:, :size].flip(1), kernel[:, 1:size]), 1)
    weights = mirrored.unfold(1, size, 1).flip(1)
    weights[:, :, 1:] += kernel.unfold(1, size, 1)[:, :, 1:]
    weights[:, :, :-1] += kernel.flip(1).unfold(1, size, 1)[:, :, :-1]
    return weights.div_(weights.sum(2, keepdim=True))


def resample(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """`rows · image · columnsᵀ` for every image and channel.

    Args:
        images: `(n, c, h, w)`, float.
        rows: `(n, out_h, h)`.
        columns: `(n, out_w, w)`.

    Returns:
        `(n, c, out_h, out_w)`.
    """
    n, c, h, w = images.shape
    out_h, out_w = rows.shape[1], columns.shape[1]
    across = torch.bmm(images.reshape(n, c * h, w), columns.transpose(1, 2)).view(n, c, h, out_w)
    # A product per channel: broadcasting `rows` over the channels would copy it.
    result = torch.empty(c, n, out_h, out_w, dtype=images.dtype, device=images.device)
    for channel in range(c):
        torch.bmm(rows, across[:, channel], out=result[channel])
    return result.transpose(0, 1)


class JitterStrength(NamedTuple):
    """Largest relative changes, and the largest turn of hue (1 = the full circle)."""

    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.1


class Factors(NamedTuple):
    """Colour changes of each sample, all `(n,)`; 1, 1, 1, 0 changes nothing."""

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
    """`(n, 3, 3)`: keep Y, scale and turn (I, Q)."""
    to_yiq, from_yiq = (matrix.to(saturation) for matrix in _yiq())
    cosine = saturation * torch.cos(2 * math.pi * turn)
    sine = saturation * torch.sin(2 * math.pi * turn)
    zero, one = torch.zeros_like(cosine), torch.ones_like(cosine)
    inner = torch.stack((one, zero, zero, zero, cosine, -sine, zero, sine, cosine), 1).view(-1, 3, 3)
    mapped: Tensor = from_yiq @ inner @ to_yiq
    return mapped


def mean_grey(images: Tensor) -> Tensor:
    """Mean luma of each image `(n,)`; the plain mean where channels are no colours."""
    if images.shape[1] != 3:
        return images.mean((1, 2, 3))
    luma = torch.tensor(LUMA, dtype=images.dtype, device=images.device)
    return (images.mean((2, 3)) * luma).sum(1)


def jitter(images: Tensor, factors: Factors) -> Tensor:
    """Apply the factors to images `(n, c, h, w)` in [0, 1]; the result is clipped."""
    n, c, h, w = images.shape
    scale = factors.brightness * factors.contrast
    offset = factors.brightness * (1 - factors.contrast) * mean_grey(images)
    if c != 3:  # colour has no meaning; brightness and contrast still have
        return (images * scale[:, None, None, None]).add_(offset[:, None, None, None]).clamp_(0, 1)
    matrix = _chroma_map(factors.saturation, factors.turn) * scale[:, None, None]
    changed = torch.bmm(matrix, images.reshape(n, c, h * w)).add_(offset[:, None, None])
    return changed.view(n, c, h, w).clamp_(0, 1)


def erase(
    images: Tensor,
    numbers: Tensor,
    share: float,
    fill: Tensor,
) -> Tensor:
    """Paint a rectangle of each chosen sample.

    Args:
        images: `(n, c, h, w)`.
        numbers: Uniform numbers `(n, 5)`: whether, area, aspect ratio, vertical and horizontal position.
        share: Probability that a sample is chosen.
        fill: Colour of the rectangle `(c,)`.

    Returns:
        The images; of those chosen a rectangle of 1/50 to 1/3 of the area, width / height from 0.3 to 10/3
        (log-uniform), is painted.
    """
    height, width = images.shape[2:]
    chosen, area, aspect, vertical, horizontal = numbers.unbind(1)
    pixels = (_ERASED[0] + (_ERASED[1] - _ERASED[0]) * area) * (height * width)
    low, high = _LOG_ERASED_RATIO
    shape = (low + (high - low) * aspect).exp()
    box_height = (pixels / shape).sqrt().round().clamp(1, height)
    box_width = (pixels * shape).sqrt().round().clamp(1, width)
    top = (vertical * (height - box_height + 1)).floor()
    left = (horizontal * (width - box_width + 1)).floor()
    rows = torch.arange(height, device=images.device)
    columns = torch.arange(width, device=images.device)
    inside_rows = (rows >= top[:, None]) & (rows < (top + box_height)[:, None]) & (chosen < share)[:, None]
    inside_columns = (columns >= left[:, None]) & (columns < (left + box_width)[:, None])
    inside = inside_rows[:, None, :, None] & inside_columns[:, None, None, :]
    return torch.where(inside, fill.to(images)[None, :, None, None], images)
