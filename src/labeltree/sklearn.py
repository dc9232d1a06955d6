"""A scikit-learn estimator on vectors: answers on a taxonomy, and an embedding in its order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from labeltree.decisions.answers import find_paths
from labeltree.decisions.class_nodes import ClassNodes
from labeltree.decisions.conformal import Promise, check_enough, conformal_scores, count_groups, threshold
from labeltree.errors import LabeltreeError
from labeltree.ridge import FoldOutputs, fit_tree_ridge
from labeltree.taxonomy import Taxonomy, load_taxonomy

__all__ = ["TaxonomyClassifier"]


class TaxonomyClassifier(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    ClassifierMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """The ridge head of `labeltree.ridge` as a classifier and transformer of vectors.

    Labels are names or paths of the taxonomy's nodes, or numbers of nodes; a label may be an inner node, and
    None or NaN is a missing one. Without a taxonomy, labels that all contain "/" are paths of one, and others
    are classes that have nothing in common.

    Args:
        taxonomy: a `Taxonomy`, the file of one, or None.
        tree: how much the taxonomy counts in `transform`, from 0 to 1; None = chosen by folds.
        instance: how much the vectors count beside the classes in `transform`, from 0; None = chosen so, too.
        penalty: of the ridge regression, above 0; None = chosen by folds.
        folds: that choose the settings and fit the scale.
        random_state: seed of the folds.

    Attributes:
        classes_: ``(c,)`` labels that are answered, as they were given where possible, else as paths.
        taxonomy_: the taxonomy.
        head_: the `TreeRidge`.
        fold_outputs_: what heads say of the training samples whose fold they have not seen.

    Example:
        >>> import numpy as np
        >>> X = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
        >>> model = TaxonomyClassifier(folds=2).fit(X, ["cat", "cat", "trout", "trout"])
        >>> model.predict([[2.0, 0.0]]).tolist()
        ['cat']
    """

    def __init__(
        self,
        taxonomy: Taxonomy | str | Path | None = None,
        *,
        tree: float | None = None,
        instance: float | None = None,
        penalty: float | None = None,
        folds: int = 5,
        random_state: int = 0,
    ) -> None:
        self.taxonomy = taxonomy
        self.tree = tree
        self.instance = instance
        self.penalty = penalty
        self.folds = folds
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> TaxonomyClassifier:
        """Solve the head.

        Args:
            X: ``(n, d)`` vectors.
            y: ``(n,)`` labels.
            groups: ``(n,)`` samples of one group, such as a patient, are judged by a head that has seen none
                of it; None = every sample is a group.

        Raises:
            ValueError: if there are fewer than two classes, a label is not in the taxonomy, or a setting is
                out of range.
        """
        labels = _labels(y)
        vectors = torch.tensor(validate_data(self, X, dtype=np.float64))
        if len(vectors) != len(labels):
            raise ValueError(
                f"there are {len(vectors)} vectors but {len(labels)} labels; give each one label"
            )
        if len(vectors) < 2:
            raise ValueError(f"n_samples={len(vectors)}: there must be samples of at least two classes")
        known = None if groups is None else torch.from_numpy(np.unique(groups, return_inverse=True)[1])
        try:
            self.taxonomy_, nodes = _read(labels, self.taxonomy)
            units = count_groups(known, len(vectors))
            self.head_, self.fold_outputs_ = fit_tree_ridge(
                vectors,
                nodes,
                self.taxonomy_,
                groups=known,
                tree=self.tree,
                instance=self.instance,
                penalty=self.penalty,
                folds=min(self.folds, units),
                seed=self.random_state,
            )
        except LabeltreeError as error:
            raise ValueError(str(error)) from error
        self.classes_ = _names(self.head_.classes, nodes, labels, self.taxonomy_)
        self._scores = _scores_of_folds(self.fold_outputs_, nodes, self.taxonomy_)
        self._groups = None if known is None else known[self.fold_outputs_.rows]
        self._n_features_out = self.head_.expected_points(vectors[:1]).shape[1]
        return self

    def predict(self, X: ArrayLike, *, coverage: float | None = None) -> NDArray[Any]:
        """The most probable class of each sample, or the most specific node that is certain enough.

        Args:
            X: ``(n, d)`` vectors.
            coverage: share of the answers that are to hold the truth, above 0 and below 1: answers are then
                paths of nodes, leaves or coarser ones, "" where nothing is certain. The share was reached on
                the training samples, each answered by a head that has not seen its fold; it is a measured
                one, not a guarantee.

        Returns:
            ``(n,)`` labels as in ``classes_``, or paths.
        """
        if coverage is None:
            best = self.predict_proba(X).argmax(1)
            chosen: NDArray[Any] = self.classes_[best]
            return chosen
        paths = [self.taxonomy_.path_name(node) if node else "" for node in self.predict_nodes(X, coverage)]
        return np.array(paths, dtype=object)

    def predict_nodes(self, X: ArrayLike, coverage: float | None = None) -> NDArray[np.int64]:
        """The answers ``(n,)`` of `predict` as numbers of nodes; 0, the root, where nothing is certain.

        Raises:
            ValueError: if there are too few training samples, or groups of them, for this coverage.
        """
        probabilities = torch.from_numpy(self.predict_proba(X))
        if coverage is None:
            return self.head_.classes[probabilities.argmax(1)].numpy()
        promise = Promise(coverage)
        units = "training samples" if self._groups is None else "groups of training samples"
        try:
            check_enough(count_groups(self._groups, len(self._scores)), promise, units)
        except LabeltreeError as error:
            raise ValueError(str(error)) from error
        bar = threshold(self._scores, promise, self._groups)
        bars = torch.full((self.taxonomy_.num_nodes,), bar, dtype=torch.float64)
        return find_paths(probabilities, self._class_nodes, "child").cut(bars)[0].numpy()

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Probabilities ``(n, c)`` of ``classes_``; their scale is fitted on the folds."""
        vectors = self._vectors(X)
        return self.head_.probabilities(vectors).numpy()

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Outputs ``(n, c)`` of the head before the scale; of two classes, their difference ``(n,)``."""
        vectors = self._vectors(X)
        outputs = self.head_.outputs(vectors).numpy()
        return outputs[:, 1] - outputs[:, 0] if outputs.shape[1] == 2 else outputs

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """The space ``(n, r)`` to search in by cosine; see `TreeRidge.expected_points`."""
        vectors = self._vectors(X)
        return self.head_.expected_points(vectors).numpy()

    def _vectors(self, X: ArrayLike) -> torch.Tensor:
        check_is_fitted(self)
        return torch.tensor(validate_data(self, X, dtype=np.float64, reset=False))

    @property
    def _class_nodes(self) -> ClassNodes:
        return ClassNodes(self.head_.classes, self.taxonomy_)


def _labels(y: ArrayLike) -> NDArray[Any]:
    """Labels ``(n,)``; missing ones are None.

    Raises:
        ValueError: if there are none, they are continuous, or one is infinite.
    """
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    labels = column_or_1d(y, warn=True)
    if labels.dtype.kind == "f":
        if np.isinf(labels).any():
            raise ValueError("Input y contains infinity")
        check_classification_targets(labels[~np.isnan(labels)])
        missing = np.isnan(labels)
    else:
        missing = np.array([label is None or label != label for label in labels.tolist()])
        check_classification_targets(labels[~missing])
    if not missing.any():
        return np.asarray(labels)
    known: NDArray[Any] = labels.astype(object)
    known[missing] = None
    return known


def _read(labels: NDArray[Any], given: Taxonomy | str | Path | None) -> tuple[Taxonomy, torch.Tensor]:
    """The taxonomy, and the labels as its nodes ``(n,)``, −1 where missing."""
    listed = labels.tolist()
    if given is None:
        names = ["" if label is None else str(label) for label in listed]
        known = sorted(set(names) - {""})
        as_paths = all("/" in name for name in known)
        taxonomy = Taxonomy.from_paths([tuple(name.split("/")) if as_paths else (name,) for name in known])
        return taxonomy, taxonomy.encode([name or None for name in names])
    loaded = given if isinstance(given, Taxonomy) else load_taxonomy(given)
    if not isinstance(loaded, Taxonomy):
        raise ValueError(f"'{given}' is a DAG; name a tree, 'labeltree taxonomy project' makes one of it")
    if all(label is None or isinstance(label, int) for label in listed):
        nodes = torch.tensor([-1 if label is None else label for label in listed])
        if int(nodes.max()) >= loaded.num_nodes or int(nodes.min()) < -1:
            raise ValueError(f"labels are numbers of nodes, 0 to {loaded.num_nodes - 1} or -1; got others")
        return loaded, nodes
    return loaded, loaded.encode([None if label is None else str(label) for label in listed])


def _names(
    classes: torch.Tensor, nodes: torch.Tensor, labels: NDArray[Any], taxonomy: Taxonomy
) -> NDArray[Any]:
    """Each class as its samples' label, in the type of the labels."""
    given = {int(node): label for node, label in zip(nodes.tolist(), labels, strict=True)}
    names = [given.get(node, taxonomy.path_name(node)) for node in classes.tolist()]
    return np.array(names, dtype=labels.dtype)


def _scores_of_folds(outputs: FoldOutputs, nodes: torch.Tensor, taxonomy: Taxonomy) -> torch.Tensor:
    """Conformal scores ``(m,)`` of the training samples; see `conformal_scores`."""
    classes = ClassNodes(outputs.classes, taxonomy)
    paths = find_paths(outputs.probabilities, classes, "child")
    return conformal_scores(paths, nodes[outputs.rows], taxonomy)
