"""`extend`: classes that training did not have, added from a few samples as `labeltree extend` does."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from labeltree.decisions.choose_classifier import ClassifierKind
from labeltree.decisions.classifiers import classify
from labeltree.decisions.extending import extend_classifiers
from labeltree.errors import DataError
from labeltree.evaluation.chosen_samples import labelled_rows
from labeltree.evaluation.protocol_registry import Inputs, ProtocolResult, register
from labeltree.evaluation.sample_columns import Column
from labeltree.evaluation.subsampling import ranked_in_label
from labeltree.metrics.functional import hierarchical_f1
from labeltree.split_names import UNSEEN
from labeltree.taxonomy.label_sets import covered_nodes

__all__ = ["ExtendOptions", "extend"]

_KINDS: tuple[ClassifierKind, ...] = ("prototypes", "probe")


@dataclass(frozen=True)
class ExtendOptions:
    """Options of `extend`.

    Attributes:
        per_class: Numbers of samples of each new class to learn from; a class with fewer contributes all.
        draws: Random draws of these samples, over which the outcomes of a test sample are averaged.
        classes: The new classes: these nodes and all below. Empty: those that no training sample has. If
            training had them, its own answers to their samples are measured, to compare with.
    """

    per_class: tuple[int, ...] = (1, 5, 20)
    draws: int = 3
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.per_class or min((*self.per_class, self.draws)) < 1:
            raise ValueError("per_class names one or more numbers, of at least 1, and draws is at least 1")


@register(
    "extend",
    summary="classes that training did not have, added from a few samples of each without training",
    source="ours; prototypes as Snell et al. 2017, a balanced linear classifier as Kang et al. 2020",
    options=ExtendOptions,
)
def extend(inputs: Inputs, options: ExtendOptions) -> ProtocolResult:
    """Add classes to a trained encoder from a few samples, and measure what is found and what is lost.

    A class is new if no training sample has it, or a label below it. The samples to learn from are those that
    were hidden from training (split `unseen`), never test samples.

    Scores, of test samples of new classes (`new_…`) and of known ones (`known_…`): `top1` and `f1`
    (hierarchical F1), for each classifier and number of samples, such as `new_top1_prototypes_5`; before,
    as `…_plain`. Where `classes` names classes that training had, its own answers, as `…_trained`.

    Raises:
        DataError: If there is no test sample of a new or of a known class, or none to learn new ones from.
    """
    tree, table, nodes = inputs.judging.tree, inputs.standard_table, inputs.nodes
    train = labelled_rows(table, "train")
    present = covered_nodes(nodes[train], tree)
    new = ~present
    if options.classes:
        new = torch.zeros_like(present)
        for name in options.classes:
            new[tree.descendants(tree.find(name))] = True
    tested = inputs.tested
    is_new = new[nodes[tested]]
    if not bool(is_new.any()) or bool(is_new.all()):
        which = "a known" if bool(is_new.all()) else "a new"
        raise DataError(f"no test sample is of {which} class; hide some from training with --unseen_classes")
    answers = classify(inputs.classifiers.scores(inputs.classifiers.with_scores), table.rows(tested))
    had = bool(new[nodes[train]].any())
    columns = _columns(answers, "trained" if had else "plain", is_new, inputs)
    counts = {
        "test samples of known classes": int((~is_new).sum()),
        "test samples of new classes": int(is_new.sum()),
        "new classes": len(torch.unique(nodes[tested][is_new])),
    }
    notes = []
    if not had:
        pool = labelled_rows(table, UNSEEN) if table.split is not None else train[:0]
        pool = pool[inputs.samples.finest[nodes[pool]] & new[nodes[pool]]]
        if not len(pool):
            raise DataError(
                "no sample outside the test split is of a new class: a run that was trained with "
                "--unseen_classes has some, as split 'unseen'"
            )
        columns += _added(inputs, options, pool, is_new)
        counts["samples of new classes to learn from"] = len(pool)
        notes.append(f"Samples of new classes were drawn {options.draws} times; outcomes are their means.")
    result = inputs.summarise(columns, "Classes added without training", by_frequency=False)
    result.counts.update(counts)
    result.notes.extend([*notes, "The intervals hold the encoder and the draws fixed."])
    return result


def _added(inputs: Inputs, options: ExtendOptions, pool: Tensor, is_new: Tensor) -> list[Column]:
    """The outcomes with classes added, for each classifier and number of samples."""
    tree, nodes, tested = inputs.judging.tree, inputs.nodes, inputs.tested
    known = inputs.classifiers
    added = torch.unique(nodes[pool])
    classes = torch.unique(torch.cat([known.prototypes.classes, added]))
    shown = inputs.standard_table.rows(tested)
    columns = []
    for number in options.per_class:
        sums: dict[str, Tensor] = {}
        templates: list[Column] = []
        for draw in range(options.draws):
            rank, _ = ranked_in_label(nodes[pool], inputs.settings.seed + draw)
            learned = torch.cat([inputs.learned, pool[rank < number]])
            extended = extend_classifiers(
                known,
                inputs.standard_table,
                tree,
                learned=learned,
                held=learned[:0],
                classes=classes,
                added=added,
            )
            templates = []
            for kind in _KINDS:
                scores = extended.probe if kind == "probe" else extended.prototypes
                templates += _columns(classify(scores, shown), f"{kind}_{number}", is_new, inputs)
            for column in templates:
                sums[column.name] = sums.get(column.name, 0) + column.values / options.draws
        columns += [replace(column, values=sums[column.name]) for column in templates]
    return columns


def _columns(answers: Tensor, name: str, is_new: Tensor, inputs: Inputs) -> list[Column]:
    """Top-1 and hierarchical F1 of answers to the tested samples, of new and of known classes."""
    tested = inputs.tested
    truth = inputs.nodes[tested]
    f1 = hierarchical_f1(answers, truth, inputs.judging.tree, reduction="none")
    columns = []
    for which, counted in (("new", is_new), ("known", ~is_new)):
        for metric, values in (("top1", (answers == truth).double()), ("f1", f1.double())):
            columns.append(
                Column(f"{which}_{metric}_{name}", values.masked_fill(~counted, torch.nan), tested)
            )
    return columns
