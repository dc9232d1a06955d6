"""A run as one graph, from pixels, tokens or vectors to log-probabilities, for other runtimes."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from labeltree.decisions import Calibrator, ClassNodes
from labeltree.decisions.calibrators import StepSoftmax
from labeltree.decisions.classifiers import (
    ClassScores,
    LinearScores,
    MergedScores,
    PrototypeScores,
    merge_columns,
)
from labeltree.decisions.ridge_scores import RidgeScores
from labeltree.errors import RunError
from labeltree.geometry import get_geometry
from labeltree.inference.decider import Decider
from labeltree.inference.run_classifiers import OwnScores
from labeltree.models.text_encoders.small_text import SmallTextEncoder
from labeltree.models.text_encoders.text_transformer import TransformerEncoder
from labeltree.training.network import Network

__all__ = ["LEAST_TOKENS", "OUTPUTS", "CalibratedScores", "ModelGraph", "example_inputs", "most_tokens"]

LEAST_TOKENS = 3
"""Tokens of a batch that the graph takes at least; fewer are filled up with −1."""

OUTPUTS = ("features", "embeddings", "log_probabilities")


class ModelGraph(nn.Module):
    """Preprocessing, encoder, head, classifier and calibrator of a run, without branches on values.

    Classifier and calibrator compute in float64, as they do in `Model`; what leaves the graph is float32.

    Args:
        decider: The run with its classifier and decision rule.
    """

    mean: Tensor | None
    std: Tensor | None
    probe_weight: Tensor
    probe_bias: Tensor
    prototypes: Tensor
    columns: Tensor

    def __init__(self, decider: Decider) -> None:
        super().__init__()
        network = decider.run.network
        if network.device.type != "cpu":  # the model goes on where it is
            network = copy.deepcopy(network).cpu()
        self.encoder = network.encoder
        self.objective = network.objective
        self.reads_pixels = network.image_shape is not None
        self.reads_tokens = network.modality == "text"
        self.most_tokens = max(most_tokens(network) or 0, LEAST_TOKENS + 1)
        mean, std = network.normalisation
        for name, value in (("mean", mean), ("std", std)):
            self.register_buffer(name, None if value is None else value[:, None, None].clone())
        self._scores = self._scorer(decider.scores)
        self.calibrate = CalibratedScores(decider.rule.calibrator, decider.rule.classes)

    def _scorer(self, scores: ClassScores) -> Callable[[Tensor, Tensor], Tensor]:
        if isinstance(scores, MergedScores):
            self.register_buffer("columns", scores.columns.clone())
            single, count, temperature = (
                self._scorer(scores.scores),
                len(scores.classes),
                scores.temperature,
            )
            return lambda features, points: merge_columns(
                single(features, points) / temperature, self.columns, count
            )
        if isinstance(scores, LinearScores):
            self.register_buffer("probe_weight", scores.weight.clone())
            self.register_buffer("probe_bias", scores.bias.clone())
            return lambda features, _: features.double() @ self.probe_weight + self.probe_bias
        if isinstance(scores, PrototypeScores):
            self.register_buffer("prototypes", scores.prototypes.clone())
            space, scale = get_geometry(scores.geometry, scores.curvature), scores.scale
            which = 0 if scores.of_features else 1
            return lambda *vectors: (
                -scale * space.pairwise_distance(vectors[which].double(), self.prototypes).square()
            )
        if isinstance(scores, RidgeScores):
            tensors = scores.tensors()
            self._ridge_names = tuple(tensors)
            for name, tensor in tensors.items():
                self.register_buffer(f"ridge_{name}", tensor.clone())
            return lambda features, _: self._ridge_scores(features)
        if isinstance(scores, OwnScores):
            return lambda features, _: self._own_logits(features)
        raise RunError(f"a classifier of the kind {type(scores).__name__} cannot be exported")

    def _ridge_scores(self, features: Tensor) -> Tensor:
        scores = RidgeScores(**{name: getattr(self, f"ridge_{name}") for name in self._ridge_names})
        return scores.of_unit_vectors(torch.nn.functional.normalize(features.double(), dim=1))

    def _own_logits(self, features: Tensor) -> Tensor:
        scores = self.objective.class_scores(features)
        assert scores is not None
        return scores[1].double()

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Features `(n, f)`, embeddings `(n, d)` and calibrated log-probabilities `(n, C)`, float32.

        Args:
            inputs: Pixels `(n, c, h, w)` uint8, token ids `(n, t)` int64, filled up with −1, or vectors.
        """
        if self.reads_pixels:
            inputs = inputs.float() / 255
            inputs = inputs if self.mean is None else inputs - self.mean
            inputs = inputs if self.std is None else inputs / self.std
        features = self.encoder(inputs).float()
        embeddings = self.objective.embed(features).float()
        scores = self._scores(features, embeddings)
        return features, embeddings, self.calibrate(scores).float()


class CalibratedScores(nn.Module):
    """The calibrator of a decision rule as a module; see `Calibrator`."""

    temperatures: Tensor
    slopes: Tensor
    offsets: Tensor

    def __init__(self, calibrator: Calibrator, classes: ClassNodes) -> None:
        super().__init__()
        self.kind = calibrator.kind
        numbers = {
            "temperatures": calibrator.temperatures,
            "slopes": calibrator.slopes,
            "offsets": calibrator.offsets,
        }
        for name, values in numbers.items():
            self.register_buffer(name, torch.tensor(values, dtype=torch.float64))
        self.steps = _Steps(classes) if self.kind == "depth" else None

    def forward(self, scores: Tensor) -> Tensor:
        z = torch.log_softmax(scores, 1)
        if self.kind == "temperature":
            return torch.log_softmax(z / self.temperatures, 1)
        if self.kind == "vector":
            return torch.log_softmax(z * self.slopes + self.offsets, 1)
        return z if self.steps is None else self.steps(z, self.temperatures)


class _Steps(nn.Module):
    """Temperatures by depth: as `Calibrator` computes them, but by indices that fit into a graph."""

    pair_node: Tensor
    pair_class: Tensor
    nodes: Tensor
    stays: Tensor
    parent: Tensor
    depth: Tensor
    path: Tensor

    def __init__(self, classes: ClassNodes) -> None:
        super().__init__()
        steps = StepSoftmax(classes)
        above = classes.above.tocoo()
        stays = classes.place[steps.stays]
        kept = {
            "pair_node": torch.from_numpy(above.row.astype("int64")),
            "pair_class": torch.from_numpy(above.col.astype("int64")),
            "nodes": steps.nodes,
            "stays": stays,
            "parent": steps.parent,
            "depth": steps.depth - 1,
            "path": torch.where(steps.path < 0, len(steps.parent), steps.path),
        }
        for name, value in kept.items():
            self.register_buffer(name, value.clone())
        self.count = classes.taxonomy.num_nodes

    def forward(self, z: Tensor, temperatures: Tensor) -> Tensor:
        of_classes = z.exp()
        zeros = of_classes.new_zeros(z.shape[0], self.count)
        of_nodes = zeros.index_add(1, self.pair_node, of_classes[:, self.pair_class])
        mass = torch.cat([of_nodes[:, self.nodes], of_classes[:, self.stays]], 1)
        logs = mass.clamp(min=1e-300).log() - of_nodes[:, self.parent].clamp(min=1e-300).log()
        steps = logs / temperatures[self.depth]
        largest = torch.full_like(zeros, -1e9).scatter_reduce(
            1, self.parent.expand(z.shape[0], -1), steps, "amax"
        )
        sums = zeros.index_add(1, self.parent, (steps - largest[:, self.parent]).exp())
        steps = steps - sums[:, self.parent].log() - largest[:, self.parent]
        padded = torch.cat([steps, steps.new_zeros(z.shape[0], 1)], 1)
        return torch.log_softmax(padded[:, self.path].sum(2), 1)


def most_tokens(network: Network) -> int | None:
    """Largest number of tokens of a text that the encoder reads; None for images and vectors."""
    encoder, asked = network.encoder.without_adapter, network.recipe.max_length
    if isinstance(encoder, SmallTextEncoder):
        most = encoder.most_words
    elif isinstance(encoder, TransformerEncoder):
        most = encoder.max_length
    else:
        return None
    return most if asked is None else min(asked, most)


def example_inputs(decider: Decider) -> Tensor:
    """Two samples of the kind that the graph reads: pixels, tokens or vectors."""
    network = decider.run.network
    if network.modality == "vector":
        width = network.encoder.without_adapter.feature_dim
        return torch.linspace(-1, 1, 2 * width).reshape(2, width)
    if network.image_shape is not None:
        pixels = torch.arange(2 * torch.Size(network.image_shape).numel()) * 37 % 256
        return pixels.to(torch.uint8).reshape(2, *network.image_shape)
    return network.tokens(["one two three four five", "six seven"])[:, 0].long()
