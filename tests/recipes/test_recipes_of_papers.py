"""Every published setting trains: two steps on a miniature, once for all that are alike but in numbers."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from paper_recipes import TEXT, TREES, PaperRecipe, paper_recipes, write_miniature, write_reviews

from labeltree.cli.main import main
from labeltree.errors import DataError
from labeltree.models import build_encoder, set_trainable
from labeltree.training.fit import train
from labeltree.training.read_recipes import read_recipe
from sweeps import long_unless

pytestmark = pytest.mark.slow

ALL = paper_recipes()
OF_IMAGES = [recipe for recipe in ALL if recipe.settings["data"] not in TEXT]
OF_TEXT = [recipe for recipe in ALL if recipe.settings["data"] in TEXT]


def name_of(recipe: PaperRecipe) -> str:
    return recipe.name


@pytest.fixture(scope="session")
def miniature(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a data set's miniature, by the data set's name."""
    written: dict[tuple[int, ...], Path] = {}

    def folder(name: str) -> Path:
        tree = TREES[name]
        if tree not in written:
            written[tree] = write_miniature(tmp_path_factory.mktemp("miniature") / "images", tree)
        return written[tree]

    return folder


REPLACED = {"encoder", "pretrained", "weights", "image_size", "batch_size", "epochs", "data"}
"""What a miniature has in place of the recipe's own."""


def trained_alike(recipe: PaperRecipe) -> str:
    """What recipes share that are trained in one way: all but the values of numbers, and what is replaced."""

    def without_numbers(value: object) -> object:
        if isinstance(value, dict):
            return {name: without_numbers(part) for name, part in value.items()}
        if isinstance(value, list):
            return [without_numbers(part) for part in value]
        return value if value is None or isinstance(value, bool | str) else "a number"

    shared = [(name, without_numbers(recipe.settings[name])) for name in recipe.settings.keys() - REPLACED]
    return repr((len(TREES[str(recipe.settings["data"])]), sorted(shared)))


def small(recipe: PaperRecipe, data: Path) -> list[str]:
    """What makes a run of the recipe small: the data, the encoder and widths, but nothing of its method."""
    settings = {
        "data": data, "encoder": "small-conv", "pretrained": False, "weights": "null", "image_size": 16,
        "batch_size": 8, "epochs": 1, "val": 0.25, "test": 0.25, "accelerator": "cpu",
    }  # fmt: skip
    if "queue" in recipe.settings:
        settings["queue.size"] = 12
    if "hidden" in recipe.settings.get("head", {}):  # type: ignore[operator]
        settings["head.hidden"] = 16
    return [f"--{name}={value}" for name, value in settings.items()]


def beside_the_images(recipe: PaperRecipe, data: Path, folder: Path) -> list[str]:
    """The files that a recipe needs besides its data set."""
    leaves = [path.name for path in folders(data) if not any(child.is_dir() for child in path.iterdir())]
    if recipe.settings["objective"] == "devise":
        file = folder / "vectors.txt"
        file.write_text("".join(f"{leaf} {number} 1.0 -0.5\n" for number, leaf in enumerate(leaves)))
        return [f"--devise.vectors={file}"]
    return []


def folders(data: Path) -> list[Path]:
    return sorted(path for path in data.rglob("*") if path.is_dir())


KINDS = {"hiercon", "hwc+lam", "hxe", "devise", "coins", "label-embedding"}
"""Objectives of each kind: of pairs, prototypes, classes, words, a queue; test_objectives.py trains all."""


def once_a_kind() -> list[object]:
    """One recipe of each kind of objective, and the others marked long."""
    several = {trained_alike(recipe): recipe for recipe in OF_IMAGES}.values()
    first = {recipe.settings["objective"]: recipe for recipe in several}
    now = [recipe for objective, recipe in first.items() if objective in KINDS]
    return [
        pytest.param(recipe, id=name_of(recipe), marks=() if recipe in now else pytest.mark.long)
        for recipe in several
    ]


@pytest.mark.parametrize("recipe", once_a_kind())
def test_two_steps_on_a_miniature(
    recipe: PaperRecipe, miniature: Callable[[str], Path], tmp_path: Path
) -> None:
    data = miniature(str(recipe.settings["data"]))
    overrides = [*small(recipe, data), *beside_the_images(recipe, data, tmp_path)]
    run = train(read_recipe(recipe.file, overrides), tmp_path / "run", progress_bar=False)
    (row,) = run.read_history()
    assert row["step"] == 2
    losses = {name: value for name, value in row.items() if name.startswith("train_")}
    assert losses.keys() >= {"train_loss"}
    assert all(math.isfinite(value) for value in losses.values())
    assert all(value.isfinite().all() for value in run.load_weights().values())


@pytest.mark.parametrize("recipe", ALL, ids=name_of)
def test_absent_data_get_one_sentence(
    recipe: PaperRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or absent weights, of a recipe that goes on from another."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "cache"))
    name = recipe.settings["data"]
    missed = "weights" if "weights" in recipe.settings else f"data set '{name}'"
    with pytest.raises((DataError, ValueError), match=f"^{missed}: [^\n]+$"):
        train(read_recipe(recipe.file), "run", progress_bar=False)
    assert not list(tmp_path.iterdir())


def test_the_program_says_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LABELTREE_DATA", str(tmp_path / "cache"))
    recipe = next(recipe for recipe in OF_IMAGES if recipe.settings["data"] == "inshop")
    assert main(["train", "--config", str(recipe.file)]) == 2
    said = capsys.readouterr().err
    assert "data set 'inshop': there is no folder '" in said
    assert "data_path" in said
    assert said.count("\n") == 1


NAMED = sorted({(r.settings["encoder"], r.settings["image_size"]) for r in OF_IMAGES})


@pytest.mark.parametrize(("encoder", "size"), NAMED)
def test_named_encoders_exist(encoder: str, size: int) -> None:
    built = build_encoder(encoder, image_size=size)
    policies = {r.settings.get("trainable", "all") for r in OF_IMAGES if r.settings["encoder"] == encoder}
    for policy in policies:
        set_trainable(built, str(policy))
    if "last:1" in policies:  # the fourth layer of ResNet-50
        set_trainable(built, "last:1")
        assert sum(p.numel() for p in built.parameters() if p.requires_grad) == 14_964_736


@pytest.mark.usefixtures("few_words")
@pytest.mark.parametrize(
    "recipe",
    long_unless(OF_TEXT, [OF_TEXT[-1], *(r for r in OF_TEXT if r.settings["objective"] == "ce")]),
    ids=name_of,
)
def test_two_steps_on_a_few_reviews(recipe: PaperRecipe, tmp_path: Path) -> None:
    name = str(recipe.settings["data"])
    assert str(recipe.settings["encoder"]).startswith("text:")
    settings = {
        "data_path": write_reviews(tmp_path / "reviews", name), "encoder": "small-text", "pretrained": False,
        "batch_size": 8, "train_limit": 16, "epochs": 1, "val": 0.25, "accelerator": "cpu",
    }  # fmt: skip
    overrides = [f"--{setting}={value}" for setting, value in settings.items()]
    run = train(read_recipe(recipe.file, overrides), tmp_path / "run", progress_bar=False)
    (row,) = run.read_history()
    assert row["step"] == 2
    assert math.isfinite(row["train_loss"])
    assert all(value.isfinite().all() for value in run.load_weights().values())
