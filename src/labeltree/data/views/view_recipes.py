"""From images to views: batched, each a function of (seed, epoch, instance, view)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.data import counter_rng
from labeltree.data.source import Source
from labeltree.data.views import crops_and_colours
from labeltree.data.views.crops_and_colours import erase
from labeltree.data.views.randaugment import RandAugment
from labeltree.errors import DataError

__all__ = ["RECIPES", "ViewGenerator", "channel_statistics"]

RecipeName = Literal["simclr", "randaugment", "crop", "identity"]
RECIPES: tuple[RecipeName, ...] = ("simclr", "randaugment", "crop", "identity")

# Streams of random numbers. A stream keeps its number for ever: a new operation takes new streams, so that
# adding it leaves the views of older recipes as they were.
_BOX, _FLIP, _COLOUR, _BLUR, _ERASE, _RANDAUGMENT = 0, 4, 5, 11, 13, 32
_BLUR_FROM = 64
_PART = 1 << 20
"""Values of float32: 4 MiB."""


class ViewGenerator:
    """Makes one view of every image of a batch.

    Recipes:

    - `simclr`: random resized crop, horizontal flip, colour jitter, grayscale, and blur from 64 pixels on
      (SimCLR and SupCon; the crop covers at least `scale[0]` of the image, 0.2 as SupCon has it for small
      images).
    - `randaugment`: random resized crop, horizontal flip, RandAugment.
    - `crop`: random resized crop and horizontal flip, as classifiers are trained.
    - `identity`: the image itself.

    A view does not depend on the batch that the image is in, on its order, on the number of workers or on
    earlier calls.

    Args:
        recipe: `simclr`, `randaugment`, `crop` or `identity`.
        size: Side of the views in pixels; None = as the images.
        channels: Channels of the views, 1 or 3; None = as the images.
        seed: Random seed.
        flip: Mirror half of the views. Turn it off where left and right differ in meaning.
        erasing: Probability of random erasing.
        scale: Least and largest area of a crop, as a share of the image.
        jitter: Largest changes of brightness, contrast, saturation and hue.
        mean: Mean per channel of pixels in [0, 1]; views are `(pixel - mean) / std`.
        std: Standard deviation per channel.
        operations: RandAugment: number of operations per view.
        magnitude: RandAugment: strength, 0 to 30.
    """

    def __init__(
        self,
        recipe: RecipeName = "simclr",
        size: int | None = None,
        channels: int | None = None,
        seed: int = 0,
        *,
        flip: bool = True,
        erasing: float = 0.0,
        scale: tuple[float, float] = (0.2, 1.0),
        jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.4, 0.1),
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        operations: int = 2,
        magnitude: float = 9,
    ) -> None:
        check_choice("recipe", recipe, RECIPES)
        if size is not None and size < 1:
            raise ValueError(f"size is {size}; it must be 1 or more")
        check_choice("channels", channels, (None, 1, 3))
        if not 0 <= erasing <= 1:
            raise ValueError(f"erasing is {erasing}; it must be a probability, 0 to 1")
        if not 0 < scale[0] <= scale[1] <= 1:
            raise ValueError(f"scale is {scale}; it must be two shares with 0 < least <= largest <= 1")
        if min(jitter) < 0 or jitter[3] > 0.5:
            raise ValueError(f"jitter is {jitter}; its parts must be 0 or more, and hue at most 0.5")
        if std is not None and min(std) <= 0:
            raise ValueError(f"std is {std}; it must be above 0")
        self.recipe: RecipeName = recipe
        self.size = size
        self.channels = channels
        self.seed = seed
        self.flip = flip
        self.erasing = erasing
        self.scale = scale
        self.jitter = crops_and_colours.JitterStrength(*jitter)
        self.mean = None if mean is None else torch.tensor(mean, dtype=torch.float32)
        self.std = None if std is None else torch.tensor(std, dtype=torch.float32)
        self._randaugment = RandAugment(operations, magnitude)

    def __repr__(self) -> str:
        return f"ViewGenerator({self.recipe!r}, size={self.size}, channels={self.channels}, seed={self.seed})"

    def __call__(self, images: Tensor, instances: Tensor, epoch: int = 0, view: int = 0) -> Tensor:
        """Make the view with number `view` of every image.

        Args:
            images: `(n, c, h, w)`, uint8.
            instances: Instance ids `(n,)`, int64.
            epoch: Epoch number.
            view: View number.

        Returns:
            `(n, channels, size, size)`, float32, on the device of `images`.
        """
        if images.dtype != torch.uint8 or images.ndim != 4:
            raise ValueError(f"images is {images.dtype} {tuple(images.shape)}; it must be uint8 (n, c, h, w)")
        if instances.shape != images.shape[:1]:
            raise ValueError(f"instances has shape {tuple(instances.shape)}; it must be ({len(images)},)")
        n, c, h, w = images.shape
        shape = (n, self.channels or c, self.size or h, self.size or w)
        views = torch.empty(shape, device=images.device)
        keys = counter_rng.sample_keys(self.seed, epoch, view, instances.to(images.device))
        mixed = self.recipe == "randaugment"  # its operations gather samples from all over the batch
        for part in _parts(images, shape):
            pixels = self._match_channels(images[part].to(torch.float32).div_(255))
            made = self._resize(pixels) if self.recipe == "identity" else self._augment(pixels, keys[part])
            views[part] = made if mixed else self._finish(made, keys[part])
        return self._finish(self._randaugment(views, keys, _RANDAUGMENT), keys) if mixed else views

    def _finish(self, views: Tensor, keys: Tensor) -> Tensor:
        if self.erasing and self.recipe != "identity":
            numbers = counter_rng.uniform(keys, 5, _ERASE)
            fill = torch.zeros(views.shape[1]) if self.mean is None else self.mean.expand(views.shape[1])
            views = erase(views, numbers, self.erasing, fill)
        return self._normalise(views)

    def _match_channels(self, pixels: Tensor) -> Tensor:
        channels = pixels.shape[1]
        if self.channels is None or channels == self.channels:
            return pixels
        if channels == 1:
            return pixels.expand(-1, self.channels, -1, -1)
        if channels == 3:
            luma = torch.tensor(crops_and_colours.LUMA, dtype=pixels.dtype, device=pixels.device)
            return (pixels * luma[:, None, None]).sum(1, keepdim=True)
        raise ValueError(
            f"images have {channels} channels; views with {self.channels} can be made from 1 or 3 only"
        )

    def _resize(self, pixels: Tensor) -> Tensor:
        n, _, height, width = pixels.shape
        size = self.size
        if size is None or (height, width) == (size, size):
            return pixels
        box = crops_and_colours.whole_image(1, height, width, pixels.device)
        rows = crops_and_colours.axis_weights(box.top, box.height, height, size)
        columns = crops_and_colours.axis_weights(box.left, box.width, width, size)
        return crops_and_colours.resample(pixels, rows.expand(n, -1, -1), columns.expand(n, -1, -1))

    def _augment(self, pixels: Tensor, keys: Tensor) -> Tensor:
        height, width = pixels.shape[2:]
        out_height, out_width = (self.size, self.size) if self.size else (height, width)
        numbers = counter_rng.uniform(keys, _ERASE)
        boxes = crops_and_colours.random_boxes(numbers[:, _BOX : _BOX + 4], height, width, self.scale)
        flip = numbers[:, _FLIP] < 0.5 if self.flip else None
        rows = crops_and_colours.axis_weights(boxes.top, boxes.height, height, out_height)
        columns = crops_and_colours.axis_weights(boxes.left, boxes.width, width, out_width, flip)
        if self.recipe == "simclr" and min(out_height, out_width) >= _BLUR_FROM:
            blurred = (numbers[:, _BLUR] < 0.5).nonzero()[:, 0]
            sigma = 0.1 + 1.9 * numbers[blurred, _BLUR + 1]
            blur = crops_and_colours.blur_weights(sigma, out_height)
            rows.index_copy_(0, blurred, blur @ rows[blurred])
            if out_width != out_height:
                blur = crops_and_colours.blur_weights(sigma, out_width)
            columns.index_copy_(0, blurred, blur @ columns[blurred])
        views = crops_and_colours.resample(pixels, rows, columns)
        if self.recipe != "simclr":
            return views
        factors = crops_and_colours.random_factors(numbers[:, _COLOUR : _COLOUR + 6], self.jitter, 0.8, 0.2)
        return crops_and_colours.jitter(views, factors)

    def _normalise(self, views: Tensor) -> Tensor:
        if self.mean is not None:
            views = views - self.mean.to(views)[:, None, None]
        if self.std is not None:
            views = views / self.std.to(views)[:, None, None]
        return views


def _parts(images: Tensor, shape: tuple[int, ...]) -> Iterator[slice]:
    """Slices of a batch that are worked on one after the other, so that what lies between stays in the cache.

    On an accelerator the batch is one.
    """
    largest = max(images[0].numel(), math.prod(shape[1:])) if len(images) else 1
    step = max(1, _PART // largest) if images.device.type == "cpu" else len(images)
    return (slice(start, start + step) for start in range(0, len(images), step))


def channel_statistics(source: Source, samples: int = 2000) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel, of pixels in [0, 1].

    Args:
        source: The samples; pass the training split only.
        samples: Number of samples to use, evenly spaced.

    Returns:
        `mean` and `std` as `ViewGenerator` takes them; a constant channel has `std` 1.

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
