"""`per-group`: one answer for each group of samples (patient, item, lesion), scored once per group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.errors import DataError
from labeltree.evaluation.fitted_probe import ClassProbabilities
from labeltree.evaluation.protocol_registry import Inputs, ProtocolResult, register
from labeltree.evaluation.reported_nodes import TOO_MANY_NOTE, mean_auroc, ranking_statistic
from labeltree.evaluation.sample_columns import FEWEST_GROUPS, Number, Place, ResamplingUnits
from labeltree.evaluation.scored_samples import (
    ANSWERS,
    answer_probabilities,
    check_judged,
    judged_readings,
    probe_probabilities,
)
from labeltree.evaluation.subsampling import leak_notes
from labeltree.metrics.functional import group_labels, group_probabilities, node_auroc
from labeltree.metrics.functional.pool_groups import Aggregation, in_conflict
from labeltree.runs.table_file_columns import number_groups

__all__ = ["PerGroupOptions", "per_group"]

Conflicts = Literal["drop", "all", "majority"]


@dataclass(frozen=True)
class PerGroupOptions:
    """Options of `per_group`.

    Attributes:
        roles: What is judged: `answers`, the classifier that answers; or `features`, `embeddings`, a
            linear probe that reads these.
        aggregations: Aggregation of the probabilities of a group: `mean`, `logits`, `max`,
            `noisy-or`, `vote`; see `labeltree.metrics.functional.group_probabilities`.
        conflicts: Treatment of groups whose samples have contradictory labels (a patient with two
            diagnoses): `drop` omits them; `all` splits them into one group for each label; `majority`
            assigns the most frequent label, and omits groups with a tie.
        per: What is a group: `group`, the groups of the table, or an attribute such as `lesion`, see
            `EmbeddingTable.units`. Intervals draw groups of the table.
    """

    roles: tuple[str, ...] = (ANSWERS,)
    aggregations: tuple[Aggregation, ...] = get_args(Aggregation)
    conflicts: Conflicts = "drop"
    per: str = "group"

    def __post_init__(self) -> None:
        check_judged(self.roles)
        check_choice("conflicts", self.conflicts, Conflicts)
        known = get_args(Aggregation)
        if not self.aggregations or not set(self.aggregations) <= set(known):
            raise ValueError(f"aggregations are {self.aggregations}, expected some of {', '.join(known)}")


@register(
    "per-group",
    summary="one answer for a patient, an item, a lesion, from all of its samples",
    source="as clinical studies report; Spanhol et al. 2016 (BreakHis) do by patient",
    options=PerGroupOptions,
)
def per_group(inputs: Inputs, options: PerGroupOptions) -> ProtocolResult:
    """Aggregate the probabilities of the classifier that answers over groups, and judge each group once.

    Scores named `sample.…` are those of single samples; `mean.…`, `logits.…`, `max.…`,
    `noisy-or.…` and `vote.…` are those of groups. `auroc` is the mean over the nodes.

    Raises:
        DataError: If no two test samples are in one group, or no group without conflicts is left.
    """
    table = inputs.table
    groups = _groups_of(inputs, options.per)
    if len(torch.unique(groups)) == len(inputs.samples.test):
        raise DataError(
            "no two test samples are in one group: give the table a column 'groups' (patient, item, lesion)"
            if options.per == "group"
            else f"no two test samples are of one '{options.per}'"
        )
    resolved = _resolve(inputs, groups, options.conflicts)
    test, target = resolved.test, resolved.target
    if not len(inputs.learned):
        raise DataError("no training sample has a finest label, so that no class can be learned")
    parts: dict[str, ProtocolResult] = {}
    readings, notes, judged = judged_readings(inputs, options.roles), list[str](), list[str]()
    for role, reading in readings.items():
        if reading is None:
            answered = answer_probabilities(inputs, test)
        else:
            answered = probe_probabilities(inputs, reading, test, role)
        judged.append(answered.words)
        notes.append(answered.note)
        for name, part in _measure(answered.given, inputs, options, resolved).items():
            parts[f"{role}.{name}" if len(readings) > 1 else name] = part
    counts = {"test samples": len(test), "groups": len(target)}
    if resolved.conflicts:
        counts["groups with labels that contradict each other"] = resolved.conflicts
    notes += [f"Each of the {len(target)} groups counts once, whether it has one sample or many."]
    notes += resolved.notes
    notes += leak_notes(table, inputs.learned, test)
    if table.groups is None and options.per == "group":
        notes.append("The table has no groups: the rows of one instance were taken as one.")
    title = f"One answer for every group, by {' and '.join(dict.fromkeys(judged))}"
    return ProtocolResult.joined(title, parts, counts=counts, notes=notes)


@dataclass(frozen=True)
class _Resolved:
    """Test rows and their groups; label, first row and resampling unit of each group."""

    test: Tensor
    groups: Tensor
    target: Tensor
    first: Tensor
    units: Tensor
    conflicts: int
    notes: list[str]


def _groups_of(inputs: Inputs, per: str) -> Tensor:
    """Group `(m,)` of each test row, numbered from 0; a row without a group is a group of its own."""
    table, test = inputs.table, inputs.samples.test
    if per != "group" or table.groups is not None:
        return torch.from_numpy(number_groups(table.units(per)[test].numpy()))
    column = table.instances
    return torch.from_numpy(number_groups((test if column is None else column[test]).numpy()))


def _resolve(inputs: Inputs, groups: Tensor, how: Conflicts) -> _Resolved:
    """Assign one label to every group; groups with contradictory labels are resolved or omitted."""
    judge, placed = inputs.judging.judge, inputs.judging.placed
    test = inputs.samples.test
    nodes = inputs.judging.in_judge(inputs.nodes[test])
    contrary = in_conflict(nodes, groups, judge)
    units, notes = groups, []
    concerned = torch.unique(groups[contrary])
    kept = torch.ones_like(contrary)
    if len(concerned):
        if how == "all":
            pairs = torch.unique(torch.stack([groups, nodes]), dim=1, return_inverse=True)[1]
            groups = torch.where(contrary, int(groups.max()) + 1 + pairs, groups)
        elif how == "majority":
            most, tied = _majority(nodes, groups)
            nodes = torch.where(contrary, most[groups], nodes)
            kept = ~(contrary & tied[groups])
        else:
            kept = ~contrary
        notes.append(_conflicts_note(inputs, concerned, units, contrary, how))
    if not bool(kept.any()):
        raise DataError(f"no group has one label: {notes[0].rstrip('.')}; choose conflicts=all or majority")
    groups, units = groups[kept], units[kept]
    target = placed[group_labels(nodes[kept], groups, judge)]
    place = torch.unique(groups, return_inverse=True)[1]
    of_target = torch.empty(len(target), dtype=torch.int64).index_put_((place,), units)
    rows = test[kept]
    first = torch.full((len(target),), len(inputs.nodes)).scatter_reduce_(0, place, rows, "amin")
    return _Resolved(rows, groups, target, first, of_target, len(concerned), notes)


def _majority(nodes: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
    """The most frequent label `(g,)` of each group, and whether there is a tie."""
    count = int(groups.max()) + 1
    (group, label), sizes = torch.unique(torch.stack([groups, nodes]), dim=1, return_counts=True)
    largest = torch.zeros(count, dtype=torch.int64).scatter_reduce_(0, group, sizes, "amax")
    first = sizes == largest[group]
    most = torch.empty(count, dtype=torch.int64).index_put_((group[first],), label[first])
    return most, torch.bincount(group[first], minlength=count) > 1


def _conflicts_note(
    inputs: Inputs, concerned: Tensor, groups: Tensor, contrary: Tensor, how: Conflicts
) -> str:
    table, test = inputs.table, inputs.samples.test
    rows = test[(groups == concerned[0]) & contrary]
    labels = [inputs.judging.tree.path_name(node) for node in torch.unique(inputs.nodes[rows]).tolist()]
    name = "" if table.group_names is None else str(table.group_names[int(rows[0])])
    if not name:
        column = table.instances if table.groups is None else table.groups
        name = str(int(rows[0] if column is None else column[rows[0]]))
        if table.paths is not None:
            name += f" ({', '.join(table.paths[rows[:2].numpy()].tolist())})"
    done = {
        "drop": "they are left out",
        "all": "each of their labels counts as a group, answered from its own samples",
        "majority": "each has the label of most of its samples, or is left out if several share that place",
    }[how]
    many = f"{len(concerned)} groups have" if len(concerned) > 1 else "1 group has"
    return (
        f"{many} samples whose labels contradict each other, such as '{name}' with "
        f"{' and '.join(repr(label) for label in labels[:3])}: {done} (conflicts={how})."
    )


def _measure(
    given: ClassProbabilities, inputs: Inputs, options: PerGroupOptions, resolved: _Resolved
) -> dict[str, ProtocolResult]:
    test, nodes = resolved.test, inputs.nodes
    units = inputs.units_of(test)
    parts = {"sample": _judged(given.values, given, given.predicted, nodes[test], inputs, test, units)}
    groups, drawn = inputs.table.groups, resolved.units
    if groups is not None:
        drawn = torch.from_numpy(number_groups(groups[resolved.first].numpy()))
    enough = len(torch.unique(drawn)) >= FEWEST_GROUPS
    of_groups = ResamplingUnits(inputs.resampling if enough else None, drawn.numpy())
    for aggregation in options.aggregations:
        combined = group_probabilities(given.values, resolved.groups, aggregation)
        predicted, rows = given.classes[combined.columns], resolved.first
        parts[aggregation] = _judged(
            combined.probabilities, given, predicted, resolved.target, inputs, rows, of_groups
        )
    return parts


def _judged(
    probabilities: Tensor,
    given: ClassProbabilities,
    predicted: Tensor,
    target: Tensor,
    inputs: Inputs,
    rows: Tensor,
    units: ResamplingUnits,
) -> ProtocolResult:
    """Scores of samples or groups; the outcome of a group is recorded at its first row."""
    judge, judged = inputs.judging.judge, inputs.judging.in_judge(target)
    columns = inputs.answers(predicted, rows=rows, target=target)
    result = inputs.summarise(columns, by_frequency=False, rows=rows, units=units)
    classes = inputs.judging.in_judge(given.classes)
    auroc = node_auroc(probabilities, judged, judge, classes=classes)
    ends = mean_auroc(probabilities, judged, judge, classes, units).interval(units.resampling)[:2]
    result.put(Place("scores", "auroc"), Number(float(torch.nanmean(auroc)), *ends))
    result.statistics.extend(ranking_statistic(("auroc",), rows, probabilities, judged, classes))
    if not result.statistics:
        result.notes.append(TOO_MANY_NOTE)
    return result
