"""Encoders: shapes, names, channels, stages, the libraries behind them."""

import sys

import pytest
import torch
from torch import nn

from labeltree.errors import DataError
from labeltree.models import Encoder, build_encoder, list_encoders, register_encoder
from labeltree.models.encoder_registry import registered_encoders
from labeltree.models.timm_and_torchvision import WrappedEncoder

pytestmark = pytest.mark.slow

OWN = ["resnet18-small", "small-conv", "small-resnet"]


def images(channels, size, batch=2):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(batch, channels, size, size, generator=generator)


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("size", [28, 32, 64])
@pytest.mark.parametrize("channels", [1, 3])
def test_features_of_small_images(name, size, channels):
    encoder = build_encoder(name, channels=channels, image_size=size)
    x = images(channels, size).requires_grad_()
    features = encoder(x)
    assert encoder.name == name
    assert features.shape == (2, encoder.feature_dim)
    features.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in encoder.parameters())
    assert x.grad.abs().amax(dim=(0, 1)).bool().float().mean() > 0.9  # nearly every pixel is looked at


@pytest.mark.parametrize("name", OWN)
def test_memory_format_changes_no_feature(name):
    encoder = build_encoder(name, channels=3).eval()
    x = images(3, 32)
    expected = encoder(x)
    encoder = encoder.to(memory_format=torch.channels_last)
    torch.testing.assert_close(
        encoder(x.contiguous(memory_format=torch.channels_last)), expected, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    ("name", "least", "most"), [("small-conv", 0.1e6, 0.3e6), ("small-resnet", 0.8e6, 1.2e6)]
)
def test_sizes(name, least, most):
    assert least < sum(p.numel() for p in build_encoder(name, channels=1).parameters()) < most


@pytest.mark.parametrize("name", [*OWN, "timm:resnet10t", "torchvision:mobilenet_v3_small"])
def test_stages_hold_every_parameter_once(name):
    encoder = build_encoder(name, channels=1)
    held = [id(p) for stage in encoder.stages for p in stage.parameters()]
    assert len(held) == len(set(held))
    assert set(held) == {id(p) for p in encoder.parameters()}
    assert len(encoder.stages) >= 4


def test_stages_of_a_network_without_a_stem():
    def block():
        return nn.Sequential(nn.Sequential(nn.Conv2d(1, 1, 1)), nn.Sequential(nn.Conv2d(1, 1, 1)))

    net = nn.Sequential(block(), block(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    encoder = WrappedEncoder("net", net, channels=1, image_size=4)
    assert encoder.stages == [net[0], net[1]]
    plain = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    (stage,) = WrappedEncoder("net", plain, channels=1, image_size=4).stages
    assert list(stage) == [plain[0], plain[1]]


@pytest.mark.parametrize("name", [*OWN, "timm:resnet10t", "timm:vit_tiny_patch16_224"])
def test_stages_run_from_input_to_output(name):
    encoder = build_encoder(name, channels=1, image_size=32).eval()
    order = []
    position = {id(m): i for i, stage in enumerate(encoder.stages) for m in stage.modules()}
    for module in encoder.modules():
        if id(module) in position and not list(module.children()):
            module.register_forward_hook(lambda m, i, o: order.append(position[id(m)]))
    encoder(images(1, 32))
    assert order == sorted(order)
    assert set(order) == set(range(len(encoder.stages)))


def test_stages_of_a_transformer_are_its_blocks():
    encoder = build_encoder("vit_tiny_patch16_224", image_size=32)
    blocks = list(encoder.net.blocks)
    assert encoder.stages[1:-1] == blocks[:-1]
    assert next(iter(encoder.stages[-1])) is blocks[-1]  # with the norm that follows it


def test_stages_of_a_resnet_are_its_layers():
    encoder = build_encoder("torchvision:resnet18")
    net = encoder.net
    assert encoder.stages[1:] == [net.layer1, net.layer2, net.layer3, net.layer4]
    assert list(encoder.stages[0]) == [net.conv1, net.bn1]


@pytest.mark.parametrize(
    "name", ["timm:resnet10t", "resnet10t", "torchvision:resnet18", "torchvision:shufflenet_v2_x0_5"]
)
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_encoders_of_libraries(name, channels):
    encoder = build_encoder(name, channels=channels, image_size=48).eval()
    assert encoder(images(channels, 48)).shape == (2, encoder.feature_dim)
    assert not any(isinstance(module, nn.Linear) for module in encoder.modules())  # no classifier left
    assert encoder.name == (name if ":" in name else f"timm:{name}")


def test_torchvision_sees_a_gray_image_as_a_gray_colour_image():
    encoders = []
    for channels in (1, 3):
        torch.manual_seed(0)
        encoders.append(build_encoder("torchvision:resnet18", channels=channels).eval())
    x = images(1, 32)
    torch.testing.assert_close(encoders[0](x), encoders[1](x.expand(-1, 3, -1, -1)), rtol=1e-4, atol=1e-5)


def test_a_transformer_is_built_for_the_image_size():
    encoder = build_encoder("timm:vit_tiny_patch16_224", channels=1, image_size=48)
    assert encoder(images(1, 48)).shape == (2, 192)


def test_an_unfit_image_size_is_an_error():
    with pytest.raises(ValueError, match=r"'torchvision:densenet121' does not take 8×8 images of 3 channels"):
        build_encoder("torchvision:densenet121", image_size=8)


def test_networks_without_one_feature_vector_are_errors():
    with pytest.raises(ValueError, match="torchvision:squeezenet1_1 has no classifier to take off"):
        build_encoder("torchvision:squeezenet1_1", image_size=64)


def test_weights_that_cannot_be_fetched_are_an_error_for_people(monkeypatch):
    def fail(*args, **options):
        raise OSError("no route to host")

    monkeypatch.delenv("LABELTREE_OFFLINE", raising=False)
    monkeypatch.setattr("timm.create_model", fail)
    with pytest.raises(
        DataError, match=r"weights of encoder 'timm:gcvit_xxtiny' .*no route to host; .* as weights"
    ):
        build_encoder("timm:gcvit_xxtiny", pretrained=True)  # timm's own server has them, not the hub
    with pytest.raises(OSError, match=r"^no route to host$"):
        build_encoder("timm:gcvit_xxtiny")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("smal-conv", "did you mean 'small-conv'"),
        ("timm:resnt50", "'timm:resnet50'"),
        ("resnet50q", "'timm:resnet50'"),
        ("torchvision:resnet17", "'torchvision:resnet1"),
        ("qqq", "expected one of .*'small-conv'.*'timm:NAME'"),
        ("other:resnet18", "which is unknown"),
    ],
)
def test_an_unknown_name_gives_the_nearest(name, nearest):
    with pytest.raises(ValueError, match=nearest):
        build_encoder(name)


def test_own_encoders_have_no_pretrained_weights():
    with pytest.raises(ValueError, match="'small-conv' has no pretrained weights"):
        build_encoder("small-conv", pretrained=True)


@pytest.mark.parametrize("options", [{"channels": 0}, {"image_size": 0}])
def test_sizes_below_1_are_refused(options):
    with pytest.raises(ValueError, match="expected at least 1"):
        build_encoder("small-conv", **options)


def test_without_timm_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)  # importing it fails
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'labeltree\[timm\]'"):
        build_encoder("timm:resnet18")
    with pytest.raises(ValueError, match=r"'resnet18', which is unknown; did you mean .*'resnet18-small'"):
        build_encoder("resnet18")
    assert list_encoders("timm:*") == []


def test_listing_by_pattern():
    assert set(OWN) <= set(list_encoders())
    assert list_encoders("small-*") == ["small-conv", "small-resnet", "small-text"]
    assert "timm:resnet18" in list_encoders("timm:resnet1*")
    assert list_encoders("torchvision:resnet18") == ["torchvision:resnet18"]
    assert list_encoders("none-such*") == []


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr("labeltree.models.encoder_registry._ENTRIES", registered_encoders())

    class Tiny(Encoder):
        def __init__(self, channels):
            super().__init__("tiny", 3)
            self.layer = nn.Linear(channels, 3)

        @property
        def stages(self):
            return [self.layer]

        def forward(self, x):
            return self.layer(x.mean(dim=(2, 3)))

    register_encoder("tiny", summary="for a test")(lambda channels, image_size: Tiny(channels))


def test_others_can_register_encoders(tiny):
    assert build_encoder("tiny", channels=2)(images(2, 8)).shape == (2, 3)
    assert "tiny" in list_encoders()
    assert registered_encoders()["tiny"].summary == "for a test"
    with pytest.raises(ValueError, match="named 'tiny' is registered already"):
        register_encoder("tiny", summary="again")
    with pytest.raises(ValueError, match="without ':'"):
        register_encoder("timm:tiny", summary="no")
