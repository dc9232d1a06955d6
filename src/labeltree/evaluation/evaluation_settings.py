"""The settings of an evaluation and their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from labeltree.checks import check_choice
from labeltree.decisions.classifiers import CLASSIFIERS, ClassifierChoice
from labeltree.metrics.search.results_left_out import LeaveGroupOut, check_leave_group_out
from labeltree.safe_files import fits

__all__ = ["EvaluationSettings", "FeatureGeometry"]

FeatureGeometry = Literal["sphere", "euclidean"]

MOST_RESAMPLES = 100_000
"""More bootstrap draws than this are refused: they cost memory and change no digit that matters."""

_MOST = 2**32


@dataclass(frozen=True)
class EvaluationSettings:
    """What can be chosen about an evaluation; the defaults are those of the published protocols.

    Attributes:
        recall_ks: the k of recall@k.
        hp_k: HP@k is computed for every k up to this one, or up to the number of candidates if that is less.
        standardize: give every column the mean 0 and the standard deviation 1 of the training samples before
            the linear probe, so that its penalty means the same for every method.
        max_probe_samples: more training samples than this are subsampled evenly over the labels.
        max_retrieval_samples: the same for the samples that retrieval searches among.
        max_graded_queries: with more queries, H-AP, NDCG, ASI and AP at each depth, which sort all results of
            a query, are those of so many queries drawn at random.
        max_pairs: pair violations are counted over at most about this many pairs, and CPCC takes as many
            pairs of classes.
        confusions: how many of the most frequent wrong pairs are kept.
        feature_geometry: how features are compared: `sphere` by their direction alone (L2-normalised),
            `euclidean` by the distance of what the encoder gives. The linear probe reads the same for both.
        classifier: which one the headline numbers, the errors and the protocol ``decisions`` are of:
            ``feature-means``, ``prototypes``, ``lda``, ``probe`` or ``own``; ``auto`` takes the best on
            validation samples, see `labeltree.decisions.classifiers.choose_classifier`. Baselines without an
            own one take the best of theirs.
        protocols: names of protocols to run beside the standard ones; ``all`` means every one. See
            `labeltree.evaluation.list_protocols`.
        options: protocol → option → value, for options that differ from their defaults.
        frequency_bounds: ``(few, many)``: classes with at most ``few`` training samples are the tail, those
            with more than ``many`` the head; () makes each a third of the classes.
        by: attributes of the samples (``site``) whose values the main numbers are also reported for; see
            `labeltree.evaluation.by_attribute`.
        leave_group_out: whether results of the query's own group (its patient's other samples) are left out
            of retrieval and of nearest neighbours: ``always``, ``never``, or ``auto``: they are, except where
            every group is a class of its own, as with the photographs of a product.
        confidence: confidence level of the intervals.
        resamples: number of draws of the bootstrap that gives them; 0 leaves them out.
        seed: random seed of the bootstrap, of the half split of a table without splits, and of subsampling.
    """

    recall_ks: tuple[int, ...] = (1, 2, 5, 10)
    hp_k: int = 250
    standardize: bool = True
    max_probe_samples: int = 50_000
    max_retrieval_samples: int = 20_000
    max_graded_queries: int = 2_500
    max_pairs: int = 200_000
    confusions: int = 50
    feature_geometry: FeatureGeometry = "sphere"
    classifier: ClassifierChoice = "auto"
    protocols: tuple[str, ...] = ()
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    frequency_bounds: tuple[int, ...] = ()
    by: tuple[str, ...] = ()
    leave_group_out: LeaveGroupOut = "auto"
    confidence: float = 0.95
    resamples: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        self._check_kinds()
        check_leave_group_out(self.leave_group_out)
        if not self.recall_ks or min(self.recall_ks) < 1:
            raise ValueError(f"recall_ks must be one or more integers above 0, got {self.recall_ks}")
        for name in ("hp_k", "max_probe_samples", "max_retrieval_samples", "max_graded_queries", "max_pairs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        check_choice("feature_geometry", self.feature_geometry, FeatureGeometry)
        check_choice("classifier", self.classifier, CLASSIFIERS)
        if self.frequency_bounds and (
            len(self.frequency_bounds) != 2 or not 0 < self.frequency_bounds[0] <= self.frequency_bounds[1]
        ):
            raise ValueError(
                f"frequency_bounds must be (few, many), two rising numbers of samples, or (); got "
                f"{self.frequency_bounds}"
            )
        if not 0 < self.confidence < 1 or self.resamples < 0:
            raise ValueError(
                f"confidence must lie between 0 and 1 and resamples be at least 0, got {self.confidence} and "
                f"{self.resamples}"
            )
        if self.confusions < 0:
            raise ValueError(f"confusions must be at least 0, got {self.confusions}")

    def _check_kinds(self) -> None:
        """Check the type of every setting, which may come from a file, and that no number is absurd."""
        hints = get_type_hints(EvaluationSettings)
        for entry in fields(self):
            value = getattr(self, entry.name)
            if not fits(value, hints[entry.name]):
                options = entry.name == "options"
                like = "options by name, under a protocol each" if options else repr(entry.default)
                words = get_args(hints[entry.name]) if get_origin(hints[entry.name]) is Literal else ()
                expected = (
                    f"expected one of {', '.join(words)}" if words else f"it must be of the kind of {like}"
                )
                raise ValueError(f"{entry.name} is {value!r}; {expected}")
            for number in value if isinstance(value, tuple | list) else [value]:
                if isinstance(number, int | float) and not abs(number) <= _MOST:
                    raise ValueError(f"{entry.name} is {value}; {_MOST:,} is the most")
        if self.resamples > MOST_RESAMPLES:
            raise ValueError(f"resamples is {self.resamples}; {MOST_RESAMPLES:,} are the most")
