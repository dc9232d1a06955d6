"""Views: each a function of (seed, epoch, instance, view) alone, and shaped as the recipe says."""

import pickle

import pytest
import torch

from labeltree.data import ViewGenerator
from labeltree.data.views import RECIPES

pytestmark = pytest.mark.slow


def noise(n: int, c: int = 3, size: int = 20, seed: int = 0) -> torch.Tensor:
    return torch.randint(
        0, 256, (n, c, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed)
    )


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(("channels", "size"), [(1, 20), (3, 20), (3, 66)])
def test_views_do_not_depend_on_the_batch(recipe, channels, size):
    images, ids = noise(23, channels, size), torch.arange(23) * 1_000_003
    generator = ViewGenerator(recipe, seed=5, erasing=0.5)
    together = generator(images, ids, epoch=3, view=1)
    order = torch.randperm(23, generator=torch.Generator().manual_seed(1))
    assert torch.equal(generator(images[order], ids[order], 3, 1), together[order])
    for part in order.split([1, 2, 7, 13]):
        assert torch.equal(generator(images[part], ids[part], 3, 1), together[part])


def test_global_random_state_is_neither_read_nor_changed():
    images, ids = noise(4), torch.arange(4)
    generator = ViewGenerator("randaugment", erasing=1.0)
    torch.manual_seed(1)
    first, state = generator(images, ids), torch.get_rng_state()
    torch.manual_seed(2)
    assert torch.equal(generator(images, ids), first)
    torch.manual_seed(1)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("recipe", ["simclr", "randaugment", "crop"])
def test_seed_epoch_view_and_instance_each_change_the_view(recipe):
    images, ids = noise(1).expand(8, -1, -1, -1), torch.arange(8)
    generator = ViewGenerator(recipe, seed=0)
    first = generator(images, ids)
    others = [
        ViewGenerator(recipe, seed=1)(images, ids),
        generator(images, ids, epoch=1),
        generator(images, ids, view=1),
        generator(images, ids + 8),
    ]
    for other in others:
        assert (first != other).flatten(1).any(1).all()
    assert len(first.flatten(1).unique(dim=0)) == 8


def test_identity_is_the_image():
    images = noise(5, 3, 9)
    views = ViewGenerator("identity", size=9, channels=3, erasing=1.0)(images, torch.arange(5), 2, 1)
    assert views.dtype == torch.float32
    assert torch.equal((views * 255).round().to(torch.uint8), images)
    assert torch.equal(views, images.float() / 255)


def test_crop_keeps_colours():
    """A crop of the whole image is the image or its mirror image; colours never change."""
    images = noise(12, 3, 9)
    views = ViewGenerator("crop", scale=(1.0, 1.0))(images, torch.arange(12))
    plain = images.float() / 255
    mirrored = plain.flip(3)
    same = [torch.allclose(v, p, atol=1e-5) for v, p in zip(views, plain, strict=True)]
    other = [torch.allclose(v, m, atol=1e-5) for v, m in zip(views, mirrored, strict=True)]
    assert all(a or b for a, b in zip(same, other, strict=True))
    assert any(same)
    assert any(other)
    grey = torch.full((4, 3, 9, 9), 77, dtype=torch.uint8)
    torch.testing.assert_close(ViewGenerator("crop")(grey, torch.arange(4)), grey.float() / 255)


def test_normalisation():
    images = noise(3, 3, 8)
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.25, 2.0)
    views = ViewGenerator("identity", mean=mean, std=std)(images, torch.arange(3))
    plain = images.float() / 255
    for channel in range(3):
        expected = (plain[:, channel] - mean[channel]) / std[channel]
        torch.testing.assert_close(views[:, channel], expected)


@pytest.mark.parametrize("recipe", RECIPES)
def test_shape_and_range(recipe):
    for channels, given in [(1, 1), (3, 1), (3, 3), (1, 3)]:
        views = ViewGenerator(recipe, size=12, channels=channels)(noise(6, given, 20), torch.arange(6))
        assert views.shape == (6, channels, 12, 12)
        assert views.is_contiguous()
        assert views.min() >= 0
        assert views.max() <= 1 + 1e-6


def test_gray_and_colour_convert():
    gray = noise(2, 1, 6)
    coloured = ViewGenerator("identity", channels=3)(gray, torch.arange(2))
    assert torch.equal(coloured[:, 0], coloured[:, 2])
    again = ViewGenerator("identity", channels=1)(gray.expand(-1, 3, -1, -1), torch.arange(2))
    torch.testing.assert_close(again, gray / 255)


def test_constant_images_stay_constant_under_crops_and_blur():
    """Weights of every crop, flip and blur sum to one: nothing darkens at the border."""
    images = torch.full((64, 1, 70, 70), 100, dtype=torch.uint8)
    generator = ViewGenerator("simclr", jitter=(0, 0, 0, 0))
    torch.testing.assert_close(generator(images, torch.arange(64)), torch.full((64, 1, 70, 70), 100 / 255))


def test_flips_half_of_the_views_or_none():
    ramp = (torch.arange(32) * 7).to(torch.uint8).expand(2000, 1, 32, 32)
    ids = torch.arange(2000)

    def mirrored(flip: bool) -> float:
        views = ViewGenerator("simclr", flip=flip, jitter=(0, 0, 0, 0))(ramp, ids)
        return (views[:, 0, 0, 0] > views[:, 0, 0, -1]).float().mean().item()

    assert abs(mirrored(True) - 0.5) < 0.05
    assert mirrored(False) == 0


def test_blur_only_from_64_pixels():
    def roughness(size: int) -> torch.Tensor:
        images = noise(1, 1, size).expand(200, -1, -1, -1)
        views = ViewGenerator("simclr", jitter=(0, 0, 0, 0), scale=(1.0, 1.0), flip=False)(
            images, torch.arange(200)
        )
        return (views - images / 255).abs().amax((1, 2, 3))

    assert roughness(63).max() < 1e-4
    changed = (roughness(64) > 0.01).float().mean()
    assert 0.3 < changed < 0.5  # half of the views; the faintest blurs change little


@pytest.mark.parametrize("value", [{"recipe": "simcrl"}, {"size": 0}, {"channels": 2}, {"erasing": 1.5}])
def test_arguments_are_checked(value):
    with pytest.raises(ValueError, match=next(iter(value))):
        ViewGenerator(**value)


def test_inputs_are_checked():
    with pytest.raises(ValueError, match="uint8"):
        ViewGenerator()(torch.rand(2, 3, 8, 8), torch.arange(2))
    with pytest.raises(ValueError, match="instances"):
        ViewGenerator()(noise(2), torch.arange(3))


def test_empty_batch_and_pickle():
    generator = ViewGenerator("simclr", size=8, seed=3, mean=[0.5], std=[0.5])
    assert generator(noise(0, 1, 8), torch.arange(0)).shape == (0, 1, 8, 8)
    copy = pickle.loads(pickle.dumps(generator))
    images = noise(3, 1, 8)
    assert torch.equal(copy(images, torch.arange(3)), generator(images, torch.arange(3)))
