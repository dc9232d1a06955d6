"""A recipe's fold is the test split of its run; validation samples come from the other folds."""

from pathlib import Path

import pytest

from labeltree.training.recipe import Recipe, TableRecipe
from labeltree.training.recipe_data import open_recipe_source


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Sixty notes of twenty patients."""
    rows = [f"note {i},{'ab'[i % 2]}/{'xyz'[i % 3]},p{i % 20}" for i in range(60)]
    path = tmp_path / "notes.csv"
    path.write_text("\n".join(["text,label,patient", *rows]), "utf-8")
    return path


def recipe(table: Path, **settings: object) -> Recipe:
    columns = TableRecipe(text_column="text", label_columns=["label"], group_column="patient")
    return Recipe(data=str(table), table=columns, **settings)  # type: ignore[arg-type]


def test_folds_of_one_seed_test_every_sample_once(table: Path) -> None:
    tested: list[int] = []
    for fold in ("1/3", "2/3", "3/3"):
        source = open_recipe_source(recipe(table, fold=fold))
        assert source.groups is not None
        patients = [set(source.of_split(name).groups.tolist()) for name in ("train", "val", "test")]  # type: ignore[union-attr]
        assert all(patients)
        assert sum(map(len, patients)) == 20, "no patient is on two sides"
        tested += source.of_split("test").instances.tolist()
    assert sorted(tested) == list(range(60))


def test_without_a_fold_the_share_decides(table: Path) -> None:
    plain = open_recipe_source(recipe(table, test=0.5))
    assert len(plain.of_split("test")) == pytest.approx(30, abs=3)


def test_a_fold_that_there_is_not_is_named(table: Path) -> None:
    with pytest.raises(ValueError, match="fold is '4/3'; it is written as 2/5"):
        recipe(table, fold="4/3")
    with pytest.raises(ValueError, match=r"test is 0.3, which has no effect while fold chooses"):
        recipe(table, fold="1/3", test=0.3)
