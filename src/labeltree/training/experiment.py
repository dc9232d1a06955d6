"""Build what a recipe describes: labels, batches and the module."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import lightning as L

from labeltree.data import Source
from labeltree.models import Encoder, VectorEncoder, encoder_modality
from labeltree.taxonomy.label_sets import finest_classes
from labeltree.taxonomy.naming import some
from labeltree.training.batches import SourceDataModule, validation_samples
from labeltree.training.carried_weights import carry_over_objective
from labeltree.training.module import OWN_METRIC, RepresentationModule
from labeltree.training.network import Network, recipe_encoder
from labeltree.training.objective import Objective
from labeltree.training.recipe import Recipe
from labeltree.training.recipe_data import open_recipe_source
from labeltree.training.resolution import resolve_recipe
from labeltree.training.tokens_and_views import open_inputs, open_views
from labeltree.training.training_labels import TrainingLabels, training_labels

__all__ = ["Experiment", "prepare", "standardise"]

_AT_ONCE = 1 << 22  # numbers that are read at a time
_log = logging.getLogger("labeltree.training")


@dataclass(frozen=True)
class Experiment:
    """The data of a run, and the module to train.

    Attributes:
        source: All samples, with their splits.
        labels: The labels used in training.
        batches: Training and validation batches.
        module: Encoder and objective, with the resolved recipe.
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
        recipe: The recipe.
        source: The recipe's samples, if already open.
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
    if recipe.space == "posterior" and len(finest_classes(training.every_label, labels.taxonomy)) < 2:
        raise ValueError(
            "space is 'posterior', which needs training samples of at least two classes; leave it at 'head'"
        )
    objective = Objective(recipe, labels.taxonomy, encoder.feature_dim, source.aspect_taxonomies)
    if objective.gives_answers and _is_fixed(recipe, objective):
        recipe = replace(recipe, monitor=OWN_METRIC)
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
        labels.from_training,
    )
    return Experiment(source, labels, batches, module, carried)


def _is_fixed(recipe: Recipe, objective: Objective) -> bool:
    """Whether training changes neither features nor embeddings, so that no search tells its epochs apart."""
    frozen = recipe.trainable == "head" and recipe.adapter is None
    return frozen and objective.head is None and not objective.is_solved


def standardise(encoder: Encoder, training: Source) -> None:
    """Fit an encoder of vectors to the training samples; other encoders stay as they are.

    Columns that are constant there are left out, with a warning.
    """
    encoder = encoder.without_adapter
    store = training.vectors
    if store is None or not isinstance(encoder, VectorEncoder):
        return
    rows = training.rows.split(max(1, _AT_ONCE // store.width))  # type: ignore[no-untyped-call]
    constant = encoder.fit(store.load(some_rows) for some_rows in rows)
    if len(constant) == store.width:
        _log.warning("all training samples are one and the same vector: there is nothing to learn from")
    elif constant:
        names = [f"column {at + 1}" if store.columns is None else store.columns[at] for at in constant]
        are = "is" if len(names) == 1 else "are"
        _log.warning(
            "%d of %d numbers %s constant among the training samples, and left out: %s",
            len(names),
            store.width,
            are,
            some(names, 3),
        )
