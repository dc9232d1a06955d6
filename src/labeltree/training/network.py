"""The network that a recipe describes: an encoder and its objective's head and classifiers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any

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
from labeltree.models.encoder import Modality
from labeltree.models.paired import Towers
from labeltree.preprocessing import Preprocessing
from labeltree.taxonomy import Taxonomy
from labeltree.training.carried_weights import start_file
from labeltree.training.objective import Objective
from labeltree.training.recipe import Recipe
from labeltree.training.registry import ObjectiveEntry
from labeltree.training.tokens_and_views import Inputs, Normalisation, Views, in_memory_format, open_views

__all__ = ["Network", "build_network", "move_to_usual_device", "recipe_encoder", "usual_device"]

_CPU_PIXELS = 128 * 64 * 64  # of a batch on a CPU, whose activations then fit in its caches
_SMALLEST_BATCH = 8
_building = Lock()  # of one encoder at a time


class Network(nn.Module):
    """An encoder with what follows it, as it is evaluated and used.

    It needs neither Lightning nor data. Its methods change nothing, so threads can share it. Its encoder can
    be built when it is first used: where all features are known, its library is not imported.

    Args:
        recipe: The resolved recipe.
        taxonomy: Taxonomy of the data's labels.
        encoder: Maps images or tokens to features, with the unaugmented view of samples; or a function that
            builds both, in evaluation mode.
        objective: Head and classifiers, beside the losses.
        image_shape: `(c, h, w)` of the images; None for texts and vectors.
        from_training: `(M,)` node of `taxonomy` of each node of the training taxonomy; −1 = none.
        preprocessing: How images are cut out of files; None = the largest centred square.
        feature_dim: Number of features; None = that of the encoder, which is then built.
    """

    def __init__(
        self,
        recipe: Recipe,
        taxonomy: Taxonomy,
        encoder: tuple[Encoder, Views] | Callable[[], tuple[Encoder, Views]],
        objective: Objective,
        image_shape: tuple[int, int, int] | None,
        from_training: Tensor,
        preprocessing: Preprocessing | None = None,
        feature_dim: int | None = None,
    ) -> None:
        super().__init__()
        self.recipe = recipe
        self.taxonomy = taxonomy
        self.objective = objective
        self.image_shape = image_shape
        self.from_training = from_training
        self.preprocessing = preprocessing
        self._plain: Views | None = None
        self._build = None if isinstance(encoder, tuple) else encoder
        if isinstance(encoder, tuple):
            self._modules["encoder"], self._plain = encoder
        self.feature_dim: int = self.encoder.feature_dim if feature_dim is None else feature_dim

    @property
    def encoder(self) -> Encoder:
        """The encoder."""
        return self._parts()[0]

    def _parts(self) -> tuple[Encoder, Views]:
        with _building:
            if self._build is not None:
                self._modules["encoder"], self._plain = self._build()
                self._build = None  # it holds the weights that it has loaded
            encoder: Any = self._modules["encoder"]
            assert self._plain is not None
            return encoder, self._plain

    @property
    def modality(self) -> Modality:
        """What the encoder reads: images, texts, both, or vectors."""
        return encoder_modality(self.recipe.encoder)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        if next(self.objective.parameters(), None) is None:
            self._parts()
        return next(chain(self.parameters(), self.buffers())).device

    def batch_size(self, most: int) -> int:
        """How many samples are encoded at a time, at most `most`: on a CPU, fewer of large images.

        Their activations take memory: those of 32 images of 224 × 224 pixels a gigabyte in some encoders.
        """
        if self.image_shape is not None and self.device.type == "cpu":
            _, height, width = self.image_shape
            most = max(_SMALLEST_BATCH, min(most, _CPU_PIXELS // (height * width)))
        return min(most, self.recipe.encode_chunk or most)

    @property
    def normalisation(self) -> tuple[Tensor | None, Tensor | None]:
        """Mean and standard deviation `(c,)` that the plain view of images in [0, 1] is normalised by."""
        plain = self._parts()[1]
        return getattr(plain, "mean", None), getattr(plain, "std", None)

    def plain(self, samples: Inputs, instances: Tensor | None = None) -> Inputs:
        """The encoder's input for samples, unaugmented.

        Args:
            samples: Images `(n, c, h, w)` uint8, tokens `(n, 2, t)` int32, or both.
            instances: Ids `(n,)` of the samples; views that are not random do not depend on them.

        Returns:
            Images `(n, c, h, w)` float32, token ids `(n, t)` int64, or both.
        """
        if instances is None:
            instances = torch.zeros(len(samples), dtype=torch.int64, device=samples.device)
        with torch.autocast(samples.device.type, enabled=False):
            return in_memory_format(self._parts()[1](samples, instances), self.recipe)

    def tokens(self, texts: Sequence[str]) -> Tensor:
        """Tokens `(n, 2, t)` int32 of n texts, for `plain`."""
        encoder = self.encoder.without_adapter
        if isinstance(encoder, Towers):
            encoder = encoder.text
        assert isinstance(encoder, TextEncoder)
        store = TokenStore(*encoder.tokenize(list(texts), self.recipe.max_length))
        return store.load(torch.arange(len(store)))

    def forward(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Features `(n, f)` and embeddings `(n, d)` float32 of encoder inputs from `plain`."""
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
    feature_dim: int | None = None,
    finish: Callable[[Encoder], None] = lambda encoder: None,
) -> Network:
    """Build the network of a finished run, in evaluation mode; the weights of its objective are loaded next.

    Args:
        recipe: The resolved recipe.
        taxonomy: Taxonomy of the data's labels.
        image_shape: `(c, h, w)` of the images; None for texts and vectors.
        training_taxonomy: Taxonomy of the training labels; None = `taxonomy`.
        from_training: See `Network`; None = the same nodes.
        aspects: Taxonomies of the samples' aspects.
        encoder_config: What the run kept to build its encoder from, see `build_encoder`.
        normalisation: Mean and standard deviation of pixels that the run recorded, see `open_views`.
        preprocessing: How images are cut out of files, as the run recorded it.
        entries: The objectives of the terms, see `Objective`.
        feature_dim: Number of features, with which the encoder is built when it is first used; None = now.
        finish: Called with the encoder once it is built, such as to load its weights.
    """

    def build() -> tuple[Encoder, Views]:
        encoder = recipe_encoder(recipe, image_shape, start_weights=False, config=encoder_config).eval()
        finish(encoder)
        return encoder, open_views(recipe, encoder, image_shape, normalisation).plain

    parts = build() if feature_dim is None else build
    width = parts[0].feature_dim if isinstance(parts, tuple) else feature_dim
    assert width is not None
    objective = Objective(recipe, training_taxonomy or taxonomy, width, aspects, entries)
    nodes = torch.arange(taxonomy.num_nodes) if from_training is None else from_training
    return Network(recipe, taxonomy, parts, objective, image_shape, nodes, preprocessing, width).eval()


def usual_device(recipe: Recipe) -> torch.device:
    """A GPU, if there is one and the recipe does not say `accelerator: cpu`."""
    return torch.device("cuda" if torch.cuda.is_available() and recipe.accelerator != "cpu" else "cpu")


def move_to_usual_device(network: Network) -> Network:
    """The network on its `usual_device`."""
    return network.to(usual_device(network.recipe))


def recipe_encoder(
    recipe: Recipe,
    image_shape: tuple[int, int, int] | None,
    *,
    width: int | None = None,
    start_weights: bool = True,
    config: Path | None = None,
) -> Encoder:
    """Build the encoder of a resolved recipe, with its adapter; what is not trained has no gradients.

    Args:
        recipe: The resolved recipe.
        image_shape: `(c, h, w)` of the images; ignored for texts and vectors.
        width: Length of the vectors; None = that of the configuration.
        start_weights: Whether to read the pretrained weights that the recipe names. Without them the encoder
            is that of a finished run, in which the updates of LoRA are part of the weights.
        config: See `build_encoder`.
    """
    shape: dict[str, int] = {}
    modality = encoder_modality(recipe.encoder)
    if modality in ("image", "both"):
        assert image_shape is not None
        shape = {"channels": image_shape[0], "image_size": image_shape[1]}
    elif width is not None:
        shape = {"image_size": width}
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
    if modality in ("image", "both") and recipe.channels_last:
        encoder = encoder.to(memory_format=torch.channels_last)
    if recipe.trainable != "lora":
        set_trainable(encoder, recipe.trainable)
    elif start_weights:
        add_lora(encoder, **dataclasses.asdict(recipe.lora))
    else:
        set_trainable(encoder, "head")
    return encoder if recipe.adapter is None else AdaptedEncoder(encoder, recipe.adapter)
