"""Resolve the settings that a recipe leaves open, by its samples and objective, and check the others."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence

from labeltree.data import Source
from labeltree.data.source import Modality
from labeltree.models import encoder_modality, encoder_pair, usually_pretrained
from labeltree.models.build import check_encoder_name
from labeltree.training.choosing.choose_encoder import with_encoder
from labeltree.training.choosing.choose_objective import step_settings, with_objective
from labeltree.training.recipe import Recipe
from labeltree.training.recipe_settings import check_idle
from labeltree.training.registry import AUTO_OBJECTIVE, ObjectiveEntry, head_layers, is_solved
from labeltree.training.training_length import with_length

__all__ = [
    "check_terms",
    "chosen_geometry",
    "left_open",
    "resolve_modality",
    "resolve_recipe",
    "training_size",
]

_AUTO_SETTINGS = ("encoder", "views", "pretrained", "trainable", "monitor", "epochs", "batch_size")
_WITH_HEAD = ("pairs-proxies-means", "happier")  # of those that are chosen, and whose dimensions are free
_OF_AN_INSTANCE = ("simclr", "nnclr")  # views of one sample are all that they compare

_USUAL: dict[str, tuple[str, str]] = {
    "image": ("small-conv", "simclr"),
    "text": ("minilm", "dropout"),
    "both": ("small-conv+small-text", "simclr"),
    "vector": ("vectors", "identity"),
}
_OF_IMAGE_VIEWS = ("simclr", "randaugment", "crop", "identity")
_VIEWS: dict[str, tuple[str, ...]] = {
    "image": _OF_IMAGE_VIEWS,
    "text": ("dropout", "word-deletion", "identity"),
    "both": _OF_IMAGE_VIEWS,
    "vector": ("identity",),
}
_OF_TEXTS = ["max_length", "deletion", "dropout"]
_OF_IMAGES = ["image_size", "channels", "erasing", "flip", "channels_last"]


def left_open(known: Recipe, recipe: Recipe) -> tuple[str, ...]:
    """The settings that one recipe may leave open and another name, which the samples decide.

    Where one names an objective and the other leaves it open, they are also the settings of that objective.
    """
    both = (known, recipe)
    if (known.objective == AUTO_OBJECTIVE) == (recipe.objective == AUTO_OBJECTIVE):
        alike = head_layers(known) == head_layers(recipe)  # one leaves it open, the other names the usual one
        return (*_AUTO_SETTINGS, "head.layers") if alike else _AUTO_SETTINGS
    options = [f"{name}.{key}" for r in both for name, given in r.options.items() for key in given]
    return (*_AUTO_SETTINGS, "objective", "head.dim", "head.layers", *options)


def resolve_recipe(recipe: Recipe, source: Source) -> Recipe:
    """Resolve the settings that a recipe leaves open, for these samples; see `resolve_modality`."""
    left_open = recipe.objective == AUTO_OBJECTIVE
    recipe = with_encoder(recipe, source)
    recipe = with_objective(recipe, source)
    if is_solved(recipe.objective):
        recipe = _without_steps(recipe)
    recipe = with_length(recipe, training_size(source))
    layers = head_layers(recipe)
    check_idle(recipe, ["head.hidden"], layers == 1, "in a head of one layer; set head.layers to 2 or more")
    recipe = dataclasses.replace(recipe, head=dataclasses.replace(recipe.head, layers=layers))
    recipe = resolve_modality(recipe, source.modalities)
    return _widen_head(recipe) if left_open else recipe


def _without_steps(recipe: Recipe) -> Recipe:
    """The recipe of an objective that is solved at once, on a frozen encoder's features of the samples.

    Raises:
        ValueError: If it has a setting of training by steps.
    """
    solved = f"for objective '{recipe.objective}', which is solved at once on a frozen encoder's features"
    check_idle(recipe, step_settings(recipe), True, solved)
    return dataclasses.replace(recipe, epochs=1, trainable="head", views="identity")


_WIDE = 256  # dimensions: on photographs of groceries and birds better in every number of retrieval than 128


def _widen_head(recipe: Recipe) -> Recipe:
    """The recipe with wider embeddings if the features of pretrained image encoders, or vectors, stay."""
    modality = encoder_modality(recipe.encoder)
    frozen = recipe.trainable == "head" and (bool(recipe.pretrained) or modality == "vector")
    if recipe.head.dim or not frozen or modality not in ("image", "vector"):
        return recipe
    if recipe.objective not in _WITH_HEAD:
        return recipe
    return dataclasses.replace(recipe, head=dataclasses.replace(recipe.head, dim=_WIDE))


def training_size(source: Source) -> int:
    """The number of training samples; of all, if there are no splits."""
    return len(source) if source.split is None else len(source.of_split("train"))


def resolve_modality(recipe: Recipe, modalities: Sequence[Modality]) -> Recipe:
    """Resolve the encoder, views and initial weights of a recipe for samples of these modalities.

    Samples with both images and texts are read as images, unless the encoder reads texts, or both. A
    pretrained image encoder stays frozen unless the recipe says otherwise. The views of a frozen encoder are
    the unchanged samples: its features are computed once, and a frozen text encoder applies no dropout.

    Raises:
        ValueError: If the samples lack the encoder's modality, or the views or another setting do not fit
            this modality.
    """
    encoder = recipe.encoder
    if encoder == "auto":
        encoder = _USUAL[modalities[0]][0]
    modality = encoder_modality(encoder)
    if modality == "both":
        _check_both(recipe, encoder, modalities)
    elif modality not in modalities:
        check_encoder_name(encoder, modalities[0])  # an unknown name counts as one of images
        raise ValueError(
            f"encoder '{encoder}' reads {modality}s, but the samples of '{recipe.data}' are "
            f"{modalities[0]}s; take another, such as '{_USUAL[modalities[0]][0]}'"
        )
    if modality == "vector":
        _check_vectors(recipe, encoder)
        recipe = dataclasses.replace(recipe, trainable="head")
    pretrained = recipe.pretrained
    if pretrained is None:
        pretrained = recipe.weights is None and usually_pretrained(encoder)
    recipe = dataclasses.replace(recipe, pretrained=pretrained)
    trainable = recipe.trainable
    if trainable == "auto":
        trainable = "head" if modality == "image" and pretrained and _leaves_views(recipe) else "all"
    frozen = trainable == "head" and (modality == "text" or _leaves_views(recipe))
    frozen_texts = frozen and modality == "text"
    usual = "identity" if frozen else _USUAL[modality][1]
    views = usual if recipe.views == "auto" else recipe.views
    monitor = recipe.monitor
    if monitor == "auto":  # the features of a frozen encoder are the same after every epoch
        monitor = "embeddings_map_at_r" if trainable == "head" and recipe.adapter is None else "map_at_r"
    if views not in _VIEWS[modality]:
        raise ValueError(
            f"views is '{views}', but encoder '{encoder}' reads {modality}s, whose views are "
            f"{', '.join(_VIEWS[modality])}"
        )
    check_idle(
        recipe,
        ["pooling"],
        not (encoder_pair(encoder) or (encoder,))[0].startswith(("transformers:", "hf:")),
        f"for encoder '{encoder}'; it is a setting of transformers:FOLDER and hf:OWNER/NAME",
    )
    if modality != "both":
        idle = (_OF_TEXTS if modality != "text" else []) + (_OF_IMAGES if modality != "image" else [])
        check_idle(recipe, idle, True, f"for encoder '{encoder}', which reads {modality}s")
    if frozen_texts and (views == "dropout" or recipe.dropout is not None):
        raise ValueError(
            "a frozen encoder drops nothing out: with trainable 'head' leave dropout out, and let views be "
            "'word-deletion' or 'identity'"
        )
    return dataclasses.replace(
        recipe,
        encoder=encoder,
        views=views,  # type: ignore[arg-type]
        trainable=trainable,
        monitor=monitor,
    )


def _leaves_views(recipe: Recipe) -> bool:
    """Whether nothing in a recipe needs augmented images."""
    asked = recipe.erasing > 0 or (recipe.num_views or 1) > 1
    return recipe.views in ("auto", "identity") and recipe.objective not in _OF_AN_INSTANCE and not asked


def _check_vectors(recipe: Recipe, encoder: str) -> None:
    """Check the settings that a run on vectors does not have."""
    weightless = f"for encoder '{encoder}', which has no weights"
    check_idle(recipe, ["pretrained"], recipe.pretrained is True, weightless)
    check_idle(recipe, ["ema"], True, weightless)
    if recipe.trainable not in ("auto", "head"):
        raise ValueError(
            f"trainable is '{recipe.trainable}', but encoder '{encoder}' has nothing to train below the "
            "head; leave it out, or put a trained layer below all heads with adapter WIDTH"
        )
    if recipe.objective in _OF_AN_INSTANCE:
        raise ValueError(
            f"objective '{recipe.objective}' compares augmented views of a sample, which vectors do not "
            "have; take one that reads labels, such as 'auto'"
        )


def _check_both(recipe: Recipe, encoder: str, modalities: Sequence[Modality]) -> None:
    """Check that samples have images and texts, and the settings that such a run does not have."""
    if len(modalities) < 2:
        raise ValueError(
            f"encoder '{encoder}' reads images and texts, but the samples of '{recipe.data}' are "
            f"{modalities[0]}s alone; take another, such as '{_USUAL[modalities[0]][0]}', or name both "
            "columns of a table: table.image_column and table.text_column"
        )
    check_idle(recipe, ["adapter"], True, f"for encoder '{encoder}', whose projections are such a layer")


def check_terms(recipe: Recipe, entries: list[ObjectiveEntry]) -> None:
    """Check weights and options against the terms of the objective, before anything is built.

    Raises:
        ValueError: If there is not one weight per term, or all are 0; for options of another objective, or
            a loss that would not be a scalar.
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
    """The geometry of the embeddings, from the recipe or else from the losses.

    Raises:
        ValueError: If losses need different geometries, or a loss that supports only the sphere gets another.
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
                f"geometry is '{recipe.geometry}', but objective '{entry.name}' supports only the sphere; "
                "leave it at auto"
            )
    return recipe.geometry
