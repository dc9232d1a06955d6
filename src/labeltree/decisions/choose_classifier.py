"""Which classifier of a run answers: the one that was asked for, or the best on the validation samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.counted_nouns import say_count, say_list
from labeltree.decisions.searched_space import SearchedSpace
from labeltree.errors import DataError
from labeltree.metrics.functional import hierarchical_f1
from labeltree.options.choices import ClassifierChoice
from labeltree.taxonomy import AnyTaxonomy

__all__ = [
    "CLASSIFIERS",
    "CLASSIFIER_WORDS",
    "ChosenClassifier",
    "ClassifierKind",
    "choose_by_accuracy",
    "choose_classifier",
    "classifier_words",
]

ClassifierKind = Literal["feature-means", "prototypes", "lda", "probe", "own", "each-fold"]
"""A classifier of a run; `each-fold` is that of a cross-validation whose folds chose different ones."""

CLASSIFIERS: tuple[ClassifierChoice, ...] = get_args(ClassifierChoice)

CLASSIFIER_WORDS: dict[ClassifierKind, str] = {
    "feature-means": "the nearest class mean of the features",
    "prototypes": "the nearest class mean of the embeddings",
    "lda": "a linear discriminant analysis on the features",
    "probe": "a linear probe on the features",
    "own": "the run's own classifier",
    "each-fold": "the classifier that each fold chose for itself",
}
"""The words for each classifier in a sentence, the simplest first."""


def classifier_words(name: ClassifierKind, *, features: bool = True) -> str:
    """The words for a classifier of a table with features, or of one whose embeddings serve as features."""
    words = CLASSIFIER_WORDS[name]
    return words if features else words.replace("on the features", "on the embeddings")


@dataclass(frozen=True)
class ChosenClassifier:
    """The classifier that answers, and the reason for the choice.

    Attributes:
        name: One of `CLASSIFIER_WORDS`.
        asked: The requested classifier; `auto` chooses by hierarchical F1 on validation samples.
        accuracies: Validation accuracy of each classifier; empty without validation samples.
        samples: Number of validation samples.
        offered: The classifiers to choose from.
        one_class: True if all validation samples are of one class, so that accuracy cannot rank classifiers.
        new_class_samples: How many of the samples are of classes that were added to a trained run; the
            accuracies are then the means of those on known and on new classes.
        few_samples: How many samples a new class has (the median), if prototypes answer because of it.
        features: Whether the encoder has features, which the probe reads; else it reads embeddings.
        hierarchical_f1: Validation hierarchical F1 of each classifier, which `auto` chooses by; empty if only
            the accuracies are known, which then decide.
        losses: Validation log loss of each classifier that has probabilities, with the temperature that suits
            these samples; it decides between equals. Empty if it is not known.
        space: What a search in the run uses.
        by_fold: The classifier of each fold, if those of a cross-validation differ.
    """

    name: ClassifierKind
    asked: ClassifierChoice = "auto"
    accuracies: dict[str, float] = field(default_factory=dict)
    samples: int = 0
    offered: tuple[str, ...] = ("probe", "prototypes")
    one_class: bool = False
    new_class_samples: int = 0
    few_samples: int = 0
    features: bool = True
    hierarchical_f1: dict[str, float] = field(default_factory=dict)
    losses: dict[str, float] = field(default_factory=dict)
    space: SearchedSpace = field(default_factory=SearchedSpace)
    by_fold: tuple[ClassifierKind, ...] = ()

    @classmethod
    def of_folds(cls, choices: Sequence[ChosenClassifier]) -> ChosenClassifier:
        """The choice of a cross-validation: every fold answers with what it chose itself.

        A choice by the validation samples of all folds together would have seen the test samples of each.

        Args:
            choices: The choice of each fold.
        """
        names, samples = tuple(choice.name for choice in choices), sum(choice.samples for choice in choices)
        if len(set(names)) > 1:
            first = choices[0]
            asked, offered, features = first.asked, (*first.offered, "each-fold"), first.features
            return cls("each-fold", asked, {}, samples, offered, features=features, by_fold=names)

        chosen = [choice for choice in choices if choice.samples]

        def mean(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
            """Over the validation samples of all folds that have some."""
            weights = [choice.samples / samples for choice in chosen]
            return {
                name: sum(of[name] * weight for of, weight in zip(scores, weights, strict=True))
                for name in (scores[0] if scores else ())
                if all(name in of for of in scores)
            }

        return replace(
            choices[0],
            accuracies=mean([choice.accuracies for choice in chosen]),
            hierarchical_f1=mean([choice.hierarchical_f1 for choice in chosen]),
            losses=mean([choice.losses for choice in chosen]),
            samples=samples,
            one_class=bool(chosen) and all(choice.one_class for choice in chosen),
        )

    @property
    def equals(self) -> list[str]:
        """The classifiers that are as good on validation as the one that was chosen by it, which is one."""
        scores = self.hierarchical_f1 or self.accuracies
        if self.asked != "auto" or self.name not in scores or self.few_samples or self.one_class:
            return []
        return [name for name, score in scores.items() if score == scores[self.name]]

    @property
    def sentence(self) -> str:
        """The choice in one sentence."""
        what = classifier_words(self.name, features=self.features)
        others = [
            f"{classifier_words(name, features=self.features)} {self.accuracies[name]:.1%}"
            for name in CLASSIFIER_WORDS
            if name in self.accuracies and name != self.name
        ]
        if self.few_samples:
            return (
                f"Answers come from {what}: the new classes have "
                f"{say_count(self.few_samples, 'sample')} each (median), none held out, and a probe learned "
                "from so few seldom names them."
            )
        if self.by_fold:
            chosen = {
                classifier_words(kind, features=self.features): [
                    f"{number}" for number, of in enumerate(self.by_fold, 1) if of == kind
                ]
                for kind in dict.fromkeys(self.by_fold)
            }
            parts = [
                f"{words} in {'fold' if len(folds) == 1 else 'folds'} {say_list(folds)}"
                for words, folds in chosen.items()
            ]
            return f"Answers come from {what}: {'; '.join(parts)}."
        if not self.accuracies:
            why = (
                "as was asked for"
                if self.asked == self.name
                else "there is no validation sample to choose by"
            )
            return f"Answers come from {what}: {why}."
        if self.one_class:
            asked = ", as was asked for" if self.asked == self.name else ""
            return (
                f"Answers come from {what}{asked}: all {self.samples:,} validation samples are of one class, "
                "so they cannot tell which classifier is better."
            )
        right = f"{self.accuracies[self.name]:.1%} of {self.samples:,} validation samples"
        if self.new_class_samples:
            right = (
                f"{self.accuracies[self.name]:.1%}, the mean of known and new classes, of {self.samples:,} "
                f"held-out samples ({self.new_class_samples:,} of new classes)"
            )
        beside = f" ({', '.join(others)})" if others else ""
        if self.asked == self.name:
            return f"Answers come from {what}, as was asked for: right for {right}{beside}."
        best = "the best on validation" if len(self.equals) == 1 else "one of the best on validation"
        if self.hierarchical_f1:
            best += f" by hierarchical F1 ({self.hierarchical_f1[self.name]:.3f})"
        return f"Answers come from {what}, {best}: right for {right}{beside}."

    def to_dict(self) -> dict[str, Any]:
        """The choice as a JSON-serialisable dictionary, including the sentence."""
        content = {**asdict(self), "offered": list(self.offered), "sentence": self.sentence}
        for name in ("new_class_samples", "few_samples"):
            if not content[name]:
                del content[name]
        if self.features:
            del content["features"]
        for name in ("hierarchical_f1", "losses"):
            if not content[name]:
                del content[name]
        if not self.space.hierarchical_f1:
            del content["space"]
        if self.by_fold:
            content["by_fold"] = list(self.by_fold)
        else:
            del content["by_fold"]
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> ChosenClassifier:
        """Read a dictionary written by `to_dict`.

        Raises:
            ValueError: If the dictionary is not valid.
        """
        name, asked = content.get("name"), content.get("asked")
        accuracies, samples = content.get("accuracies"), content.get("samples")
        offered = content.get("offered")
        if (
            name not in CLASSIFIER_WORDS
            or asked not in CLASSIFIERS
            or not isinstance(accuracies, Mapping)
            or not all(isinstance(value, float | int) for value in accuracies.values())
            or (accuracies and name not in accuracies)
            or not isinstance(samples, int)
            or not isinstance(offered, list | tuple)
        ):
            raise ValueError(f"no choice of a classifier: {content!r}")
        one_class = content.get("one_class") is True  # not there in older files
        new, few = content.get("new_class_samples", 0), content.get("few_samples", 0)
        if not isinstance(new, int) or not isinstance(few, int):
            raise ValueError(f"no choice of a classifier: {content!r}")
        features, f1 = content.get("features") is not False, content.get("hierarchical_f1", {})
        losses = content.get("losses", {})
        known = isinstance(f1, Mapping) and isinstance(losses, Mapping)
        if not known or (f1 and set(f1) != set(accuracies)) or not set(losses) <= set(accuracies):
            raise ValueError(f"no choice of a classifier: {content!r}")
        by_fold = content.get("by_fold", [])
        if not isinstance(by_fold, list) or any(of not in CLASSIFIER_WORDS for of in by_fold):
            raise ValueError(f"no choice of a classifier: {content!r}")
        space = SearchedSpace.from_dict(content["space"]) if "space" in content else SearchedSpace()
        return cls(
            name,
            asked,
            dict(accuracies),
            samples,
            tuple(offered),
            one_class,
            new,
            few,
            features,
            dict(f1),
            dict(losses),
            space,
            tuple(by_fold),
        )


def choose_classifier(
    answers: Mapping[ClassifierKind, Tensor],
    truth: Tensor,
    taxonomy: AnyTaxonomy,
    asked: ClassifierChoice = "auto",
    losses: Mapping[str, float] | None = None,
) -> ChosenClassifier:
    """Choose the classifier that answers: the requested one, else the one with the best hierarchical F1.

    Ties go to the smallest log loss, and then to the simplest, the first of `CLASSIFIER_WORDS`. Without
    validation samples the linear probe is chosen, because every encoder has one and methods then remain
    comparable.

    Args:
        answers: The nodes `(m,)` that each classifier predicts for the validation samples; -1 for none.
        truth: `(m,)` finest labels of the validation samples.
        taxonomy: Taxonomy of the nodes.
        asked: The requested classifier, or `auto`.
        losses: The log loss of each classifier that has probabilities, on these samples.

    Raises:
        ValueError: If `asked` is unknown.
        DataError: If the requested classifier is not available.

    Example:
        >>> from labeltree import Taxonomy
        >>> tree = Taxonomy.from_paths(["a", "b", "c", "d"])
        >>> truth = torch.tensor([1, 2, 3, 4])
        >>> choice = choose_classifier({"own": torch.tensor([1, 1, 1, 1]), "probe": truth}, truth, tree)
        >>> choice.name, choice.accuracies
        ('probe', {'probe': 1.0, 'own': 0.25})
    """
    offered = [name for name in CLASSIFIER_WORDS if name in answers]
    accuracies: dict[str, float] = {}
    f1: dict[str, float] = {}
    if len(truth):
        accuracies = {name: float((answers[name] == truth).double().mean()) for name in offered}
        f1 = {name: float(hierarchical_f1(answers[name].clamp_min(0), truth, taxonomy)) for name in offered}
    chosen = choose_by_accuracy(offered, accuracies, len(truth), asked, f1, losses)
    return replace(chosen, one_class=len(torch.unique(truth)) == 1)


def choose_by_accuracy(
    offered: Sequence[ClassifierKind],
    accuracies: Mapping[str, float],
    samples: int,
    asked: ClassifierChoice = "auto",
    f1: Mapping[str, float] | None = None,
    losses: Mapping[str, float] | None = None,
) -> ChosenClassifier:
    """Apply the rule of `choose_classifier` to given validation scores: hierarchical F1, else accuracies."""
    lost = losses or {}
    check_choice("classifier", asked, CLASSIFIERS)
    if asked != "auto" and asked not in offered:
        raise DataError(
            f"there is no classifier '{asked}' here; there are {', '.join(offered)}: take one of those, or "
            "'auto'"
        )
    name: ClassifierKind
    if asked != "auto":
        name = asked
    elif accuracies:
        scores = f1 or accuracies
        name = max(offered, key=lambda kind: (scores[kind], -lost.get(kind, math.inf)))  # the first of equals
    else:
        name = "probe" if "probe" in offered else offered[0]
    return ChosenClassifier(
        name,
        asked,
        dict(accuracies),
        samples,
        tuple(offered),
        hierarchical_f1=dict(f1 or {}),
        losses=dict(lost),
    )
