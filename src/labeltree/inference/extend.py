"""`labeltree extend`: new classes for a trained run without training, and classes that are retired."""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeltree.atomic import new_folder_in
from labeltree.counted_nouns import say_count
from labeltree.data import Source
from labeltree.data.copies import join_copies
from labeltree.data.stratified import make_folds
from labeltree.decisions.choose_classifier import CLASSIFIER_WORDS, ChosenClassifier, ClassifierKind
from labeltree.decisions.classifiers import Classifiers, classify
from labeltree.decisions.extending import extend_classifiers
from labeltree.errors import DataError, RunError, TaxonomyError, typed
from labeltree.inference.by_name.named_classes import (
    check_reads_names,
    named_accuracy,
    prototypes_of_names,
    read_names,
    with_names,
    worth_text,
)
from labeltree.inference.calibrate_run import fit_decider, open_decider
from labeltree.inference.decider import Decider
from labeltree.inference.extended_head import extended_head, scores_of_head
from labeltree.inference.load_run import TrainedRun
from labeltree.inference.named_samples import (
    open_other,
    seen_in_calibrations,
    seen_in_extensions,
    seen_in_training,
)
from labeltree.inference.place_classes import (
    Placed,
    extended_taxonomy,
    nearest_parent,
    path_in_tree,
    warn_below_root,
    warn_ids,
)
from labeltree.inference.reference import (
    Digests,
    keep_reference,
    load_calibration,
    load_reference,
    save_reference,
)
from labeltree.inference.run_classifiers import run_classifiers, write_classifiers
from labeltree.inference.run_embeddings import OwnSamples, embed_source
from labeltree.inference.training_samples import joined, save_learned
from labeltree.options.model_options import ExtendOptions
from labeltree.options.schema import takes
from labeltree.ridge.ridge_file import save_ridge
from labeltree.ridge.tree_ridge import TreeRidge
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.safe_files import Reader, read_json
from labeltree.split_names import CALIB
from labeltree.taxonomy import Taxonomy, TaxonomyMapping
from labeltree.taxonomy.label_sets import finest_labels
from labeltree.taxonomy.naming import join_path, some
from labeltree.taxonomy.versions.between_versions import VersionChange

__all__ = [
    "HELD_FROM",
    "Extension",
    "extend_run",
    "extension_text",
    "extensions_of",
    "undo_extension",
]

HELD_FROM = 10
"""A new class with as many samples (or groups of samples) has a third of them held out of learning."""

_FORMAT, _VERSION = "labeltree extension", 1


@dataclass(frozen=True)
class Extension:
    """What an extension of a run added and took away.

    Attributes:
        folder: The model that answers with it.
        number: 1 for the first extension of the run.
        record: What was done and found, as plain values; the content of `extension.json`.
    """

    folder: RunFolder
    number: int
    record: dict[str, Any]

    @property
    def added(self) -> list[dict[str, Any]]:
        """The classes that were added or learned anew: `class`, `new`, `samples`, `held`, `why`."""
        return list(self.record["added"])

    @property
    def retired(self) -> list[str]:
        """The classes that no longer answer."""
        return list(self.record["retired"])


def extensions_of(path: str | Path) -> list[Extension]:
    """The extensions of a run, the oldest first; the last one answers.

    Raises:
        RunError: If there is no run, or what an extension says of itself is damaged.
    """
    home = RunFolder(path).require().home
    return [_read(folder) for folder in home.extensions]


def undo_extension(path: str | Path) -> Extension:
    """Remove the newest extension of a run; it answers again as before it, bit for bit.

    Raises:
        RunError: If the run has no extension.
        FolderInUseError: If another process is writing to the run.
    """
    home = RunFolder(path).require().home
    with home.locked():
        known = home.extensions
        if not known:
            raise RunError(f"run '{home.path}' has no extension to undo")
        last = known[-1]
        try:
            removed = _read(last)
        except RunError:  # damaged, and to be removed
            empty = {"added": [], "retired": [], "notes": ["Its description was damaged."]}
            removed = Extension(last, int(last.path.name), empty)
        with new_folder_in(last.path.parent) as away:
            last.path.rename(away / "undone")
    return removed


@takes(ExtendOptions)
def extend_run(options: ExtendOptions) -> Extension:
    """Let a run answer with classes that it was not trained on, or no longer with some.

    The encoder stays as it is. Each new class has the mean of its samples, in the embeddings and in the
    features, and the linear probe and the discriminants are learned again on the features of old and new
    samples. The best of these on held-out samples answers: by the mean of its accuracies on known and on new
    classes, where new samples were held out; see `labeltree.decisions.extending`. Probabilities and
    thresholds are fitted again on the held-out samples of known classes and, of a new class with at least
    `HELD_FROM` samples (or groups), on a third of its own.

    The extension of a run with objective `tree-ridge` keeps the sums of all samples, so that its own
    classifier is that of all, and one more to choose from. A class can be added by its name: its prototype is
    that of the name, shifted as means of known classes are from their names, and of the samples that it has,
    now or in later extensions, see `labeltree.decisions.prototypes_from_names.weigh_names`. The space of
    embeddings stays that of the run.

    The run's own files stay as they are: the extension is a folder beside them. An exported model with its
    reference samples can be extended, too.

    Raises:
        RunError: If the run is not finished, or keeps no reference samples.
        DataError: If the data have no labelled samples, or none would be left to answer with.
        TaxonomyError: If a node is not in the taxonomy, or a label fits in several places.
        ValueError: If there is nothing to do, or options exclude each other.
        FolderInUseError: If another process is writing to the run.
    """
    data, retire, progress = options.data, options.retire, options.progress
    if data is None and not retire and not options.names:
        raise options.refusal(
            "nothing to do: name samples of new classes by `data`, new classes by `names`, or classes to "
            "`retire`"
        )
    home = RunFolder(options.run).require().home
    with home.locked():
        before = open_decider(home.path)
        run = before.run
        by_name = _named(before, home, options)
        known = _reference(before, home)
        source, seen, said = (
            (None, torch.zeros(0, dtype=torch.bool), list[str]()) if data is None else _open(before, options)
        )
        new = None if source is None else embed_source(run.network, source, keep=False, progress=progress)
        gone = _retired(run.taxonomy, before, retire)
        placed = [] if source is None else _placed(source, new, before, options)
        said = [*said, *warn_below_root(placed, run.taxonomy)]
        said += warn_ids([*(each.path for each in placed), *by_name], run.taxonomy)
        taxonomy, places = extended_taxonomy(run.taxonomy, [*(each.path for each in placed), *by_name])
        then = _on(run, taxonomy, places)
        stored = run_classifiers(run)
        classes = torch.unique(places[stored.prototypes.classes])
        classes = classes[~torch.isin(classes, places[gone])]
        known = replace(known, nodes=places[known.nodes], predictions=None)
        known = known.rows(~torch.isin(known.nodes, places[gone]))
        table, learned = known, classes[:0]
        notes: list[str] = []
        added: list[dict[str, Any]] = []
        if source is not None and new is not None:
            new = replace(new, nodes=_moved(source, placed, taxonomy), predictions=None)
            seen = seen[new.nodes > 0]
            new, learned, notes = _to_learn(new, classes, taxonomy, places)
            set_aside = bool((np.asarray(known.split) == CALIB).any())
            new = _held_out(new, seen, learned, taxonomy, options.seed, set_aside=set_aside)
            added = _described(new, learned, classes, taxonomy, placed)
            classes = torch.unique(torch.cat([classes, learned]))
            table = joined(known, new)
        asked = set(by_name) - set(_earlier_names(home))
        nodes_of = {path: taxonomy.find(path) for path in by_name}
        named = {
            node: by_name[path]
            for path, node in nodes_of.items()
            if path in asked or bool((classes == node).any())
        }
        taught = learned
        if named:
            learned = torch.unique(torch.cat([learned, torch.tensor(sorted(named))]))
            classes = torch.unique(torch.cat([classes, learned]))
        if not len(classes):
            raise DataError("no class would be left to answer with; retire fewer")
        train = torch.from_numpy(np.asarray(table.split) == "train")
        head, why = extended_head(run, taxonomy, places, new, taught, seen)
        notes = [*notes, *why]
        names = None
        if named:
            samples = table.rows(train & torch.isin(table.nodes, classes))
            names, others = prototypes_of_names(run, taxonomy, named, samples)
            notes.append(worth_text(names, named_accuracy(others, samples, table.rows(~train))))
            added = with_names(added, taxonomy, [nodes_of[path] for path in asked], named)
        new_ones = extend_classifiers(
            stored,
            table,
            taxonomy,
            learned=train.nonzero()[:, 0],
            held=torch.from_numpy(np.asarray(table.split) == "val").nonzero()[:, 0],
            classes=classes,
            added=learned,
            places=places,
            asked=options.classifier,
            own=None if head is None else scores_of_head(head, classes),
            named=names,
        )
        decider = fit_decider(then, new_ones, table.rows(~train))
        new_nodes = learned[~torch.isin(learned, places[stored.prototypes.classes])]
        later = torch.cat([places[before.later_classes], new_nodes])
        decider.record["later_classes"] = torch.unique(later[torch.isin(later, classes)]).tolist()
        now, earlier = decider.chosen.name, before.chosen.name
        if now != earlier:
            notes.append(_say_change(decider.chosen, earlier))
        record = {
            "format": _FORMAT,
            "version": _VERSION,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "data": None if data is None else str(data),
            "added": added,
            "retired": [
                run.taxonomy.path_name(node)
                for node in stored.prototypes.classes[torch.isin(stored.prototypes.classes, gone)].tolist()
            ],
            "accuracies": _accuracies(before, decider, table, places, learned),
            "notes": [*said, *notes],
        }
        if names is not None:
            record["names"] = [
                {"class": list(taxonomy.path(node)), "synonyms": list(more)} for node, more in named.items()
            ]
            record["name_weight"] = names.evidence.weight
        digests = None if source is None else source.copy_digests()[(source.nodes > 0).numpy()]
        return _write(home, decider, new_ones, table, new, record, head, digests)


def _say_change(chosen: ChosenClassifier, earlier: ClassifierKind) -> str:
    """What answers now and what did before, and why, in one line."""
    said = f"Answers come from {CLASSIFIER_WORDS[chosen.name]} now; before, from {CLASSIFIER_WORDS[earlier]}"
    if earlier not in chosen.offered:
        cannot = "cannot have other classes" if earlier == "own" else "needs held-out samples of new classes"
        said += f", which {cannot}"
    scores = [
        f"{name} {chosen.accuracies[name]:.1%}" for name in CLASSIFIER_WORDS if name in chosen.accuracies
    ]
    if scores and not chosen.few_samples:
        mean = " by the mean of known and new classes" if chosen.new_class_samples else ""
        said += f". Right{mean}: {', '.join(scores)}"
    elif chosen.few_samples:
        said += ". New classes have few samples, none held out, and a probe seldom names what has so few"
    others = [name for name in chosen.offered if name != chosen.name]
    return said + (f"; --classifier {'|'.join(others)} takes another." if others else ".")


def _earlier_names(home: RunFolder) -> dict[tuple[str, ...], tuple[str, ...]]:
    """The classes that extensions have added by their names, with further names."""
    newest = _read(home.extensions[-1]).record.get("names", []) if home.extensions else []
    return {tuple(each["class"]): tuple(each["synonyms"]) for each in newest}


def _named(
    before: Decider, home: RunFolder, options: ExtendOptions
) -> dict[tuple[str, ...], tuple[str, ...]]:
    """The paths of the classes that have names to be weighed, with further names."""
    run, known = before.run, _earlier_names(home)
    if not options.names:
        return known
    check_reads_names(run)
    named = dict(known)
    for label, synonyms in read_names(options.names).items():
        path = path_in_tree(label, run.taxonomy, options.under, options.retire).path
        node = run.taxonomy.follow(path)
        below = [] if node is None else [node, *torch.as_tensor(run.taxonomy.descendants(node)).tolist()]
        if path in known or bool(torch.isin(before.rule.classes.nodes, torch.tensor(below)).any()):
            raise DataError(f"'{join_path(path)}' answers already, or has classes below it; name a new class")
        named[path] = synonyms
    return named


def _reference(before: Decider, home: RunFolder) -> EmbeddingTable:
    """The samples that a run compares with: of training, and those held out that promises rest on."""
    run = before.run
    known = load_reference(run)
    if known is None and run.folder.path == home.path:
        known = keep_reference(run, OwnSamples(home.path)())
    if known is None:
        raise RunError(
            f"'{run.folder.path}' keeps no reference samples, beside which new classes could be learned; "
            f"'labeltree calibrate {typed(home.path)}' makes them where its data are, and an exported model "
            "keeps them with --with-reference"
        )
    theirs = load_calibration(run)
    if theirs is not None and before.record.get("calibrated_on") != "validation samples":
        train = torch.from_numpy(np.asarray(known.split) == "train")
        known = joined(known.rows(train), theirs)
    return known


_TRAINED = "that the run was trained on"
_EXTENDED = "of earlier extensions"
_CALIBRATED = "that the run was calibrated on"
_COPIES = "Equal samples, and images of one row, are one group: all of it is learned from, or held out."


def _open(before: Decider, options: ExtendOptions) -> tuple[Source, Tensor, list[str]]:
    """The samples to learn from, which of them the run has seen `(n,)`, and what has to be said of them.

    Samples that the run was trained on, or later extended or calibrated with, stay if their class is new to
    it: after a split, the parts are learned from them. Others of them say nothing new.
    """
    run, data = before.run, str(options.data)
    source = open_other(
        run, data, data_path=options.data_path, own_labels=True, as_trained=True, table=options.table
    )
    trained, extended, calibrated = (
        torch.from_numpy(find(run, source))
        for find in (seen_in_training, seen_in_extensions, seen_in_calibrations)
    )
    seen = trained | extended | calibrated
    keeps = ~seen | _has_new_class(before, source, options, trained, seen)
    kinds = {
        _TRAINED: trained,
        _EXTENDED: extended & ~trained,
        _CALIBRATED: calibrated & ~extended & ~trained,
    }
    labelled = source.nodes > 0
    left = {of: count for of, those in kinds.items() if (count := int((those & ~keeps & labelled).sum()))}
    undo = (
        "If their labels were corrected, undo those extensions first ('labeltree extend "
        f"{typed(options.run)} --undo'), and extend the run again."
    )
    if bool(labelled.any()) and not bool((keeps & labelled).any()):
        known = " and ".join(say_count(count, f"sample {of}", f"samples {of}") for of, count in left.items())
        said = f"no labelled sample of '{data}' is new to the run: {known}; name samples that are new to it"
        if list(left) == [_TRAINED]:
            said = f"the run was trained on all labelled samples of '{data}'; name samples that are new to it"
        raise DataError(f"{said}. {undo}" if _EXTENDED in left else said)
    notes = []
    for of, count in left.items():
        notes.append(say_count(count, f"sample {of} was left out.", f"samples {of} were left out."))
        notes += [undo] if of == _EXTENDED else []
    for of, those in kinds.items():
        if count := int((those & keeps).sum()):
            notes.append(
                say_count(
                    count,
                    f"sample {of} has a new class here: it was learned from, and is not held out.",
                    f"samples {of} have a new class here: they were learned from, and none of them is held "
                    "out.",
                )
            )
    source, copied = join_copies(source.subset(keeps.nonzero()[:, 0]))
    seen = seen[keeps]
    notes += [f"{note[0].upper()}{note[1:]}." for note in copied]
    if source.groups is not None and not source.columns.get("groups"):
        notes.append(_COPIES)
    if source.label_sets is not None:
        several = (source.label_sets >= 0).sum(1) > 1
        source = replace(source, nodes=source.nodes.masked_fill(several, -1), label_sets=None)
    if not bool((source.nodes > 0).any()):
        raise DataError(f"no sample of '{data}' has one label; new classes are learned from labelled samples")
    return source, seen, notes


def _has_new_class(
    before: Decider, source: Source, options: ExtendOptions, trained: Tensor, seen: Tensor
) -> Tensor:
    """Which samples `(n,)` bool that the run has seen have a class that is new to it.

    The run was trained with every class of its taxonomy; of other samples, a class that answers no more is
    new again.
    """
    taxonomy = before.run.taxonomy
    mapping = _mapping(before.run, options)
    new = torch.zeros(source.taxonomy.num_nodes, dtype=torch.bool)
    silent = torch.zeros_like(new)
    for label in torch.unique(source.nodes[seen & (source.nodes > 0)]).tolist():
        path = _read_label(source.taxonomy.path(label), mapping)
        place = path_in_tree(path, taxonomy, options.under, options.retire)
        node = taxonomy.follow(place.path)
        new[label] = node is None
        below = [] if node is None else [node, *torch.as_tensor(taxonomy.descendants(node)).tolist()]
        silent[label] = not bool(torch.isin(before.rule.classes.nodes, torch.tensor(below)).any())
    labels = source.nodes.clamp(min=0)
    return (source.nodes > 0) & seen & torch.where(trained, new[labels], silent[labels])


def _retired(taxonomy: Taxonomy, before: Decider, retire: Sequence[str]) -> Tensor:
    """The nodes that answer no more."""
    nodes = torch.zeros(taxonomy.num_nodes, dtype=torch.bool)
    for label in retire:
        node = taxonomy.find(label)
        below = torch.zeros_like(nodes)
        below[taxonomy.descendants(node)] = True
        if not bool(below[before.rule.classes.nodes].any()):
            raise DataError(f"no class at or below '{label}' answers, so there is none to retire")
        nodes |= below
    return nodes.nonzero()[:, 0]


def _placed(
    source: Source, table: EmbeddingTable | None, before: Decider, options: ExtendOptions
) -> list[Placed]:
    """The place of every label of the samples, in the order of the nodes that occur."""
    assert table is not None
    taxonomy, by_label = before.run.taxonomy, options.place == "path"
    mapping = _mapping(before.run, options)
    placed = []
    for node in torch.unique(source.nodes[source.nodes > 0]).tolist():
        label = _read_label(source.taxonomy.path(node), mapping)
        by_path = path_in_tree(label, taxonomy, options.under, options.retire if by_label else ())
        if by_label or taxonomy.follow(by_path.path) is not None:
            placed.append(by_path)
            continue
        rows = table.rows(source.nodes == node)
        probabilities = before.rule.probabilities(before.scores(rows))
        placed.append(nearest_parent(probabilities, before.rule.classes.nodes, taxonomy, by_path.path))
    return placed


def _mapping(run: TrainedRun, options: ExtendOptions) -> TaxonomyMapping | None:
    """What became of the taxonomy of the labels in the run's; None if they are of the run's."""
    if options.mapping is None:
        return None
    return VersionChange.from_file(options.mapping, None, run.taxonomy).mapping


def _read_label(label: tuple[str, ...], mapping: TaxonomyMapping | None) -> tuple[str, ...]:
    """The path of a label of the older version in the run's; that of a split class is the node above."""
    if mapping is None or mapping.new.follow(label) is not None:
        return label
    node = mapping.old.follow(label)
    if node is None:
        named = mapping.old.candidates(label[0] if len(label) == 1 else join_path(label))
        if len(named) != 1:
            return label
        (node,) = named
    place = int(mapping.nodes[node])
    if place == 0:
        raise TaxonomyError(
            f"'{join_path(label)}' is removed or split, and nothing but the root is left above: relabel its "
            "samples ('labeltree taxonomy apply --data TABLE' marks them), or leave them out"
        )
    return mapping.new.path(place)


def _moved(source: Source, placed: Sequence[Placed], taxonomy: Taxonomy) -> Tensor:
    """The labels of the samples as nodes of the extended taxonomy, −1 where missing."""
    labels = torch.unique(source.nodes[source.nodes > 0])
    node_of = torch.full((source.taxonomy.num_nodes,), -1)
    for label, each in zip(labels.tolist(), placed, strict=True):
        node = taxonomy.follow(each.path)
        assert node is not None
        node_of[label] = node
    return torch.where(source.nodes > 0, node_of[source.nodes.clamp(min=0)], -1)


def _on(run: TrainedRun, taxonomy: Taxonomy, places: Tensor) -> TrainedRun:
    """The run with the extended taxonomy; modules and weights are the same."""
    mapped = run.network.from_training
    nodes = torch.where(mapped >= 0, places[mapped.clamp(min=0)], -1)
    network = copy.copy(run.network)
    network.taxonomy, network.from_training = taxonomy, nodes
    return replace(
        run,
        network=network,
        description=replace(run.description, from_training=tuple(nodes.tolist())),
        training_taxonomy=run.training_taxonomy or run.taxonomy,
        base=None,
        change=None,
    )


def _to_learn(
    table: EmbeddingTable, classes: Tensor, taxonomy: Taxonomy, places: Tensor
) -> tuple[EmbeddingTable, Tensor, list[str]]:
    """The labelled samples, the classes to learn from them, and what has to be said.

    A label is a class if it answers already, or if it is new, or has never answered and has no node below it;
    a label above these is too coarse to learn from.
    """
    labelled = table.rows(table.nodes > 0)
    there = torch.unique(labelled.nodes)
    old = torch.zeros(taxonomy.num_nodes, dtype=torch.bool)
    old[places] = True
    finest = finest_labels(labelled.nodes, taxonomy)
    fit = torch.isin(there, classes) | (finest[there] & (~old[there] | taxonomy.is_leaf[there]))
    notes = []
    if len(labelled) < len(table):
        have = say_count(len(table) - len(labelled), "sample has", "samples have")
        were = "was" if len(table) - len(labelled) == 1 else "were"
        notes.append(f"{have} no label, or several, and {were} left out.")
    coarse = labelled.nodes[~torch.isin(labelled.nodes, there[fit])]
    if len(coarse):
        names = some([taxonomy.path_name(node) for node in torch.unique(coarse).tolist()])
        are = say_count(len(coarse), "sample is", "samples are")
        notes.append(f"{are} labelled {names}, above any class: not learned from.")
    if not bool(fit.any()):
        raise DataError("all labels of the data lie above the classes of the run; give finer ones")
    return labelled, there[fit], notes


def _held_out(
    table: EmbeddingTable, seen: Tensor, learned: Tensor, taxonomy: Taxonomy, seed: int, *, set_aside: bool
) -> EmbeddingTable:
    """The samples with a split: of each class with enough samples or groups, a third is held out.

    Samples that the run has seen, and those of their groups, are never held out: they flatter.
    If the run has set samples aside for promises alone, a quarter is, and another quarter chooses.
    """
    units = torch.arange(len(table))
    if table.groups is not None:
        units = torch.where(table.groups >= 0, table.groups, int(table.groups.max()) + 1 + units)
    folds = torch.full((len(table),), -1)
    if len(table) >= HELD_FROM:
        parts = 4 if set_aside else 3
        folds = make_folds(table.nodes, taxonomy, parts, groups=table.groups, seed=seed)
    unseen = ~torch.isin(units, units[seen])
    held = ((folds == 0) | (set_aside & (folds == 1))) & unseen
    for node in learned.tolist():
        rows = table.nodes == node
        if len(torch.unique(units[rows & unseen])) < HELD_FROM or bool(held[rows].all()):
            held &= ~torch.isin(units, units[rows])
    names = np.where((folds == 1).numpy(), CALIB, "val")
    return replace(table, split=np.where(held.numpy(), names, "train"))


def _described(
    table: EmbeddingTable,
    learned: Tensor,
    classes: Tensor,
    taxonomy: Taxonomy,
    placed: Sequence[Placed],
) -> list[dict[str, Any]]:
    """What was learned of each class."""
    reasons: dict[int | None, list[str]] = {}
    for each in placed:
        why = reasons.setdefault(taxonomy.follow(each.path), [])
        why += [each.reason] if each.reason and each.reason not in why else []
    train = torch.from_numpy(np.asarray(table.split) == "train")
    described = []
    for node in learned.tolist():
        rows = table.nodes == node
        groups = None
        if table.groups is not None:  # a sample without a group is one of its own
            inside = table.groups[rows & train]
            groups = len(torch.unique(inside[inside >= 0])) + int((inside < 0).sum())
        described.append(
            {
                "class": taxonomy.path_name(node),
                "new": not bool((classes == node).any()),
                "samples": int((rows & train).sum()),
                "groups": groups,
                "held": int((rows & ~train).sum()),
                "why": "; ".join(reasons.get(node, ())),
            }
        )
    return described


def _accuracies(
    before: Decider, after: Decider, table: EmbeddingTable, places: Tensor, learned: Tensor
) -> dict[str, Any]:
    """The share of held-out samples classified right: of known classes before and now, and of new ones."""
    held = table.rows(torch.from_numpy(np.asarray(table.split) != "train"))
    earlier = places[before.scores.classes]
    new = learned[~torch.isin(learned, earlier)]
    was = torch.isin(held.nodes, earlier) & torch.isin(held.nodes, after.scores.classes)
    known, added = held.rows(was), held.rows(torch.isin(held.nodes, new))
    return {
        "known": len(known),
        "before": _right(places[classify(before.scores, known)], known.nodes),
        "after": _right(classify(after.scores, known), known.nodes),
        "new": len(added),
        "of_new": _right(classify(after.scores, added), added.nodes),
    }


def _right(answers: Tensor, labels: Tensor) -> float | None:
    return float((answers == labels).double().mean()) if len(labels) else None


def _write(
    home: RunFolder,
    decider: Decider,
    new_ones: Classifiers,
    table: EmbeddingTable,
    new_samples: EmbeddingTable | None,
    record: dict[str, Any],
    head: TreeRidge | None,
    digests: Digests | None,
) -> Extension:
    """Write the model of an extension; its folder appears as a whole."""
    target = home.new_extension
    base = decider.run.folder
    with new_folder_in(target.parent) as fresh:
        new = RunFolder(fresh)
        run = replace(decider.run, folder=new)
        _link(home.encoder, new.encoder)
        if base.word_vectors.is_file():
            _link(base.word_vectors, new.word_vectors)
        if base.encoder_config.is_dir():
            shutil.copytree(base.encoder_config, new.encoder_config)
        run.description.save(new.description)
        run.taxonomy.save(new.taxonomy)
        assert run.training_taxonomy is not None
        run.training_taxonomy.save(new.training_taxonomy)
        write_classifiers(run, new_ones)
        save_reference(run, table, new.reference, digests)
        if new_samples is not None:
            save_learned(run, new_samples, str(record["data"]), new)
        if head is not None:
            save_ridge(head, new.ridge)
        new.write_json(new.decisions, decider.record)
        new.write_json(new.extension, record)
        fresh.rename(target)
    return _read(RunFolder(target))


def _link(file: Path, target: Path) -> None:
    """The same file under another name, or a copy where the file system has no links."""
    try:
        os.link(file, target)
    except OSError:
        shutil.copyfile(file, target)


def _read(folder: RunFolder) -> Extension:
    home = folder.path.parent.parent
    reader = Reader("the extension of a run", f"'labeltree extend {typed(home)} --undo' removes it", RunError)
    record = read_json(folder.extension, reader)
    with reader.reading(folder.extension, "an entry is missing or damaged"):
        if record["format"] != _FORMAT:
            raise ValueError("another format")
        if int(record["version"]) > _VERSION:
            raise RunError(f"'{folder.extension}' was written by a later version of labeltree; update it")
        for name in ("added", "retired", "notes"):
            if not isinstance(record[name], list):
                raise ValueError(name)
    return Extension(folder, int(folder.path.name), record)


def extension_text(extension: Extension) -> str:
    """What an extension added, took away and changed, as lines of text."""
    record = extension.record
    lines = [f"extension {extension.number} of {record['date']}"]
    lines[0] += f", from {record['data']}" if record["data"] else ""
    for each in extension.added:
        if not each["samples"]:
            lines.append(f"  new   {each['class']}: by its name alone: nothing is promised for it")
            continue
        number = say_count(each["samples"], "sample")
        if each["groups"] not in (None, each["samples"]):
            number += f" of {say_count(each['groups'], 'group')}"
        number += " and its name" if each.get("name") else ""
        held = (
            f", {each['held']:,} more held out"
            if each["held"]
            else ", none held out: nothing is promised for it"
        )
        why = f" ({each['why']})" if each["why"] else ""
        lines.append(
            f"  {'new' if each['new'] else 'more'}  {each['class']}{why}: learned from {number}{held}"
        )
    lines += [f"  retired  {name}" for name in extension.retired]
    accuracies = record["accuracies"]
    if accuracies["known"]:
        lines.append(
            f"  right of {accuracies['known']:,} held-out samples of known classes: "
            f"{accuracies['before']:.1%} before, "
            f"{accuracies['after']:.1%} now"
        )
    if accuracies["new"]:
        lines.append(
            f"  right of {accuracies['new']:,} held-out samples of new classes: {accuracies['of_new']:.1%}"
        )
    elif any(each["new"] for each in extension.added):
        lines.append(
            f"  no sample of a new class was held out, which takes {HELD_FROM} samples (or groups) of it "
            "that the run was not trained on: how well it is found is not known"
        )
    return "\n".join([*lines, *(f"  {note}" for note in record["notes"])])
