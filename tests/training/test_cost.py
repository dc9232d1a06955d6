"""An estimate before a long training: what it is made for, and that it changes nothing."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from labeltree.training import cost
from labeltree.training.cost import cost_note
from labeltree.training.experiment import prepare
from labeltree.training.recipe import Recipe

pytestmark = pytest.mark.slow


def test_hours_and_memory(
    recipe_of: Callable[..., Recipe],
    make_image_folder: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = make_image_folder(tmp_path / "photos", size=96, per_leaf=4)
    recipe = replace(recipe_of(image_size=96, encoder="small-conv"), data=str(data), epochs=5)
    experiment = prepare(recipe)
    before = {key: value.clone() for key, value in experiment.module.encoder.state_dict().items()}
    state = torch.get_rng_state()
    monkeypatch.setattr(cost, "_HOURS", 0.0)
    said = cost_note(experiment)
    assert said is not None
    assert "training at 96 × 96 pixels takes about 0.0 hours here, and" in said
    assert torch.equal(torch.get_rng_state(), state)
    assert all(
        torch.equal(value, before[key]) for key, value in experiment.module.encoder.state_dict().items()
    )
    monkeypatch.setattr(cost, "_HOURS", 10.0)
    assert cost_note(experiment) is None
    monkeypatch.setattr(cost, "_try", lambda encoder, shape: (100.0, 1e9))
    # 16 training samples, two views each, five epochs of 100 seconds an image; nine samples a batch
    found = cost_note(experiment)
    count = len(experiment.source.of_split("train"))
    assert found is not None
    assert (
        f"takes about {100 * 2 * 5 * count / 3600:.1f} hours here, and the activations of a batch 18.0 GB"
        in found
    )


def test_nothing_is_tried_for_small_images_and_frozen_encoders(
    recipe_of: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "_try", lambda *_: pytest.fail("tried"))
    assert cost_note(prepare(recipe_of())) is None
    monkeypatch.setattr(cost, "_SIDE", 8)
    assert cost_note(prepare(recipe_of(trainable="head"))) is None
