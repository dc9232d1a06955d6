"""An estimate before a long training: what it is made for, and that it changes nothing."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from labeltree.progress import duration
from labeltree.training import training_time
from labeltree.training.experiment import prepare
from labeltree.training.recipe import Recipe
from labeltree.training.training_time import cost_note

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
    monkeypatch.setattr(training_time, "_HOURS", 0.0)
    said = cost_note(experiment)
    assert said is not None
    assert "training at 96 × 96 pixels takes about 0.0 hours here, and" in said
    assert torch.equal(torch.get_rng_state(), state)
    assert all(
        torch.equal(value, before[key]) for key, value in experiment.module.encoder.state_dict().items()
    )
    monkeypatch.setattr(training_time, "_HOURS", 10.0)
    assert cost_note(experiment) is None
    monkeypatch.setattr(training_time, "_try", lambda encoder, shape: (100.0, 1e9))
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
    monkeypatch.setattr(training_time, "_try", lambda *_: pytest.fail("tried"))
    assert cost_note(prepare(recipe_of())) is None
    monkeypatch.setattr(training_time, "_SIDE", 8)
    assert cost_note(prepare(recipe_of(trainable="head"))) is None


def test_minutes_of_training_on_texts(
    recipe_of: Callable[..., Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "".join(f"words of number {n},{'ab'[n % 2]}/{'wxyz'[n % 4]}\n" for n in range(40))
    (tmp_path / "texts.csv").write_text(f"text,label\n{rows}")
    settings = {
        "encoder": "small-text",
        "data": str(tmp_path / "texts.csv"),
        "image_size": None,
        "channels": None,
    }
    experiment = prepare(replace(Recipe(settings.pop("data")), **settings, epochs=5, views="dropout"))
    state = torch.get_rng_state()
    assert cost_note(experiment) is None  # a second or less
    monkeypatch.setattr(training_time, "_MINUTES", 0.0)
    said = cost_note(experiment)
    assert said is not None
    assert said.startswith("training the encoder on texts takes about ")
    assert "--epochs or --max_length" in said
    assert torch.equal(torch.get_rng_state(), state)
    monkeypatch.setattr(training_time, "_try_texts", lambda experiment: (6.0, 2.0))
    count = len(experiment.source.of_split("train")) * experiment.module.objective.num_views
    found = cost_note(experiment)
    assert found is not None
    assert duration(6.0 * 5 * count) in found
    pretrained = replace(experiment.module.recipe, pretrained=True)
    monkeypatch.setattr(experiment.module, "recipe", pretrained)
    faster = cost_note(experiment)
    assert faster is not None
    assert (
        f"--trainable head keeps the encoder as it is: its features take about {duration(2.0 * 40)}" in faster
    )
