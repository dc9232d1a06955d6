"""A run that starts from the weights of another keeps its splits: no test sample has taught these weights."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from labeltree.data import Source
from labeltree.inference.load_run import seen_by_start
from labeltree.inference.named_samples import seen_in_training
from labeltree.runs import RunFolder
from labeltree.taxonomy.version_history import Revision
from labeltree.training.choosing.earlier_splits import say_earlier_splits, say_new_split
from labeltree.training.recipe import Recipe, TableRecipe
from labeltree.training.recipe_data import open_recipe_data, split_by_recipe
from labeltree.training.records.same_samples import record_samples

Rows = list[tuple[str, ...]]
ROWS: Rows = [(f"note {i}", f"{'ab'[i % 2]}/{'xyz'[i % 3]}", f"p{i // 3}", "") for i in range(90)]
OTHER_TREE: Rows = [
    (text, f"new/{label}" if label[0] == "a" else label, *more) for text, label, *more in ROWS
]


def write(path: Path, rows: Rows, head: str = "text,label,patient,split") -> Path:
    path.write_text("\n".join([head, *map(",".join, rows)]), "utf-8")
    return path


def recipe(table: Path, *, patients: bool = False, **settings: object) -> Recipe:
    columns = TableRecipe(
        text_column="text", label_columns=["label"], group_column="patient" if patients else "none"
    )
    return Recipe(data=str(table), table=columns, encoder="small-text", **settings)  # type: ignore[arg-type]


@pytest.fixture
def begin(tmp_path: Path) -> Callable[[str, Recipe], str]:
    """Write the recipe and the record of a run without training it."""

    def make(name: str, recipe: Recipe) -> str:
        folder = RunFolder(tmp_path / name)
        folder.path.mkdir()
        data = open_recipe_data(recipe)
        record_samples(data, split_by_recipe(recipe, data)).save(folder.samples)
        recipe.save(folder.recipe)
        return str(folder.path)

    return make


def splits(recipe: Recipe) -> tuple[Source, dict[str, str]]:
    """The samples of a recipe, and the split of each text."""
    source = split_by_recipe(recipe, open_recipe_data(recipe))
    assert source.split is not None
    assert source.texts is not None
    texts = [source.texts[row] for row in source.rows.tolist()]
    return source, dict(zip(texts, source.split.tolist(), strict=True))


@pytest.mark.parametrize("place", ["", "encoder.safetensors"])
def test_known_samples_keep_their_split_on_another_tree(
    tmp_path: Path, begin: Callable[[str, Recipe], str], place: str
) -> None:
    first = recipe(write(tmp_path / "old.csv", ROWS))
    run, (_, before) = begin("run", first), splits(first)
    more = [(f"further note {i}", "b/x", "", "") for i in range(40)]
    table = write(tmp_path / "new.csv", [*more, *OTHER_TREE[::-1]])  # every row stands elsewhere
    anew = splits(recipe(table, seed=5))[1]
    assert any(anew[text] != split for text, split in before.items())
    settings = recipe(table, seed=5, weights=str(Path(run) / place))
    source, after = splits(settings)
    assert {text: after[text] for text in before} == before
    drawn = [after[text] for text, *_ in more]
    assert (drawn.count("test"), drawn.count("val")) == (8, 3)
    said, warned = say_earlier_splits(settings, source)
    assert said.startswith("90 of 130 samples keep the split that they had in ")
    assert said.endswith("; 40 samples are new to it")
    assert not warned


def test_a_patient_is_never_divided(tmp_path: Path, begin: Callable[[str, Recipe], str]) -> None:
    first = recipe(write(tmp_path / "old.csv", ROWS), patients=True)
    run, (_, before) = begin("run", first), splits(first)
    more = [(f"another note {i}", "b/x", f"p{i}", "") for i in range(30)]
    table = write(tmp_path / "new.csv", [*ROWS, *more])
    _, after = splits(recipe(table, patients=True, seed=3, weights=run))
    for i in range(30):
        assert {after[f"note {3 * i + j}"] for j in range(3)} == {before[f"note {3 * i}"]}
        assert after[f"another note {i}"] == before[f"note {3 * i}"], "a new sample of a known patient"


def test_splits_of_the_data_stay_and_are_warned_of(
    tmp_path: Path, begin: Callable[[str, Recipe], str]
) -> None:
    first = recipe(write(tmp_path / "old.csv", ROWS))
    run, (_, before) = begin("run", first), splits(first)
    marked = [(*row[:3], "test" if i < 20 else "train") for i, row in enumerate(ROWS)]
    settings = recipe(write(tmp_path / "new.csv", marked), seed=3, weights=run)
    source, after = splits(settings)
    assert [after[f"note {i}"] == "test" for i in range(90)] == [i < 20 for i in range(90)]
    assert not any(after[text] == "val" and split == "train" for text, split in before.items())
    taught = sum(before[f"note {i}"] in ("train", "val") for i in range(20))
    (warning,) = say_earlier_splits(settings, source)[1]
    assert warning.startswith(
        f"{taught} of 20 test samples taught '{run}', whose weights this run starts from: "
    )
    assert "leave the split column out" in warning


def test_what_is_asked_for_and_cannot_be_new_is_warned_of(
    tmp_path: Path, begin: Callable[[str, Recipe], str]
) -> None:
    table = write(tmp_path / "notes.csv", ROWS)
    run = begin("run", recipe(table))
    for settings, text in (
        (recipe(table, weights=run, calib=0.2), "calibration samples taught"),
        (recipe(table, weights=run, fold="1/3"), "of 30 test samples taught"),
    ):
        source, after = splits(settings)
        assert set(after.values()) >= {"train", "val", "test"}
        assert any(text in warning for warning in say_earlier_splits(settings, source)[1])


def test_runs_before_the_run_count_too(tmp_path: Path, begin: Callable[[str, Recipe], str]) -> None:
    half, whole = write(tmp_path / "half.csv", ROWS[:45]), write(tmp_path / "whole.csv", ROWS)
    first = begin("first", recipe(half))
    second = begin("second", recipe(write(tmp_path / "rest.csv", ROWS[45:]), weights=first))
    before = splits(recipe(half))[1] | splits(recipe(tmp_path / "rest.csv", weights=first))[1]
    source, after = splits(recipe(whole, seed=7, weights=second))
    assert after == before
    last = recipe(tmp_path / "rest.csv", weights=first)
    run: Any = SimpleNamespace(folder=RunFolder(second), recipe=last)
    held_out = [split == "test" for split in after.values()]
    assert (~seen_in_training(run, source)).tolist() == held_out, "nor does extend hold them out"
    digests = source.copy_digests()
    assert seen_by_start(last, digests) == sum(split != "test" for split in list(after.values())[:45])
    assert seen_by_start(last, digests[held_out]) == 0


def test_a_sample_whose_content_was_changed_is_known_by_its_name(
    tmp_path: Path, begin: Callable[[str, Recipe], str]
) -> None:
    first = recipe(write(tmp_path / "old.csv", ROWS))
    run, (source, _) = begin("run", first), splits(first)
    edited = [(row[0] + (" again" if i % 4 == 0 else ""), *row[1:]) for i, row in enumerate(ROWS)]
    now, _ = splits(recipe(write(tmp_path / "new.csv", edited), seed=4, weights=run))
    assert np.array_equal(np.asarray(now.split), np.asarray(source.split))
    other = write(
        tmp_path / "other.csv", [(f"on something else {i}", *row[1:]) for i, row in enumerate(ROWS)]
    )
    settings = recipe(other, seed=4, weights=run)
    source, after = splits(settings)
    assert after == splits(recipe(other, seed=4))[1]
    assert say_earlier_splits(settings, source) == ("", [])


def test_a_new_split_on_a_later_version_is_said(tmp_path: Path, begin: Callable[[str, Recipe], str]) -> None:
    table = write(tmp_path / "notes.csv", ROWS)
    folder = RunFolder(begin("run", first := recipe(table)))
    tree = open_recipe_data(first).taxonomy
    tree.save(folder.taxonomy)
    assert say_new_split(first, folder) is None
    history = [Revision("2023", "a" * 64), Revision("2024", tree.digest)]
    tree.with_release("2024", history).save(folder.taxonomy)
    said = say_new_split(first, folder)
    assert said is not None
    assert "--weights THAT_RUN or a column of your own (--table.split_column) keeps its split" in said
    assert say_new_split(recipe(table, weights="run"), folder) is None
    marked = [(*row[:3], "test" if i < 20 else "train") for i, row in enumerate(ROWS)]
    given = RunFolder(begin("given", recipe(write(tmp_path / "given.csv", marked))))
    folder.load_taxonomy().save(given.taxonomy)
    assert say_new_split(first, given) is None
