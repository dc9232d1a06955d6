"""The splits that samples had in the run whose weights training starts from, and in those before it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from labeltree.counted_nouns import say_count
from labeltree.data import Source
from labeltree.file_kinds import is_table_file
from labeltree.runs import RunFolder, SampleRecord
from labeltree.split_names import CALIB, SPLIT_WORDS, UNSEEN, most_taught
from labeltree.training.recipe import Recipe

__all__ = ["earlier_splits", "say_earlier_splits", "say_new_split", "start_records"]

Array = np.ndarray[Any, Any]


def start_records(recipe: Recipe) -> Iterator[tuple[Recipe, SampleRecord]]:
    """The run whose weights, or whose file of weights, training starts from, the run before it, and so on.

    The recipe of each and the record of its samples. They end with a run that keeps none, such as an
    exported model, and with a file that lies in no run.

    Raises:
        RunError: If a record cannot be read.
    """
    from labeltree.training.read_recipes import read_recipe

    seen = set()
    while recipe.weights is not None:
        place = Path(recipe.weights)
        places = [RunFolder(folder) for folder in (place, *list(place.parents)[:2])]
        folder = next((run for run in places if run.recipe.is_file() and run.samples.is_file()), None)
        if folder is None or folder.path.resolve() in seen:
            return
        seen.add(folder.path.resolve())
        record = folder.load_samples()
        if record.digests is None:  # of an early version
            return
        recipe = read_recipe(folder.recipe)
        yield recipe, record


def earlier_splits(recipe: Recipe, source: Source) -> Array | None:
    """The split `(n,)` that samples had in the runs of `start_records`; None without such a run.

    It is empty where none of them knows a sample, and where several do, the one in which it taught most.
    """
    splits = None
    for _, record in start_records(recipe):
        now = record.splits_in(source.sample_names(), source.copy_digests())
        splits = now if splits is None else np.array(list(map(most_taught, splits, now)), dtype="<U6")
    return splits


def say_earlier_splits(recipe: Recipe, source: Source) -> tuple[str, list[str]]:
    """How many samples keep the splits of the run that training starts from, and warnings of the others.

    Args:
        recipe: The recipe.
        source: Its samples, with their splits.

    Returns:
        A sentence, empty without such a run or samples of it, and the warnings.
    """
    start = f"'{recipe.weights}', whose weights this run starts from"
    earlier = earlier_splits(recipe, source)
    if earlier is None:
        if recipe.weights is None or not Path(recipe.weights).is_dir():
            return "", []
        return "", [
            f"{start}, keeps no record of the samples that taught it: where they are among the test samples, "
            "numbers are too good"
        ]
    split = np.asarray(source.split)
    known = earlier != ""
    if not known.any():
        return "", []
    new, kept = int((~known).sum()), int((split == earlier).sum())
    said = f"{kept:,} of {len(source):,} samples keep the split that they had in '{recipe.weights}'"
    said += f"; {say_count(new, 'sample is', 'samples are')} new to it" if new else ""
    warned = []
    for name, taught in _HARMFUL.items():
        here = split == name
        count = int((here & np.isin(earlier, taught)).sum())
        if count:
            warned.append(
                f"{count:,} of {say_count(int(here.sum()), f'{SPLIT_WORDS[name]} sample')} taught {start}: "
                f"{_HARM[name]}. {_remedy(recipe, source, name)}"
            )
    return said, warned


def say_new_split(recipe: Recipe, folder: RunFolder) -> str | None:
    """That a run on a later version of a taxonomy has other test samples than one on an earlier version.

    Args:
        recipe: The recipe of the run, which leads to a later version where it has a mapping.
        folder: The run, whose taxonomy may have a history.

    Returns:
        The sentence; None on the first version, and where the data or the weights give the split.
    """
    if recipe.weights is not None or recipe.fold is not None or not recipe.test:
        return None
    if recipe.mapping is None and len(folder.load_taxonomy().history) < 2:
        return None
    given = folder.load_samples().given_split
    if given is not None and bool((np.asarray(given) == "test").any()):
        return None
    column = " or a column of your own (--table.split_column)" if is_table_file(recipe.data) else ""
    return (
        "the split was drawn anew on this version of the taxonomy: a run on an earlier version has other "
        f"test samples, which may have taught this one. --weights THAT_RUN{column} keeps its split, so that "
        "both are compared on the same ones"
    )


_HARMFUL = {"test": ("train", "val"), "val": ("train",), CALIB: ("train", "val"), UNSEEN: ("train", "val")}
"""Split → the splits of the earlier run whose samples it should not have."""
_HARM = {
    "test": "numbers on them are too good",
    "val": "what is chosen and promised by them is too good",
    CALIB: "what is promised by them is too good",
    UNSEEN: "their classes are known to the weights",
}


def _remedy(recipe: Recipe, source: Source, name: str) -> str:
    """What to do if samples of a split taught the run that training starts from."""
    if name == UNSEEN:
        return "Hide classes that were hidden there, too, or train without weights"
    if recipe.fold is not None:
        return "Train the folds without weights, or a run without a fold, which keeps the splits of that run"
    if name in source.own_splits:
        return (
            "The split is that of the data: give these samples the split that they had there, or leave the "
            "split column out, and all keep it"
        )
    return f"There were none left to draw: add new samples, or set {name} to 0"
