"""Images of which a look does not tell the better encoder: both are tried, and validation decides."""

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
from labeltree.training.recipe import Recipe

__all__ = ["better_encoder", "drop_candidates"]

_FOLDER = "candidates"
_SCORE = "val_embeddings_map_at_r"
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
    places = {name: RunFolder(folder.path / _FOLDER / str(number)) for number, name in enumerate(recipes)}
    for name, one in recipes.items():
        train(one, places[name])
    scores = {name: _score(place) for name, place in places.items()}
    best = max(scores, key=lambda name: -math.inf if math.isnan(scores[name]) else scores[name])
    if not folder.last_checkpoint.is_file():
        _take_over(places[best], folder)
    said = ", ".join(f"{name} {score:.3f}" for name, score in scores.items())
    why = f"{choice.why}, and validation prefers it (MAP@R of the embeddings: {said})"
    better = replace(choice, why=why)
    if best == SMALL_ENCODER:
        better = replace(better, encoder=best, pretrained=False, images=replace(choice.images, size=None))
    return recipes[best], better


def drop_candidates(folder: RunFolder) -> None:
    """Delete what `better_encoder` has trained; the better one is in the run folder."""
    shutil.rmtree(folder.path / _FOLDER, ignore_errors=True)


def _score(place: RunFolder) -> float:
    """The score of the best epoch."""
    return float(best_row(place.read_history(), _SCORE).get(_SCORE, math.nan))


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
