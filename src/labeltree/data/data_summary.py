"""Summary of a source: samples, classes and groups of each split, and limits of what it can measure."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from labeltree.counted_nouns import say_count, say_list
from labeltree.data.copies import note_equal_texts
from labeltree.data.doubtful_labels import warn_of_copies, warn_of_strays
from labeltree.data.held_out_sizes import sizes_for_answers
from labeltree.data.source import Source
from labeltree.data.stratified import group_numbers
from labeltree.errors import DataError
from labeltree.lazy import torch
from labeltree.notebooks import html_sentences, html_table
from labeltree.split_names import CALIB, SPLITS, UNSEEN
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.label_sets import finest_labels
from labeltree.taxonomy.naming import some
from labeltree.taxonomy.placeholders import placeholder_sentences
from labeltree.taxonomy.versions.near_names import near_pairs, plain_key

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["UNUSED_ROWS", "DataSummary", "SplitSummary", "check_held_out_labels", "summarize"]

FEW = 100
"""Number of test samples below which the summary warns about uncertain results."""
FEW_GROUPS = 6
"""Number of test groups below which it does."""
UNUSED_ROWS = "unused-rows.csv"
"""The file of a run that lists the rows of its table which are not used."""
_MOST_NAMED = 5  # classes without samples
_LARGEST_SHARE = 0.4  # of the samples to hold out that is proposed
_MOST_COLUMNS = 8  # that are named one by one
_NAMED_BY = {"images": "image_column", "texts": "text_column", "labels": "label_columns"}


@dataclass(frozen=True)
class SplitSummary:
    """The samples of one split.

    Attributes:
        samples: Number of samples.
        groups: Number of groups, counting each sample without a group as one; None if there are no groups.
        classes: Number of distinct finest labels, those without samples at finer labels below them.
        by_depth: Number of distinct labels at each depth, coarse to fine; leaves count only at their own.
        single: Number of classes with one sample.
        unseen: Number of classes without a training sample.
        inner: Number of samples whose label is coarser than a class.
        missing: Number of samples without a label.
    """

    samples: int
    groups: int | None
    classes: int
    by_depth: tuple[int, ...]
    single: int
    unseen: int
    inner: int
    missing: int


@dataclass(frozen=True)
class DataSummary:
    """Summary of a source with splits.

    Attributes:
        name: Name of the source.
        modalities: `image`, `text` or both.
        classes: Number of nodes of the taxonomy at each depth, coarse to fine.
        columns: For a table: the columns that were read, by purpose.
        splits: Summary of each split by name, in the order train, val, test, calib, unseen.
        missing_labels: Number of samples that lost their label, or its finer part, by missing class.
        notes: Decisions made when the data were read, and alternatives.
        warnings: Warnings about what cannot be measured or learned, and about probable mistakes.
        closing: The warning that is repeated when training has ended, if there is one.
        searched: What validation samples are searched for among, if that is not the others of them.
    """

    name: str
    modalities: tuple[str, ...]
    classes: tuple[int, ...]
    columns: Mapping[str, tuple[str, ...]]
    splits: Mapping[str, SplitSummary]
    missing_labels: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    closing: str | None = None
    searched: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain values, as a run saves it."""
        return dataclasses.asdict(self)

    def _repr_html_(self) -> str:
        lines = str(self).splitlines()
        first = lines.index("")
        head, *rows = _cells(self.splits)
        last = first + 1 + len(self.splits) + 1  # the head of the table and its rows
        table = html_table(head, rows, numbers=range(1, len(head)))
        return str(html_sentences(lines[:first]) + table + html_sentences(lines[last:]))

    def __str__(self) -> str:
        total = sum(split.samples for split in self.splits.values())
        what = " and ".join(f"{kind}s" for kind in self.modalities)
        lines = [f"data: {self.name}, {total:,} samples ({what})"]
        if self.columns:
            shown = {
                kind: (" > " if kind == "labels" else ", ").join(names)
                if len(names) <= _MOST_COLUMNS
                else f"{names[0]} … {names[-1]} ({len(names):,} columns)"
                for kind, names in self.columns.items()
            }
            if "votes" in shown:  # they are the labels
                del shown["labels"]
            taken = (f"{kind} = {names}" for kind, names in shown.items())
            named = ", ".join(f"--table.{_NAMED_BY[kind]}" for kind in shown if kind in _NAMED_BY)
            lines.append(f"columns: {'; '.join(taken)}" + (f" (others: {named})" if named else ""))
        lines += [
            f"classes: {_numbers(self.classes)} at depth {_numbers(range(1, len(self.classes) + 1))}",
            "",
        ]
        lines += [*_table(self.splits), ""]
        cut = [f"'{name}' {count:,}" for name, count in self.missing_labels.items()]
        if cut:
            lines.append(f"missing labels: {', '.join(cut)} samples")
        lines += [f"note: {note}" for note in self.notes]
        lines += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(lines).rstrip()


def _numbers(numbers: Any) -> str:
    return ", ".join(f"{number:,}" for number in numbers)


def _cells(splits: Mapping[str, SplitSummary]) -> list[list[str]]:
    """The names of the columns, and a row for each split."""
    grouped = any(split.groups is not None for split in splits.values())
    depths = max((len(split.by_depth) for split in splits.values()), default=0)
    head = ["split", "samples", *(["groups"] if grouped else []), "classes", "not in train"]
    head += [*(f"depth {depth}" for depth in range(1, depths + 1)), "inner label", "no label"]
    rows = [head]
    for name, split in splits.items():
        figures = [split.samples, *([split.groups or 0] if grouped else []), split.classes, split.unseen]
        figures += [*split.by_depth, *[0] * (depths - len(split.by_depth)), split.inner, split.missing]
        rows.append([name, *(f"{figure:,}" for figure in figures)])
    return rows


def _table(splits: Mapping[str, SplitSummary]) -> list[str]:
    rows = _cells(splits)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def summarize(source: Source) -> DataSummary:
    """Summarize a source with splits, with warnings about what cannot be measured on it.

    Args:
        source: The samples with splits, see `make_splits`.

    Raises:
        DataError: If there are no splits.
    """
    tree = source.taxonomy
    present = [name for name in (*SPLITS, CALIB, UNSEEN) if len(source.of_split(name))]
    finest = finest_labels(source.nodes, tree)
    learned = _classes(source.of_split("train").nodes, finest)
    names = [*SPLITS, *(name for name in (CALIB, UNSEEN) if name in present)]
    splits = {name: _split(source.of_split(name), finest, learned) for name in names}
    depth = tree.depth[tree.depth > 0].bincount()[1:]
    return DataSummary(
        source.name,
        source.modalities,
        tuple(depth.tolist()),
        dict(source.columns),
        splits,
        dict(source.missing_labels),
        (*source.notes, *note_equal_texts(source), *_note_unused(source), *_without_samples(source)),
        (
            *_warnings(source, splits, finest, learned),
            *warn_of_copies(source),
            *warn_of_strays(source),
            *placeholder_sentences(tree, source.nodes),
        ),
    )


def _note_unused(source: Source) -> list[str]:
    """A note with the number of rows that are not used, by reason."""
    if source.unused is None or not len(source.unused):
        return []
    reasons = (reason.partition(":")[0] for _, _, reason in source.unused.lines())
    counts = Counter(reason.removeprefix("it has ") for reason in reasons)
    shown = ", ".join(f"{reason} ({count:,})" for reason, count in counts.most_common(3))
    more = f", and {len(counts) - 3:,} other reasons" if len(counts) > 3 else ""
    rows = len(set(source.unused.rows.tolist()))
    are = "row is" if rows == 1 else "rows are"
    return [f"{rows:,} {are} not used, or only in part ({UNUSED_ROWS}): {shown}{more}"]


def _without_samples(source: Source) -> list[str]:
    """A note that names leaves of which there is no sample at all."""
    leaves = source.taxonomy.leaves
    empty = leaves[~torch.isin(leaves, source.every_label)]
    if not len(empty):
        return []
    names = some((source.taxonomy.path_name(node) for node in empty.tolist()), _MOST_NAMED)
    return [f"{len(empty):,} of {len(leaves):,} leaves of the taxonomy have no sample: {names}"]


def _distinct(nodes: Tensor) -> Tensor:
    distinct: Tensor = torch.unique(nodes[nodes >= 0])
    return distinct


def check_held_out_labels(source: Source, summary: DataSummary) -> None:
    """Raise a `DataError` if no sample held out by shares has a class, though some training samples have one.

    So it is with a column of labels that is all but empty: nothing could choose the best epoch, and nothing
    would be measured.
    """
    held = {name: summary.splits[name] for name in ("val", "test") if summary.splits[name].samples}
    train = summary.splits["train"]
    if source.own_splits or not held or not train.classes or any(part.classes for part in held.values()):
        return
    with_class = train.samples - train.inner - train.missing
    every = sum(part.samples for part in summary.splits.values())
    columns = source.columns.get("labels", ())
    last = f" (column '{columns[-1]}')" if columns else ""
    counts = say_list(
        [f"{part.samples:,} {'validation' if name == 'val' else name}" for name, part in held.items()]
    )
    named = ", ".join(f'"{column}"' for column in columns[:-1]) or '"COLUMN"'
    others = f"name label columns that are filled (--table.label_columns '[{named}]'), " if columns else ""
    raise DataError(
        f"only {with_class:,} of {every:,} samples have a label of a class{last}, and none of the {counts} "
        f"samples: nothing could be measured. {others[:1].upper() + others[1:]}"
        f"{'label' if others else 'Label'} more samples, or train without held-out samples (--val 0 --test 0)"
    )


def _classes(nodes: Tensor, finest: Tensor) -> Tensor:
    """The distinct classes among the labels, ascending."""
    return _distinct(nodes[(nodes > 0) & finest[nodes.clamp_min(0)]])


def _split(part: Source, finest: Tensor, learned: Tensor) -> SplitSummary:
    nodes, tree, groups = part.nodes, part.taxonomy, part.groups
    is_class = (nodes > 0) & finest[nodes.clamp_min(0)]
    classes, counts = torch.unique(nodes[is_class], return_counts=True)
    above = tree.ancestors[_distinct(nodes), 1:]
    return SplitSummary(
        samples=len(part),
        groups=None if groups is None else len(_distinct(groups)) + int((groups < 0).sum()),
        classes=len(classes),
        by_depth=tuple(len(_distinct(column)) for column in above.T),
        single=int((counts == 1).sum()),
        unseen=int((~torch.isin(classes, learned)).sum()),
        inner=int(((nodes >= 0) & ~is_class).sum()),
        missing=int((nodes < 0).sum()),
    )


def _warnings(
    source: Source, splits: Mapping[str, SplitSummary], finest: Tensor, learned: Tensor
) -> list[str]:
    train, val, test = (splits[name] for name in SPLITS)
    warnings = []
    if train.classes == 1:
        name = source.taxonomy.path_name(int(learned[0]))
        warnings.append(f"training has a single class, '{name}': there is nothing to tell apart")
    if not train.classes:
        warnings.append("no training sample has a label of a class")
    if not val.samples:
        warnings.append("there is no validation split: nothing can choose the best epoch")
    if not test.samples:
        warnings.append("there is no test split: nothing can be measured on samples that were not trained on")
    warnings += _warn_of_unseen(source, "test", test, finest, learned)
    warnings += _warn_of_unseen(source, "val", val, finest, learned)
    if 2 * test.single > test.classes:
        what = f"{test.single:,} of {test.classes:,} classes of the test split have a single sample"
        if test.single == test.classes:
            what = "no class of the test split has two samples"
        warnings.append(f"{what}: a search among the test samples alone finds none of their class")
    warnings += _note_agreed(source)
    if 0 < test.samples < FEW:
        margin, of, alike = 98 / math.sqrt(test.samples), "", ""
        if test.groups is not None and test.groups < test.samples:
            of = f" of {say_count(test.groups, 'group')}"
            alike = f", and up to ± {98 / math.sqrt(test.groups):.0f} where samples of one group fare alike"
        warnings.append(
            f"only {say_count(test.samples, 'test sample')}{of}: expect ± {margin:.0f} percentage points "
            f"(95 %) on shares such as top-1{alike}"
        )
    if test.groups is not None and 0 < test.groups < FEW_GROUPS:
        warnings.append(
            f"only {say_count(test.groups, 'test group')}: the numbers say little about others; "
            "--folds 5 tests every group once"
        )
    return [*warnings, *_warn_of_answers(splits, source.own_splits)]


def _warn_of_answers(splits: Mapping[str, SplitSummary], own: Collection[str]) -> list[str]:
    """Warn if too few samples are held out for what answers promise, with the share that would do."""
    name = CALIB if CALIB in splits else "val"
    held, train = splits[name], splits["train"]
    count, rest = (
        part.samples - part.missing if part.groups is None else part.groups for part in (held, train)
    )
    missing = {what: size for what, size in sizes_for_answers().items() if count < size}
    if not count or not missing:
        return []
    most = max(missing.values())
    needs = [f"{what} ({size})" for what, size in missing.items()]
    listed = say_list(needs)
    share = math.ceil(100 * most / (count + rest)) / 100
    remedy = f"about --{name} {share:g} holds out enough" if share <= _LARGEST_SHARE else "label more samples"
    remedy = f"mark more samples as '{name}' in the data" if name in own else remedy
    of = "validation" if name == "val" else name
    unit = "sample" if held.groups is None else "group"
    return [
        f"only {say_count(count, f'{of} {unit}')}: too few for {listed}; {remedy}, or "
        "'labeltree calibrate RUN --data DATA' on other labelled samples"
    ]


def _warn_of_unseen(
    source: Source, name: str, split: SplitSummary, finest: Tensor, learned: Tensor
) -> list[str]:
    """Warn about held-out classes without training samples: the reason, and the depths with none of them."""
    tree = source.taxonomy
    nodes = source.of_split(name).nodes
    nodes = nodes[nodes > 0]
    hidden = source.nodes[torch.from_numpy(np.asarray(source.split) == UNSEEN)]  # hidden on purpose
    unseen = nodes[finest[nodes] & ~torch.isin(nodes, torch.cat([learned, hidden]))]
    classes = _distinct(unseen)
    if not len(classes):
        return []
    trained = _distinct(tree.ancestors[_distinct(source.of_split("train").nodes)])
    at_depths = [tree.ancestors[nodes, depth] for depth in range(tree.max_depth + 1)]
    nothing = {0, *_agreed_depths(source)}
    depths = [
        d
        for d, at in enumerate(at_depths)
        if d not in nothing and bool(torch.isin(at[at >= 0], trained).all())
    ]
    count = f"{len(classes):,} of {split.classes:,} classes of the {name} split"
    if len(classes) == split.classes:
        count = f"all {split.classes:,} classes of the {name} split" if split.classes > 1 else count
    what = f"{count} ({len(unseen):,} samples) have no training sample{_why(source, classes)}: "
    what += _name_classes(tree, classes, learned)
    if name == "val":
        return [f"{what}. The best epoch is chosen by a search among classes that training has not seen"]
    rest = f"accuracy at depth {_numbers(depths)} and retrieval" if depths else "retrieval"
    if len(classes) == split.classes:
        return [
            f"{what}. Top-1, accuracy at the finest depth and the model's own answers there cannot be "
            f"measured; {rest} can"
        ]
    return [
        f"{what}. No classifier can name them, and they count as errors of top-1 and of the model's own "
        f"answers; {rest} can be measured"
    ]


def _name_classes(tree: Taxonomy, classes: Tensor, learned: Tensor) -> str:
    """The first classes without training samples, those first that have one namesake in training, with it."""
    nodes = torch.cat([classes, learned]).tolist()
    names = [tree.names[node] for node in nodes]
    alike: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        alike.setdefault(plain_key(name), []).append(place)
    pairs = [group for group in alike.values() if len(group) == 2]
    pairs += [
        [one, other] for one, other in near_pairs(names) if plain_key(names[one]) != plain_key(names[other])
    ]
    counts = Counter(place for pair in pairs for place in pair)
    namesake = {
        nodes[one]: nodes[other]
        for one, other in pairs
        if one < len(classes) <= other and counts[one] == counts[other] == 1
    }
    shown = []
    for node in sorted(classes.tolist(), key=lambda node: node not in namesake)[:_MOST_NAMED]:
        name = f"'{tree.path_name(node)}'"
        if node in namesake:
            other = tree.path_name(namesake[node])
            name += f" (training has '{other}'; if it is the same class, move one of them)"
        shown.append(name)
    more = f" and {len(classes) - len(shown):,} more" if len(classes) > len(shown) else ""
    return f"{', '.join(shown)}{more}"


def _why(source: Source, classes: Tensor) -> str:
    """A remark in brackets, if each of the classes consists of one group or one sample."""
    mine = torch.isin(source.nodes, classes)
    nodes, groups = source.nodes[mine], torch.from_numpy(group_numbers(source.groups, len(source)))[mine]
    if len(torch.unique(torch.stack([nodes, groups]), dim=1).T) != len(classes):
        return ""
    single = "sample" if len(nodes) == len(classes) else "group, and groups are kept whole"
    return f" (each is one {single})"


def _note_agreed(source: Source) -> list[str]:
    """Depths at which all labels agree, where they differ at others."""
    agreed = _agreed_depths(source)
    if not agreed or len(_distinct(source.nodes[source.nodes > 0])) == 1:
        return []
    names = [source.taxonomy.path_name(node) for node in agreed.values()]
    return [
        f"all labels agree at depth {_numbers([*agreed])} ({some(names)}): there is nothing to measure there"
    ]


def _agreed_depths(source: Source) -> dict[int, int]:
    """The depths at which all labels agree, with the node that they all are of."""
    tree = source.taxonomy
    used = _distinct(source.nodes[source.nodes > 0])
    at_depths = [_distinct(tree.ancestors[used, depth]) for depth in range(tree.max_depth + 1)]
    return {depth: int(at[0]) for depth, at in enumerate(at_depths) if depth and len(at) == 1}
