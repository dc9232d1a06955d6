"""How long a run trains if its recipe does not say: by the number of its training samples."""

from collections.abc import Callable
from pathlib import Path

import pytest

from labeltree.errors import OtherSettingsError
from labeltree.runs import ModelDescription
from labeltree.training.fit import train
from labeltree.training.read_recipes import RecipeParser
from labeltree.training.recipe import Recipe
from labeltree.training.training_length import (
    ENOUGH_STEPS,
    epochs_and_batch_size,
    length_note,
    length_warning,
    steps_of,
    with_length,
)


def chosen(samples: int, **settings: int) -> tuple[int, int]:
    return epochs_and_batch_size(with_length(Recipe(data="made", **settings), samples))


def test_large_data_train_for_ten_epochs_of_256() -> None:
    for samples in (7680, 42_000, 54_000, 60_000, 2_000_000):
        assert chosen(samples) == (10, 256)


def test_few_samples_make_enough_steps_of_smaller_batches() -> None:
    assert chosen(131) == (75, 32)
    for samples in (2, 7, 8, 31, 32, 100, 500, 1023, 1024, 7679):
        epochs, batch_size = chosen(samples)
        assert steps_of(samples, epochs, batch_size) >= ENOUGH_STEPS
        assert batch_size in (8, 16, 32, 64, 128, 256)
        assert batch_size == 8 or 4 * batch_size <= samples


def test_what_is_given_is_obeyed() -> None:
    assert chosen(131, epochs=3, batch_size=100) == (3, 100)
    assert chosen(131, epochs=3) == (3, 32)
    assert chosen(131, batch_size=64) == (150, 64)
    assert chosen(60_000, batch_size=4096) == (22, 4096)


def test_a_batch_is_shared_by_the_devices() -> None:
    assert chosen(60_000, devices=3) == (10, 255)
    assert chosen(10, devices=3, num_nodes=4)[1] == 12


def test_a_recipe_that_leaves_it_open_has_no_length() -> None:
    with pytest.raises(ValueError, match="leaves epochs or batch_size open"):
        epochs_and_batch_size(Recipe(data="made", epochs=3))


def test_what_is_said() -> None:
    assert length_note(Recipe(data="made"), 131) == (
        "131 training samples: 75 epochs of batches of 32, about 300 steps; set epochs and batch_size to "
        "choose yourself"
    )
    assert str(length_note(Recipe(data="made", epochs=99), 131)).endswith(
        "; set batch_size to choose yourself"
    )
    assert length_note(Recipe(data="made", epochs=99, batch_size=8), 131) is None
    assert length_warning(Recipe(data="made"), 131) is None
    assert length_warning(Recipe(data="made", epochs=13), 131) is None  # 52 steps of batches of 32
    assert length_warning(Recipe(data="made", epochs=10, batch_size=256), 131) == (
        "131 training samples: 10 epochs of batches of 256, about 10 steps, too few for an encoder to "
        "learn much; leave out epochs and batch_size, or take --epochs 75 --batch_size 32"
    )
    assert "; leave out epochs, or" in str(length_warning(Recipe(data="made", epochs=1), 131))


def test_the_steps_are_those_of_the_sampler() -> None:
    """One that balances classes can make a single batch where there are samples for seven."""
    recipe = Recipe(data="made", epochs=2)
    assert "2 epochs of batches of 32, 2 steps;" in str(length_note(recipe, 249, steps_per_epoch=1))
    assert str(length_warning(recipe, 249, steps_per_epoch=1)).endswith(
        "leave out epochs, or take --epochs 300 --batch_size 32"
    )


@pytest.fixture
def open_recipe(image_folder: Path) -> Callable[..., Recipe]:
    """Make a recipe over the small image folder that does not say how long it trains."""

    def make(**settings: object) -> Recipe:
        given = {"data": image_folder, "val": 0.2, "image_size": 28, "accelerator": "cpu", **settings}
        return RecipeParser("supcon").recipe([f"--{name}={value}" for name, value in given.items()])

    return make


@pytest.mark.slow
def test_a_run_records_what_was_chosen_and_goes_on_with_it(
    tmp_path: Path,
    open_recipe: Callable[..., Recipe],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("labeltree.training.training_length.ENOUGH_STEPS", 6)
    monkeypatch.setattr("labeltree.training.training_length._LEAST_EPOCHS", 1)
    said = []
    folder = train(open_recipe(), tmp_path / "run", progress_bar=False, on_data=said.append)
    settings = ModelDescription.load(folder.description).settings
    epochs, batch_size = settings["epochs"], settings["batch_size"]
    history = folder.read_history()
    assert len(history) == epochs
    steps = int(history[-1]["step"])
    assert steps - steps // epochs < 6 <= steps
    assert f"{epochs} epochs of batches of {batch_size}, {steps} steps" in said[0].notes[-1]

    monkeypatch.undo()  # another version of labeltree may choose another length: the run keeps its own
    folder.encoder.unlink()
    again = train(open_recipe(), folder.path, progress_bar=False)
    assert again.encoder.is_file()
    assert len(again.read_history()) == epochs
    named = open_recipe(epochs=epochs, batch_size=batch_size)
    assert train(named, folder.path, progress_bar=False).path == folder.path
    with pytest.raises(OtherSettingsError, match=f"epochs is {epochs}, not {epochs + 1}"):
        train(open_recipe(epochs=epochs + 1, batch_size=batch_size), folder.path, progress_bar=False)
