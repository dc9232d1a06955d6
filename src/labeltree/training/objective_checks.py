"""Checks of a recipe against its objective: options, geometry, settings that no loss reads."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING

from labeltree.training.checks import check_idle
from labeltree.training.recipe import Recipe
from labeltree.training.registry import ObjectiveEntry

if TYPE_CHECKING:
    from labeltree.training.term import Term

__all__ = ["check_terms", "check_use", "chosen_geometry"]


def check_terms(recipe: Recipe, entries: list[ObjectiveEntry]) -> None:
    """Check weights and options against the terms of the objective, before anything is built.

    Raises:
        ValueError: for weights that are not one a term or all 0, options of another objective, or a loss
            that would not be one number.
    """
    weights, name = recipe.term_weights, recipe.objective
    if weights and len(weights) != len(entries):
        raise ValueError(
            f"term_weights has {len(weights)} numbers, but objective '{name}' has {len(entries)}: one a term"
        )
    if weights and not any(weights) and not any(key.startswith("weights.") for key in recipe.schedules):
        raise ValueError("term_weights are all 0: nothing would be learned")
    stray = sorted(set(recipe.options) - {entry.name for entry in entries})
    if stray:
        raise ValueError(f"there are options for '{stray[0]}', which objective '{name}' does not use")
    for entry in entries:
        if recipe.options.get(entry.name, {}).get("reduction") == "none":
            raise ValueError(
                f"{entry.name}.reduction is 'none', which leaves a number for every sample; training needs "
                "one in all: take another reduction"
            )


def chosen_geometry(recipe: Recipe, entries: list[ObjectiveEntry]) -> str:
    """Where embeddings live: as the recipe says, or as the losses wish.

    Raises:
        ValueError: if losses wish for different places, or one that knows the sphere alone is put elsewhere.
    """
    wanted = {entry.geometry for entry in entries if entry.geometry is not None}
    if recipe.geometry == "auto":
        if len(wanted) > 1:
            raise ValueError(
                f"the terms of objective '{recipe.objective}' want different geometries: "
                f"{', '.join(sorted(wanted))}; say which with geometry"
            )
        return wanted.pop() if wanted else "sphere"
    for entry in entries:
        asks = "geometry" in inspect.signature(entry.loss).parameters
        if entry.geometry == "sphere" != recipe.geometry and not asks:
            raise ValueError(
                f"geometry is '{recipe.geometry}', but objective '{entry.name}' knows the sphere alone; "
                "leave it at auto"
            )
    return recipe.geometry


def check_use(recipe: Recipe, terms: Sequence[Term], *, head: bool, num_views: int, aspects: bool) -> None:
    """Refuse settings that no loss of the objective reads.

    Args:
        recipe: of the run.
        terms: of the objective.
        head: whether they share a projection head.
        num_views: that the encoder learns from.
        aspects: whether the samples have aspects.

    Raises:
        ValueError: naming the setting.
    """
    asked = frozenset[str]().union(*(term.asks for term in terms))
    name = f"for objective '{recipe.objective}'"
    first_alone = all("queries" in term.asks for term in terms)
    no_aspects = aspects and not any(term.of_aspects or term.asks & {"aspects", "ratings"} for term in terms)
    for settings, idle, because in (
        (["queue.size", "queue.momentum"], not asked & {"keys", "queue"}, "which has no queue"),
        (
            ["head.dim", "head.hidden", "head.layers", "head.gain"],
            not head and "heads" not in asked,
            "which reads features and has no projection head",
        ),
        (["num_views"], first_alone and num_views > 1, "which learns from the first view"),
        (["table.aspect_columns"], no_aspects, "which reads no aspects"),
    ):
        check_idle(recipe, settings, idle, f"{name}, {because}")
