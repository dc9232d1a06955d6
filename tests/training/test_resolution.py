"""What a recipe leaves open is decided by the samples, and settings that do not fit them are refused."""

import dataclasses

import pytest
import torch

from labeltree.data import ArrayStore, Source
from labeltree.taxonomy import Taxonomy
from labeltree.training.read_recipes import make_recipe
from labeltree.training.recipe import Recipe
from labeltree.training.resolution import left_open, resolve_recipe

TREE = Taxonomy.from_paths([("a", "x"), ("b", "y")])


def source_of(images: bool, texts: bool) -> Source:
    return Source(
        name="made",
        taxonomy=TREE,
        nodes=TREE.leaves[torch.arange(4) % 2],
        instances=torch.arange(4),
        store=ArrayStore(torch.zeros(4, 8, 8, dtype=torch.uint8)) if images else None,
        rows=torch.arange(4),
        texts=["one", "two", "", "three"] if texts else None,
    )


@pytest.mark.parametrize(
    ("images", "texts", "encoder", "expected"),
    [
        (True, False, "auto", ("small-conv", "simclr", False)),
        (False, True, "auto", ("minilm", "dropout", True)),
        (True, True, "auto", ("small-conv", "simclr", False)),
        (True, True, "small-text", ("small-text", "dropout", False)),
        (False, True, "text:anything", ("text:anything", "dropout", True)),
        (True, False, "timm:resnet18", ("timm:resnet18", "simclr", False)),
    ],
)
def test_the_samples_decide(images, texts, encoder, expected):
    recipe = resolve_recipe(Recipe(data="made", encoder=encoder), source_of(images, texts))
    assert (recipe.encoder, recipe.views, recipe.pretrained) == expected
    assert resolve_recipe(recipe, source_of(images, texts)) == recipe


def test_what_is_given_stays():
    source = source_of(False, True)
    fresh = resolve_recipe(Recipe(data="made", pretrained=False, views="word-deletion", deletion=0.3), source)
    assert (fresh.pretrained, fresh.views, fresh.deletion) == (False, "word-deletion", 0.3)
    from_file = resolve_recipe(Recipe(data="made", encoder="minilm", weights="w.safetensors"), source)
    assert from_file.pretrained is False
    assert from_file.learning_rates == (1e-4, 1e-3)


@pytest.mark.parametrize(
    ("texts", "settings", "sentence"),
    [
        (True, {"encoder": "small-conv"}, "'small-conv' reads images, but the samples of 'made' are texts"),
        (True, {"encoder": "resnet18"}, "'resnet18' reads images, but the samples of 'made' are texts"),
        (True, {"encoder": "smalltext"}, "'smalltext', which is unknown; did you mean 'small-text'?"),
        (False, {"encoder": "minilm"}, "'minilm' reads texts, but the samples of 'made' are images"),
        (
            True,
            {"views": "crop"},
            "views is 'crop', but encoder 'minilm' reads texts, whose views are dropout",
        ),
        (
            False,
            {"views": "word-deletion"},
            "views is 'word-deletion', but encoder 'small-conv' reads images",
        ),
        (True, {"image_size": 32}, "image_size is 32, which has no effect for encoder 'minilm', which reads"),
        (True, {"flip": False}, "flip is False, which has no effect"),
        (False, {"max_length": 32}, "max_length is 32, which has no effect for encoder 'small-conv'"),
        (False, {"dropout": 0.1}, "dropout is 0.1, which has no effect"),
        (True, {"channels_last": False}, "channels_last is False, which has no effect"),
        (True, {"trainable": "head", "views": "dropout"}, "a frozen encoder drops nothing out"),
        (True, {"trainable": "head", "dropout": 0.1}, "leave dropout out, and let views be 'word-deletion'"),
        (True, {"trainable": "head", "deletion": 0.2}, "deletion is 0.2, .* while views is 'identity'"),
    ],
)
def test_what_does_not_fit(texts, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        resolve_recipe(Recipe(data="made", **settings), source_of(not texts, texts))


def test_deletion_needs_its_views():
    with pytest.raises(ValueError, match=r"deletion is 0\.2, which has no effect while views is 'dropout'"):
        Recipe(data="made", views="dropout", deletion=0.2)


def test_a_frozen_text_encoder_sees_texts_as_they_are():
    recipe = Recipe(data="made", encoder="small-text", trainable="head")
    assert resolve_recipe(recipe, source_of(False, True)).views == "identity"
    deleted = dataclasses.replace(recipe, views="word-deletion")
    assert resolve_recipe(deleted, source_of(False, True)).views == "word-deletion"
    images = dataclasses.replace(recipe, encoder="small-conv")
    assert resolve_recipe(images, source_of(True, False)).views == "identity"  # its features are fixed


@pytest.mark.parametrize("setting", [{"flip": False}, {"erasing": 0.5}, {"dropout": 0.2}])
def test_what_needs_augmentation(setting):
    with pytest.raises(ValueError, match="which has no effect while views is 'identity'"):
        Recipe(data="made", views="identity", **setting)


def test_what_was_chosen_and_what_is_left_open_may_be_the_same():
    settings = {"data": "made", "encoder": "vectors"}
    asked = make_recipe({**settings, "objective": "auto"})
    chosen = make_recipe({**settings, "objective": "pairs-proxies-means", "head.dim": 256})
    for known, recipe in ((asked, chosen), (chosen, asked)):
        assert known.differences(recipe, but=left_open(known, recipe)) == []
