"""A scikit-learn estimator on vectors: answers on a taxonomy, and an embedding in its order."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from labeltree.checks import check_integer
from labeltree.data.stratified import group_ids
from labeltree.decisions.answers import find_paths
from labeltree.decisions.class_nodes import ClassNodes
from labeltree.decisions.conformal import Promise, check_enough, conformal_scores, count_groups, threshold
from labeltree.errors import LabeltreeError
from labeltree.ridge import fit_cv_plus, fit_tree_ridge
from labeltree.ridge.tree_ridge import INSTANCE, TREE, Nonlinear
from labeltree.taxonomy import Taxonomy, load_taxonomy

__all__ = ["TaxonomyClassifier"]


class TaxonomyClassifier(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    ClassifierMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """The ridge head of `labeltree.ridge` as a classifier and transformer of vectors.

    Labels are names or paths of the taxonomy's nodes, or numbers of nodes from 1, also as floats (3.0), which
    pandas makes of them where some are missing. A label may be an inner node; None, NaN, NA and "" are
    missing, and so is the node -1. A sample may have several labels: a list, tuple or set. Without a
    taxonomy, labels that all contain "/" are paths of one, and others are classes with nothing in common.

    Args:
        taxonomy: a `Taxonomy`, the file of one, or None.
        tree: How much the taxonomy counts in `transform`, from 0 to 1.
        instance: How much what tells samples of a class apart counts in `transform` beside the classes, from
            0.
        penalty: Of the ridge regression, above 0; None = chosen by folds.
        folds: That choose the settings and calibrate the probabilities, at least 2; fewer if there are fewer
            groups with labels.
        nonlinear: Whether the head reads random Fourier features of the vectors, for a Gaussian kernel:
            `never`; `always`: 4,096 of them, which takes many times as long; or how many; `auto`: 4,096 if
            folds are answered better so.
        guarantee: Whether `predict(coverage=…)` is to have a guarantee. A head without each of the folds is
            then fitted and kept, with settings of its own: `fit` takes about `folds` times as long.
        random_state: Of the folds: an integer, None or a generator of numpy.

    Attributes:
        classes_: `(c,)` labels that are answered, as they were given where possible, else as paths; sorted,
            as scikit-learn's scores of probabilities take them.
        taxonomy_: The taxonomy.
        head_: The `TreeRidge`.
        fold_outputs_: What heads say of the training samples whose fold they have not seen: `probabilities`
            and `outputs` `(n, c)` have a row for each sample of `fit`, NaN where it has no label, and the
            columns of `classes_`; `labels` and `folds` `(n,)` are −1 there; `rows` are the samples with a
            label.
        cv_plus_: With `guarantee` a `CvPlus`, whose `guaranteed_coverage` says what is guaranteed; else None.

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
        tree: float = TREE,
        instance: float = INSTANCE,
        penalty: float | None = None,
        folds: int = 5,
        nonlinear: Nonlinear = "never",
        guarantee: bool = False,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.taxonomy = taxonomy
        self.tree = tree
        self.instance = instance
        self.penalty = penalty
        self.folds = folds
        self.nonlinear = nonlinear
        self.guarantee = guarantee
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> TaxonomyClassifier:
        """Solve the head.

        Args:
            X: `(n, d)` vectors.
            y: `(n,)` labels, or n lists of labels.
            groups: `(n,)` samples of one group, such as a patient, are judged by a head that has seen none
                of it; None = every sample is a group. Where a group is unknown (None, NaN, NA, "" or the
                number -1), the sample is a group by itself.

        Raises:
            ValueError: If there are fewer than two classes, a label is not in the taxonomy, no sample has a
                class as its only label, there is not one group for each sample, or a setting is out of range.
        """
        labels, dtype = _labels(y)
        vectors = torch.tensor(validate_data(self, X, dtype=np.float64))
        if len(vectors) != len(labels):
            raise ValueError(
                f"there are {len(vectors)} vectors but {len(labels)} labels; give each one label"
            )
        if len(vectors) < 2:
            raise ValueError(f"n_samples={len(vectors)}: there must be samples of at least two classes")
        known = None if groups is None else _groups(groups, len(vectors))
        check_integer("folds", self.folds, 2)
        seed = self.random_state
        if isinstance(seed, Integral):
            check_integer("random_state", seed, 0)
        else:
            seed = check_random_state(seed).randint(2**31 - 1)
        try:
            self.taxonomy_, self._as_paths = _taxonomy(labels, self.taxonomy)
            nodes = self._nodes(labels)
            labelled = nodes > 0 if nodes.ndim == 1 else (nodes > 0).any(1)
            units = count_groups(None if known is None else known[labelled], int(labelled.sum()))
            given: dict[str, Any] = {"groups": known, "penalty": self.penalty, "seed": int(seed)}
            given["nonlinear"] = self.nonlinear
            given["folds"] = max(min(self.folds, units), 2)
            self.head_, seen = fit_tree_ridge(
                vectors, nodes, self.taxonomy_, tree=self.tree, instance=self.instance, **given
            )
            self.cv_plus_ = fit_cv_plus(vectors, nodes, self.head_, **given) if self.guarantee else None
        except LabeltreeError as error:
            raise ValueError(str(error)) from error
        names = _names(self.head_.classes, nodes, labels, dtype, self.taxonomy_)
        self._order = names.argsort(kind="stable")
        self.classes_ = names[self._order]
        self.fold_outputs_ = seen.of_all(len(vectors), torch.from_numpy(self._order))
        judged = self._class_nodes.judges(seen.labels)
        paths = find_paths(seen.probabilities[judged], self._class_nodes, "child")
        self._scores = conformal_scores(paths, seen.labels[judged], self.taxonomy_)
        self._groups = None if known is None else known[seen.rows[judged]]
        self._n_features_out = self.head_.posterior_embeddings(vectors[:1]).shape[1]
        return self

    def predict(self, X: ArrayLike, *, coverage: float | None = None) -> NDArray[Any]:
        """The most probable class of each sample, or the most specific node that is certain enough.

        Args:
            X: `(n, d)` vectors.
            coverage: Share of the answers that are to hold the truth, above 0 and below 1: answers are then
                paths of nodes, leaves or coarser ones, "" where nothing is certain. The share was reached on
                the training samples, each answered by a head that has not seen its fold; it is a measured
                one. With `guarantee` it is about reached on new samples, and
                `cv_plus_.guaranteed_coverage(coverage)` of them is certain. Samples whose label is coarser
                than the classes, or that have several labels, cannot judge an answer and are not counted.

        Returns:
            `(n,)` labels as in `classes_`, or paths.
        """
        if coverage is None:
            best = self.predict_proba(X).argmax(1)
            chosen: NDArray[Any] = self.classes_[best]
            return chosen
        paths = [self.taxonomy_.path_name(node) if node else "" for node in self.predict_nodes(X, coverage)]
        return np.array(paths, dtype=object)

    def predict_nodes(self, X: ArrayLike, coverage: float | None = None) -> NDArray[np.int64]:
        """The answers `(n,)` of `predict` as numbers of nodes; 0, the root, where nothing is certain.

        Raises:
            ValueError: If there are too few training samples labelled at a class, or groups of them, for this
                coverage.
        """
        vectors = self._vectors(X)
        probabilities = self.head_.probabilities(vectors)
        if coverage is None:
            return self.head_.classes[probabilities.argmax(1)].numpy()
        promise = Promise(coverage)
        units = "training samples labelled at a class"
        if self._groups is not None:
            units = f"groups of {units}"
        try:
            if self.cv_plus_ is not None:
                return self.cv_plus_.answer(vectors, coverage).numpy()
            check_enough(count_groups(self._groups, len(self._scores)), promise, units)
        except LabeltreeError as error:
            raise ValueError(str(error)) from error
        bar = threshold(self._scores, promise, self._groups)
        bars = torch.full((self.taxonomy_.num_nodes,), bar, dtype=torch.float64)
        return find_paths(probabilities, self._class_nodes, "child").cut(bars)[0].numpy()

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Probabilities `(n, c)` of `classes_`, calibrated on the folds."""
        vectors = self._vectors(X)
        return self.head_.probabilities(vectors).numpy()[:, self._order]

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Log-probabilities `(n, c)` of `classes_`; of two, the log-odds `(n,)` of the second."""
        vectors = self._vectors(X)
        scores = self.head_.log_probabilities(vectors).numpy()[:, self._order]
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """The space `(n, r)` to search in by cosine; see `TreeRidge.posterior_embeddings`."""
        vectors = self._vectors(X)
        return self.head_.posterior_embeddings(vectors).numpy()

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The share of samples whose most probable class is their label or lies below it.

        A label may be given by name, path or node, whatever form the labels of training had; of several, one
        must be right. Samples without a label are left out. Without a taxonomy, a label that training did not
        have is answered wrongly.

        Args:
            X: `(n, d)` vectors.
            y: `(n,)` labels, or n lists of labels.
            sample_weight: `(n,)`; None = all samples count equally.

        Raises:
            ValueError: If no sample has a label, or one is not in the taxonomy that was given.
        """
        answers = torch.from_numpy(self.predict_nodes(X))
        nodes = self._nodes(_labels(y)[0])
        sets = nodes[:, None] if nodes.ndim == 1 else nodes
        if len(sets) != len(answers):
            raise ValueError(f"there are {len(answers)} vectors but {len(sets)} labels; give each one label")
        known = (sets != -1) & (sets != 0)
        above = self.taxonomy_.lca(answers[:, None], sets.clamp_min(0)) == sets
        right = (above & known).any(1).numpy()
        counted = known.any(1).numpy()
        if not counted.any():
            raise ValueError("no sample has a label to judge the answers by")
        weights = None if sample_weight is None else column_or_1d(sample_weight)[counted]
        return float(np.average(right[counted], weights=weights))

    def _nodes(self, labels: list[Any]) -> torch.Tensor:
        """Labels as nodes `(n,)`, or `(n, k)` if samples have several; −1 where missing, −2 if unknown.

        Only without a taxonomy, labels that training did not have are unknown; else they are refused.
        """
        sets = [label if isinstance(label, tuple) else (label,) for label in labels]
        width = max(map(len, sets), default=1)
        nodes = self._nodes_of_each([one for each in sets for one in (each + (None,) * width)[:width]])
        several = any(isinstance(label, tuple) for label in labels)
        return nodes.reshape(-1, width) if several else nodes

    def _nodes_of_each(self, labels: Sequence[Any]) -> torch.Tensor:
        taxonomy = self.taxonomy_
        if self.taxonomy is None:
            nodes = {None: -1}
            for label in set(labels) - {None}:
                candidates = taxonomy.candidates(_path(label, self._as_paths))
                nodes[label] = candidates[0] if candidates else -2
            return torch.tensor([nodes[label] for label in labels])
        numbers = [isinstance(label, int) and not isinstance(label, bool) for label in labels]
        given = list(zip(labels, numbers, strict=True))
        wrong = [label for label, number in given if number and not -1 <= label < taxonomy.num_nodes]
        if any(number and label == 0 for label, number in given):
            raise ValueError(
                "label 0 is the root, which is no class: labels that are numbers are nodes of the taxonomy, "
                "or -1 where missing. Where scikit-learn numbers the labels itself (cross_val_predict for "
                "predict_proba, VotingClassifier), fit each fold or model yourself; what cross_val_predict "
                "gives is in fold_outputs_.probabilities after fit. Without a taxonomy it runs, but "
                "scikit-learn makes a class of missing labels: leave such samples out first"
            )
        if wrong:
            raise ValueError(
                f"label {wrong[0]} is not a node: labels that are numbers are nodes of the taxonomy, 1 to "
                f"{taxonomy.num_nodes - 1}, or -1 where missing; give names, or "
                "taxonomy.nodes_of(names)[numbers]"
            )
        by_name = taxonomy.encode(
            [None if number or label is None else str(label) for label, number in given]
        )
        by_number = torch.tensor([label if number else -1 for label, number in given])
        return torch.where(torch.tensor(numbers), by_number, by_name)

    def _vectors(self, X: ArrayLike) -> torch.Tensor:
        check_is_fitted(self)
        return torch.tensor(validate_data(self, X, dtype=np.float64, reset=False))

    @property
    def _class_nodes(self) -> ClassNodes:
        return ClassNodes(self.head_.classes, self.taxonomy_)


def _labels(y: ArrayLike) -> tuple[list[Any], np.dtype[Any] | None]:
    """Labels of n samples, None where missing, tuples of several; and their type, if all have one label.

    Raises:
        ValueError: If there are none, they are continuous, or one is infinite.
    """
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] > 1:
        raise ValueError(
            f"y should be a 1d array, got an array of shape {y.shape} instead; where samples have several "
            "labels, give a list of lists of labels"
        )
    if not isinstance(y, np.ndarray) or (y.dtype == object and y.ndim == 1):
        plain = [_plain_labels(label) for label in _listed(y)]
        if any(isinstance(label, tuple) for label in plain):
            return plain, None
    labels = column_or_1d(y, warn=True)
    if not isinstance(y, (list, tuple)):  # of a list, numpy would make numbers beside names strings
        plain = [_plain(label) for label in labels.tolist()]
    known = [label for label in plain if label is not None]
    check_classification_targets(np.array(known))
    alike = len({isinstance(label, str) for label in plain}) == 1 and len(known) == len(plain)
    return plain, labels.dtype if alike and labels.dtype != object else None


def _listed(values: ArrayLike) -> list[Any]:
    """Labels or groups one by one, as they were given."""
    return list(values if isinstance(values, Iterable) else np.asarray(values))


def _plain_labels(labels: Any) -> Any:
    """Labels of one sample: None, one label, or a tuple."""
    if not isinstance(labels, (list, tuple, set, frozenset, np.ndarray)):
        return _plain(labels)
    given = (_plain(label) for label in (labels.tolist() if isinstance(labels, np.ndarray) else labels))
    return tuple(label for label in given if label is not None)


def _plain(label: Any) -> Any:
    """One label as Python has it, a float with an integral value as an integer; None if it is missing."""
    if _is_missing(label):
        return None
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, float):
        if np.isinf(label):
            raise ValueError("Input y contains infinity")
        return int(label) if label.is_integer() else label
    return label


def _is_missing(value: Any) -> bool:
    """Whether a label or group is None, NaN, "" or what pandas has for missing (NA, NaT)."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return (
        value == "" if isinstance(value, str) else isinstance(value, (float, np.floating)) and value != value
    )


def _groups(groups: ArrayLike, count: int) -> torch.Tensor:
    """Numbers of groups `(n,)`, −1 where unknown.

    Raises:
        ValueError: If there is not one for each of `count` samples.
    """
    listed = _listed(groups)
    if len(listed) != count:
        raise ValueError(f"there are {len(listed)} groups for {count} vectors; give each one, or None")
    if not all(isinstance(group, Hashable) for group in listed):
        raise ValueError("groups must be (n,) names or numbers, one for each vector; got rows of several")
    unknown = torch.tensor(
        [_is_missing(group) or (isinstance(group, Real) and float(group) == -1) for group in listed]
    )
    return group_ids(listed).masked_fill(unknown, -1)


def _path(label: Any, as_paths: bool) -> tuple[str, ...]:
    return tuple(str(label).split("/")) if as_paths else (str(label),)


def _taxonomy(labels: list[Any], given: Taxonomy | str | Path | None) -> tuple[Taxonomy, bool]:
    """The taxonomy, made of the labels if none is given, and whether they were read as paths."""
    if given is None:
        listed = [one for label in labels for one in (label if isinstance(label, tuple) else (label,))]
        names = sorted({str(label) for label in listed if label is not None})
        if not names:
            raise ValueError("no sample has a label; there must be samples of at least two classes")
        as_paths = all("/" in name for name in names)
        return Taxonomy.from_paths([_path(name, as_paths) for name in names]), as_paths
    if not isinstance(given, (Taxonomy, str, Path)):
        raise ValueError(f"taxonomy is {given!r}; it must be a Taxonomy, the file of one, or None")
    loaded = given if isinstance(given, Taxonomy) else load_taxonomy(given)
    if not isinstance(loaded, Taxonomy):
        raise ValueError(f"'{given}' is a DAG; name a tree, 'labeltree taxonomy project' makes one of it")
    return loaded, False


def _names(
    classes: torch.Tensor,
    nodes: torch.Tensor,
    labels: list[Any],
    dtype: np.dtype[Any] | None,
    taxonomy: Taxonomy,
) -> NDArray[Any]:
    """Each class as its samples' first label, in the type of the labels; paths if names and numbers mix."""
    given: dict[int, Any] = {}
    sets = nodes[:, None] if nodes.ndim == 1 else nodes
    for row, label in zip(sets.tolist(), labels, strict=True):
        for node, one in zip(row, label if isinstance(label, tuple) else (label,), strict=False):
            given.setdefault(node, one)
    names = [given[node] for node in classes.tolist()]
    if len({isinstance(name, str) for name in names}) > 1:
        names = [taxonomy.path_name(node) for node in classes.tolist()]
    return np.array(names, dtype=dtype)
