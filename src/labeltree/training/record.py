"""What a run depends on, written when it begins and checked whenever it is taken up again."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from labeltree.atomic import atomic_write
from labeltree.data import DataSummary, Source
from labeltree.errors import RunError
from labeltree.runs import RunFolder
from labeltree.taxonomy import Taxonomy
from labeltree.training.labels import TrainingLabels
from labeltree.training.recipe import Recipe

__all__ = ["abandon_run", "begin_run", "check_labels", "check_samples"]


def begin_run(
    folder: RunFolder, recipe: Recipe, source: Source, labels: TrainingLabels, summary: DataSummary
) -> bool:
    """Write the taxonomies, what the data hold, which sample is in which split, and last the recipe: from
    then on it is a run.

    A run that has begun is checked instead.

    Returns:
        Whether the run has begun now.
    """
    if folder.recipe.is_file():
        check_samples(folder, recipe, source)
        check_labels(folder, recipe, labels)
        return False
    folder.path.mkdir(parents=True, exist_ok=True)
    source.taxonomy.save(folder.taxonomy)
    if recipe.train_taxonomy is not None or recipe.taxonomy_noise:
        labels.taxonomy.save(folder.training_taxonomy)
    folder.write_json(folder.data, summary.to_dict())
    with atomic_write(folder.samples) as temporary:
        np.savez(temporary, allow_pickle=False, **_samples(source))
    recipe.save(folder.recipe)
    return True


def abandon_run(folder: RunFolder) -> None:
    """Take back what `begin_run` has written."""
    for file in (
        folder.recipe,
        folder.samples,
        folder.data,
        folder.training_taxonomy,
        folder.taxonomy,
        folder.versions,
    ):
        file.unlink(missing_ok=True)


def check_labels(folder: RunFolder, recipe: Recipe, labels: TrainingLabels) -> None:
    """Make sure that the taxonomy of training is the one that the run began with.

    Raises:
        RunError: if it is not. Otherwise a classifier's columns would be other classes than it learned.
    """
    known = folder.training_taxonomy
    if known.is_file() and Taxonomy.from_file(known) != labels.taxonomy:
        raise RunError(
            f"the taxonomy of training '{recipe.train_taxonomy}' has changed since the run in "
            f"'{folder.path}' began; restore it, it was '{known.name}' there, or train into another --out"
        )


def check_samples(folder: RunFolder, recipe: Recipe, source: Source) -> None:
    """Make sure that the samples, their labels and their splits are those that the run began with.

    Raises:
        RunError: if they are not. Otherwise a sample that was trained on could turn up in the test split.
    """
    if source.taxonomy != folder.load_taxonomy():
        raise RunError(f"the taxonomy of '{recipe.data}' is no longer that of the run in '{folder.path}'")
    samples = _samples(source)
    known = folder.load_samples()
    if set(known) == set(samples) and all(np.array_equal(known[n], samples[n]) for n in samples):
        return
    raise RunError(
        f"the samples of '{recipe.data}' have changed since the run in '{folder.path}' began; "
        f"restore them, or train into another --out"
    )


def _samples(source: Source) -> dict[str, Any]:
    columns: dict[str, Tensor | None] = {"instances": source.instances, "nodes": source.nodes}
    columns |= {"aspects": source.aspects, "ratings": source.ratings}
    known = {name: column.numpy() for name, column in columns.items() if column is not None}
    return {**known, "split": np.asarray(source.split, dtype=str)}
