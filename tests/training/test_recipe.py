"""Recipes: one schema for files, flags and Python; and errors that name the nearest valid key."""

import dataclasses
import doctest
from collections.abc import Callable
from pathlib import Path

import pytest

from labeltree.training import parser_text, registry
from labeltree.training.read_recipes import (
    RecipeError,
    RecipeParser,
    make_recipe,
    objective_of,
    parser_of,
    read_recipe,
)
from labeltree.training.recipe import Recipe

pytestmark = pytest.mark.slow


def test_flags_reach_the_recipe() -> None:
    recipe = RecipeParser("hwc+lam").recipe(
        [
            "--data",
            "photos",
            "--objective",
            "hwc+lam",
            "--hwc.alpha",
            "0.7",
            "--optimizer.lr=0.01",
            "--epochs=3",
        ]
    )
    assert (recipe.data, recipe.objective, recipe.epochs, recipe.optimizer.lr) == (
        "photos",
        "hwc+lam",
        3,
        0.01,
    )
    assert recipe.options["hwc"]["alpha"] == 0.7
    assert recipe.options.keys() == {"hwc", "lam"}


def test_file_and_overrides(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("data: photos\nobjective: hwc\nepochs: 7\nhwc:\n  gamma: 0.25\noptimizer:\n  name: sgd\n")
    recipe = read_recipe(path, ["--epochs", "9"])
    assert (recipe.epochs, recipe.optimizer.name, recipe.options["hwc"]["gamma"]) == (9, "sgd", 0.25)
    assert objective_of(["--config", str(path)]) == "hwc"
    assert objective_of(["--config", str(path), "--objective=supcon"]) == "supcon"


@pytest.mark.parametrize("name", ["soft-labels", "soft_labels"])
def test_options_of_names_with_a_hyphen(name: str, tmp_path: Path) -> None:
    """The parser writes ``-`` as ``_``; the recipe has the objective's own name."""
    recipe = RecipeParser("soft-labels").recipe(["--data", "x", f"--{name}.beta", "4"])
    assert recipe.options["soft-labels"]["beta"] == 4
    (tmp_path / "written.yaml").write_text(f"data: x\nobjective: soft-labels\n{name}:\n  beta: 4\n")
    assert read_recipe(tmp_path / "written.yaml") == recipe
    recipe.save(tmp_path / "saved.yaml")
    assert read_recipe(tmp_path / "saved.yaml") == recipe
    other = read_recipe(tmp_path / "saved.yaml", [f"--{name}.beta", "5"])
    assert recipe.differences(other) == ["soft-labels.beta is 4.0, not 5.0"]


def test_round_trip(tmp_path: Path, recipe_of: Callable[..., Recipe]) -> None:
    for objective in ("simclr", "hicone", "hwc+lam"):
        recipe = recipe_of(objective, seed=3, geometry="poincare")
        recipe.save(tmp_path / "recipe.yaml")
        assert read_recipe(tmp_path / "recipe.yaml") == recipe
        assert recipe.differences(recipe_of(objective, seed=4, geometry="poincare")) == ["seed is 3, not 4"]
        assert not recipe.differences(recipe_of(objective, seed=3, geometry="poincare", workers=2))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("data: x\nepocs: 3\n", "unknown setting 'epocs'; did you mean 'epochs'"),
        ("data: x\noptimizer:\n  lrr: 3\n", r"unknown setting 'optimizer.lrr'; did you mean 'optimizer.lr'"),
        (
            "data: x\nobjective: hwc\nhwc:\n  alpah: 3\n",
            r"unknown setting 'hwc.alpah'; did you mean 'hwc.alpha'",
        ),
        ("data: x\nepochs: many\n", "epochs: expected a whole number or null; got many"),
        ("- a\n- b\n", "must hold settings by name"),
        ("data: [x\n", "line [12] is not YAML"),
        ("epochs: 3\n", "data"),
    ],
)
def test_bad_files(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(content)
    with pytest.raises(RecipeError, match=message):
        read_recipe(path)


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--channels=2", "channels: expected 1 or 3 or null; got 2"),
        ("--precision=foo", "precision: expected '32' or 'bf16' or '16'; got foo"),
        ("--patience=x", "patience: expected a whole number or null; got x"),
        ("--flip=maybe", "flip: expected true or false; got maybe"),
        ("--optimizer.lr=x", "optimizer.lr: expected a number or null; got x"),
        ("--term_weights=2", "term_weights: expected a list; got 2"),
        ("--lam.margins=[a]", "lam.margins: expected a number or a list such as [1, 2] or null; got ['a']"),
        ("--head=foo", "'head' is a group of settings; set head.dim or head.hidden instead"),
        ("--alpha=1", "unknown setting 'alpha'; did you mean 'hwc.alpha'?"),
    ],
)
def test_values_of_the_wrong_kind(flag: str, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        RecipeParser("hwc+lam").recipe(["--data", "x", flag])
    assert str(caught.value) == message


def test_the_example_of_an_explanation() -> None:
    assert doctest.testmod(parser_text) == (0, 6)


def test_bad_flags() -> None:
    with pytest.raises(RecipeError, match="unknown setting 'epocs'; did you mean 'epochs'"):
        RecipeParser("supcon").recipe(["--data", "x", "--epocs", "3"])
    with pytest.raises(RecipeError, match="unknown setting 'obj'"):
        RecipeParser("supcon").recipe(["--data", "x", "--obj", "hwc"])
    with pytest.raises(RecipeError, match=r"unknown setting 'hwc\.alpha'"):
        RecipeParser("supcon").recipe(["--data", "x", "--hwc.alpha", "3"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs is 0; it must be 1 or more"),
        ({"curvature": 1.0}, "curvature is 1.0; it must be below 0"),
        ({"val": 0.0}, "val is 0.0; it must be between 0 and 1"),
        ({"ema": 1.0}, "ema is 1.0"),
        ({"ema_evaluate": True}, "ema_evaluate is True; it must be false where ema is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"batch_size": 1}, "batch_size is 1"),
    ],
)
def test_values_out_of_range(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recipe(data="x", **settings)  # type: ignore[arg-type]


def test_the_defaults_are_what_our_studies_advise() -> None:
    """Not the paper's range of alpha, nor the printed bound of every pair, which does not learn."""
    assert Recipe.objective == "auto"
    parsed = RecipeParser("hwc+lam").recipe(["--data", "x"]).options["hwc"]
    assert (parsed["alpha"], parsed["gamma"]) == (0.0, 0.5)
    for name in ("hicone", "himulcone"):
        assert RecipeParser(name).recipe(["--data", "x"]).options[name]["variant"] == "reference", name


def test_the_help_is_for_people() -> None:
    assert doctest.testmod(parser_text).failed == 0
    text = RecipeParser("hwc+lam+mlcl").format_help()
    for mark in ("`", "None", "Literal", "Optional[", "Union["):
        assert mark not in text, mark
    assert "--hwc.alpha" in text


def test_a_parser_is_made_once_until_its_objective_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (make_recipe({"data": "x", "objective": "hwc"}) for _ in range(2))
    assert first == second
    first.options["hwc"]["alpha"] = 9.0
    assert second == make_recipe({"data": "x", "objective": "hwc"}), "no recipe shares what can be changed"
    parser = parser_of("hwc")
    assert parser_of("hwc") is parser
    changed = dataclasses.replace(registry.get_objective("hwc"), loss=registry.get_objective("supcon").loss)
    monkeypatch.setitem(registry._entries, "hwc", changed)
    assert parser_of("hwc") is not parser


def test_a_file_is_parsed_once_and_read_again_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text("data: x\nobjective: hwc\n")
    first = read_recipe(file)
    first.options["hwc"]["alpha"] = 9.0
    second = read_recipe(file)
    assert second.options["hwc"]["alpha"] != 9.0
    assert read_recipe(file) == second
    assert read_recipe(file, ["--epochs", "3"]).epochs == 3
    file.write_text("data: x\nobjective: hwc\nepochs: 4\n")
    assert read_recipe(file).epochs == 4
    file.write_text("data: x\nepocs: 4\n")
    for _ in range(2):
        with pytest.raises(RecipeError, match=r"^recipe '.*recipe.yaml': unknown setting 'epocs'"):
            read_recipe(file)
    with pytest.raises(RecipeError, match=r"^no recipe at 'nowhere'"):
        read_recipe("nowhere")
