"""What the encoder reads: pixels as its published weights expect them, in training and ever after."""

from collections.abc import Callable

import pytest
import torch

from labeltree.models import build_encoder, register_encoder
from labeltree.models.encoder_registry import _ENTRIES
from labeltree.models.small_image_encoders import small_conv
from labeltree.training.experiment import prepare
from labeltree.training.network import Network, build_network
from labeltree.training.recipe import Recipe
from labeltree.training.recipe_data import open_recipe_source
from labeltree.training.resolution import resolve_recipe
from labeltree.training.tokens_and_views import IMAGENET_MEAN

pytestmark = pytest.mark.slow


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoders with weights to start from; those of one say what they expect."""
    monkeypatch.setattr("labeltree.models.encoder_registry._ENTRIES", dict(_ENTRIES))

    def says(channels: int, size: int) -> torch.nn.Module:
        encoder = small_conv(channels, size)
        encoder.mean, encoder.std = (0.25,) * channels, (0.5,) * channels
        return encoder

    register_encoder("says", summary="", pretrained=says)(says)
    register_encoder("says-nothing", summary="", pretrained=small_conv)(small_conv)


def loaded(recipe: Recipe) -> Network:
    """The network of a finished run, built without the weights that it started from."""
    source = open_recipe_source(recipe)
    resolved = resolve_recipe(recipe, source)
    return build_network(resolved, source.taxonomy, image_shape=source.image_shape)


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("adapter", [None, 4])
def test_pixels_are_normalised_as_published_weights_expect(
    recipe_of: Callable[..., Recipe], adapter: int | None
) -> None:
    """Also where a run is loaded again, without the weights that it started from."""

    def views_of(encoder: str, pretrained: bool) -> list[torch.Tensor | None]:
        recipe = recipe_of(encoder=encoder, pretrained=pretrained, adapter=adapter or "null")
        views = prepare(recipe).module.views
        return [views.training.mean, views.plain.mean, loaded(recipe)._plain.mean]

    for mean in views_of("says", True):
        assert mean.tolist() == [0.25] * 3
    for mean in views_of("says-nothing", True):
        torch.testing.assert_close(mean, torch.tensor(IMAGENET_MEAN))
    assert views_of("says", False) == [None, None, None]


def test_a_run_of_efficientnet_lite0_is_evaluated_as_it_was_trained(
    recipe_of: Callable[..., Recipe],
) -> None:
    pytest.importorskip("timm")
    recipe = recipe_of(encoder="efficientnet-lite0", pretrained=True)
    plain = loaded(recipe)._plain
    torch.testing.assert_close(plain.mean, torch.full((3,), 127 / 255))
    torch.testing.assert_close(plain.std, torch.full((3,), 128 / 255))


def test_timm_says() -> None:
    pytest.importorskip("timm")
    encoder = build_encoder("timm:tf_efficientnet_lite0")
    assert (encoder.mean, encoder.std) == ((0.5,) * 3, (0.5,) * 3)
    assert build_encoder("timm:tf_efficientnet_lite0", channels=1).mean is None
