"""The registry of objectives: the names for `--objective NAME`, and how other packages add theirs."""

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from labeltree.errors import LabeltreeError
from labeltree.options.choices import GeometryName, SamplerName
from labeltree.training.origins import LABELTREE, Origin, origin_of
from labeltree.training.recipe import Recipe

if TYPE_CHECKING:
    from torch import nn

__all__ = [
    "AUTO_OBJECTIVE",
    "GIVEN",
    "ObjectiveEntry",
    "ObjectiveSum",
    "RegistrationError",
    "default_options",
    "get_objective",
    "get_sum",
    "head_layers",
    "is_solved",
    "list_objectives",
    "list_sums",
    "objective_terms",
    "register_objective",
    "register_sum",
]

Loss = TypeVar("Loss", bound="Callable[..., nn.Module]")


class RegistrationError(LabeltreeError, ValueError):
    """An objective cannot have this name."""


AUTO_OBJECTIVE = "auto"
"""The objective that is chosen when the samples are known; see `choose_objective`."""
GIVEN = ("taxonomy", "geometry", "dim", "feature_dim")  # arguments that an objective passes to its losses
_OF_OTHERS = (
    "'labeltree train --list-objectives' lists all; one of your own is known once its module is imported "
    "or its package installed"
)
_entries: dict[str, ObjectiveEntry] = {}
_sums: dict[str, ObjectiveSum] = {}


def _load() -> None:
    """Register those that come with the library, when one is first asked for: their losses need torch."""
    importlib.import_module("labeltree.training.objectives")


@dataclass(frozen=True)
class ObjectiveEntry:
    """One objective: a loss and its default settings.

    Attributes:
        name: Name on the command line.
        loss: Class or function that builds the loss; parameters named `taxonomy`, `geometry`, `dim` and
            `feature_dim` are passed by the objective, all others are the user's options.
        summary: one-line description.
        source: The paper.
        sampler: Default batch sampler.
        classifier: Input of the classifier, for a loss that asks for `logits`.
        geometry: Default geometry of the embeddings; None = no preference.
        weight: Default factor of the loss in a sum.
        finest: Whether the loss trains on the finest labels even if the recipe coarsens them.
        origin: The module that registers it, and a digest of its source.
    """

    name: str
    loss: Callable[..., nn.Module]
    summary: str
    source: str
    sampler: SamplerName
    classifier: Literal["features", "embeddings"] = "features"
    geometry: GeometryName | None = None
    weight: float = 1.0
    finest: bool = False
    origin: Origin = LABELTREE

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """The parameters that a user sets."""
        parameters = inspect.signature(self.loss).parameters
        return {
            name: p for name, p in parameters.items() if name not in GIVEN and p.kind is not p.VAR_KEYWORD
        }

    @property
    def solved(self) -> bool:
        """Whether the loss is minimised at once, by its method `solve`, and not by steps."""
        return bool(getattr(self.loss, "solved", False))

    def build(self, given: dict[str, Any], options: dict[str, Any]) -> nn.Module:
        """Build the loss from the objective's arguments and the user's options."""
        unknown = sorted(set(options) - set(self.options))
        if unknown:
            hint = difflib.get_close_matches(unknown[0], self.options, 1) or sorted(self.options)
            raise ValueError(f"objective '{self.name}' has no option '{unknown[0]}'; did you mean {hint}?")
        wanted = inspect.signature(self.loss).parameters
        return self.loss(**{key: value for key, value in given.items() if key in wanted}, **options)


@dataclass(frozen=True)
class ObjectiveSum:
    """Objectives that belong together, under one name.

    Attributes:
        name: Name on the command line.
        terms: Names of the objectives; their settings keep their names.
        weights: Default factor of each.
        options: Defaults of their settings by name, where they are others than of each alone.
        layers: Linear layers of the head, unless `head.layers` says otherwise.
        summary: one-line description.
        source: Where it is from.
    """

    name: str
    terms: tuple[str, ...]
    weights: tuple[float, ...]
    options: Mapping[str, Mapping[str, Any]]
    layers: int
    summary: str
    source: str


def register_objective(
    name: str,
    *,
    summary: str,
    source: str,
    sampler: SamplerName = "hierarchical",
    classifier: Literal["features", "embeddings"] = "features",
    geometry: GeometryName | None = None,
    weight: float = 1.0,
    finest: bool = False,
) -> Callable[[Loss], Loss]:
    """Add a loss class (or a function that returns one) under a name, as a decorator.

    The loss returns a scalar. It is called with the inputs that its `forward` names, see `Objective`:
    usually `forward(embeddings, nodes, instances)`. The other arguments are attributes of `ObjectiveEntry`.

    Raises:
        RegistrationError: If the name is taken, also by a setting of recipes, or is not made of letters,
            digits, `-` and `_`.
    """
    if not re.fullmatch(r"[A-Za-z][\w-]*", name):
        raise RegistrationError(
            f"cannot register objective '{name}': it contains more than letters, digits, - and _"
        )
    caller = str(sys._getframe(1).f_globals.get("__name__", "__main__"))
    _check_free(name, caller)

    def add(loss: Loss) -> Loss:
        origin = origin_of(loss, caller)
        _entries[name] = ObjectiveEntry(
            name, loss, summary, source, sampler, classifier, geometry, weight, finest, origin
        )
        return loss

    return add


def _check_free(name: str, caller: str) -> None:
    """Check that no objective or setting has a name, however its `-` and `_` are written."""
    _load()
    spelt = name.replace("-", "_")
    for entry in _entries.values():
        if entry.name.replace("-", "_") == spelt:
            if caller == "__main__":
                _show_without_traceback()
            raise RegistrationError(
                f"cannot register objective '{name}' in '{caller}': {entry.origin} has registered "
                f"'{entry.name}'; take another name, or leave out one of the two"
            )
    if spelt in {known.replace("-", "_") for known in (*_sums, *_reserved_names())}:
        raise RegistrationError(
            f"cannot register objective '{name}' in '{caller}': the name has another meaning in recipes; "
            "take another"
        )


def _show_without_traceback() -> None:
    """Let a script that ends with a `RegistrationError` print one line, as a command does.

    It fails while its losses are being defined, before it calls the program, which prints other errors so.
    With `--debug` the traceback is kept.
    """
    before = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if isinstance(error, RegistrationError) and "--debug" not in sys.argv:
            print(f"labeltree: {error}", file=sys.stderr)
        else:
            before(kind, error, traceback)

    sys.excepthook = show


def _reserved_names() -> set[str]:
    """Names with another meaning in recipes, schedules or histories, which objectives may not have."""
    return {field.name for field in dataclasses.fields(Recipe)} | {
        AUTO_OBJECTIVE,
        "config",
        "help",
        "loss",
        "out",
        "quiet",
        "weights",
    }


def register_sum(chosen: ObjectiveSum) -> None:
    """Add a name for several objectives together.

    Raises:
        ValueError: If the name is taken, or an objective is unknown.
    """
    _load()
    if chosen.name in {*_entries, *_sums, *_reserved_names()}:
        raise RegistrationError(f"cannot register objective '{chosen.name}': taken")
    objective_terms("+".join(chosen.terms))
    _sums[chosen.name] = chosen


def list_sums() -> list[ObjectiveSum]:
    """The names for several objectives together, in order of registration."""
    _load()
    return list(_sums.values())


def get_sum(name: str) -> ObjectiveSum | None:
    """What several objectives a name stands for; None if it is no such name."""
    if name == AUTO_OBJECTIVE:
        return None
    _load()
    return _sums.get(name)


def default_options(objective: str) -> dict[str, dict[str, Any]]:
    """The default settings of each term of an objective, by name."""
    named = get_sum(objective)
    others = {} if named is None else named.options
    return {
        entry.name: {name: p.default for name, p in entry.options.items()} | dict(others.get(entry.name, {}))
        for entry in objective_terms(objective)
    }


def head_layers(recipe: Recipe) -> int:
    """The linear layers of a recipe's head: its own, else what the objective asks for, else 2."""
    named = get_sum(recipe.objective)
    return recipe.head.layers or (2 if named is None else named.layers)


def list_objectives(pattern: str = "*") -> list[ObjectiveEntry]:
    """The objectives whose names match a shell pattern, in order of registration."""
    _load()
    return [entry for name, entry in _entries.items() if fnmatch.fnmatch(name, pattern)]


def get_objective(name: str) -> ObjectiveEntry:
    """The objective of that name; the error for an unknown name lists the nearest ones, if any is near."""
    if name == AUTO_OBJECTIVE:
        raise ValueError("objective 'auto' stands alone: the samples choose; name what is to be added up")
    _load()
    if name not in _entries:
        known = [*_entries, *_sums]
        if name in _sums:
            raise ValueError(f"'{name}' stands for {'+'.join(_sums[name].terms)}; add to these instead")
        near = difflib.get_close_matches(name, known, 3)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else _OF_OTHERS
        raise ValueError(f"unknown objective '{name}'; {hint}")
    return _entries[name]


def is_solved(objective: str) -> bool:
    """Whether an objective is minimised at once, without steps.

    Raises:
        ValueError: If it is one term of several: what is solved cannot be added up.
    """
    entries = objective_terms(objective)
    solved = [entry.name for entry in entries if entry.solved]
    if solved and len(entries) > 1:
        raise ValueError(
            f"objective '{solved[0]}' is solved at once, so it cannot be added to others; name it alone, or "
            "start another run from it with --weights"
        )
    return bool(solved)


def objective_terms(objective: str) -> list[ObjectiveEntry]:
    """The entries of an objective `a+b`, in order; each may occur once. `auto` has none yet."""
    if objective == AUTO_OBJECTIVE:
        return []
    if (named := get_sum(objective)) is not None:
        return [get_objective(name) for name in named.terms]
    names = [name.strip() for name in objective.split("+")]
    if len(set(names)) < len(names):
        raise ValueError(
            f"objective '{objective}' names a term twice; set its weight with term_weights instead"
        )
    return [get_objective(name) for name in names]
