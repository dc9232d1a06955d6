"""A recipe that trains in a second or two."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labeltree.training.read_recipes import parser_of
from labeltree.training.recipe import Recipe


@pytest.fixture(scope="session")
def recipe_of(image_folder: Path) -> Callable[..., Recipe]:
    """Make a recipe over the small image folder; keyword arguments change settings, dotted as ``a__b``."""

    def make(objective: str = "supcon", **settings: Any) -> Recipe:
        arguments = ["--data", str(image_folder), "--objective", objective]
        defaults = {"epochs": 2, "batch_size": 9, "val": 0.2, "image_size": 28, "accelerator": "cpu"}
        for key, value in {**defaults, **settings}.items():
            arguments.append(f"--{key.replace('__', '.')}={value}")
        return parser_of(objective).recipe(arguments)

    return make
