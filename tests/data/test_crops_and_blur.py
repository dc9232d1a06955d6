"""Crop geometry against slow references."""

import math

import pytest
import torch
from torch.nn import functional as F

from labeltree.data import counter_rng
from labeltree.data.views import crops_and_colours
from labeltree.data.views.crops_and_colours import Boxes


def slow_resample(image, top, left, height, width, out, flip):
    """Triangle kernel, pixel by pixel: as wide as an input or an output pixel, whichever is wider."""
    h, w = image.shape
    result = torch.zeros(out, out, dtype=torch.float64)

    def taps(position, start, length, size):
        step = length / out
        centre = min(max(start + step * (position + 0.5) - 0.5, 0), size - 1)
        support = max(step, 1.0)
        found = [(p, 1 - abs(p - centre) / support) for p in range(size)]
        found = [(p, weight) for p, weight in found if weight > 0]
        total = sum(weight for _, weight in found)
        return [(p, weight / total) for p, weight in found]

    for i in range(out):
        for j in range(out):
            across = taps(out - 1 - j if flip else j, left, width, w)
            for y, wy in taps(i, top, height, h):
                for x, wx in across:
                    result[i, j] += wy * wx * image[y, x].item()
    return result


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize(
    "box", [(0, 0, 11, 9), (1.3, 2.7, 4.2, 3.1), (2.0, 0.5, 9.0, 8.5), (9.9, 7.9, 1.1, 1.1)]
)
@pytest.mark.parametrize("out", [5, 16])
def test_one_sample_agrees_with_the_slow_reference(box, out, flip):
    image = torch.rand(11, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    top, left, height, width = (torch.tensor([float(value)], dtype=torch.float64) for value in box)
    rows = crops_and_colours.axis_weights(top, height, 11, out)
    columns = crops_and_colours.axis_weights(left, width, 9, out, torch.tensor([flip]))
    found = crops_and_colours.resample(image[None, None], rows, columns)[0, 0]
    torch.testing.assert_close(found, slow_resample(image, *box, out, flip), atol=1e-6, rtol=0)


def test_enlarging_is_bilinear_interpolation():
    images = torch.rand(4, 3, 12, 12, generator=torch.Generator().manual_seed(1))
    boxes = crops_and_colours.random_boxes(
        torch.rand(4, 4, generator=torch.Generator().manual_seed(2)), 12, 12
    )
    rows = crops_and_colours.axis_weights(boxes.top, boxes.height, 12, 12)
    columns = crops_and_colours.axis_weights(boxes.left, boxes.width, 12, 12)
    scale_y, scale_x = boxes.height / 12, boxes.width / 12
    centre_y, centre_x = (boxes.top + boxes.height / 2) / 6 - 1, (boxes.left + boxes.width / 2) / 6 - 1
    zero = torch.zeros(4)
    matrix = torch.stack((scale_x, zero, centre_x, zero, scale_y, centre_y), 1).view(4, 2, 3)
    grid = F.affine_grid(matrix, [4, 3, 12, 12], align_corners=False)
    expected = F.grid_sample(images, grid, align_corners=False, padding_mode="border")
    torch.testing.assert_close(crops_and_colours.resample(images, rows, columns), expected, atol=2e-5, rtol=0)


def test_shrinking_is_antialiased_like_torch():
    images = torch.rand(2, 1, 30, 30, generator=torch.Generator().manual_seed(1))
    whole = crops_and_colours.whole_image(2, 30, 30)
    weights = crops_and_colours.axis_weights(whole.top, whole.height, 30, 10)
    expected = F.interpolate(images, size=(10, 10), mode="bilinear", antialias=True)
    torch.testing.assert_close(
        crops_and_colours.resample(images, weights, weights), expected, atol=1e-5, rtol=0
    )


@pytest.mark.parametrize(("height", "width"), [(28, 28), (20, 60), (50, 10)])
def test_boxes_lie_inside_and_cover_what_they_should(height, width):
    numbers = counter_rng.uniform(counter_rng.sample_keys(0, 0, 0, torch.arange(20_000)), 4)
    boxes = crops_and_colours.random_boxes(numbers, height, width, scale=(0.2, 1.0))
    assert min(box.min() for box in boxes[:2]) >= 0
    assert (boxes.top + boxes.height).max() <= height + 1e-4
    assert (boxes.left + boxes.width).max() <= width + 1e-4
    share = boxes.height * boxes.width / (height * width)
    log_ratio = (boxes.width / boxes.height).log()
    if height == width:
        assert share.min() > 0.2 - 1e-5
        assert abs(share.mean() - 0.6) < 0.01
        assert share.std().sub(0.8 / math.sqrt(12)).abs() < 0.01
        assert log_ratio.abs().max() < math.log(4 / 3) + 1e-5
        assert log_ratio.mean().abs() < 0.01
    # Positions: the free room before the box is uniform.
    room = boxes.left / (width - boxes.width).clamp(min=1e-9)
    free = width - boxes.width > 0.01
    assert abs(room[free].mean() - 0.5) < 4 * 0.29 / math.sqrt(int(free.sum()))


def test_whole_image_boxes():
    boxes = crops_and_colours.random_boxes(torch.rand(50, 4), 16, 16, scale=(1.0, 1.0))
    for found, expected in zip(boxes, Boxes(*map(torch.tensor, (0.0, 0.0, 16.0, 16.0))), strict=True):
        torch.testing.assert_close(found, expected.expand(50), atol=1e-4, rtol=0)


def test_blur_mirrors_the_border():
    size, sigmas = 7, [0.0, 0.5, 2.0]
    weights = crops_and_colours.blur_weights(torch.tensor(sigmas, dtype=torch.float64), size)
    for sigma, found in zip(sigmas, weights, strict=True):
        expected = torch.zeros(size, size, dtype=torch.float64)
        for i in range(size):
            for offset in range(-2 * size, 2 * size + 1):
                weight = math.exp(-0.5 * (offset / sigma) ** 2) if sigma else float(offset == 0)
                j = i + offset
                if -size < j < 2 * size - 1 and weight > math.exp(-18):  # mirrored once
                    j = -j if j < 0 else 2 * (size - 1) - j if j >= size else j
                    expected[i, j] += weight
            expected[i] /= expected[i].sum()
        torch.testing.assert_close(found, expected)
