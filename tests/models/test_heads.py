"""Projection heads."""

import pytest
import torch
from torch import nn

from labeltree.models import ProjectionHead


def kinds(head):
    return [type(layer).__name__ for layer in head.layers]


def test_the_head_of_the_paper():
    head = ProjectionHead(64, 16)
    assert kinds(head) == ["Linear", "BatchNorm1d", "ReLU", "Linear"]
    assert [head.layers[0].in_features, head.layers[0].out_features] == [64, 64]
    assert head.layers[0].bias is None
    assert head.layers[3].bias is not None
    assert head(torch.randn(5, 64)).shape == (5, 16)


def test_layers_width_and_norm():
    assert kinds(ProjectionHead(8, 4, num_layers=1)) == ["Linear"]
    head = ProjectionHead(8, 4, hidden_dim=32, num_layers=3, norm="none")
    assert kinds(head) == ["Linear", "ReLU", "Linear", "ReLU", "Linear"]
    assert [m.out_features for m in head.layers if isinstance(m, nn.Linear)] == [32, 32, 4]
    assert all(m.bias is not None for m in head.layers if isinstance(m, nn.Linear))
    x = torch.randn(3, 8)
    torch.testing.assert_close(head(x)[:1], head(x[:1]))  # no sample sees another


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": "layer"}, "norm is 'layer'; expected 'batch' or 'none'"),
        ({"num_layers": 0}, "num_layers is 0"),
        ({"out_dim": 0}, "out_dim is 0"),
        ({"hidden_dim": -1}, "hidden_dim is -1"),
    ],
)
def test_wrong_parameters_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        ProjectionHead(8, **options)
