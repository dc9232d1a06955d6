"""What a run depends on, written when it begins and checked whenever it is taken up again."""

from __future__ import annotations

from typing import Any

import numpy as np

from labeltree.atomic import atomic_write
from labeltree.data import Source
from labeltree.errors import RunError
from labeltree.runs import RunFolder
from labeltree.training.recipe import Recipe

__all__ = ["begin_run", "check_samples"]


def begin_run(folder: RunFolder, recipe: Recipe, source: Source) -> None:
    """Write the taxonomy, which sample is in which split, and last the recipe: from then on it is a run.

    A run that has begun is checked instead.
    """
    if folder.recipe.is_file():
        check_samples(folder, recipe, source)
        return
    folder.path.mkdir(parents=True, exist_ok=True)
    source.taxonomy.save(folder.taxonomy)
    with atomic_write(folder.samples) as temporary:
        np.savez(temporary, allow_pickle=False, **_samples(source))
    recipe.save(folder.recipe)


def check_samples(folder: RunFolder, recipe: Recipe, source: Source) -> None:
    """Make sure that the samples, their labels and their splits are those that the run began with.

    Raises:
        RunError: if they are not. Otherwise a sample that was trained on could turn up in the test split.
    """
    if source.taxonomy != folder.load_taxonomy():
        raise RunError(f"the taxonomy of '{recipe.data}' is no longer that of the run in '{folder.path}'")
    samples = _samples(source)
    with np.load(folder.samples) as known:
        if all(np.array_equal(known[name], samples[name]) for name in samples):
            return
    raise RunError(
        f"the samples of '{recipe.data}' have changed since the run in '{folder.path}' began; "
        f"restore them, or train into another --out"
    )


def _samples(source: Source) -> dict[str, Any]:
    return {
        "instances": source.instances.numpy(),
        "nodes": source.nodes.numpy(),
        "split": np.asarray(source.split, dtype=str),
    }
