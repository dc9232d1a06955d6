"""Colour jitter against a slow reference of its steps, and where random erasing paints."""

import math

import pytest
import torch

from labeltree.data import ViewGenerator, counter_rng
from labeltree.data.views import crops_and_colours
from labeltree.data.views.crops_and_colours import erase

LUMA = torch.tensor([0.299, 0.587, 0.114], dtype=torch.float64)


def slow_jitter(image, brightness, contrast, saturation, turn):
    """Step after step, pixel by pixel for hue: turn the chroma, then saturation, brightness, contrast."""
    image = image.clone()
    to_yiq = torch.tensor(
        [[0.299, 0.587, 0.114], [0.5959, -0.2746, -0.3213], [0.2115, -0.5227, 0.3112]], dtype=torch.float64
    )
    for y in range(image.shape[1]):
        for x in range(image.shape[2]):
            luma, i, q = (to_yiq @ image[:, y, x]).tolist()
            angle = 2 * math.pi * turn
            turned = [
                luma,
                i * math.cos(angle) - q * math.sin(angle),
                i * math.sin(angle) + q * math.cos(angle),
            ]
            image[:, y, x] = torch.linalg.solve(to_yiq, torch.tensor(turned, dtype=torch.float64))
    gray = (image * LUMA[:, None, None]).sum(0)
    image = gray + saturation * (image - gray)
    image = brightness * image
    mean = (image * LUMA[:, None, None]).sum(0).mean()
    return (mean + contrast * (image - mean)).clamp(0, 1)


def factors(rows):
    return crops_and_colours.Factors(*torch.tensor(rows, dtype=torch.float64).T)


CASES = [(1, 1, 1, 0), (1.4, 1, 1, 0), (1, 0.6, 1, 0), (1, 1, 0, 0), (1, 1, 1, 0.1), (0.7, 1.3, 0.5, -0.08)]


def test_jitter_agrees_with_its_steps():
    images = torch.rand(len(CASES), 3, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = crops_and_colours.jitter(images, factors(CASES))
    for image, case, result in zip(images, CASES, found, strict=True):
        torch.testing.assert_close(result, slow_jitter(image, *case), atol=1e-9, rtol=0)
    torch.testing.assert_close(found[0], images[0], atol=1e-9, rtol=0)


def test_gray_has_equal_channels_and_keeps_brightness():
    images = torch.rand(3, 3, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    gray = crops_and_colours.jitter(images, factors([(1, 1, 0, 0.05)] * 3))
    torch.testing.assert_close(gray[:, 0], (images * LUMA[:, None, None]).sum(1))
    torch.testing.assert_close(gray[:, 0], gray[:, 2])


def test_one_channel_has_brightness_and_contrast():
    images = 0.3 + 0.3 * torch.rand(
        1, 1, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    found = crops_and_colours.jitter(images, factors([(1.2, 0.5, 0.0, 0.1)]))
    torch.testing.assert_close(found, 1.2 * (images.mean() + 0.5 * (images - images.mean())))


def test_factors_have_the_distribution_of_the_recipe():
    numbers = counter_rng.uniform(counter_rng.sample_keys(0, 0, 0, torch.arange(40_000)), 6)
    found = crops_and_colours.random_factors(
        numbers, crops_and_colours.JitterStrength(0.4, 0.4, 0.4, 0.1), 0.8, 0.2
    )
    for factor in (found.brightness, found.contrast):
        jittered = factor[factor != 1]
        assert abs(len(jittered) / 40_000 - 0.8) < 0.01
        assert 0.6 <= jittered.min() < 0.61
        assert 1.39 < jittered.max() <= 1.4
        assert abs(jittered.mean() - 1) < 0.01
    assert abs((found.saturation == 0).float().mean() - 0.2) < 0.01
    assert found.turn.abs().max() <= 0.1
    assert abs((found.turn == 0).float().mean() - 0.2) < 0.01
    # A strength above 1 cannot make a factor negative.
    strong = crops_and_colours.random_factors(numbers, crops_and_colours.JitterStrength(2, 2, 2, 0.5), 1, 0)
    assert strong.brightness.min() >= 0


def test_erasing_paints_one_rectangle():
    images = torch.ones(4000, 2, 20, 24)
    numbers = counter_rng.uniform(counter_rng.sample_keys(0, 0, 0, torch.arange(4000)), 5)
    found = erase(images, numbers, 0.3, torch.tensor([0.0, 0.5]))
    erased = found[:, 0] == 0
    assert torch.equal(erased, found[:, 1] == 0.5)
    assert torch.equal(~erased, found[:, 1] == 1)
    chosen = erased.flatten(1).any(1)
    assert abs(chosen.float().mean() - 0.3) < 0.03
    rows, columns = erased[chosen].any(2), erased[chosen].any(1)
    # A rectangle: erased is the product of its rows and its columns, both without gaps.
    assert torch.equal(erased[chosen], rows[:, :, None] & columns[:, None, :])
    for side in (rows, columns):
        steps = (side[:, 1:] != side[:, :-1]).sum(1) + side[:, 0].int() + side[:, -1].int()
        assert (steps == 2).all()
    share = erased[chosen].float().mean((1, 2))
    assert 0.01 < share.min() < 0.04
    assert 0.28 < share.max() < 0.37
    # Every corner can be reached.
    for corner in (erased[:, 0, 0], erased[:, 0, -1], erased[:, -1, 0], erased[:, -1, -1]):
        assert corner.any()


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_erasing_none_or_all(share):
    images = torch.randint(1, 256, (50, 3, 16, 16), dtype=torch.uint8)
    plain = ViewGenerator("simclr", jitter=(0, 0, 0, 0))(images, torch.arange(50))
    erased = ViewGenerator("simclr", jitter=(0, 0, 0, 0), erasing=share)(images, torch.arange(50))
    assert (plain != erased).flatten(1).any(1).float().mean() == share
