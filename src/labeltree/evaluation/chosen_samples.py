"""Choice of the samples that protocols learn from, test on and search; frequency of their classes."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from labeltree.counted_nouns import say_count
from labeltree.errors import DataError
from labeltree.evaluation.fewest_samples import FEW, FEW_CASES, few_note
from labeltree.evaluation.queries_and_gallery import SearchPlan, plan_search
from labeltree.evaluation.subsampling import half_split, stratified_subsample
from labeltree.options.evaluation import EvaluationSettings
from labeltree.runs import EmbeddingTable
from labeltree.split_names import CALIB, SPLIT_NAMES, SPLITS, UNSEEN
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.label_sets import finest_labels, shared_depth, shared_note

__all__ = [
    "GROUPS",
    "ClassFrequency",
    "Samples",
    "choose_samples",
    "class_frequency",
    "has_unseen",
    "held_rows",
    "labelled_rows",
    "promise_rows",
    "stratified_subsample",
]

GROUPS = ("head", "middle", "tail")
_NOTABLE = 0.05  # share of test samples of classes without training samples that is said with the numbers
_INDIVIDUALS = re.compile(
    r"(^|[\s_-])(patient|subject|person|case|donor|participant|individual|animal|author|user|customer)s?"
    r"([\s_-]?(id|no|number|name))?$",
    re.IGNORECASE,
)
"""Names of columns whose samples are hardly ever independent."""


@dataclass(frozen=True)
class Samples:
    """Rows of a table, by use.

    A label is *finest* if no sample has a label below it. Classes are the finest labels; a test sample with a
    coarser label counts only in the accuracy down to the depth of its label.

    Attributes:
        train: Labelled rows that the probe and the prototypes learn from.
        test: Labelled rows that classifiers are tested on.
        search: Rows with a finest label that are the queries of retrieval.
        plan: The retrieval search of these queries.
        finest: `(num_nodes,)` bool, whether a node is a finest label.
        split: Name of the evaluated split; `half` if the table has no splits.
        counts: Numbers of samples by use, and of samples left out.
        notes: Sentences on the samples used and left out.
        cautions: The notes that must be shown with the numbers.
        one_class: The class of all samples if there is only one, so that no number is meaningful; else None.
        unlearned: If no test class has a training sample, the depths at which no test label has one either,
            so that a fitted classifier cannot be tested there; else None.
        shared: Greatest depth at which all classes share one node; down to it every answer is correct.
    """

    train: Tensor
    test: Tensor
    search: Tensor
    plan: SearchPlan
    finest: Tensor
    split: str
    counts: dict[str, int]
    notes: list[str]
    cautions: list[str]
    one_class: str | None = None
    unlearned: tuple[int, ...] | None = None
    shared: int = 0


def choose_samples(
    table: EmbeddingTable, taxonomy: Taxonomy, split: str, settings: EvaluationSettings
) -> Samples:
    """Assign the rows of a table to training, test and retrieval, given its labels and splits.

    Raises:
        DataError: If no sample has a label below the root, or the split is missing or empty.
    """
    rows = torch.arange(len(table))
    labelled = (table.nodes > 0) | table.several
    notes: list[str] = []
    counts: dict[str, int] = {}
    set_aside = ""
    has_splits = table.split is not None
    in_split = _split_mask(table, split) if has_splits else torch.ones(len(table), dtype=torch.bool)
    in_train = _split_mask(table, "train", required=False) if has_splits else torch.zeros_like(in_split)
    if not bool((in_split & labelled).any()):
        where = f"of split '{split}' " if has_splits else ""
        raise DataError(
            f"no sample {where}has a label that names a class or a branch: there is nothing to evaluate "
            "against"
        )

    search = in_split & labelled
    if has_splits and split != "train" and bool((in_train & labelled).any()):
        train, test = in_train & labelled, in_split & labelled
        name = split
    else:
        half = half_split(table, in_split & labelled, settings.seed)
        train, test = half, in_split & labelled & ~half
        name = "half" if not has_splits else split
        what = (
            "The table has no splits"
            if not has_splits
            else f"The table has no training samples beside '{split}'"
        )
        drawn = "without dividing a group" if table.groups is not None else "from each class"
        set_aside = (
            f"{what}: half of the labelled samples, drawn {drawn}, was set aside for the "
            f"classifiers to learn from ({int(train.sum())}). Answers and violations are measured on the "
            f"other {int(test.sum())}."
        )
    finest = finest_labels(_every_label(table, train | test | search), taxonomy)
    classes = _every_label(table, train | test)
    classes = torch.unique(classes[finest[classes]])
    search &= finest[table.nodes.clamp_min(0)]
    if set_aside:
        set_aside += f" Retrieval needs no learning: it searches among all {int(search.sum())}."
        notes.append(set_aside)
    counts["left out: no label"] = int((in_split & ~labelled).sum())
    several = table.several
    if bool((several & (train | test)).any()):
        counts["test samples with several labels"] = int((several & test).sum())
        counts["training samples with several labels"] = int((several & train).sum())
    coarse = in_split & labelled & ~several & ~finest[table.nodes.clamp_min(0)]
    counts["labelled only coarsely"] = int(coarse.sum())
    limit, seed = settings.max_retrieval_samples, settings.seed
    queries = stratified_subsample(rows[search], table.nodes[search], limit, seed)
    learned = train & finest[table.nodes.clamp_min(0)] & ~search
    gallery = stratified_subsample(rows[learned], table.nodes[learned], limit, seed)
    plan = plan_search(table, finest, queries, gallery, settings.leave_group_out)
    chosen = Samples(
        train=stratified_subsample(
            rows[train], table.nodes[train], settings.max_probe_samples, settings.seed
        ),
        test=rows[test],
        search=queries,
        plan=plan,
        finest=finest,
        split=name,
        counts=counts,
        notes=notes,
        cautions=[set_aside] if set_aside else [],
        one_class=taxonomy.path_name(int(classes[0])) if len(classes) == 1 else None,
        unlearned=_unlearned(_every_label(table, train), _every_label(table, test), finest, taxonomy),
        shared=shared_depth(classes, taxonomy),
    )
    _count(chosen, table, int(train.sum()), int(search.sum()))
    said = _like_groups(table) + _collapsed(table)
    chosen.notes.extend(said)
    chosen.cautions.extend(said)
    if chosen.one_class is None:
        said = shared_note(classes, taxonomy)
        chosen.notes.extend(said)
        chosen.cautions.extend(said)
    return chosen


def _like_groups(table: EmbeddingTable) -> list[str]:
    """Sentences on columns such as `patient_id` of a table without groups."""
    if table.groups is not None:
        return []
    notes = []
    for name, column in table.attributes.items():
        values = np.asarray(column)
        values = values[values != ""]
        count = len(np.unique(values))
        if _INDIVIDUALS.search(name) and 1 < count < len(values):
            notes.append(
                f"The column '{name}' is kept, but its {count:,} values are not groups here: intervals and "
                "retrieval take every sample as independent. If samples with equal values are not, say so: "
                f"--group-column {shlex.quote(name)} (of a run, in training: --table.group_column)."
            )
    return notes


def _collapsed(table: EmbeddingTable) -> list[str]:
    """A sentence on embeddings that are all the same, or of length 0 where directions are compared."""
    points = table.embeddings
    if len(points) > 1 and bool((points == points[0]).all()):
        return ["All embeddings are the same vector: no number here says anything about the labels."]
    zeros = int((points == 0).all(1).sum()) if table.geometry == "sphere" else 0
    if zeros:
        return [f"{zeros:,} of {len(points):,} embeddings are zero: they have no direction to compare by."]
    return []


def _every_label(table: EmbeddingTable, rows: Tensor) -> Tensor:
    """The labels below the root of rows, a mask `(n,)`; every one of several labels of a sample."""
    labels = table.one_label_a_row(rows.nonzero()[:, 0])[1]
    return labels[labels > 0]


def _unlearned(learned: Tensor, tested: Tensor, finest: Tensor, taxonomy: Taxonomy) -> tuple[int, ...] | None:
    """The depths at which no test label has a training sample; None if any test class has one."""
    classes = tested[finest[tested]]
    if not len(classes) or bool(torch.isin(classes, learned).any()):
        return None
    trained = torch.unique(taxonomy.ancestors[torch.unique(learned)])
    at_depths = [taxonomy.ancestors[tested, depth] for depth in range(taxonomy.max_depth + 1)]
    return tuple(
        depth
        for depth, at in enumerate(at_depths)
        if depth and not bool(torch.isin(at[at >= 0], trained).any())
    )


def _count(samples: Samples, table: EmbeddingTable, train: int, search: int) -> None:
    counts, notes = samples.counts, samples.notes
    train_labels = table.one_label_a_row(samples.train)[1]
    test_labels = table.nodes[samples.test]
    classes = torch.unique(train_labels[samples.finest[train_labels]])
    tested = test_labels[samples.finest[test_labels]]
    unseen = tested[~torch.isin(tested, classes)]
    counts["training samples"] = len(samples.train)
    counts["test samples"] = len(samples.test)
    counts["searched samples"] = len(samples.search)
    counts["classes learned"] = len(classes)
    counts["classes tested"] = len(torch.unique(tested))
    counts["test samples of classes without training samples"] = len(unseen)
    small = int((torch.unique(tested, return_counts=True)[1] < FEW_CASES).sum())
    if small:
        notes.append(
            f"{small} of {counts['classes tested']} classes {'has' if small == 1 else 'have'} fewer than "
            f"{FEW_CASES} test samples: what is said of such a class alone is uncertain, and marked † in the "
            "report's tree of errors."
        )
    if counts["left out: no label"]:
        samples.cautions.append(
            say_count(
                counts["left out: no label"],
                "sample without a label was left out.",
                "samples without a label were left out.",
            )
        )
        notes.append(samples.cautions[-1])
    if "test samples with several labels" in counts:
        notes.append(
            f"{counts['test samples with several labels']} of {len(samples.test)} test samples and "
            f"{counts['training samples with several labels']} of {train} training samples have several "
            "labels. An answer is right if it is one of them, or agrees with one at a depth; hierarchical F1 "
            "compares it with the ancestors of all. They do not count in means by node and class, nor in "
            "retrieval and violations; the protocol 'label-sets' searches for them, too."
        )
    if counts["labelled only coarsely"]:
        samples.cautions.append(
            f"{say_count(counts['labelled only coarsely'], 'sample is', 'samples are')} labelled only "
            "coarsely, with a node that other samples divide further. Such samples count in the accuracy at "
            "the depths that their label decides, and in the means of the nodes above them; top-1, "
            "violations and retrieval leave them out."
        )
        notes.append(samples.cautions[-1])
    if len(unseen):
        if has_unseen(table):
            notes.append(
                "Some classes were hidden from training, and the classifiers learned from the other, seen "
                "classes alone. The protocol 'seen-unseen' measures seen and unseen classes apart."
            )
        if samples.unlearned is not None:
            depths = ", ".join(map(str, samples.unlearned))
            samples.cautions.append(
                f"No class of the {len(tested)} test samples has a training sample: top-1"
                f"{f' and accuracy at depth {depths}' if depths else ''} are not defined for the classifiers "
                "that learn from those; accuracy at other depths, and retrieval, are."
            )
            notes.extend(samples.cautions)
        else:
            notes.append(
                f"{say_count(len(unseen), 'test sample belongs', 'test samples belong')} to "
                f"{say_count(len(torch.unique(unseen)), 'class', 'classes')} without any training sample: no "
                "classifier can name such samples, and they count as errors."
            )
            if len(unseen) >= _NOTABLE * len(tested):
                samples.cautions.append(notes[-1])
    if len(samples.train) < train:
        notes.append(
            f"The classifiers learned from {len(samples.train)} of {train} training samples, "
            "subsampled evenly."
        )
    if len(samples.search) < search:
        notes.append(f"Retrieval searched for {len(samples.search)} of {search} samples, subsampled evenly.")
    counts |= samples.plan.counts()
    if samples.one_class is not None:
        cautions = [f"All samples are of one class, '{samples.one_class}': there is nothing to distinguish."]
        notes.extend(cautions)
        samples.cautions.extend(cautions)
        return
    cautions = samples.plan.notes(
        "the test samples" if samples.split == "half" else f"split '{samples.split}'"
    )
    judged = int(samples.finest[test_labels].sum())
    if 0 < judged < FEW:
        cautions.append(few_note(judged, "Accuracy"))
    notes.extend(cautions)
    samples.cautions.extend(cautions)


def with_usual_splits(table: EmbeddingTable, split: str) -> EmbeddingTable:
    """A table of another program with `val` for its `valid`, `test` for its `Test`, and so on.

    Args:
        table: The table.
        split: The split to evaluate on, which keeps its name.
    """
    if table.split is None:
        return table
    usual = dict(zip(SPLITS, SPLITS, strict=True)) | SPLIT_NAMES
    names = {name: usual.get(name.lower(), name) for name in set(table.split.tolist()) - {split}}
    return replace(table, split=np.array([names.get(name, name) for name in table.split.tolist()], dtype=str))


def has_unseen(table: EmbeddingTable) -> bool:
    """Whether classes were hidden from training, so that their samples are in the split `unseen`."""
    return table.split is not None and bool(np.asarray(table.split == UNSEEN).any())


def _split_mask(table: EmbeddingTable, split: str, *, required: bool = True) -> Tensor:
    assert table.split is not None
    mask = torch.from_numpy(np.asarray(table.split == split))
    if required and not bool(mask.any()):
        known = sorted(set(np.asarray(table.split).tolist()))
        raise DataError(
            f"the embeddings table has no samples of split '{split}'; it has {known}: name one with --split"
        )
    return mask


def labelled_rows(table: EmbeddingTable, split: str, *, several: bool = False) -> Tensor:
    """Rows `(k,)` of a split with a label below the root; empty if the table has no such split.

    With `several`, also those with several labels that have only the root in common.
    """
    if table.split is None:
        return torch.empty(0, dtype=torch.int64)
    labelled = (table.nodes > 0) | table.several if several else table.nodes > 0
    return (torch.from_numpy(np.asarray(table.split == split)) & labelled).nonzero()[:, 0]


def promise_rows(table: EmbeddingTable) -> Tensor:
    """Rows `(k,)` that rules are fitted to: labelled validation samples, and those of the split `calib`.

    The first are for the probabilities, the others for the thresholds: `kept_for_probabilities`.
    """
    return torch.cat([labelled_rows(table, "val"), labelled_rows(table, CALIB)]).sort().values


def held_rows(table: EmbeddingTable, samples: Samples) -> Tensor:
    """Rows of validation samples that have a finest label and are not in `samples.train`."""
    rows = labelled_rows(table, "val")
    rows = rows[samples.finest[table.nodes[rows]]]
    return rows[~torch.isin(rows, samples.train)]


@dataclass(frozen=True)
class ClassFrequency:
    """Frequency of the classes in the training split.

    Attributes:
        counts: `(num_nodes,)` number of training samples labelled with each node.
        few: Largest number of training samples of a tail class.
        many: Head classes have more training samples than this.
    """

    counts: Tensor
    few: int
    many: int

    @property
    def uneven(self) -> bool:
        """Whether there is a class in each of head, middle and tail."""
        return len(torch.unique(self.group((self.counts > 0).nonzero().squeeze(1)))) == len(GROUPS)

    def group(self, classes: Tensor) -> Tensor:
        """Position `(c,)` in `GROUPS` of each class (a node); −1 for classes without training samples."""
        counts = self.counts[classes]
        place = torch.where(counts > self.many, 0, torch.where(counts > self.few, 1, 2))
        return torch.where(counts > 0, place, -1)


def class_frequency(
    table: EmbeddingTable, samples: Samples, num_nodes: int, bounds: tuple[int, ...] = ()
) -> ClassFrequency:
    """Sort the classes with training samples into head, middle and tail.

    Args:
        table: Table whose whole training split is counted.
        samples: The classes, and the training rows if the table has no training split.
        num_nodes: Number of nodes of the tree.
        bounds: `(few, many)`: tail classes have at most `few` samples, head classes more than `many`;
            Liu et al. 2019 (Large-Scale Long-Tailed Recognition in an Open World) use (20, 100). With (),
            each group has a third of the classes, ordered by decreasing count; classes with equal counts
            stay together, in the group of the first of them.
    """
    rows = samples.train  # else all before any subsampling
    if table.split is not None and samples.split not in ("half", "train"):
        mask = _split_mask(table, "train", required=False)
        if bool(mask.any()):
            rows = mask.nonzero().squeeze(1)
    labels = table.nodes[rows]
    counts = torch.bincount(labels[labels > 0], minlength=num_nodes)
    if bounds:
        few, many = bounds
        return ClassFrequency(counts, few, many)
    present = counts[samples.finest & (counts > 0)]
    ordered = present.sort().values
    more = len(ordered) - torch.searchsorted(ordered, present, right=True)  # classes with more samples
    bound = [present[3 * more >= part * len(present)] for part in (2, 1)]
    few, many = (int(group.max()) if len(group) else 0 for group in bound)
    return ClassFrequency(counts, few, many)
