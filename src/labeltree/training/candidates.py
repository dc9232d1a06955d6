"""Encoders and heads of which nothing tells the better one beforehand: both are tried, validation decides."""

from __future__ import annotations

import logging
import math
import shutil
from collections.abc import Callable
from dataclasses import replace

from labeltree.atomic import atomic_write, new_folder_in
from labeltree.runs import RunFolder
from labeltree.training.callbacks.checkpoints import best_row
from labeltree.training.choosing.choose_encoder import SMALL_ENCODER, EncoderChoice
from labeltree.training.choosing.choose_objective import SOLVED, ObjectiveChoice, with_defaults
from labeltree.training.recipe import Recipe

__all__ = ["better_encoder", "better_objective", "drop_candidates"]

_FOLDER = "candidates"
_MAP_AT_R, _AHP = "val_embeddings_map_at_r", "val_embeddings_ahp"
_log = logging.getLogger("labeltree.training")


def better_encoder(
    folder: RunFolder,
    recipe: Recipe,
    choice: EncoderChoice,
    train: Callable[[Recipe, RunFolder], object],
) -> tuple[Recipe, EncoderChoice]:
    """Train the chosen encoder, frozen, and the small one, and take the one that validation prefers.

    The training state of the better one goes into the run folder, where training then finds nothing left to
    do. Repeating the call after an interruption continues where it stopped.

    Args:
        folder: The run folder.
        recipe: The recipe, whose encoder is left open.
        choice: The pretrained encoder.
        train: Trains a recipe into a folder.

    Returns:
        The recipe with the better encoder, and the choice with the scores of both.
    """
    recipes = {
        choice.encoder: replace(recipe, encoder=choice.encoder, pretrained=True),
        SMALL_ENCODER: replace(recipe, encoder=SMALL_ENCODER, pretrained=False),
    }
    _log.warning("%s; trying %s, and taking the better on validation", choice.why, " and ".join(recipes))
    best, scores = _best_of(folder, "encoder", recipes, (_MAP_AT_R,), train)
    why = f"{choice.why}, and validation prefers it (MAP@R of the embeddings: {scores})"
    better = replace(choice, why=why)
    if best == SMALL_ENCODER:
        better = replace(better, encoder=best, pretrained=False, images=replace(choice.images, size=None))
    return recipes[best], better


def better_objective(
    folder: RunFolder,
    recipe: Recipe,
    resolved: Recipe,
    choice: ObjectiveChoice,
    train: Callable[[Recipe, RunFolder], object],
) -> tuple[Recipe, ObjectiveChoice]:
    """Solve a head beside training one on the same frozen features, and take the one that validation prefers.

    Args:
        folder: The run folder.
        recipe: The recipe, whose objective is left open.
        resolved: The recipe with the chosen objective, and all that follows from it.
        choice: The objective of the head that is trained.
        train: Trains a recipe into a folder.

    Returns:
        The recipe with the better objective, and the choice with the scores of both.
    """
    recipes = {choice.objective: resolved, SOLVED: with_defaults(recipe, SOLVED)}
    _log.warning(
        "trying %s on the frozen features, and taking the better on validation", " and ".join(recipes)
    )
    best, scores = _best_of(folder, "objective", recipes, (_MAP_AT_R, _AHP), train)
    why = f"validation prefers it (mean of MAP@R and AHP of the embeddings: {scores})"
    return (recipes[SOLVED] if best == SOLVED else recipe), ObjectiveChoice(best, why)


def drop_candidates(folder: RunFolder) -> None:
    """Delete what was tried; the better one is in the run folder."""
    shutil.rmtree(folder.path / _FOLDER, ignore_errors=True)


def _best_of(
    folder: RunFolder,
    what: str,
    recipes: dict[str, Recipe],
    columns: tuple[str, ...],
    train: Callable[[Recipe, RunFolder], object],
) -> tuple[str, str]:
    """Train all recipes; the name of the best by the mean of its columns, and the scores in words."""
    places = {
        name: RunFolder(folder.path / _FOLDER / f"{what}-{number}") for number, name in enumerate(recipes)
    }
    for name, one in recipes.items():
        train(one, places[name])
    scores = {name: _score(place, columns) for name, place in places.items()}
    best = max(scores, key=lambda name: -math.inf if math.isnan(scores[name]) else scores[name])
    if not places[best].last_checkpoint.is_file():
        shutil.rmtree(folder.last_checkpoint.parent, ignore_errors=True)
    elif not folder.last_checkpoint.is_file():
        _take_over(places[best], folder)
    return best, ", ".join(f"{name} {score:.3f}" for name, score in scores.items())


def _score(place: RunFolder, columns: tuple[str, ...]) -> float:
    """The mean of these columns in the best epoch."""
    row = best_row(place.read_history(), _MAP_AT_R)
    return sum(float(row.get(column, math.nan)) for column in columns) / len(columns)


def _take_over(place: RunFolder, folder: RunFolder) -> None:
    """Copy the history and the training states, the last one at the very end."""
    with atomic_write(folder.history) as fresh:
        fresh.write_bytes(place.history.read_bytes())
    with new_folder_in(folder.path) as fresh:
        copied = fresh / "checkpoints"
        shutil.copytree(place.last_checkpoint.parent, copied)
        target = folder.last_checkpoint.parent
        shutil.rmtree(target, ignore_errors=True)
        copied.rename(target)
