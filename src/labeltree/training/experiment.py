"""Build what a recipe describes: labels, batches and the module."""

from __future__ import annotations

from dataclasses import dataclass

import lightning as L

from labeltree.data import Source
from labeltree.models import encoder_modality
from labeltree.training.batches import SourceDataModule, validation_samples
from labeltree.training.carried_weights import carry_over_objective
from labeltree.training.input_batches import open_inputs, open_views
from labeltree.training.label_columns_of_batch import TrainingLabels, training_labels
from labeltree.training.module import RepresentationModule
from labeltree.training.network import Network, recipe_encoder
from labeltree.training.objective import Objective
from labeltree.training.recipe import Recipe
from labeltree.training.recipe_data import open_recipe_source
from labeltree.training.resolution import resolve_recipe
from labeltree.training.standardise import standardise

__all__ = ["Experiment", "prepare"]


@dataclass(frozen=True)
class Experiment:
    """The data of a run, and the module to train.

    Attributes:
        source: all samples, with their splits.
        labels: the labels used in training.
        batches: training and validation batches.
        module: encoder and objective, with the resolved recipe.
        carried: a sentence on what was carried over from the run that training starts from, if it does.
    """

    source: Source
    labels: TrainingLabels
    batches: SourceDataModule
    module: RepresentationModule
    carried: str | None = None

    @property
    def network(self) -> Network:
        """The network that the module trains, as it is evaluated; it shares the module's weights."""
        module = self.module
        shape = self.source.image_shape if module.encoder.modality in ("image", "both") else None
        return Network(
            module.recipe,
            self.source.taxonomy,
            (module.evaluated_encoder, module.views.plain),
            module.objective,
            shape,
            self.labels.from_training,
            None if shape is None else self.source.preprocessing,
        )


def prepare(recipe: Recipe, source: Source | None = None) -> Experiment:
    """Build everything that a recipe describes, with the initial weights.

    Args:
        recipe: the recipe.
        source: the recipe's samples, if already open.
    """
    source = source if source is not None else open_recipe_source(recipe)
    recipe = resolve_recipe(recipe, source)
    L.seed_everything(recipe.seed, verbose=False)
    reads_images = encoder_modality(recipe.encoder) in ("image", "both")
    image_shape = source.image_shape if reads_images else None
    encoder = recipe_encoder(
        recipe, image_shape, width=None if source.vectors is None else source.vectors.width
    )
    training = source.of_split("train")
    if recipe.weights is None:
        standardise(encoder, training)
    labels = training_labels(recipe, source.taxonomy, training.nodes)
    training = labels.source(training, recipe)
    objective = Objective(recipe, labels.taxonomy, encoder.feature_dim, source.aspect_taxonomies)
    objective.check_samples(aspects=training.aspects is not None, ratings=training.ratings is not None)
    objective.observe_labels(training.every_label)
    carried = carry_over_objective(objective, recipe, source.taxonomy, labels.taxonomy, encoder.feature_dim)
    inputs = open_inputs(source, encoder, recipe)
    validation = validation_samples(source, recipe.seed, recipe.leave_group_out)
    batches = SourceDataModule(training, validation.source, inputs, recipe, objective)
    module = RepresentationModule(
        recipe,
        source.taxonomy,
        encoder,
        objective,
        open_views(recipe, encoder, image_shape),
        batches.steps_per_epoch,
        validation.num_queries,
        validation.groups,
    )
    return Experiment(source, labels, batches, module, carried)
