"""Mean and standard deviation of a source's pixels, for normalisation."""

from __future__ import annotations

import torch

from labeltree.data.source import Source
from labeltree.errors import DataError

__all__ = ["channel_statistics"]


def channel_statistics(source: Source, samples: int = 2000) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel, of pixels in [0, 1].

    Args:
        source: The samples; pass the training split only.
        samples: How many are looked at, evenly spread.

    Returns:
        ``mean`` and ``std`` as ``ViewGenerator`` takes them; a constant channel has ``std`` 1.

    Raises:
        DataError: If the source is empty.
    """
    if not len(source):
        raise DataError(f"source '{source.name}' has no samples, so it has no mean")
    chosen = torch.linspace(0, len(source) - 1, min(samples, len(source)), dtype=torch.float64).round().long()
    count, total, squares = 0, torch.zeros(0), torch.zeros(0)
    for part in torch.split(chosen, 256):
        images = source.load(part).to(torch.float64) / 255
        sums = images.sum((0, 2, 3))
        more = (images**2).sum((0, 2, 3))
        total, squares = (sums, more) if not count else (total + sums, squares + more)
        count += images[:, 0].numel()
    mean = total / count
    std = (squares / count - mean**2).clamp(min=0).sqrt()
    std = torch.where(std > 0, std, 1.0)
    return tuple(mean.tolist()), tuple(std.tolist())
