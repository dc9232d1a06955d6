"""What is refused before anything slow happens, and which run a command takes up."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labeltree.errors import DataError, RunError
from labeltree.training.fit import train
from labeltree.training.read_recipes import default_folder, with_absolute_paths
from labeltree.training.recipe import Recipe

pytestmark = pytest.mark.slow


def test_a_folder_is_not_overwritten(tmp_path: Path, recipe_of: Callable[..., Recipe]) -> None:
    recipe_of("supcon", seed=1).save(tmp_path / "recipe.yaml")
    with pytest.raises(RunError, match=r"holds a run with other settings \(seed is 1, not 2\)"):
        train(recipe_of("supcon", seed=2), tmp_path)


def test_unknown_monitor(tmp_path: Path, recipe_of: Callable[..., Recipe]) -> None:
    with pytest.raises(ValueError, match="monitor is 'accuracy'; it must be one of recall_at_1"):
        train(recipe_of("supcon", monitor="accuracy"), tmp_path)


def test_a_run_from_when_nothing_was_left_open_goes_on(
    tmp_path: Path, recipe_of: Callable[..., Recipe]
) -> None:
    """What such a recipe says is what is decided now; another encoder is still another."""
    old = {"encoder": "small-conv", "views": "simclr", "pretrained": False}
    folder = train(recipe_of("supcon", epochs=1, **old), tmp_path / "run", progress_bar=False)
    assert train(recipe_of("supcon", epochs=1), folder.path, progress_bar=False).path == folder.path
    folder.encoder.unlink()
    train(recipe_of("supcon", epochs=1), folder.path, progress_bar=False)
    assert folder.encoder.is_file()
    other = train(recipe_of("supcon", epochs=1, views="crop"), tmp_path / "other", progress_bar=False)
    with pytest.raises(RunError, match=r"other settings \(views is crop, not simclr\)"):
        train(recipe_of("supcon", epochs=1), other.path, progress_bar=False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encoder": "minilm"}, "'labeltree data get minilm' fetches them"),
        ({"encoder": "minilm", "pretrained": False}, "'labeltree data get minilm' fetches them"),
        ({"encoder": "efficientnet-lite0", "pretrained": True}, "'labeltree data get efficientnet-lite0'"),
        ({"weights": "nowhere.safetensors"}, "weights: there is no file nowhere.safetensors"),
    ],
)
def test_what_is_not_there_is_missed_before_samples_are_read(
    tmp_path: Path,
    recipe_of: Callable[..., Recipe],
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    message: str,
) -> None:
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "empty"))
    monkeypatch.setattr("labeltree.training.experiment.open_recipe_source", lambda *_: pytest.fail("read"))
    with pytest.raises((DataError, ValueError), match=message):
        train(recipe_of("supcon", **{"encoder": "small-conv", **settings}), tmp_path / "run")


def test_files_are_named_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a run is found from any folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "unpacked").mkdir()
    recipe = with_absolute_paths(Recipe(data="emoji", data_path="unpacked", encoder="text:model"))
    assert recipe.data == "emoji"
    assert recipe.data_path == str(tmp_path / "unpacked")
    assert recipe.encoder == f"text:{tmp_path / 'model'}"
    assert with_absolute_paths(Recipe(data="emoji", encoder="text:all-mpnet")).encoder == "text:all-mpnet"
    assert with_absolute_paths(Recipe(data="emoji", encoder="timm:model")).encoder == "timm:model"


def test_patterns_of_shards_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(2):
        (tmp_path / f"birds-{number}.tar").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    recipe = with_absolute_paths(Recipe(data="birds-{0..1}.tar"))
    assert recipe.data == str(tmp_path / "birds-{0..1}.tar")
    assert default_folder(recipe) == Path("runs/birds")
    assert default_folder(Recipe(data=str(tmp_path / "{0..1}.tar"))) == Path("runs") / tmp_path.name
