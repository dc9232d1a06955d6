"""ResNet-50 for small images."""

import pytest
import torch
from torchvision.models import resnet50

from labeltree.models import build_encoder
from labeltree.models.small_image_encoders import Bottleneck

pytestmark = pytest.mark.slow


def test_only_the_stem_differs_from_resnet50() -> None:
    encoder = build_encoder("resnet50-small")
    assert encoder.feature_dim == 2048
    assert len(encoder.stages) == 5
    body = sum(p.numel() for stage in encoder.stages[1:] for p in stage.parameters())
    published = resnet50()
    layers = (published.layer1, published.layer2, published.layer3, published.layer4)
    assert body == sum(p.numel() for layer in layers for p in layer.parameters())
    assert sum(p.numel() for p in encoder.parameters()) == 23_500_352  # 23,508,032 − (7² − 3²)·3·64


def test_resolution_falls_three_times() -> None:
    encoder = build_encoder("resnet50-small", channels=1, image_size=16).eval()
    maps = torch.rand(1, 1, 16, 16)
    sizes = []
    with torch.no_grad():
        for stage in encoder.stages:
            maps = stage(maps)
            sizes.append((maps.shape[1], maps.shape[2]))
    assert sizes == [(64, 16), (256, 16), (512, 8), (1024, 4), (2048, 2)]


def test_a_fresh_block_passes_its_input_on() -> None:
    block = Bottleneck(16, 4)
    maps = torch.rand(2, 16, 3, 3)
    assert torch.equal(block(maps), maps)
    assert Bottleneck(8, 4, stride=2)(torch.rand(2, 8, 4, 4)).shape == (2, 16, 2, 2)
