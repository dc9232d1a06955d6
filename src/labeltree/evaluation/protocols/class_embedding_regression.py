"""`class-embeddings`: nearest class embedding, for models trained towards class embeddings."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labeltree.errors import DataError
from labeltree.evaluation.fitted_probe import nearest_prototype
from labeltree.evaluation.protocol_registry import Inputs, ProtocolResult, register
from labeltree.evaluation.representations import Reading
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

__all__ = ["ClassEmbeddingOptions", "class_embeddings"]

_CHUNK = 4096


@dataclass(frozen=True)
class ClassEmbeddingOptions:
    """Options of `class_embeddings`.

    Attributes:
        roles: Representations to read: `features`, `embeddings` or both.
        vectors: Source of the class embeddings: `taxonomy` (Barz & Denzler 2019, Section 3.2; with fewer
            dimensions than classes, Section 3.3), `words` (word vectors of the class names, as in DeViSE)
            or the path of an embeddings table, `.npz` or `.parquet`, with one row for every class.
        words: File of word vectors, if `vectors` is `words`.
        by: `direct` compares samples with the class embeddings directly, which is meaningful for models
            trained towards them; `fitted` first applies a linear map, learned by ridge regression from the
            training samples, which suits any model. Or both.
        penalty: Penalty of the ridge regression, per training sample.
    """

    roles: tuple[str, ...] = ("embeddings",)
    vectors: str = "taxonomy"
    words: str = ""
    by: tuple[str, ...] = ("direct", "fitted")
    penalty: float = 1e-3

    def __post_init__(self) -> None:
        if not self.by or not set(self.by) <= {"direct", "fitted"}:
            raise ValueError(f"by is {self.by}, expected direct, fitted or both")
        if not self.penalty > 0:
            raise ValueError(f"penalty must be above 0, got {self.penalty}")
        if self.vectors == "words" and not self.words:
            raise ValueError("vectors is 'words'; name the file of word vectors as words")


@register(
    "class-embeddings",
    summary="class whose embedding (from the taxonomy, from words, from a file) lies nearest",
    source="Barz & Denzler 2019, Sections 4.1 and 5.5; Frome et al. 2013",
    options=ClassEmbeddingOptions,
)
def class_embeddings(inputs: Inputs, options: ClassEmbeddingOptions) -> ProtocolResult:
    """Predict the class embedding with the largest inner product; in the Poincaré ball, the nearest one."""
    notes: list[str] = []
    parts = {}
    readings = inputs.chosen(options.roles)
    for way in options.by:
        for role, reading in readings.items():
            vectors = _targets(inputs, options, reading.points.shape[1], way)
            if way == "direct" and vectors.shape[1] != reading.points.shape[1]:
                notes.append(
                    f"The {role} have {reading.points.shape[1]} numbers and the class embeddings "
                    f"{vectors.shape[1]}: they cannot be compared directly."
                )
                continue
            classes = _candidates(inputs)
            classes = classes[vectors[classes].any(1)]
            if not len(classes):
                raise DataError(f"no class has an embedding in '{options.vectors}'")
            answers = _direct if way == "direct" else _fitted
            part = inputs.judge(answers(reading, inputs, vectors, classes, options), classes=classes)
            part.counts["classes that can be answered"] = len(classes)
            parts[f"{way}.{role}"] = part
    if not parts:
        raise DataError(f"{notes[0].rstrip('.')}; fit learns a map")
    if "direct" in options.by:
        notes.append(
            "Direct comparison means something only for models trained towards these class embeddings."
        )
    return ProtocolResult.joined("Nearest class embedding", parts, notes=notes)


def _candidates(inputs: Inputs) -> Tensor:
    """The candidate classes `(c,)`: the finest labels, and the leaves that are not at or below one."""
    tree, finest = inputs.judging.tree, inputs.samples.finest
    lines = tree.ancestors[tree.leaves]
    covered = (finest[lines.clamp_min(0)] & (lines >= 0)).any(1)
    return torch.cat([tree.leaves[~covered], finest.nonzero().squeeze(1)]).sort().values


def _targets(inputs: Inputs, options: ClassEmbeddingOptions, width: int, way: str) -> Tensor:
    """Class embedding `(num_nodes, D)` of every node, float64; 0 for nodes without one."""
    tree = inputs.judging.tree
    if options.vectors == "taxonomy":
        # the embeddings that `CorrelationLoss` uses as targets at this width
        few = width < tree.num_leaves and way == "direct"
        vectors = tree.node_embeddings(dim=width if few else None)
        if width > vectors.shape[1] and way == "direct":
            vectors = torch.nn.functional.pad(vectors, (0, width - vectors.shape[1]))
        vectors[0] = 0.0
        return vectors
    if options.vectors == "words":
        from labeltree.losses import DeViSELoss

        return DeViSELoss(tree, options.words).targets
    return _read_table(options.vectors, tree)


def _read_table(path: str, tree: Taxonomy) -> Tensor:
    table = EmbeddingTable.load(path, tree)
    known = table.nodes > 0
    nodes, sizes = torch.unique(table.nodes[known], return_counts=True)
    if bool((sizes > 1).any()):
        twice = tree.path_name(int(nodes[sizes > 1][0]))
        raise DataError(f"'{path}' has several rows for class '{twice}'; it needs one a class")
    vectors = torch.zeros(tree.num_nodes, table.embeddings.shape[1], dtype=torch.float64)
    vectors[table.nodes[known]] = table.embeddings[known].double()
    return vectors


def _direct(
    reading: Reading, inputs: Inputs, vectors: Tensor, classes: Tensor, options: ClassEmbeddingOptions
) -> Tensor:
    points = reading.points[inputs.samples.test].double()
    if reading.geometry.name == "poincare":
        return nearest_prototype(points, reading.geometry.embed(vectors), classes, reading.geometry)
    return _largest_product(points, vectors, classes)


def _fitted(
    reading: Reading, inputs: Inputs, vectors: Tensor, classes: Tensor, options: ClassEmbeddingOptions
) -> Tensor:
    from sklearn.linear_model import Ridge

    nodes, learned = inputs.nodes, inputs.learned
    known = learned[vectors[nodes[learned]].any(1)]
    if not len(known):
        raise DataError("no training sample has a class with an embedding")
    if not len(inputs.samples.test):  # for example in a table without splits with one sample of every label
        return classes[:0]
    model = Ridge(alpha=options.penalty * len(known))
    model.fit(reading.vectors[known].double().numpy(), vectors[nodes[known]].numpy())
    predicted = model.predict(reading.vectors[inputs.samples.test].double().numpy())
    return _largest_product(torch.from_numpy(predicted).reshape(len(predicted), -1), vectors, classes)


def _largest_product(points: Tensor, vectors: Tensor, classes: Tensor) -> Tensor:
    """Classes with the largest inner product, as in the losses; the length of class embeddings matters."""
    targets = vectors[classes].T
    best = [(part.double() @ targets).argmax(1) for part in torch.split(points, _CHUNK)]
    return classes[torch.cat(best)] if best else classes[:0]
