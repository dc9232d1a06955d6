"""Plain-11, ResNet-110w and PyramidNet-272-200: sizes as published, gradients everywhere, shortcuts."""

import doctest
from itertools import pairwise

import pytest
import torch
from torch import nn

import labeltree.models.cifar_resnets
from labeltree.models import build_encoder, list_encoders, set_trainable
from labeltree.models.cifar_resnets import PaddedShortcut, cifar_resnet, pyramidnet

pytestmark = pytest.mark.slow

PAPERS = ["plain-11", "pyramidnet-272-200", "resnet-110w"]


def parameters(encoder, *, norms=True):
    kinds = (nn.Conv2d, nn.BatchNorm2d) if norms else (nn.Conv2d,)
    return sum(p.numel() for m in encoder.modules() if isinstance(m, kinds) for p in m.parameters())


def test_they_are_listed():
    assert set(PAPERS) <= set(list_encoders())


# Exact counts, without the layer on top. Plain-11: Σ (9·in + 1)·out of the convolutions, (512 + 1)·512 of the
# dense layer, two for each normalised channel.
@pytest.mark.parametrize(
    ("name", "count", "width"),
    [
        (
            "plain-11",
            sum((9 * a + 1) * b + 2 * b for a, b in pairwise([3, 64, 64, 128, 128, 128, 256, 256, 256, 512]))
            + 513 * 512
            + 2 * 512,
            512,
        ),
        # stem, then two convolutions of 3×3 and their norms in each of 18 blocks a stage
        (
            "resnet-110w",
            27 * 32
            + 64
            + sum(9 * (a * b + 35 * b * b) + 36 * 2 * b for a, b in [(32, 32), (32, 64), (64, 128)]),
            128,
        ),
        # 26,210,842 with ten classes on top, as other implementations count
        ("pyramidnet-272-200", 26_210_842 - 865 * 10, 864),
    ],
)
def test_sizes_and_features(name, count, width):
    encoder = build_encoder(name)
    assert sum(p.numel() for p in encoder.parameters()) == parameters(encoder) == count
    assert encoder.feature_dim == width
    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    features = encoder(x)
    assert features.shape == (2, width)
    features.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in encoder.parameters())


@pytest.mark.parametrize(("depth", "millions"), [(20, 0.27), (32, 0.46), (44, 0.66), (56, 0.85), (110, 1.7)])
def test_residual_networks_have_the_sizes_of_their_paper(depth, millions):
    """Table 6 of He et al. 2016, for CIFAR-10."""
    encoder = cifar_resnet("resnet", depth, (16, 32, 64))
    digits = 1 if depth == 110 else 2
    assert round((parameters(encoder) + 65 * 10) / 1e6, digits) == millions


@pytest.mark.parametrize(
    ("depth", "alpha", "millions", "width"),
    [(164, 48, 1.7, 256), (200, 240, 26.6, 1024), (272, 200, 26.0, 864)],
)
def test_pyramids_have_the_sizes_of_their_paper(depth, alpha, millions, width):
    """The table of Han et al. 2017 for CIFAR-10 counts the weights of convolutions and of the classifier."""
    encoder = pyramidnet("pyramid", depth, alpha)
    assert encoder.feature_dim == width
    found = (parameters(encoder, norms=False) + (width + 1) * 10) / 1e6
    assert round(found, 1) == millions


def test_a_pyramid_grows_with_every_block():
    encoder = pyramidnet("pyramid", 29, 48)
    widths = [m[4].out_channels for m in encoder.modules() if isinstance(m, nn.Sequential) and len(m) == 9]
    assert widths == [round(16 + k * 48 / 9) for k in range(1, 10)]
    assert widths[-1] == 64


@pytest.mark.parametrize("name", PAPERS)
@pytest.mark.parametrize(("channels", "size"), [(1, 28), (3, 15)])
def test_other_images(name, channels, size):
    make = {
        "plain-11": lambda: build_encoder(name, channels=channels, image_size=size),
        "resnet-110w": lambda: cifar_resnet(name, 14, (32, 64, 128), channels),
        "pyramidnet-272-200": lambda: pyramidnet(name, 20, 200, channels),
    }[name]
    encoder = make().eval()
    assert encoder(torch.randn(2, channels, size, size)).isfinite().all()


@pytest.mark.parametrize("name", PAPERS)
def test_the_last_stage_alone_can_be_trained(name):
    encoder = build_encoder(name)
    held = [id(p) for stage in encoder.stages for p in stage.parameters()]
    assert len(held) == len(set(held))
    assert set(held) == {id(p) for p in encoder.parameters()}
    set_trainable(encoder, "last:1")
    trained = {id(p) for p in encoder.parameters() if p.requires_grad}
    assert trained == {id(p) for p in encoder.stages[-1].parameters()}
    assert 0 < len(trained) < len(held)


def test_a_shortcut_has_no_weights_and_keeps_what_it_gets():
    maps = torch.arange(2 * 3 * 5 * 5.0).reshape(2, 3, 5, 5)
    behind = PaddedShortcut(3, 6, 1, centred=False)
    assert torch.equal(behind(maps)[:, :3], maps)
    assert not behind(maps)[:, 3:].any()
    centred = PaddedShortcut(3, 6, 1, centred=True)(maps)
    assert torch.equal(centred[:, 1:4], maps)
    assert not centred[:, [0, 4, 5]].any()
    pooled = PaddedShortcut(3, 3, 2, centred=True)(maps)
    assert pooled.shape == (2, 3, 3, 3)
    assert pooled[0, 0, 0, 0] == maps[0, 0, :2, :2].mean()
    assert pooled[0, 0, 2, 2] == maps[0, 0, 4, 4]  # what is beyond the edge does not count
    assert not list(behind.parameters())


def test_depths_that_do_not_exist_and_images_too_small():
    with pytest.raises(ValueError, match="depth is 111; expected 6n"):
        cifar_resnet("resnet", 111, (16, 32, 64))
    with pytest.raises(ValueError, match="depth is 270; expected 9n"):
        pyramidnet("pyramid", 270, 200)
    with pytest.raises(ValueError, match="image_size is 7; plain-11 halves it three times"):
        build_encoder("plain-11", image_size=7)


def test_examples():
    found = doctest.testmod(labeltree.models.cifar_resnets)
    assert (found.failed, found.attempted > 0) == (0, True)
