"""Choose the objective of a recipe that leaves it open, as far as the studies settle what is best."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from labeltree.data import Source
from labeltree.models import encoder_pair
from labeltree.training.recipe import Recipe
from labeltree.training.registry import AUTO_OBJECTIVE, default_options

__all__ = ["ObjectiveChoice", "choose_objective", "with_defaults", "with_objective"]


_DEEP = 5.0
"""Mean depth of the labels from which on a tree is deep: the studies have 2 and 3, and 5.8 where it is 10."""


@dataclass(frozen=True)
class ObjectiveChoice:
    """The objective of a recipe that leaves it open.

    Attributes:
        objective: Its name; its settings are the defaults.
        why: One sentence, for the user.
    """

    objective: str
    why: str

    def __str__(self) -> str:
        return f"{self.objective}, because {self.why}; change it with --objective NAME"


def choose_objective(recipe: Recipe, source: Source) -> ObjectiveChoice:
    """The objective for these samples; the evidence for each is in `docs/choose.md`.

    Args:
        recipe: The recipe, whose encoder, geometry, columns of aspects and coarser labels count.
        source: All samples with their splits; the labels of the training samples count.
    """
    training = source if source.split is None else source.of_split("train")
    labels = training.nodes[training.nodes > 0]
    if encoder_pair(recipe.encoder) is not None:
        return ObjectiveChoice("image-text", "the encoder reads images and texts, which it brings together")
    if training.aspects is not None and (recipe.table.aspect_columns is not None or not len(labels)):
        return ObjectiveChoice(
            "mlcl", f"samples have labels of {len(source.aspect_taxonomies)} aspects, a head for each"
        )
    if not len(labels):
        return ObjectiveChoice("simclr", "no training sample has a label")
    if recipe.coarsen is not None:
        return ObjectiveChoice(
            "grafit", "labels are coarser than what is asked, and it also tells samples of a label apart"
        )
    if not bool(source.taxonomy.is_leaf[labels].any()):
        return ObjectiveChoice(
            "himulcon", "no training label reaches a leaf, and it learns from every depth that labels reach"
        )
    if recipe.geometry not in ("auto", "sphere"):
        return ObjectiveChoice("hwc+lam", f"the geometry is '{recipe.geometry}', in which proxies are not")
    deep = float(source.taxonomy.depth[labels].double().mean())
    if deep >= _DEEP:
        return ObjectiveChoice(
            "happier", f"labels lie {deep:.1f} steps deep on average, and it keeps the order of deep trees"
        )
    return ObjectiveChoice(
        "pairs-proxies-means", "labels reach the leaves; it serves search and classification"
    )


def with_objective(recipe: Recipe, source: Source) -> Recipe:
    """The recipe with an objective: its own, or if it leaves that open, the one chosen for these samples.

    The settings of the chosen objective are written out, so that a run keeps them when defaults change.
    """
    if recipe.objective != AUTO_OBJECTIVE:
        return recipe
    return with_defaults(recipe, choose_objective(recipe, source).objective)


def with_defaults(recipe: Recipe, objective: str) -> Recipe:
    """The recipe with an objective and the default settings of that."""
    return dataclasses.replace(recipe, objective=objective, options=default_options(objective))
