"""Choose the objective of a recipe that leaves it open, as far as the studies settle what is best."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch

from labeltree.data import Source
from labeltree.models import encoder_pair
from labeltree.training.recipe import Recipe
from labeltree.training.recipe_settings import value_of
from labeltree.training.registry import AUTO_OBJECTIVE, default_options

__all__ = [
    "ObjectiveChoice",
    "choose_objective",
    "has_steps",
    "step_settings",
    "with_defaults",
    "with_objective",
]


_MOST_CLASSES = 300
"""Classes up to which vectors get a solved head: its embeddings have two numbers for each class."""
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
    if source.vectors is not None and not has_steps(recipe) and len(torch.unique(labels)) <= _MOST_CLASSES:
        return ObjectiveChoice("tree-ridge", "the samples are vectors, for which a head is solved in seconds")
    deep = float(source.taxonomy.depth[labels].double().mean())
    if deep >= _DEEP:
        return ObjectiveChoice(
            "happier", f"labels lie {deep:.1f} steps deep on average, and it keeps the order of deep trees"
        )
    return ObjectiveChoice(
        "pairs-proxies-means", "labels reach the leaves; it serves search and classification"
    )


def step_settings(recipe: Recipe) -> list[str]:
    """Names of the settings that do nothing for an objective that is solved at once."""
    names = [f"optimizer.{field.name}" for field in dataclasses.fields(recipe.optimizer)]
    names += ["adapter", "sampler", "schedules", "ema", "patience", "term_weights", "erasing", "compile"]
    names += ["num_views", "space", "devices", "num_nodes"]
    names += ["epochs"] if recipe.epochs != 1 else []
    names += ["trainable"] if recipe.trainable != "head" else []
    return names + (["views"] if recipe.views != "identity" else [])


def has_steps(recipe: Recipe) -> bool:
    """Whether a recipe has a setting of training by steps, or of a head that is trained so."""
    head = [f"head.{field.name}" for field in dataclasses.fields(recipe.head)]
    usual = Recipe(recipe.data)
    names = [*step_settings(recipe), *head, "batch_size", "monitor"]
    return any(value_of(recipe, name) != value_of(usual, name) for name in names)


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
