"""Random erasing: one rectangle per sample is painted over (Zhong et al. 2020)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["erase"]


def erase(
    images: Tensor,
    numbers: Tensor,
    share: float,
    fill: Tensor,
    scale: tuple[float, float] = (0.02, 1 / 3),
    ratio: tuple[float, float] = (0.3, 10 / 3),
) -> Tensor:
    """Paint a rectangle of each chosen sample.

    Args:
        images: ``(n, c, h, w)``.
        numbers: Uniform numbers ``(n, 5)``: whether, area, aspect ratio, vertical and horizontal position.
        share: Probability that a sample is chosen.
        fill: Colour of the rectangle ``(c,)``.
        scale: Least and largest area as a share of the image's.
        ratio: Least and largest width / height, log-uniform.
    """
    height, width = images.shape[2:]
    chosen, area, aspect, vertical, horizontal = numbers.unbind(1)
    pixels = (scale[0] + (scale[1] - scale[0]) * area) * (height * width)
    low, high = math.log(ratio[0]), math.log(ratio[1])
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
