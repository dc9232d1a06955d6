"""The ridge head: a linear solve of vectors onto the classes of a taxonomy, and how certain it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from labeltree.checks import check_choice, check_number
from labeltree.decisions.calibrators import Calibrator
from labeltree.decisions.class_nodes import ClassNodes
from labeltree.decisions.posterior_space import check_instance, posterior_embeddings
from labeltree.errors import DataError
from labeltree.geometry.fourier_features import unit_points
from labeltree.geometry.unit_vectors import unit_vectors
from labeltree.ridge.moments import Moments
from labeltree.ridge.solution import RidgeSystem, class_targets
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.check_nodes import as_nodes
from labeltree.taxonomy.class_similarity import (
    SIMILARITIES,
    Similarity,
    check_tree_share,
    class_points,
)
from labeltree.taxonomy.versions.paired_names import list_differences, match_orders

__all__ = ["INSTANCE", "TREE", "Nonlinear", "TreeRidge", "check_nonlinear", "check_settings"]

TREE = 0.5
"""How much the taxonomy counts in embeddings, if nothing else is said: `docs/ridge-head.md` says why."""
INSTANCE = 1.0
"""How much what tells samples of a class apart counts beside the classes, if nothing else is said."""

_ABOVE_ZERO = 5e-324  # the smallest number of float64
_ROWS = 4096  # whose Fourier features are kept at once

Nonlinear: TypeAlias = Literal["never", "auto", "always"] | int
"""Whether the head reads Fourier features of the vectors: never, if the folds say so, always, or how many."""


def check_nonlinear(value: object) -> None:
    """Raise a ValueError for what is no `Nonlinear`."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value >= 0 and value % 2 == 0:
            return
    elif value in ("never", "auto", "always"):
        return
    raise ValueError(
        f"nonlinear is {value!r}; expected 'never', 'auto', 'always' or an even number of Fourier features, "
        "such as 4096 (0 = never)"
    )


def check_settings(**settings: object) -> None:
    """Raise a ValueError for a setting that is not as `TreeRidge` has it."""
    for name, value in settings.items():
        if name == "tree":
            check_tree_share(value)
        elif name == "instance":
            check_instance(value)
        elif name == "similarity":
            check_choice(name, value, SIMILARITIES)
        else:
            check_number(name, value, "a number above 0", least=_ABOVE_ZERO)


@dataclass(frozen=True, eq=False)
class TreeRidge:
    """A head from its sums: answers with probabilities, and embeddings ordered by the taxonomy.

    It is linear in the vectors at unit length, or in random Fourier features of these.

    Attributes:
        moments: Of the samples that it was solved from.
        taxonomy: Of their labels.
        penalty: λ of the answers.
        scale: s of the probabilities, from samples that the head has not seen.
        calibration: `(num_nodes, 2)` slope w and offset b of each class in the probabilities
            softmax(w·z + b) with z = log softmax(s·F); 1 and 0 for a class to which nothing was fitted.
        tree: How much the tree counts in embeddings, from 0 (classes are equal or different) to 1.
        instance: How much what tells samples of a class apart, the outputs and the vectors themselves, counts
            beside the classes in `posterior_embeddings`, from 0.
        similarity: Of classes, see `class_similarity`.
        classes: `(c,)` nodes that it answers.
        weight: `(d, c)` W; `(2k, c)` with Fourier features.
        bias: `(c,)` b.
        frequencies: `(d, k)` of 2k Fourier features that the head reads, see `fourier_features`; None = it
            reads the vectors.
    """

    moments: Moments
    taxonomy: Taxonomy
    penalty: float
    scale: float
    calibration: Tensor
    tree: float
    instance: float
    similarity: Similarity
    classes: Tensor
    weight: Tensor
    bias: Tensor
    frequencies: Tensor | None = None

    @property
    def num_fourier_features(self) -> int:
        """How many Fourier features the head reads; 0 = none, it reads the vectors."""
        return 0 if self.frequencies is None else 2 * self.frequencies.shape[1]

    @classmethod
    def of(
        cls,
        moments: Moments,
        taxonomy: Taxonomy,
        *,
        penalty: float,
        scale: float,
        calibration: Tensor | None = None,
        tree: float = TREE,
        instance: float = INSTANCE,
        similarity: Similarity = "depth",
        frequencies: Tensor | None = None,
    ) -> TreeRidge:
        """Solve the head from sums, with settings that are given.

        Raises:
            DataError: If there are samples of fewer than two classes, a label is no node of the taxonomy, or
                the penalty is too small for the equations to have a solution.
            ValueError: If a setting is out of range.
        """
        check_settings(penalty=penalty, scale=scale, tree=tree, instance=instance, similarity=similarity)
        classes, targets = class_targets(moments.labels, taxonomy)
        weight, bias = RidgeSystem.of(moments, targets).solve(penalty)
        if calibration is None:
            calibration = no_calibration(taxonomy)
        return cls(
            moments,
            taxonomy,
            penalty,
            scale,
            calibration,
            tree,
            instance,
            similarity,
            classes,
            weight,
            bias,
            frequencies,
        )

    def outputs(self, vectors: Tensor) -> Tensor:
        """F `(n, c)`: what ridge regression gives for each class; each row sums to 1."""
        width = len(self.weight if self.frequencies is None else self.frequencies)
        if vectors.ndim != 2 or vectors.shape[1] != width:
            raise DataError(f"the head reads {width} numbers a sample, got {tuple(vectors.shape)}")
        parts = [vectors] if self.frequencies is None else torch.split(vectors, _ROWS)
        outputs = [unit_points(part, self.frequencies) @ self.weight + self.bias for part in parts]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)

    def log_probabilities(self, vectors: Tensor) -> Tensor:
        """Log-probabilities `(n, c)` of the classes, calibrated on the folds."""
        slopes, offsets = self.calibration[self.classes].T.tolist()
        calibrator = Calibrator("vector", slopes=tuple(slopes), offsets=tuple(offsets))
        return calibrator(self.scale * self.outputs(vectors), ClassNodes(self.classes, self.taxonomy))

    def probabilities(self, vectors: Tensor) -> Tensor:
        """Probabilities `(n, c)` of the classes, calibrated on the folds."""
        return self.log_probabilities(vectors).exp()

    def predict(self, vectors: Tensor) -> Tensor:
        """The most probable class `(n,)` of each sample, as nodes.

        Raises:
            DataError: If a vector has another width, or holds NaN or infinity.
        """
        return self.classes[self.log_probabilities(vectors).argmax(1)]

    def embed(self, vectors: Tensor, *, tree: float | None = None) -> Tensor:
        """Linear embeddings `(n, c)` whose inner products are F·G·Fᵀ, with the classes' mean at the origin.

        Args:
            vectors: `(n, d)`.
            tree: How much the tree counts, 0 to 1; None = as chosen. Nothing is solved anew.
        """
        return self._linear(self.outputs(vectors), tree)

    def _linear(self, outputs: Tensor, tree: float | None) -> Tensor:
        share = self.tree if tree is None else tree
        points = class_points(self.classes, self.taxonomy, self.similarity, share)
        embeddings: Tensor = outputs @ (points - points.mean(0))
        return embeddings

    def posterior_embeddings(
        self, vectors: Tensor, *, tree: float | None = None, instance: float | None = None
    ) -> Tensor:
        """The posterior space of the head, see `labeltree.decisions.posterior_embeddings`.

        Beside it stand, in equal parts, `embed` and the vectors, each at unit length: the first tells samples
        of the classes apart, the second those of one class.

        Args:
            vectors: `(n, d)`.
            tree: As in `embed`.
            instance: How much the other two count beside the classes, from 0; None = as chosen.

        Returns:
            `(n, c)`, or `(n, 2c + d)` with `instance` above 0.
        """
        return self.place(
            self.outputs(vectors), self.probabilities(vectors), vectors, tree=tree, instance=instance
        )

    def place(
        self,
        outputs: Tensor,
        probabilities: Tensor,
        vectors: Tensor,
        *,
        tree: float | None = None,
        instance: float | None = None,
    ) -> Tensor:
        """The posterior space of what heads with these settings say, such as those without a fold.

        Args:
            outputs: `(n, c)`, see `outputs`.
            probabilities: `(n, c)`.
            vectors: `(n, d)` of the same samples.
            tree: As in `embed`.
            instance: As in `posterior_embeddings`.

        Returns:
            As `posterior_embeddings`. What different heads say lies in different spaces: search in each
            alone.
        """
        weight = self.instance if instance is None else instance
        beside = None
        if weight:
            beside = torch.cat([unit_vectors(self._linear(outputs, tree)), unit_vectors(vectors)], 1)
        return posterior_embeddings(
            probabilities,
            self.classes,
            self.taxonomy,
            similarity=self.similarity,
            tree=self.tree if tree is None else tree,
            vectors=beside,
            instance=weight,
        )

    def add(self, vectors: Tensor, nodes: Tensor) -> TreeRidge:
        """The head with further samples, also of new classes, at the same settings; see `Moments.of`.

        Raises:
            DataError: If the shapes differ, or a vector holds NaN or infinity.
            TaxonomyError: If a label is no node.
        """
        return self._solve(self.moments + self._moments(vectors, nodes))

    def forget(self, vectors: Tensor, nodes: Tensor) -> TreeRidge:
        """The head of the samples without these, equal to one that has never seen them, at the same settings.

        Args:
            vectors: `(n, d)` as they were added.
            nodes: Their labels as they were added, or as a change of the taxonomy has moved them.

        Raises:
            DataError: If they cannot have been added, as far as sums show it, see `Moments`.
            TaxonomyError: If a label is no node.
        """
        return self._solve(self.moments - self._moments(vectors, nodes))

    def _moments(self, vectors: Tensor, nodes: Tensor) -> Moments:
        return Moments.of(vectors, as_nodes(nodes, self.taxonomy.num_nodes), self.frequencies)

    def pool(self, *others: TreeRidge) -> TreeRidge:
        """The head of the samples of several heads, none of which moves; the settings are those of this one.

        Raises:
            DataError: If their dimensions or Fourier features differ, or their taxonomies in more than the
                order of siblings.
        """
        moments = self.moments
        for other in others:
            other = other.reorder(self.taxonomy)
            if not _same_frequencies(self.frequencies, other.frequencies):
                raise DataError(
                    f"heads of {self.num_fourier_features} and of {other.num_fourier_features} Fourier "
                    "features (0 = linear), or of others, cannot be pooled; fit all with one `nonlinear`, "
                    "'never' or a number"
                )
            moments = moments + other.moments
        return self._solve(moments)

    def reorder(self, taxonomy: Taxonomy) -> TreeRidge:
        """The same head on an equal taxonomy that has its siblings in another order.

        Raises:
            DataError: If the taxonomies differ in more than that.
        """
        if taxonomy == self.taxonomy:
            return self
        places = match_orders(self.taxonomy, taxonomy)
        if places is None:
            differ = list_differences(self.taxonomy, taxonomy, ("one", "another"))
            raise DataError(
                f"heads on different taxonomies cannot be pooled: {differ}; bring them onto one first "
                "(`on_taxonomy`)"
            )
        return self.on_taxonomy(taxonomy, torch.from_numpy(places))

    def on_taxonomy(self, taxonomy: Taxonomy, new_nodes: Tensor) -> TreeRidge:
        """The head after a change of the taxonomy, without any sample.

        Args:
            taxonomy: The new one.
            new_nodes: `(num_nodes,)` node of the new taxonomy for each old one, as
                `TaxonomyMapping.new_nodes` has it.
        """
        moments = self.moments.relabel(new_nodes)
        kept = (new_nodes > 0).nonzero()[:, 0]
        moved = new_nodes[kept]
        sums = torch.zeros(taxonomy.num_nodes, 2, dtype=torch.float64)
        sums.index_add_(0, moved, self.calibration[kept])
        counts = torch.bincount(moved, minlength=taxonomy.num_nodes)[:, None]
        calibration = torch.where(counts > 0, sums / counts.clamp_min(1), no_calibration(taxonomy))
        return replace(self, taxonomy=taxonomy, calibration=calibration)._solve(moments)

    def _solve(self, moments: Moments) -> TreeRidge:
        return TreeRidge.of(
            moments,
            self.taxonomy,
            penalty=self.penalty,
            scale=self.scale,
            calibration=self.calibration,
            tree=self.tree,
            instance=self.instance,
            similarity=self.similarity,
            frequencies=self.frequencies,
        )


def _same_frequencies(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and torch.allclose(one, other, rtol=0, atol=1e-9)


def no_calibration(taxonomy: Taxonomy) -> Tensor:
    """Slopes 1 and offsets 0, `(num_nodes, 2)`."""
    return torch.tensor([1.0, 0.0], dtype=torch.float64).repeat(taxonomy.num_nodes, 1)
