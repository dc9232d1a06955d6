"""How to train once names of classes are changed: the commands that `labeltree taxonomy` proposes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from labeltree.errors import typed

if TYPE_CHECKING:
    from labeltree.taxonomy import Change
    from labeltree.training.recipe import Recipe

__all__ = ["say_plain_names", "training_command"]


def training_command(
    old: str | Path,
    changes: str | Path,
    new: str | Path,
    data: str | Path | None = None,
    columns: Sequence[str] = (),
) -> str:
    """The command that trains on a new version of a taxonomy, with labels of the old one.

    Args:
        old: What the old version was read from; a run trains again as it did.
        changes: The file of the changes.
        new: The new version.
        data: The labelled data; None = not known.
        columns: The columns of their labels, coarse to fine.
    """
    recipe = _recipe(old)
    settings = f"--taxonomy {typed(new)} --mapping {typed(changes)}"
    if recipe is not None and recipe[1].mapping is None:
        return f"labeltree train --config {typed(recipe[0])} {settings} --out FOLDER"
    named = "DATA" if data is None or recipe is not None else typed(data)
    if columns:
        listed = json.dumps(list(columns), ensure_ascii=False) if len(columns) > 1 else columns[0]
        named += f" --table.label_columns {shlex.quote(listed)}"
    return f"labeltree train --data {named} {settings}"


def say_plain_names(place: str | Path, changes: Sequence[Change]) -> str | None:
    """A sentence on how a run reads names that differ only in case or blanks as one; None if it does not."""
    recipe = _recipe(place)
    if recipe is None:
        return None
    from labeltree.taxonomy.review_names import count_plain
    from labeltree.training.recipe_data import plain_key_of

    key = plain_key_of(recipe[1])
    count = 0 if key is None else count_plain(changes, key)
    if not count:
        return None
    which = "these differ" if count == len(changes) else f"{count} of these differ{'s' * (count == 1)}"
    which = "this differs" if len(changes) == 1 else which
    return (
        f"{which} only in case or blanks; training reads them as one, without a new taxonomy, with\n"
        f"  labeltree train --config {typed(recipe[0])} --table.names plain --out FOLDER"
    )


def _recipe(place: str | Path) -> tuple[Path, Recipe] | None:
    """The recipe of a run, and where it is; None for anything else."""
    if not Path(place).is_dir():
        return None
    from labeltree.runs import RunFolder
    from labeltree.training.read_recipes import read_recipe

    folder = RunFolder(Path(place))
    if not (folder.recipe.is_file() and folder.description.is_file()):
        return None
    return folder.recipe, read_recipe(folder.recipe)
