"""A run for each fold: what is left open is chosen with the first, and the data are summed up once."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labeltree.errors import RunError
from labeltree.report import cross_validation
from labeltree.report.cross_validation import train_folds
from labeltree.training.recipe import Recipe


def test_what_the_first_fold_chose_holds_for_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told: list[tuple[Any, ...]] = []

    def train(recipe: Recipe, place: Path, *, progress_bar: bool, on_data: Any, verify: bool) -> Any:
        told.append((recipe.fold, recipe.objective, recipe.epochs, on_data, verify))
        return SimpleNamespace(description=place)

    chosen = {"epochs": 7, "batch_size": 32, "encoder": "small-conv", "objective": "ce"}
    monkeypatch.setattr(cross_validation, "train", train)
    monkeypatch.setattr(cross_validation, "finish_run", lambda run, progress_bar: None)
    monkeypatch.setattr(
        cross_validation.ModelDescription, "load", lambda place: SimpleNamespace(settings=chosen)
    )
    recipe = Recipe(data="photos", objective="auto", encoder="small-conv")
    train_folds(recipe, 3, tmp_path / "folds", on_data=print, verify=True)
    assert [fold for fold, *_ in told] == ["1/3", "2/3", "3/3"]
    assert [objective for _, objective, *_ in told] == ["auto", "ce", "ce"]
    assert [epochs for _, _, epochs, *_ in told] == [recipe.epochs, 7, 7]
    assert [on_data for *_, on_data, _ in told] == [print, None, None]
    assert all(verify for *_, verify in told)
    with pytest.raises(RunError, match="holds the runs of 3 folds, not 2"):
        train_folds(recipe, 2, tmp_path / "folds")
