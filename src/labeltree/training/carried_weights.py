"""Training that starts from another run: its projection heads and, by class, what its objective learned."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from labeltree.errors import TaxonomyError
from labeltree.runs import ModelDescription, RunFolder
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.versions.between_versions import VersionChange
from labeltree.taxonomy.versions.mapping_file import described_versions
from labeltree.training.objective import Objective
from labeltree.training.recipe import Recipe

__all__ = ["carry_over_objective", "start_file", "start_run"]

_log = logging.getLogger("labeltree.training")


def start_run(recipe: Recipe) -> RunFolder | None:
    """The run that training starts from; None if it starts from a file, or from fresh weights."""
    if recipe.weights is None or not Path(recipe.weights).is_dir():
        return None
    return RunFolder(recipe.weights).require()


def start_file(recipe: Recipe) -> str | None:
    """The file of the encoder's weights that training starts from, if the recipe names one or a run."""
    run = start_run(recipe)
    return recipe.weights if run is None else str(run.encoder)


@dataclass
class _Counts:
    """How many classes of the new objective have their weights from where."""

    kept: int = 0
    merged: int = 0
    split: int = 0
    fresh: int = 0


def carry_over_objective(
    objective: Objective, recipe: Recipe, taxonomy: Taxonomy, training: Taxonomy, feature_dim: int
) -> str | None:
    """Copy what fits of the heads and classifiers of the run that a recipe starts from.

    Projection heads are copied where shapes fit. Parameters with a row a class follow the classes: a class
    that was renamed or moved keeps its row, one that several became has the mean of theirs, the parts of a
    split one start from its row, and new ones are fresh. All else is fresh, unless the taxonomies are equal.

    Args:
        objective: The new objective, which is changed.
        recipe: The new recipe.
        taxonomy: Taxonomy of the data.
        training: Taxonomy of the training labels.
        feature_dim: Width of the encoder's features.

    Returns:
        a sentence on what was carried over; None if training does not start from a run.

    Raises:
        TaxonomyError: If the recipe's mapping does not fit the taxonomies.
    """
    run = start_run(recipe)
    if run is None:
        return None
    state = {
        name.removeprefix("objective."): value
        for name, value in run.load_weights().items()
        if name.startswith("objective.")
    }
    old_taxonomy, old_training, classes = _read_run(run, feature_dim)
    same = old_training == training
    change = _change(recipe, old_taxonomy, old_training, taxonomy, training)
    carried: list[str] = []
    counts = _Counts()
    buffers = dict(objective.named_buffers())
    same_head = {n for n in state if n.startswith("head.")} == {
        n for n in objective.state_dict() if n.startswith("head.")
    }
    with torch.no_grad():
        for name, parameter in [*objective.named_parameters(), *_head_statistics(buffers)]:
            old = state.get(name)
            if old is None:
                continue
            term = name.split(".")[1] if name.startswith("terms.") else ""
            new_classes = buffers.get(f"terms.{term}.loss.classes")
            old_classes = classes.get(term)
            of_head = name.startswith("head.") or ".heads." in name
            if name.startswith("head.") and not same_head:  # a hidden layer is no projection
                continue
            if (same or of_head) and old.shape == parameter.shape:
                parameter.copy_(old)
                if of_head:
                    carried.append("projection head")
                elif new_classes is not None and len(parameter) == len(new_classes):
                    counts.kept = len(new_classes)
            elif (
                new_classes is not None
                and old_classes is not None
                and len(old) == len(old_classes)
                and len(parameter) == len(new_classes)
                and old.shape[1:] == parameter.shape[1:]
            ):
                counts = _carry_classes(parameter, old, old_classes, new_classes, change)
    said = ["the encoder", *dict.fromkeys(carried)]
    if objective.is_solved:
        said = ["the encoder; the head is solved anew, from all training samples"]
    elif counts != _Counts():
        parts = [
            (counts.kept, "as they were"),
            (counts.merged, "as the mean of those that were merged"),
            (counts.split, "from the one that was split"),
            (counts.fresh, "fresh"),
        ]
        said.append("classes: " + ", ".join(f"{count:,} {how}" for count, how in parts if count))
    said += [sentence.removesuffix(".") for sentence in change.made_for]
    return f"training starts from the run in '{run.path}': {'; '.join(said)}"


def _head_statistics(buffers: dict[str, Tensor]) -> list[tuple[str, Tensor]]:
    """What projection heads keep beside their parameters, such as means of batch normalisation."""
    return [(name, one) for name, one in buffers.items() if name.startswith("head.") or ".heads." in name]


def _read_run(run: RunFolder, feature_dim: int) -> tuple[Taxonomy, Taxonomy, dict[str, Tensor]]:
    """The taxonomies of a run's data and training labels, and by term the classes of its objective."""
    description = ModelDescription.load(run.description)
    taxonomy = run.load_taxonomy()
    training = taxonomy
    if description.from_training is not None:
        training = Taxonomy.from_file(run.training_taxonomy)
    with torch.random.fork_rng(devices=[]):  # building it draws weights, which nothing here depends on
        try:
            built = Objective(
                Recipe.from_dict(description.settings), training, feature_dim, description.aspect_taxonomies
            )
        except (ValueError, OSError):  # such as word vectors that are gone
            return taxonomy, training, {}
    weights_of = {
        name.split(".")[1]: buffer
        for name, buffer in built.named_buffers()
        if name.startswith("terms.") and name.endswith(".loss.classes")
    }
    return taxonomy, training, weights_of


def _change(
    recipe: Recipe, old_taxonomy: Taxonomy, old: Taxonomy, taxonomy: Taxonomy, training: Taxonomy
) -> VersionChange:
    """What became of a run's training taxonomy: by the recipe's mapping, else what is certain."""
    if recipe.mapping is None or old == training:
        return VersionChange.of(old, training)
    why = "it was trained on another taxonomy than that of its data"
    if old == old_taxonomy and training == taxonomy:
        try:
            return VersionChange.from_file(recipe.mapping, old, training)
        except TaxonomyError as error:
            digest = described_versions(recipe.mapping).get("old", {}).get("digest")
            if digest is None or old.digest.startswith(digest):  # made for the run's taxonomy, as in evaluate
                raise TaxonomyError(
                    f"{error}. The old taxonomy is that of the run in '{recipe.weights}', whose weights "
                    "training starts from. If the labels of the data are of another version, make the "
                    "mapping with 'labeltree taxonomy map OLD NEW', which notes that version in it"
                ) from None
            why = str(error)
    _log.warning(
        "the classes of the run that training starts from are matched by what is certain, and not by the "
        "mapping: %s",
        why,
    )
    return VersionChange.of(old, training)


def _carry_classes(
    parameter: Tensor, old: Tensor, old_classes: Tensor, new_classes: Tensor, change: VersionChange
) -> _Counts:
    """Fill the rows of a parameter from those of the old classes, and count them by their origin."""
    mapping, counts = change.mapping, _Counts()
    sources: dict[int, list[int]] = {}
    parts: dict[int, int] = {}
    for row, node in enumerate(old_classes.tolist()):
        if bool(mapping.removed[node]):
            continue
        for target in mapping.targets[node]:
            sources.setdefault(target, []).append(row)
            parts[target] = max(parts.get(target, 0), len(mapping.targets[node]))
    for row, node in enumerate(new_classes.tolist()):
        rows = sources.get(node, [])
        if not rows:
            counts.fresh += 1
            continue
        parameter[row] = old[rows].mean(0)
        if len(rows) > 1:
            counts.merged += 1
        elif parts[node] > 1:
            counts.split += 1
        else:
            counts.kept += 1
    return counts
