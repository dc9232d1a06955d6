"""The page on training names settings that there are, with the defaults that they have."""

import re
from pathlib import Path

import yaml

from labeltree.training.read_recipes import RecipeParser
from labeltree.training.recipe import Recipe
from labeltree.training.recipe_settings import value_of
from labeltree.training.registry import list_objectives

PAGE = (Path(__file__).parents[2] / "docs" / "training.md").read_text("utf-8")


def test_every_flag_is_a_setting() -> None:
    known = {action.dest for action in RecipeParser("hwc+lam")._actions} | {
        *("out", "quiet", "verify", "offline"),
    }
    objectives = {entry.name for entry in list_objectives()}
    of_training = re.sub(
        r"`(?:(?:labeltree )?(?:evaluate|embed|calibrate|predict)|wandb sync) [^`]*`", "", PAGE
    )
    of_training = re.sub(
        r"^(?:\$ torchrun|#SBATCH) .*", "", of_training, flags=re.MULTILINE
    )  # their own flags
    flags = re.findall(r"--([a-z][\w.-]*)", of_training)
    assert len(flags) > 40
    for flag in flags:
        assert flag in known or flag.split(".")[0] in objectives, flag


def test_defaults_in_tables() -> None:
    rows = re.findall(r"^\| `--([\w.]+)` \| `([^`]+)` \|", PAGE, re.MULTILINE)
    assert {name for name, _ in rows} >= {"channels_last", "precision", "compile", "encode_chunk", "workers"}
    for name, default in rows:
        given = value_of(Recipe(data="photos"), name)
        assert yaml.safe_load(default) == given or default == given, name
