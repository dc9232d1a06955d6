"""Every number that labeltree measures: its name, direction and unit, what it says, and where it comes from.

Results, tables, the report, comparisons, studies and metric classes read these facts here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

__all__ = [
    "METRICS",
    "Metric",
    "find_metric",
    "is_larger_better",
    "list_metrics",
    "metric_name",
    "register_metric",
]

Unit = Literal["share", "correlation", "number"]


@dataclass(frozen=True)
class Metric:
    """A number that is measured.

    Attributes:
        key: In results, without the classifier or representation that it is measured of; `{}` stands for a
            number, such as k or a depth.
        name: The field's name, as it is shown everywhere.
        title: In plain words, for readers who know the data but not the mathematics; empty if it is only
            shown by name.
        sentence: What it says; `{sample}` and `{samples}` stand for what the samples are.
        larger_is_better: Which direction is good; None: neither, as of a depth: such a number is shown, and
            never ranked, tested or coloured.
        unit: `share` for a number from 0 to 1, shown in percent; `correlation` from −1 to 1; or
            `number`.
        paper: Where it is defined; empty if everybody knows it.

    Example:
        >>> Metric("wasted_steps", "wasted steps", larger_is_better=False, unit="number").share
        False
    """

    key: str
    name: str
    title: str = ""
    sentence: str = ""
    larger_is_better: bool | None = True
    unit: Unit = "share"
    paper: str = ""

    @property
    def share(self) -> bool:
        """Whether it lies between 0 and 1."""
        return self.unit == "share"


_BARZ = "Barz & Denzler 2019"
_ANSWERS = (
    Metric(
        "top1", "top-1 accuracy", "Right class",
        "Share of {samples} given exactly the right class.",
    ),
    Metric(
        "hierarchical_f1", "hierarchical F1", "Shared path",
        "How much answer and truth have in common of the path from the main branch to the class.",
        paper="Silla & Freitas 2011, Section 5",
    ),
    Metric(
        "tree_accuracy", "tree accuracy", "Nearness of the answer",
        "The right class counts in full. Another answer counts less, the more steps on the tree lie between "
        "it and the truth.",
        paper="H-Acc of HWC + LAM, Section 4.4",
    ),
    Metric(
        "tree_distance", "tree distance", "Steps from the truth",
        "The number of edges between answer and truth.", larger_is_better=False, unit="number",
    ),
    Metric(
        "wu_palmer", "Wu–Palmer similarity", "Shared path, with the root",
        "How much answer and truth have in common of the path from the root, which counts.",
        paper="Wu & Palmer 1994",
    ),
    Metric(
        "mistake_severity", "mistake severity", "Severity of mistakes",
        "Over the mistakes only: the height of the smallest branch that contains both answer and truth, in "
        "steps. A model that makes only hard mistakes can look worse here.",
        larger_is_better=False, unit="number", paper="Bertinetto et al. 2020",
    ),
    Metric(
        "balanced_top1", "balanced accuracy", "Right class, every class counting the same",
        "The mean over the classes of the share given exactly the right class.",
    ),
    Metric(
        "contradictions", "contradictions", "Answers that contradict each other",
        "Share of {samples} whose answers at different depths, made separately, do not lie on one path.",
        larger_is_better=False,
    ),
    Metric(
        "worst_top1", "top-1 accuracy of the worst stratum", "Right class, where that is rarest",
        "Share of {samples} given exactly the right class, where it is lowest.",
    ),
    Metric("accuracy_at_depth_{}", "accuracy at depth {}", "Right at depth {}",
           "Share of {samples} whose answer lies in the right branch at this depth."),
    Metric("accuracy", "accuracy by depth", "Right at each depth",
           "Share of {samples} whose answer lies in the right branch at a depth."),
    Metric(
        "full_path_accuracy", "FPA", "Right at every depth",
        "Share of {samples} whose answers are right at every depth, each depth being answered for itself.",
        paper="Sani & Anand 2026",
    ),
    Metric("consistency", "consistency by depth", "Agrees with the finest answer",
           "Share of {samples} whose answer at a depth, made for itself, lies above the finest answer."),
    Metric(
        "hops", "HOPS", "Near classes before far ones",
        "How well the order of all classes by their scores follows their distance from the truth.",
        paper="Sani & Anand 2026",
    ),
    Metric("hops_at_{}", "HOPS@{}", "Near classes among the first {}",
           "HOPS of the first classes alone.", paper="Sani & Anand 2026"),
)  # fmt: skip
_RETRIEVAL = (
    Metric(
        "recall_at_1", "recall@1", "Most similar one has the right class",
        "Share of {samples} whose most similar other one has the same class. Only those count that have one "
        "to find.",
        paper="Musgrave et al. 2020",
    ),
    Metric(
        "recall_at_{}", "recall@{}", "One of the first {} has the right class",
        "Share of {samples} with at least one of the same class among the first results.",
        paper="Musgrave et al. 2020",
    ),
    Metric(
        "map_at_r", "MAP@R", "Own class comes first",
        "If the class has R others: the precision of the first R results, where early ones count more.",
        paper="Musgrave et al. 2020, Section 3.2",
    ),
    Metric(
        "mean_average_precision", "mAP", "Own class early in the list",
        "How early in the whole list of results all {samples} of the same class appear.",
    ),
    Metric(
        "ahp", "AHP", "Related classes come next",
        "Results of a related class count in part. The sum is compared with that of the best possible list, "
        "and averaged over list lengths up to {hp_k}.",
        paper=f"{_BARZ}, Section 4",
    ),
    Metric("hp_at_{}", "HP@{}", "Related classes among the first {}",
           "Results of a related class count in part, compared with the best possible list of this length.",
           paper=f"{_BARZ}, Section 4"),
    Metric("hp", "HP@k", paper=f"{_BARZ}, Section 4"),
    Metric(
        "h_ap", "H-AP", "Nearer classes before farther ones",
        "The precision of the whole list, with part marks: a result counts more, the further down the tree "
        "it shares the {sample}'s path. All results that share equally far count together as much as one.",
        paper="Ramzi et al. 2022, relevance pop, α = 1",
    ),
    Metric("h_ap_map", "H-AP (relevance map)", "Own class first, as a mean over depths",
           "H-AP in which every depth counts the same.", paper="Ramzi et al. 2022"),
    Metric(
        "ndcg", "NDCG", "Nearest classes early in the list",
        "Results count 1, 3, 7 … for one, two, three shared nodes, and less the later they come. The sum is "
        "compared with that of the best possible list.",
        paper="Järvelin & Kekäläinen 2002",
    ),
    Metric(
        "asi", "ASI", "The right mix at every length",
        "How many of the first results are also among the first of the best possible list, in any order, "
        "averaged over all lengths.",
        paper="Sun et al. 2021",
    ),
    Metric("ap_at_depth_{}", "AP at depth {}", "Those that share exactly depth {} come first",
           "Average precision of results that share this depth and none below; deeper ones are left out."),
)  # fmt: skip
_STRUCTURE = (
    Metric(
        "parent_violations", "parent violations", "Nearer to a wrong branch",
        "Share of {samples} that are at least as near to another branch's mean as to their own.",
        larger_is_better=False, paper="HWC + LAM, Section 4.4",
    ),
    Metric("parent_order_accuracy", "parent order accuracy", "Nearest to the own branch",
           "Share of {samples} that are nearer to their own branch's mean than to any other."),
    Metric(
        "pair_violations", "pair violations", "Pairs in the wrong order",
        "How often a more closely related pair is further apart than a less related one.",
        larger_is_better=False, paper="Zhang et al. 2022, supplement E",
    ),
    Metric(
        "cpcc", "CPCC", "Distances follow the tree",
        "Correlation of the distances between class means with those in the tree: 1 if they are in "
        "proportion, 0 if unrelated.",
        unit="correlation", paper="Zeng et al. 2022",
    ),
)  # fmt: skip
_CLUSTERS = (
    Metric("nmi", "NMI", paper="Vinh et al. 2010"),
    Metric("ami", "AMI", unit="correlation", paper="Vinh et al. 2010"),
)
_NODES = (
    Metric("auroc", "AUROC"),
    Metric("average_precision", "average precision"),
    Metric("sensitivity", "sensitivity"),
    Metric("specificity", "specificity"),
    Metric("ppv", "positive predictive value"),
    Metric("npv", "negative predictive value"),
    Metric("balanced_accuracy", "mean of sensitivity and specificity"),
    Metric("point_threshold", "the chosen threshold", larger_is_better=None, unit="number"),
)
_DECISIONS = (
    Metric("coverage", "coverage", sentence="Share of answers that are the true node or lie above it."),
    Metric("depth", "depth of the answers", larger_is_better=None, unit="number"),
    Metric("information", "information", sentence="Share of the uncertainty about the leaf that is removed."),
    Metric("h_aurc", "hAURC",
           sentence="Share of wrong answers, averaged over how much the answers say, as more is asked for.",
           larger_is_better=False, paper="Goren et al. 2024"),
    Metric("right_leaf", "right leaf"),
    Metric("root", "no answer", sentence="Share of {samples} for which nothing is certain enough.",
           larger_is_better=False),
    Metric("accuracy_below_root", "coverage of answers below the root"),
    Metric("answered", "answered at this depth"),
    Metric("right_if_answered", "right where answered"),
    Metric("groups_held", "groups with all answers right"),
    Metric("coverage_of_groups", "mean coverage of groups"),
    Metric("coverage_of_promised", "coverage of classes with a promise"),
    Metric("coverage_of_later", "coverage of classes added later"),
    Metric("cost", "cost of the answers", larger_is_better=False, unit="number"),
    Metric("nll", "log loss", larger_is_better=False, unit="number"),
    Metric("ece", "calibration error", larger_is_better=False, paper="Guo et al. 2017"),
    Metric("brier", "Brier score", larger_is_better=False, unit="number"),
    Metric("confidence", "mean confidence", larger_is_better=None),
    Metric("false_alarms", "false alarms",
           sentence="Share of {samples} of known classes that are called unknown.", larger_is_better=False),
    Metric("right", "answers that hold a label"),
    Metric("exact", "exactly the nearest known node"),
    Metric("precision", "share of the answered path that is right"),
    Metric("recall", "share of the true path that is answered"),
    Metric("found", "unknown classes found"),
    Metric("hierarchical_precision", "hierarchical precision", paper="Kiritchenko et al. 2005"),
    Metric("hierarchical_recall", "hierarchical recall", paper="Kiritchenko et al. 2005"),
    Metric("reachable_recall", "greatest hierarchical recall of one answer"),
    Metric("training_loss", "training loss", larger_is_better=False, unit="number"),
)  # fmt: skip
METRICS: dict[str, Metric] = {
    metric.key: metric for metric in (*_ANSWERS, *_RETRIEVAL, *_STRUCTURE, *_CLUSTERS, *_NODES, *_DECISIONS)
}
"""The metrics of labeltree by key, and those that `register_metric` has added."""

QUALIFIERS = {
    "answer_": ("", "by the chosen classifier of each run"),
    "prototype_": ("prototypes", "by the nearest class mean"),
    "own_": ("own answers", "by its own answer"),
    "lda_": ("LDA", "by linear discriminant analysis of the features"),
    "feature_mean_": ("feature means", "by the nearest class mean of the features"),
    "aspect_": ("mean over aspects", "mean over aspects"),
    "decision_": ("at the threshold of the answers", "at the threshold of the answers"),
    "point_": ("at the chosen threshold", "at the chosen threshold"),
}
"""What stands before a key → what it is measured of, as an addition to the name, and in plain words."""

_NEUTRAL = ("sd", "by_chance")
"""Ends of keys of numbers that say of a metric what is neither good nor bad."""

_ENDS = (
    (re.compile(r"_at_(\d*\.\d+)$"), "at {}"),
    (re.compile(r"_per_class_(\d+)$"), "{} samples a class"),
    (re.compile(r"_at_(\d+)$"), "at {}"),
    (re.compile(r"_(edges|height)$"), "in {}"),
    (re.compile(r"_(of_classes)$"), "of the most probable class"),
    (re.compile(r"_(micro)$"), "micro"),
    (re.compile(r"_(head|middle|tail)$"), "{} classes"),
    (re.compile(r"_(within)$"), "within branches"),
    (re.compile(r"_(before|after)$"), "{} calibration"),
    (re.compile(r"_(by_chance)$"), "by chance"),
    (re.compile(r"_(plain)$"), "without a test of novelty"),
    (re.compile(r"_(sd)$"), "standard deviation"),
    (re.compile(r"_(single|several)$"), "{} labels"),
    (re.compile(r"_(less_than_seen)$"), "less than of seen classes"),
    (re.compile(r"_(energy|uncertainty|features)$"), "by {}"),
)


def find_metric(key: str) -> Metric | None:
    """The metric of a key of results, with its full name; None if nobody has registered it.

    Args:
        key: Such as `top1`, `embeddings.recall_at_5`, `lda_hierarchical_f1_tail` or
            `coverage_at_0.9`; what stands before the last dot is not part of the name.

    Example:
        >>> find_metric("features.lda_top1").name
        'top-1 accuracy, LDA'
        >>> find_metric("recall_at_20").name
        'recall@20'
    """
    return _find(_parts(key)[1])


def _parts(key: str) -> tuple[str, str]:
    """What stands before the last dot of a key, and the rest; the dot of a number is none of those."""
    lead, dot, last = key.rpartition(".")
    return _parts_of_number(key) if dot and last.isdigit() else (lead, last)


def _parts_of_number(key: str) -> tuple[str, str]:
    start = key.rpartition("_")[0]
    lead, _, last = start.rpartition(".")
    return lead, last + key[len(start) :]


def _find(key: str) -> Metric | None:
    if key in METRICS:
        return METRICS[key]
    family = re.fullmatch(r"(.*_)(\d+)", key)
    if family and f"{family[1]}{{}}" in METRICS:
        metric = METRICS[f"{family[1]}{{}}"]
        return replace(
            metric, key=key, name=metric.name.format(family[2]), title=metric.title.format(family[2])
        )
    for start, (words, plain) in QUALIFIERS.items():
        if key.startswith(start) and (base := _find(key.removeprefix(start))) is not None:
            return _qualify(base, key, words, plain)
    for pattern, words in _ENDS:
        match = pattern.search(key)
        if match and (base := _find(key[: match.start()])) is not None:
            return _qualify(_turned(base, match[1]), key, *[words.format(match[1])] * 2)
    return None


def _turned(metric: Metric, end: str) -> Metric:
    """A metric with the direction of what its key ends in: a fall is good where the metric is bad."""
    if end == "less_than_seen" and metric.larger_is_better is not None:
        return replace(metric, larger_is_better=not metric.larger_is_better)
    return replace(metric, larger_is_better=None) if end in _NEUTRAL else metric


def _qualify(metric: Metric, key: str, words: str, plain: str) -> Metric:
    """A metric with additions to its name and title; "at 0.9" has no comma before it."""
    comma = " " if words.startswith("at ") and words[3:4].isdigit() else ", "
    name = f"{metric.name}{comma}{words}" if words else metric.name
    title = f"{metric.title}{comma}{plain}" if metric.title else ""
    return replace(metric, key=key, name=name, title=title)


def metric_name(key: str) -> str:
    """The name under which a key of results is shown; of an unknown one, its words.

    Example:
        >>> metric_name("seen.features.top1")
        'top-1 accuracy, seen features'
    """
    lead, last = _parts(key)
    metric = _find(last)
    name = last.replace("_", " ") if metric is None else metric.name
    said = not lead or (lead == "answers" and name.endswith("of the answers"))
    return name if said else f"{name}, {lead.replace('.', ' ')}"


def is_larger_better(key: str) -> bool | None:
    """The better direction of a key of results, None for neither; of an unknown one, by the words in it.

    Whoever has a key and no direction asks here, so that a number has one direction everywhere.

    Example:
        >>> is_larger_better("top1"), is_larger_better("my_errors"), is_larger_better("decisions.depth")
        (True, False, None)
    """
    metric = find_metric(key)
    if metric is None:
        return not any(word in key for word in ("violations", "severity", "error", "cost", "false_alarms"))
    return metric.larger_is_better


def register_metric(metric: Metric) -> None:
    """Add a metric, such as one of your own protocol, so that its name and direction are known everywhere.

    Raises:
        ValueError: If the key or the name is another metric's.

    Example:
        >>> register_metric(METRICS["top1"])  # again, which changes nothing
    """
    known = METRICS.get(metric.key)
    if known == metric:
        return
    if known is not None or any(metric.name == other.name for other in METRICS.values()):
        raise ValueError(f"there is a metric '{metric.key}' or '{metric.name}' already; use another name")
    METRICS[metric.key] = metric


def list_metrics(keys: Iterable[str] | None = None) -> list[Metric]:
    """All metrics in the order of the documentation, or those of some keys of results that are known.

    Example:
        >>> [metric.name for metric in list_metrics(["map_at_r", "features.own_top1"])]
        ['MAP@R', 'top-1 accuracy, own answers']
    """
    if keys is None:
        return list(METRICS.values())
    return [metric for key in keys if (metric := find_metric(key)) is not None]
