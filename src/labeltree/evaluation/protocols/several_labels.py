"""`label-sets`: samples with several labels, their answers, and searches by the closest labels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labeltree.counted_nouns import say_count
from labeltree.errors import DataError
from labeltree.evaluation.fewest_samples import FEW, few_note
from labeltree.evaluation.protocol_registry import Inputs, ProtocolResult, register
from labeltree.evaluation.representations import Reading
from labeltree.evaluation.sample_columns import Column
from labeltree.metrics.functional import nearest_labels, set_retrieval

__all__ = ["label_sets_protocol"]


@register(
    "label-sets",
    summary="samples with several labels: right answers, precision and recall of ancestors, searches",
    source="hierarchical precision and recall: Kiritchenko et al. 2006; none of the five papers reports it",
)
def label_sets_protocol(inputs: Inputs, options: Any) -> ProtocolResult:
    """Judge answers and searches by all labels of a sample.

    Of answers, by classifier: `right` is the share that are one of the sample's labels, `right_single`
    and `right_several` the same for samples with one label and with several.
    `hierarchical_precision` and `hierarchical_recall` compare ancestors as in `set_overlap`, with the
    sums over samples divided; `reachable_recall` is the recall of a single answer that is always right.
    Of searches, by representation: `recall_at_1` and `map_at_r`, where a result is right if it shares a
    label with the query, with `recall_at_1` by depth.
    """
    rows = inputs.samples.test
    sets = inputs.label_sets(rows)
    if sets is None:
        raise DataError("no test sample has several labels")
    tree, several = inputs.judging.tree, (sets >= 0).sum(1) > 1
    whole = (inputs.samples.finest[sets.clamp_min(0)] | (sets < 0)).all(1)
    parts = dict[str, ProtocolResult]()
    for name, predicted in inputs.predicted.items():
        answers = predicted.clamp(min=0)  # a missing answer counts as the root
        right = (nearest_labels(answers, sets, tree) == answers).double().masked_fill(~whole, torch.nan)
        common, of_answer, of_labels = (size.double() for size in inputs.overlap(answers, sets))
        most = inputs.overlap(_deepest(sets, tree.depth), sets)[0].double()
        columns = [
            Column("right", right),
            Column("right_single", right.masked_fill(several, torch.nan)),
            Column("right_several", right.masked_fill(~several, torch.nan)),
            Column("hierarchical_precision", common / of_answer, weights=of_answer),
            Column("hierarchical_recall", common / of_labels, weights=of_labels),
            Column("reachable_recall", most / of_labels, weights=of_labels),
        ]
        unlabelled = torch.full_like(rows, -1)  # nothing is broken down by node or class
        parts[name] = inputs.summarise([_with(column, rows, unlabelled) for column in columns])
    queries = _limited(rows[whole], inputs)
    gallery = None
    if inputs.samples.plan.gallery is not None:
        gallery = _limited(torch.unique(inputs.taught[0]), inputs)
    for role, reading in inputs.standard_readings().items():
        parts[role] = inputs.summarise(_searched(inputs, reading, queries, gallery))
    return ProtocolResult.joined(
        "Samples with several labels",
        parts,
        counts={
            "test samples": len(rows),
            "test samples with several labels": int(several.sum()),
            "queries": len(queries),
            "queries with several labels": int(inputs.table.several[queries].sum()),
        },
        notes=_notes(int(several.sum()), len(rows), int((~whole).sum())),
    )


def _notes(several: int, count: int, coarse: int) -> list[str]:
    notes = [f"{several} of {count} test samples have several labels; one answer can name only one of them."]
    if several < FEW:
        notes.append(few_note(several, "What is said of samples with several labels"))
    if coarse:
        notes.append(
            f"{say_count(coarse, 'sample has', 'samples have')} a label that other samples divide further, "
            "and which counts in hierarchical precision and recall alone."
        )
    return notes


def _with(column: Column, rows: Tensor, labels: Tensor) -> Column:
    return Column(column.name, column.values, rows, labels, column.weights)


def _deepest(sets: Tensor, depth: Tensor) -> Tensor:
    """The deepest label `(m,)` of each sample."""
    place = torch.where(sets >= 0, depth[sets.clamp_min(0)], -1).argmax(1, keepdim=True)
    return sets.gather(1, place)[:, 0]


def _limited(rows: Tensor, inputs: Inputs) -> Tensor:
    """At most as many rows as retrieval searches for, drawn by the seed."""
    limit = inputs.settings.max_retrieval_samples
    if len(rows) <= limit:
        return rows
    generator = torch.Generator().manual_seed(inputs.settings.seed)
    return rows[torch.randperm(len(rows), generator=generator)[:limit].sort().values]


def _searched(inputs: Inputs, reading: Reading, queries: Tensor, gallery: Tensor | None) -> list[Column]:
    sets = inputs.table.label_sets
    assert sets is not None
    scores = set_retrieval(
        reading.points[queries],
        sets[queries],
        inputs.judging.tree,
        None if gallery is None else reading.points[gallery],
        None if gallery is None else sets[gallery],
        geometry=reading.geometry,
        query_groups=inputs.left_out(queries),
        key_groups=None if gallery is None else inputs.left_out(gallery),
    )
    unlabelled = torch.full_like(queries, -1)
    columns = [
        Column(name, scores[key], queries, unlabelled)
        for name, key in (("recall_at_1", "recall@1"), ("map_at_r", "map@r"))
    ]
    for depth in range(1, inputs.judging.tree.max_depth + 1):
        values = scores[f"recall@1/depth{depth}"]
        columns.append(Column("recall_at_1", values, queries, unlabelled, kind="by_depth", at=depth - 1))
    return columns
