"""Build what a recipe describes: samples, labels, batches and the module."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import lightning as L

from labeltree.data import Source, hold_out_fold, ignore_cache, make_splits, open_source
from labeltree.data.correction_rounds import CorrectionRounds
from labeltree.errors import DataError
from labeltree.models import encoder_modality, usual_images, usually_pretrained
from labeltree.preprocessing import ImageInput
from labeltree.progress import Progress
from labeltree.training.batches import SourceDataModule, validation_samples
from labeltree.training.carried_weights import carry_over_objective
from labeltree.training.choose_encoder import AUTO_ENCODER, chosen_input
from labeltree.training.inputs import open_inputs, open_views
from labeltree.training.labels import TrainingLabels, training_labels
from labeltree.training.module import RepresentationModule
from labeltree.training.network import Network, recipe_encoder
from labeltree.training.objective import Objective
from labeltree.training.recipe import Recipe
from labeltree.training.resolution import resolve_recipe

__all__ = ["Experiment", "open_recipe_data", "open_recipe_source", "prepare", "split_by_recipe"]


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
        shape = None if module.encoder.modality == "text" else self.source.image_shape
        return Network(
            module.recipe,
            self.source.taxonomy,
            module.evaluated_encoder,
            module.objective,
            module.views.plain,
            shape,
            self.labels.from_training,
            None if shape is None else self.source.preprocessing,
        )


def open_recipe_source(recipe: Recipe, progress: Progress | None = None) -> Source:
    """The samples of a recipe, with their splits and corrections."""
    data = open_recipe_data(recipe, progress)
    source = split_by_recipe(recipe, data)
    if recipe.corrections is None:
        return source
    return CorrectionRounds.load(recipe.corrections).apply(data, source)[1]


def open_recipe_data(
    recipe: Recipe,
    progress: Progress | None = None,
    *,
    images: ImageInput | None = None,
    verify: bool = False,
) -> Source:
    """The whole data set of a recipe, without the recipe's splits and corrections.

    Args:
        recipe: the recipe.
        progress: callback that reports progress.
        images: the images that the encoder reads, used where the recipe leaves it open: the data may have
            changed since the run chose them. None = those that its weights were made for; of an encoder that
            is left open, those of the one that a look at the data set chooses.
        verify: read all files again and ignore the cache.
    """
    known = images or _expected_images(recipe)
    left_open = recipe.encoder == AUTO_ENCODER and images is None
    with ignore_cache(verify):
        source = open_source(
            recipe.data,
            data_path=recipe.data_path,
            image_size=recipe.image_size or known.size,
            taxonomy=recipe.taxonomy,
            mapping=recipe.mapping,
            channels=recipe.channels or known.channels,
            preprocessing=known.preprocessing,
            choose=partial(chosen_input, recipe) if left_open else None,
            missing_labels=recipe.missing_labels,
            on_error=recipe.on_error,
            cache={"auto": None, "always": True, "never": False}[recipe.pixel_cache],
            check=recipe.pixel_cache != "never",
            progress=progress,
            either=encoder_modality(recipe.encoder) == "both",
            **recipe.table.columns,
        )
    if recipe.missing_labels and not any(source.missing_labels.values()):
        names = " or ".join(repr(name) for name in source.missing_labels)
        raise DataError(
            f"no label of '{recipe.data}' is called {names}; leave missing_labels out, or correct it"
        )
    return source


def _expected_images(recipe: Recipe) -> ImageInput:
    """The images that the weights of a recipe's encoder were made for, as far as that is known."""
    usually = usually_pretrained(recipe.encoder)
    starts = recipe.pretrained if recipe.pretrained is not None else usually
    if recipe.encoder == AUTO_ENCODER or not (starts or usually):
        return ImageInput(None, None)
    return usual_images(recipe.encoder) or ImageInput(None, None)


def split_by_recipe(recipe: Recipe, source: Source) -> Source:
    """The samples that a recipe selects from its data set, with their splits."""
    if recipe.fold is not None:
        source = hold_out_fold(source, recipe.fold, recipe.seed)
    return make_splits(
        source,
        val=recipe.val,
        test=recipe.test,
        seed=recipe.seed,
        limit=recipe.limit,
        train_limit=recipe.train_limit,
        test_limit=recipe.test_limit,
        unseen_classes=recipe.unseen_classes,
        unseen_depth=recipe.unseen_depth,
        calib=recipe.calib,
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
    image_shape = None if encoder_modality(recipe.encoder) == "text" else source.image_shape
    encoder = recipe_encoder(recipe, image_shape)
    training = source.of_split("train")
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
