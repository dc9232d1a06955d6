"""The recipes that come with labeltree, found by name wherever it is installed."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

import labeltree
from labeltree.errors import RecipeError

__all__ = ["find_recipe", "list_recipes", "with_found_recipe"]


def find_recipe(name: str | Path) -> Path:
    """The file of a recipe.

    Args:
        name: a file; else one of `list_recipes`, also with ``recipes/`` before it and ``.yaml`` behind it, as
            the documentation writes it for a checkout.

    Raises:
        RecipeError: if there is neither.

    Example:
        >>> find_recipe("quickstart/supcon").name
        'supcon.yaml'
    """
    path = Path(name).expanduser()
    if path.exists():
        return path
    shipped = list_recipes()
    wanted = str(name).removeprefix("./").removeprefix("recipes/").removesuffix(".yaml")
    if wanted in shipped:
        return shipped[wanted]
    near = difflib.get_close_matches(wanted, shipped, 1)
    hint = (
        f"did you mean '{near[0]}'?"
        if near
        else "'labeltree train --list-recipes' lists those that come with it"
    )
    raise RecipeError(f"no recipe at '{name}', and none of that name comes with labeltree; {hint}")


def list_recipes() -> dict[str, Path]:
    """The recipes that come with labeltree: names such as ``feng2023/cifar-100-maskcon`` → files."""
    package = Path(labeltree.__file__).parent
    for folder in (package / "recipes", package.parents[1] / "recipes"):  # installed, or in a checkout
        files = sorted(folder.glob("*/*.yaml"))
        if files:
            return {f"{file.parent.name}/{file.stem}": file for file in files}
    return {}


def with_found_recipe(arguments: Sequence[str]) -> list[str]:
    """Command-line arguments in which the recipe of ``--config`` is a file."""
    found: list[str] = []
    for argument in arguments:
        flag, equals, value = argument.partition("=")
        if found and found[-1] == "--config":
            found.append(str(find_recipe(argument)))
        elif flag == "--config" and equals:
            found.append(f"--config={find_recipe(value)}")
        else:
            found.append(argument)
    return found
