"""Loading a finished run: its recipe, optionally its samples, and the weights of its best epoch."""

from __future__ import annotations

from pathlib import Path

from labeltree.data import Source, list_datasets
from labeltree.errors import RunError
from labeltree.models import misfits
from labeltree.progress import Progress
from labeltree.runs import RunFolder
from labeltree.training.experiment import Experiment, open_recipe_data, prepare, split_by_recipe
from labeltree.training.reading import read_recipe
from labeltree.training.recipe import Recipe
from labeltree.training.record import (
    ContentChangedError,
    check_labels,
    check_samples,
    recorded_samples,
    samples_without_content,
)

__all__ = ["load_run"]


def load_run(
    path: str | Path, progress: Progress | None = None, *, own_data: bool = True, verify: bool = False
) -> Experiment:
    """Load a finished run with the weights of its best epoch.

    Args:
        path: the run folder.
        progress: called while the data are read.
        own_data: open the run's own samples, which must not have changed since training. False: they may be
            absent, and the run can be used for other samples only; runs of older versions, which did not
            record their samples, open them in any case.
        verify: read all files of the run's samples again instead of trusting the cache.

    Raises:
        RunError: if the folder is not a run, its training has not finished, or its samples have changed.
    """
    folder = RunFolder(path).require()
    weights = folder.load_weights()
    recipe = read_recipe(folder.recipe)
    source = _own_samples(folder, recipe, progress, own_data=own_data, verify=verify)
    experiment = prepare(recipe, source, start_weights=False)
    check_labels(folder, recipe, experiment.labels)
    for module, prefix in (
        (experiment.module.evaluated_encoder, "encoder."),
        (experiment.module.objective, "objective."),
    ):
        own = {key.removeprefix(prefix): value for key, value in weights.items() if key.startswith(prefix)}
        if problems := misfits(module.state_dict(), own):
            raise RunError(
                f"the weights of '{folder.encoder}' are not those of its recipe: {problems}; restore it, or "
                "train again into another --out"
            )
        module.load_state_dict(own)
    return experiment


def _own_samples(
    folder: RunFolder, recipe: Recipe, progress: Progress | None, *, own_data: bool, verify: bool
) -> Source:
    record = folder.load_samples()
    if record.has_contents and not own_data:
        return samples_without_content(record, folder.load_taxonomy())
    place = Path(recipe.data).expanduser()
    if recipe.data not in list_datasets() and not place.exists():
        raise RunError(
            f"the data of the run in '{folder.path}' are no longer at '{recipe.data}'; put them back, or, if "
            f"they were moved, say where: 'labeltree train --config {folder.recipe} --data PLACE --out "
            f"{folder.path}' trains nothing anew"
        )
    data = open_recipe_data(recipe, progress, image_shape=record.image_shape, verify=verify)
    if record.has_contents:
        try:
            return recorded_samples(folder, recipe, record, data)
        except ContentChangedError:
            if verify:
                raise
        # The cache of the files may be outdated: read the files themselves before raising an error.
        return _own_samples(folder, recipe, progress, own_data=own_data, verify=True)
    source = split_by_recipe(recipe, data)
    check_samples(folder, recipe, data, source)
    return source
