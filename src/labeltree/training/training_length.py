"""How long a run trains: the batch size and the epochs of a recipe that leaves them open.

The encoder learns once per batch. Ten epochs of batches of 256 are thousands of steps for a large data set,
and ten for a hundred samples, in which a fresh encoder learns next to nothing. `docs/no-better-than-raw.md`
has the measurements that the number of steps rests on.
"""

from __future__ import annotations

import dataclasses

from labeltree.counted_nouns import say_count
from labeltree.training.recipe import Recipe

__all__ = [
    "ENOUGH_STEPS",
    "FEW_STEPS",
    "batch_size_for",
    "epochs_and_batch_size",
    "epochs_for",
    "length_note",
    "length_warning",
    "steps_of",
    "with_length",
]

ENOUGH_STEPS = 300
"""Steps that a run has at least, if its recipe leaves the epochs open."""

FEW_STEPS = 50
"""Steps below which a run is warned about."""

_LEAST_EPOCHS = 10
_BATCH_SIZES = (8, 256)
_PART = 4  # the training samples make at least so many batches, as far as the smallest batch allows


def batch_size_for(samples: int, world_size: int = 1) -> int:
    """The batch size for a number of training samples: the largest power of two up to a quarter of them.

    It is at least 8 and at most 256, and a multiple of the number of devices.

    Args:
        samples: Number of training samples.
        world_size: Number of devices, of all machines together.

    Example:
        >>> [batch_size_for(n) for n in (10, 131, 1000, 1024, 60_000)]
        [8, 32, 128, 256, 256]
        >>> batch_size_for(60_000, world_size=3)
        255
    """
    least, most = _BATCH_SIZES
    size = min(most, max(least, 1 << max((samples // _PART).bit_length() - 1, 0)))
    return max(size // world_size, 1) * world_size


def epochs_for(samples: int, batch_size: int) -> int:
    """The number of epochs for a batch size: as many as give `ENOUGH_STEPS`, and at least 10.

    Example:
        >>> epochs_for(131, 32), epochs_for(60_000, 256)
        (75, 10)
    """
    return max(_LEAST_EPOCHS, -(-ENOUGH_STEPS // steps_of(samples, 1, batch_size)))


def steps_of(samples: int, epochs: int, batch_size: int) -> int:
    """The number of steps of a run: only full batches count, unless the samples do not fill one.

    A sampler that balances classes may take a few more or fewer.
    """
    return epochs * max(samples // batch_size, 1)


def with_length(recipe: Recipe, samples: int) -> Recipe:
    """The recipe with a batch size and epochs: its own, or if it leaves them open, those for its samples.

    Args:
        recipe: The recipe.
        samples: Number of training samples.
    """
    batch_size, epochs = recipe.batch_size, recipe.epochs
    if batch_size is None:
        batch_size = batch_size_for(samples, recipe.world_size)
    if epochs is None:
        epochs = epochs_for(samples, batch_size)
    return dataclasses.replace(recipe, batch_size=batch_size, epochs=epochs)


def epochs_and_batch_size(recipe: Recipe) -> tuple[int, int]:
    """The epochs and the batch size of a recipe that leaves neither open.

    Raises:
        ValueError: If it does.
    """
    if recipe.epochs is None or recipe.batch_size is None:
        raise ValueError("the recipe leaves epochs or batch_size open; 'resolve_recipe' chooses them")
    return recipe.epochs, recipe.batch_size


def length_note(recipe: Recipe, samples: int, steps_per_epoch: int | None = None) -> str | None:
    """A sentence on what was chosen; None if the recipe leaves nothing open.

    Args:
        recipe: The recipe.
        samples: Number of training samples.
        steps_per_epoch: Batches that the sampler makes of them; None: about as many as `steps_of` says.
    """
    if recipe.epochs is not None and recipe.batch_size is not None:
        return None
    both = recipe.epochs is None and recipe.batch_size is None
    name = "epochs and batch_size" if both else "epochs" if recipe.epochs is None else "batch_size"
    return f"{_say(with_length(recipe, samples), samples, steps_per_epoch)}; set {name} to choose yourself"


def length_warning(recipe: Recipe, samples: int, steps_per_epoch: int | None = None) -> str | None:
    """A sentence on what to do instead, if the recipe's own choice gives fewer than `FEW_STEPS` steps.

    None if there are enough, or the recipe chooses nothing. The arguments are those of `length_note`.
    """
    resolved = with_length(recipe, samples)
    if recipe.epochs is None and recipe.batch_size is None:
        return None
    if _steps(resolved, samples, steps_per_epoch) >= FEW_STEPS:
        return None
    usual = with_length(dataclasses.replace(recipe, epochs=None, batch_size=None), samples)
    names = [name for name in ("epochs", "batch_size") if getattr(recipe, name) is not None]
    epochs, batch_size = epochs_and_batch_size(usual)
    if steps_per_epoch is not None and batch_size == resolved.batch_size:
        epochs = max(_LEAST_EPOCHS, -(-ENOUGH_STEPS // steps_per_epoch))
    return (
        f"{_say(resolved, samples, steps_per_epoch)}, too few for an encoder to learn much; leave out "
        f"{' and '.join(names)}, or take --epochs {epochs} --batch_size {batch_size}"
    )


def _say(recipe: Recipe, samples: int, steps_per_epoch: int | None) -> str:
    epochs, batch_size = epochs_and_batch_size(recipe)
    steps = _steps(recipe, samples, steps_per_epoch)
    return (
        f"{samples:,} training samples: {say_count(epochs, 'epoch')} of batches of {batch_size}, "
        f"{'about ' * (steps_per_epoch is None)}{say_count(steps, 'step')}"
    )


def _steps(recipe: Recipe, samples: int, steps_per_epoch: int | None) -> int:
    epochs, batch_size = epochs_and_batch_size(recipe)
    return steps_of(samples, epochs, batch_size) if steps_per_epoch is None else epochs * steps_per_epoch
