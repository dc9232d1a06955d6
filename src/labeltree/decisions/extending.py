"""Classifiers with further classes, learned on the embeddings of an encoder that stays as it is."""

from __future__ import annotations

import warnings
from dataclasses import replace

import torch
from torch import Tensor

from labeltree.decisions.choose_classifier import (
    CLASSIFIER_WORDS,
    ChosenClassifier,
    ClassifierKind,
    choose_by_accuracy,
)
from labeltree.decisions.classifiers import (
    ClassifierChoice,
    Classifiers,
    FittedScores,
    LinearScores,
    PrototypeScores,
    classify,
    features_as_embeddings,
    fit_lda,
    fit_linear,
    fit_prototypes,
)
from labeltree.decisions.prototypes_from_names import NamedClasses
from labeltree.decisions.ridge_scores import RidgeScores
from labeltree.errors import DataError
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

__all__ = ["FEW", "extend_classifiers"]

FEW = 5
"""With fewer samples of each new class, prototypes name them more often than a probe does."""


def extend_classifiers(
    known: Classifiers,
    table: EmbeddingTable,
    taxonomy: Taxonomy,
    *,
    learned: Tensor,
    held: Tensor,
    classes: Tensor,
    added: Tensor,
    places: Tensor | None = None,
    asked: ClassifierChoice = "auto",
    own: RidgeScores | None = None,
    named: NamedClasses | None = None,
) -> Classifiers:
    """The classifiers of an encoder with further classes, or with fewer.

    Class means of known classes stay as they are, of the features and of the embeddings; those of `added` are
    the means of their samples. The probe is learned again, each class with the same total weight, if there
    are added classes, and so are the discriminants. The one with the best mean of two accuracies answers, on
    held-out samples of known and of new classes. Where no sample of a new class is held out, accuracy on
    known ones decides; but not for the discriminants, which expect few samples of what they learned from
    few, and class means answer if new classes have fewer than `FEW` samples (their median).

    Args:
        known: The classifiers before.
        table: Embeddings of samples of old and new classes.
        taxonomy: The taxonomy of their labels, which holds the new classes.
        learned: Rows to learn from.
        held: Other rows, which choose the classifier; may be empty.
        classes: `(C,)` the classes that shall answer, ascending.
        added: Those of them that are new, or have new samples.
        places: For each node of the taxonomy of `known` the node in `taxonomy`; None = the same node.
        asked: The requested classifier.
        own: The run's own classifier with the further classes, if it could be extended; one of the offered.
        named: Those of `added` that have names, and may be without samples: their prototypes are made of
            both.

    Raises:
        DataError: If the samples lack some of the classes, or the requested classifier cannot have them all.
    """
    moved = _moved(known.prototypes, places)
    labels = torch.full_like(table.nodes, -1)
    labels[learned] = table.nodes[learned]
    labels = torch.where(torch.isin(labels, classes), labels, -1)
    moving = replace(known.prototypes, classes=moved)
    prototypes = _add_prototypes(moving, classes, added, table, labels, taxonomy)
    if named is not None:
        prototypes = _replace_prototypes(prototypes, named, table, labels)
    learn_anew = bool(len(added)) and bool(torch.isin(classes, labels).all())
    if learn_anew:
        probe, gap = _learn_probe(table, labels)
    else:
        probe, gap = _keep_columns(known.probe, classes, places), known.gap
    fitted: dict[ClassifierKind, FittedScores] = {"prototypes": prototypes, "probe": probe}
    means, lda = known.fitted.get("feature-means"), known.fitted.get("lda")
    if isinstance(means, PrototypeScores) and table.features is not None:
        features, moving = features_as_embeddings(table), replace(means, classes=_moved(means, places))
        fitted["feature-means"] = _add_prototypes(moving, classes, added, features, labels, taxonomy)
    if isinstance(lda, LinearScores):
        fitted["lda"] = fit_lda(table, labels) if learn_anew else _keep_columns(lda, classes, places)
    if own is not None:
        fitted["own"] = own
    offered = {
        name: fitted[name]
        for name in CLASSIFIER_WORDS
        if name in fitted and torch.equal(fitted[name].classes, classes)
    }
    if not offered:
        lacking = classes[~torch.isin(classes, prototypes.classes)]
        raise DataError(
            f"there is no sample to learn '{taxonomy.path_name(int(lacking[0]))}' from, so it cannot answer"
        )
    new = added[~torch.isin(added, moved)]
    if named is not None:  # a class with a name alone is as new when its first samples come
        new = added[~torch.isin(added, moved) | torch.isin(added, named.nodes)]
    chosen = _choose(offered, table.rows(held), classes, new, asked)
    chosen = replace(chosen, space=known.chosen.space, features=table.features is not None)
    if asked == "auto" and len(new) and not chosen.new_class_samples:
        chosen = _choose_for_unseen(chosen, labels, new, named is not None)
    return Classifiers(fitted, chosen, None, gap)


def _choose_for_unseen(
    chosen: ChosenClassifier, labels: Tensor, new: Tensor, by_name: bool
) -> ChosenClassifier:
    """The choice where no sample of a new class is held out; names of classes are in the prototypes alone."""
    able: list[ClassifierKind] = [
        name for name in CLASSIFIER_WORDS if name in chosen.offered and name != "lda"
    ]
    if not able:
        return chosen
    chosen = replace(
        chosen,
        offered=tuple(able),
        accuracies={name: value for name, value in chosen.accuracies.items() if name in able},
    )
    median = int((labels[:, None] == new).sum(0).median())
    means: list[ClassifierKind] = ["prototypes"] if by_name else ["feature-means", "prototypes"]
    few = median < FEW and len(able) > 1 and any(name in able for name in means)
    if few:
        able = [name for name in able if name in means]
    best = choose_by_accuracy(able, chosen.accuracies, chosen.samples)
    return replace(chosen, name=best.name, few_samples=median if few else 0)


def _moved(known: FittedScores, places: Tensor | None) -> Tensor:
    """The classes as nodes of the taxonomy of the table."""
    return known.classes if places is None else places[known.classes]


def _add_prototypes(
    known: PrototypeScores,
    classes: Tensor,
    added: Tensor,
    table: EmbeddingTable,
    labels: Tensor,
    taxonomy: Taxonomy,
) -> PrototypeScores:
    """The known class means that stay, and those of the classes of labels that have none of them."""
    stays = torch.isin(known.classes, classes) & ~torch.isin(known.classes, added)
    if len(torch.unique(known.classes[stays])) < int(stays.sum()):  # classes that another version made one
        stays = torch.zeros_like(stays)
    means, nodes = known.prototypes[stays], known.classes[stays]
    fresh = torch.where(torch.isin(labels, nodes), -1, labels)
    if bool((fresh >= 0).any()):
        new = fit_prototypes(table, fresh, taxonomy)
        means, nodes = torch.cat([means, new.prototypes]), torch.cat([nodes, new.classes])
    order = nodes.argsort()
    return replace(known, classes=nodes[order], prototypes=means[order])


def _replace_prototypes(
    known: PrototypeScores, named: NamedClasses, table: EmbeddingTable, labels: Tensor
) -> PrototypeScores:
    """The prototypes with those of named classes made of their names and samples."""
    stays = ~torch.isin(known.classes, named.nodes)
    nodes = torch.cat([known.classes[stays], named.nodes])
    means = torch.cat([known.prototypes[stays], named.prototypes(table.embeddings, labels)])
    order = nodes.argsort()
    return replace(known, classes=nodes[order], prototypes=means[order])


def _learn_probe(table: EmbeddingTable, labels: Tensor) -> tuple[LinearScores, float]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="LinearProbe stopped")  # the gap says it
        return fit_linear(table, labels)


def _keep_columns(probe: LinearScores, classes: Tensor, places: Tensor | None) -> LinearScores:
    """The probe with those of its classes alone that are still classes."""
    moved = _moved(probe, places)
    stays = torch.isin(moved, classes)
    return LinearScores(moved[stays], probe.weight[:, stays], probe.bias[stays])


def _choose(
    offered: dict[ClassifierKind, FittedScores],
    held: EmbeddingTable,
    classes: Tensor,
    new: Tensor,
    asked: ClassifierChoice,
) -> ChosenClassifier:
    judged = held.rows(torch.isin(held.nodes, classes))
    is_new = torch.isin(judged.nodes, new)
    parts = [part for part in (~is_new, is_new) if bool(part.any())]
    accuracies: dict[str, float] = {}
    if parts:
        for name, scores in offered.items():
            right = (classify(scores, judged) == judged.nodes).double()
            accuracies[name] = sum(float(right[part].mean()) for part in parts) / len(parts)
    chosen = choose_by_accuracy(list(offered), accuracies, len(judged), asked)
    one = len(torch.unique(judged.nodes)) == 1
    return replace(chosen, one_class=one, new_class_samples=int(is_new.sum()))
