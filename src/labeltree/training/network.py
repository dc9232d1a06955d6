"""The network that a recipe describes: an encoder and its objective's head and classifiers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from labeltree.data import TokenStore
from labeltree.models import (
    AdaptedEncoder,
    Encoder,
    PairedEncoder,
    TextEncoder,
    add_lora,
    build_encoder,
    encoder_modality,
    set_trainable,
)
from labeltree.models.paired import Towers
from labeltree.preprocessing import Preprocessing
from labeltree.taxonomy import Taxonomy
from labeltree.training.carried_weights import start_file
from labeltree.training.inputs import Inputs, Normalisation, Views, in_memory_format, open_views
from labeltree.training.objective import Objective
from labeltree.training.recipe import Recipe
from labeltree.training.registry import ObjectiveEntry

__all__ = ["Network", "build_network", "on_usual_device", "recipe_encoder"]

_CPU_PIXELS = 128 * 64 * 64  # of a batch on a CPU, whose activations then fit in its caches
_SMALLEST_BATCH = 8


class Network(nn.Module):
    """An encoder with what follows it, as it is evaluated and used.

    It needs neither Lightning nor data. Its methods change nothing, so threads can share it.

    Args:
        recipe: the resolved recipe.
        taxonomy: taxonomy of the data's labels.
        encoder: maps images or tokens to features.
        objective: head and classifiers, beside the losses.
        plain: the unaugmented view of samples.
        image_shape: ``(c, h, w)`` of the images; None for texts.
        from_training: ``(M,)`` node of ``taxonomy`` of each node of the training taxonomy; −1 = none.
        preprocessing: how images are cut out of files; None = the largest centred square.
    """

    def __init__(
        self,
        recipe: Recipe,
        taxonomy: Taxonomy,
        encoder: Encoder,
        objective: Objective,
        plain: Views,
        image_shape: tuple[int, int, int] | None,
        from_training: Tensor,
        preprocessing: Preprocessing | None = None,
    ) -> None:
        super().__init__()
        self.recipe = recipe
        self.taxonomy = taxonomy
        self.encoder = encoder
        self.objective = objective
        self.image_shape = image_shape
        self.from_training = from_training
        self.preprocessing = preprocessing
        self._plain = plain

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    def batch_size(self, most: int) -> int:
        """How many samples are encoded at a time, at most ``most``: on a CPU, fewer of large images.

        Their activations take memory: those of 32 images of 224 × 224 pixels a gigabyte in some encoders.
        """
        if self.image_shape is not None and self.device.type == "cpu":
            _, height, width = self.image_shape
            most = max(_SMALLEST_BATCH, min(most, _CPU_PIXELS // (height * width)))
        return min(most, self.recipe.encode_chunk or most)

    @property
    def normalisation(self) -> tuple[Tensor | None, Tensor | None]:
        """Mean and standard deviation ``(c,)`` that the plain view of images in [0, 1] is normalised by."""
        return getattr(self._plain, "mean", None), getattr(self._plain, "std", None)

    def plain(self, samples: Inputs, instances: Tensor | None = None) -> Inputs:
        """The encoder's input for samples, unaugmented.

        Args:
            samples: images ``(n, c, h, w)`` uint8, tokens ``(n, 2, t)`` int32, or both.
            instances: ids ``(n,)`` of the samples; views that are not random do not depend on them.

        Returns:
            images ``(n, c, h, w)`` float32, token ids ``(n, t)`` int64, or both.
        """
        if instances is None:
            instances = torch.zeros(len(samples), dtype=torch.int64, device=samples.device)
        with torch.autocast(samples.device.type, enabled=False):
            return in_memory_format(self._plain(samples, instances), self.recipe)

    def tokens(self, texts: Sequence[str]) -> Tensor:
        """Tokens ``(n, 2, t)`` int32 of n texts, for `plain`."""
        encoder = self.encoder.without_adapter
        if isinstance(encoder, Towers):
            encoder = encoder.text
        assert isinstance(encoder, TextEncoder)
        store = TokenStore(*encoder.tokenize(list(texts), self.recipe.max_length))
        return store.load(torch.arange(len(store)))

    def forward(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Features ``(n, f)`` and embeddings ``(n, d)`` float32 of encoder inputs from `plain`."""
        features: Tensor = self.encoder(inputs).float()
        return features, self.objective.embed(features).float()


def build_network(
    recipe: Recipe,
    taxonomy: Taxonomy,
    *,
    image_shape: tuple[int, int, int] | None,
    training_taxonomy: Taxonomy | None = None,
    from_training: Tensor | None = None,
    aspects: Sequence[Taxonomy] = (),
    encoder_config: Path | None = None,
    normalisation: Normalisation | None = None,
    preprocessing: Preprocessing | None = None,
    entries: list[ObjectiveEntry] | None = None,
) -> Network:
    """Build the network of a finished run, in evaluation mode; its weights are to be loaded next.

    Args:
        recipe: the resolved recipe.
        taxonomy: taxonomy of the data's labels.
        image_shape: ``(c, h, w)`` of the images; None for texts.
        training_taxonomy: taxonomy of the training labels; None = ``taxonomy``.
        from_training: see `Network`; None = the same nodes.
        aspects: taxonomies of the samples' aspects.
        encoder_config: what the run kept to build its encoder from, see `build_encoder`.
        normalisation: mean and standard deviation of pixels that the run recorded, see `open_views`.
        preprocessing: how images are cut out of files, as the run recorded it.
        entries: the objectives of the terms, see `Objective`.
    """
    encoder = recipe_encoder(recipe, image_shape, start_weights=False, config=encoder_config)
    objective = Objective(recipe, training_taxonomy or taxonomy, encoder.feature_dim, aspects, entries)
    plain = open_views(recipe, encoder, image_shape, normalisation).plain
    nodes = torch.arange(taxonomy.num_nodes) if from_training is None else from_training
    return Network(recipe, taxonomy, encoder, objective, plain, image_shape, nodes, preprocessing).eval()


def on_usual_device(network: Network) -> Network:
    """The network on a GPU, if there is one and the recipe does not say ``accelerator: cpu``."""
    gpu = torch.cuda.is_available() and network.recipe.accelerator != "cpu"
    return network.to(torch.device("cuda" if gpu else "cpu"))


def recipe_encoder(
    recipe: Recipe,
    image_shape: tuple[int, int, int] | None,
    *,
    start_weights: bool = True,
    config: Path | None = None,
) -> Encoder:
    """Build the encoder of a resolved recipe, with its adapter; what is not trained has no gradients.

    Args:
        recipe: the resolved recipe.
        image_shape: ``(c, h, w)`` of the images; ignored for texts.
        start_weights: whether to read the pretrained weights that the recipe names. Without them the encoder
            is that of a finished run, in which the updates of LoRA are part of the weights.
        config: see `build_encoder`.
    """
    shape: dict[str, int] = {}
    if encoder_modality(recipe.encoder) != "text":
        assert image_shape is not None
        shape = {"channels": image_shape[0], "image_size": image_shape[1]}
    encoder = build_encoder(
        recipe.encoder,
        pretrained=bool(recipe.pretrained) and start_weights,
        weights=start_file(recipe) if start_weights else None,
        pooling=recipe.pooling,
        config=config,
        **shape,
    )
    text = encoder.base.text if isinstance(encoder, PairedEncoder) else encoder
    if isinstance(text, TextEncoder):
        # Without augmented views, nothing is random.
        dropout = 0.0 if recipe.views == "identity" else recipe.dropout
        if dropout is not None:
            text.set_dropout(dropout)
    if encoder.modality != "text" and recipe.channels_last:
        encoder = encoder.to(memory_format=torch.channels_last)
    if recipe.trainable != "lora":
        set_trainable(encoder, recipe.trainable)
    elif start_weights:
        add_lora(encoder, **dataclasses.asdict(recipe.lora))
    else:
        set_trainable(encoder, "head")
    return encoder if recipe.adapter is None else AdaptedEncoder(encoder, recipe.adapter)
