"""Crops, flips, resizing and blur as separable linear maps: a view is ``rows · image · columnsᵀ``.

Each of these operations acts on rows and columns independently, so one matrix per axis and sample does all
of them at once, with antialiasing where a crop is shrunk. Two batched matrix products cost a fraction of a
bilinear gather on a CPU, and next to nothing on an accelerator.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Boxes", "axis_weights", "blur_weights", "random_boxes", "resample", "whole_image"]


class Boxes(NamedTuple):
    """Crops in pixels, each ``(n,)`` float32; pixel i covers the interval [i, i + 1]."""

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
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
) -> Boxes:
    """Random resized crops, from four uniform numbers per sample.

    The area is uniform in ``scale`` (a share of the image), the aspect ratio log-uniform in ``ratio`` cut
    to those at which a crop of this area fits into the image. Sampling from the cut interval takes the
    place of the usual retries.

    Args:
        numbers: Uniform numbers ``(n, 4)``: area, aspect ratio, vertical and horizontal position.
        height: Height of the images.
        width: Width of the images.
        scale: Least and largest area as a share of the image's.
        ratio: Least and largest width / height.
    """
    area, aspect, vertical, horizontal = numbers.unbind(1)
    share = scale[0] + (scale[1] - scale[0]) * area
    log_share = share.log()
    shape = math.log(width / height)
    low = (log_share + shape).clamp(min=math.log(ratio[0]), max=math.log(ratio[1]))
    high = (shape - log_share).clamp(min=math.log(ratio[0]), max=math.log(ratio[1]))
    log_ratio = low + (high - low) * aspect
    root = (share * (height * width)).sqrt()
    crop_width = (root * (log_ratio / 2).exp()).clamp(max=width)
    crop_height = (root * (-log_ratio / 2).exp()).clamp(max=height)
    return Boxes(
        vertical * (height - crop_height), horizontal * (width - crop_width), crop_height, crop_width
    )


def axis_weights(start: Tensor, length: Tensor, size: int, out: int, flip: Tensor | None = None) -> Tensor:
    """Weights that resample the interval ``[start, start + length]`` of an axis to ``out`` pixels.

    The kernel is a triangle, one pixel wide when enlarging (bilinear interpolation) and one output pixel
    wide when shrinking (antialiased). Pixels outside the image take no part: weights are normalised over
    those inside.

    Args:
        start: First coordinate ``(n,)``.
        length: Length ``(n,)`` > 0.
        size: Pixels of the axis.
        out: Pixels wanted.
        flip: Samples ``(n,)`` whose axis is mirrored, bool.

    Returns:
        Weights ``(n, out, size)``; every row sums to 1.
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
    """Gaussian blur of an axis with mirrored borders, ``(n, size, size)``; ``sigma`` 0 changes nothing."""
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
    """``rows · image · columnsᵀ`` for every image and channel.

    Args:
        images: ``(n, c, h, w)``, float.
        rows: ``(n, out_h, h)``.
        columns: ``(n, out_w, w)``.

    Returns:
        ``(n, c, out_h, out_w)``.
    """
    n, c, h, w = images.shape
    out_h, out_w = rows.shape[1], columns.shape[1]
    across = torch.bmm(images.reshape(n, c * h, w), columns.transpose(1, 2)).view(n, c, h, out_w)
    # A product per channel: broadcasting `rows` over the channels would copy it.
    result = torch.empty(c, n, out_h, out_w, dtype=images.dtype, device=images.device)
    for channel in range(c):
        torch.bmm(rows, across[:, channel], out=result[channel])
    return result.transpose(0, 1)
