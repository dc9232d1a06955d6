"""Checks of a recipe by itself: every value is in its range, and none stands where nothing reads it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, get_type_hints

from labeltree.safe_files import fits

if TYPE_CHECKING:
    from labeltree.training.recipe import Recipe

__all__ = ["check_idle", "check_ranges", "check_recipe", "value_of"]

_MOST_OF_ALL = 2**32  # what is beyond has been mistyped: nothing that is counted here is as large
_MOST = {
    "epochs": 1_000_000,
    "batch_size": 2**20,
    "image_size": 4096,
    "num_views": 1000,
    "max_length": 2**20,
    "adapter": 2**16,
    "head.dim": 2**16,
    "head.hidden": 2**16,
    "head.layers": 100,
    "queue.size": 2**24,
    "devices": 4096,
    "workers": 4096,
    "optimizer.lr": 1e6,
}
_SGDR = ("cycle_epochs", "cycle_factor", "min_lr")


def check_recipe(recipe: Recipe) -> None:
    """Check all that can be told without the data and the objective.

    Raises:
        ValueError: naming the setting, its value and what it must be.
    """
    _check_kinds(recipe)
    check_ranges(recipe)
    if recipe.coarsen is not None and recipe.train_taxonomy is not None:
        raise ValueError("coarsen and train_taxonomy each say what to train on; give one of them")
    if recipe.fold is not None:
        from labeltree.data.splits import fold_number

        fold_number(recipe.fold)
    optimizer = recipe.optimizer
    check_idle(recipe, ["logger_folder"], recipe.logger == "none", "while logger is 'none'")
    check_idle(recipe, ["test"], recipe.fold is not None, "while fold chooses the test samples")
    check_idle(recipe, ["projection"], recipe.train_taxonomy is None, "without train_taxonomy")
    numbered = isinstance(recipe.unseen_classes, int | float)
    check_idle(recipe, ["unseen_depth"], not numbered, "unless unseen_classes is a number or a share")
    check_idle(recipe, ["inner"], recipe.inner_share == 0, "while inner_share is 0")
    if recipe.views not in ("auto", "word-deletion"):
        check_idle(recipe, ["deletion"], True, f"while views is '{recipe.views}', not 'word-deletion'")
    plain = recipe.views == "identity"
    check_idle(recipe, ["erasing", "flip", "dropout"], plain, "while views is 'identity'")
    for name, settings, wanted in (
        ("name", ("momentum", "nesterov"), "sgd"),
        ("schedule", ("milestones", "decay"), "step"),
        ("schedule", _SGDR, "sgdr"),
    ):
        given = getattr(optimizer, name)
        names = [f"optimizer.{setting}" for setting in settings]
        check_idle(recipe, names, given != wanted, f"while optimizer.{name} is '{given}', not '{wanted}'")
    if optimizer.schedule == "step" and not optimizer.milestones:
        raise ValueError("optimizer.schedule is 'step', so optimizer.milestones must say at which epochs")
    if optimizer.nesterov and optimizer.momentum == 0:
        raise ValueError("optimizer.nesterov needs optimizer.momentum above 0")


def check_ranges(recipe: Recipe) -> None:
    """Check every number by itself; see `check_recipe`."""
    for number_of, number in _numbers(recipe):
        if not math.isfinite(number):
            raise ValueError(f"{number_of} is {number}; it must be a number that is finite")
        most = _MOST.get(number_of, _MOST_OF_ALL)
        if abs(number) > most:
            raise ValueError(f"{number_of} is {number:g}; {most:,} is the most")
    r, o = recipe, recipe.optimizer
    checks = [
        ("epochs", r.epochs >= 1, "1 or more"),
        ("batch_size", r.batch_size >= 2, "2 or more"),
        ("encode_chunk", r.encode_chunk is None or r.encode_chunk >= 1, "1 or more"),
        ("curvature", r.curvature < 0, "below 0"),
        ("val", 0 < r.val < 1, "between 0 and 1"),
        ("test", 0 < r.test < 1, "between 0 and 1"),
        ("erasing", 0 <= r.erasing <= 1, "a probability, 0 to 1"),
        ("ema", 0 <= r.ema < 1, "in [0, 1)"),
        ("ema_evaluate", not r.ema_evaluate or r.ema > 0, "false where ema is 0"),
        ("limit", r.limit is None or r.limit >= 2, "2 or more"),
        ("patience", r.patience is None or r.patience >= 1, "1 or more"),
        ("workers", r.workers >= 0, "0 or more"),
        ("checkpoint_minutes", r.checkpoint_minutes >= 0, "0 or more"),
        ("seed", 0 <= r.seed < 2**32, "from 0 to 2^32 - 1"),
        ("coarsen", r.coarsen is None or r.coarsen >= 1, "1 or more"),
        ("inner_share", 0 <= r.inner_share < 1, "in [0, 1)"),
        ("taxonomy_noise", 0 <= r.taxonomy_noise <= 1, "a share, 0 to 1"),
        ("label_noise", 0 <= r.label_noise <= 1, "a probability, 0 to 1"),
        (
            "unseen_classes",
            _hides_some(r.unseen_classes),
            "a whole number of 1 or more, a share between 0 and 1, or nodes",
        ),
        ("unseen_depth", r.unseen_depth is None or r.unseen_depth >= 1, "1 or more"),
        ("adapter", r.adapter is None or r.adapter >= 1, "1 or more"),
        ("deletion", 0 <= r.deletion < 1, "in [0, 1)"),
        ("dropout", r.dropout is None or 0 <= r.dropout < 1, "in [0, 1)"),
        ("max_length", r.max_length is None or r.max_length >= 3, "3 or more"),
        ("test_limit", r.test_limit is None or r.test_limit >= 1, "1 or more"),
        ("train_limit", r.train_limit is None or r.train_limit >= 2, "2 or more"),
        ("num_views", r.num_views is None or r.num_views >= 1, "1 or more"),
        ("devices", r.devices >= 1, "1 or more"),
        (
            "batch_size",
            r.devices < 1 or r.batch_size % r.devices == 0,
            f"a multiple of the {r.devices} devices",
        ),
        (
            "term_weights",
            all(math.isfinite(w) and w >= 0 for w in r.term_weights),
            "numbers of 0 or more",
        ),
        ("head.dim", r.head.dim is None or r.head.dim >= 1, "1 or more"),
        ("head.hidden", r.head.hidden is None or r.head.hidden >= 1, "1 or more"),
        ("head.layers", r.head.layers >= 1, "1 or more"),
        (
            "head.hidden",
            r.head.hidden is None or r.head.hidden**2 * r.head.layers <= 2**30,
            f"small enough for {r.head.layers} layers: they would have more than 2^30 weights",
        ),
        ("image_size", r.image_size is None or r.image_size >= 1, "1 or more"),
        ("head.gain", r.head.gain > 0, "above 0"),
        ("queue.size", r.queue.size >= 1, "1 or more"),
        ("queue.momentum", 0 <= r.queue.momentum <= 1, "between 0 and 1"),
        ("optimizer.lr", o.lr is None or o.lr > 0, "above 0"),
        ("optimizer.head_lr_factor", o.head_lr_factor is None or o.head_lr_factor >= 0, "0 or more"),
        ("optimizer.weight_decay", o.weight_decay >= 0, "0 or more"),
        ("optimizer.momentum", 0 <= o.momentum < 1, "in [0, 1)"),
        ("optimizer.warmup_epochs", o.warmup_epochs >= 0, "0 or more"),
        ("optimizer.decay", o.decay > 0, "above 0"),
        ("optimizer.milestones", sorted(set(o.milestones)) == o.milestones, "epochs that ascend"),
        ("optimizer.cycle_epochs", o.cycle_epochs >= 1, "1 or more"),
        ("optimizer.cycle_factor", o.cycle_factor >= 1, "1 or more"),
        (
            "optimizer.min_lr",
            o.min_lr >= 0 and (o.schedule != "sgdr" or o.min_lr <= r.learning_rates[0]),
            f"from 0 to the learning rate, {r.learning_rates[0]:g}",
        ),
        ("optimizer.clip_norm", o.clip_norm is None or o.clip_norm > 0, "above 0"),
    ]
    for name, holds, expected in checks:
        if not holds:
            raise ValueError(f"{name} is {value_of(recipe, name)}; it must be {expected}")


def _check_kinds(settings: Any, prefix: str = "") -> None:
    """Every setting is of its kind: a null in a file passes the parser wherever it stands."""
    hints = get_type_hints(type(settings))
    for entry in dataclasses.fields(settings):
        value, kind = getattr(settings, entry.name), hints[entry.name]
        if dataclasses.is_dataclass(kind):
            _check_kinds(value, f"{prefix}{entry.name}.")
        elif not fits(value, kind):
            given = "null" if value is None else repr(value)
            default = "" if entry.default is dataclasses.MISSING else f", as {entry.default!r} is"
            raise ValueError(
                f"{prefix}{entry.name} is {given}, which is not of the kind that it must be{default}"
            )


def _numbers(settings: Any, prefix: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a recipe with its name, dotted; objectives check their own."""
    for entry in dataclasses.fields(settings):
        name, value = f"{prefix}{entry.name}", getattr(settings, entry.name)
        if dataclasses.is_dataclass(value):
            yield from _numbers(value, f"{name}.")
        elif name == "schedules":
            points = [point for listed in value.values() for point in listed]
            yield from ((name, number) for point in points for number in point)
        else:
            for number in value if isinstance(value, list) else [value]:
                if isinstance(number, int | float) and not isinstance(number, bool):
                    yield name, number


def _hides_some(unseen: int | float | list[str] | str | None) -> bool:
    if isinstance(unseen, int):
        return unseen >= 1
    return 0 < unseen < 1 if isinstance(unseen, float) else unseen is None or bool(unseen)


def check_idle(recipe: Recipe, names: list[str], idle: bool, because: str) -> None:
    """Refuse settings that nothing reads: a setting you pass must have an effect.

    Args:
        recipe: of the run.
        names: of the settings, dotted.
        idle: whether nothing reads them.
        because: completes the sentence "it has no effect …".
    """
    if not idle:
        return
    for name in names:
        group, _, field = name.rpartition(".")
        owner = getattr(recipe, group) if group else recipe
        default = _default(type(owner), field)
        if getattr(owner, field) != default:
            raise ValueError(
                f"{name} is {value_of(recipe, name)}, which has no effect {because}; leave it at {default}"
            )


def value_of(recipe: Recipe, name: str) -> Any:
    """The value of a setting, dotted as in ``optimizer.lr``."""
    value: Any = recipe
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _default(owner: type, name: str) -> Any:
    field = next(f for f in dataclasses.fields(owner) if f.name == name)
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
