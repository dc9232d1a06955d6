"""Evaluate a run on samples from elsewhere: another hospital, another camera, another year."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeltree.counted_nouns import say_count
from labeltree.data import Source
from labeltree.data.copies import join_copies
from labeltree.data.correction_rounds import CorrectionRounds
from labeltree.decisions.choose_classifier import ChosenClassifier
from labeltree.decisions.classifiers import Classifiers
from labeltree.errors import DataError, LabeltreeError, RunError, typed
from labeltree.evaluation import EvaluationResult, carry_over
from labeltree.evaluation.protocols.decisions import TOO_FEW_TO_PROMISE
from labeltree.inference.calibrate_run import open_decider, with_stored_rule
from labeltree.inference.decider import Decider
from labeltree.inference.load_run import TrainedRun, load_run
from labeltree.inference.named_samples import lacks_groups, open_other, seen_in_training, seen_since_training
from labeltree.inference.other_version import run_on
from labeltree.inference.reference import is_merged, load_reference
from labeltree.inference.run_classifiers import classifiers_on, own_scores, run_classifiers
from labeltree.inference.run_embeddings import OwnSamples, embed_source
from labeltree.inference.training_samples import joined, training_samples
from labeltree.options.evaluation import EvaluateOptions
from labeltree.progress import Progress
from labeltree.report.evaluate_run import say_seen_since, with_ridge_options
from labeltree.report.evaluation_case import Evaluated, EvaluationCase, data_notes, evaluate_case
from labeltree.report.next_steps import predict_steps
from labeltree.report.other_taxonomy import name_version
from labeltree.report.pages.first_screen import promise_sentence
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.split_names import CALIB
from labeltree.taxonomy.naming import some
from labeltree.taxonomy.versions.between_versions import check_version

__all__ = ["evaluate_on_data"]


def evaluate_on_data(options: EvaluateOptions) -> Evaluated:
    """Evaluate a run on labelled samples that it was not trained on (external validation).

    Nothing is learned from them: classifiers, prototypes, probabilities and thresholds are those of the run's
    own training and validation samples. On another version of its taxonomy, labels may be of either, and the
    run answers as `predict` does there: a split class with the node above its parts. Beside the standard
    numbers, the protocol `decisions` tells whether answers hold the truth as often as is promised, and a
    two-sample test whether the samples are like those that the promise is about. Groups and kept columns are
    read as in training. The run may be an exported model with its reference samples. The files go to the
    folder `elsewhere-NAME` in the run, or `elsewhere-NAME-on-TAXONOMY`.

    Raises:
        RunError: If the run is not finished.
        DataError: If the samples have no labels, or the encoder cannot read them.
        TaxonomyError: If a label is not in the run's taxonomy, or the mapping is between other taxonomies.
        ValueError: If there is a mapping without a taxonomy.
        FolderInUseError: If another process writes where the files go.
    """
    check_version(options.taxonomy, options.mapping)
    run = load_run(options.place, options.progress, own_data=False)
    if options.taxonomy is not None:
        run = run_on(run, options.taxonomy, options.mapping)
    source = open_other(
        run,
        str(options.data),
        data_path=options.data_path,
        judged=True,
        kept=options.settings.by,
        table=options.table,
    )
    if not bool((source.nodes >= 0).any()):
        raise DataError(
            f"no sample of '{options.data}' has a label; 'labeltree predict' answers for samples without"
        )
    source, copied = join_copies(source)
    name = f"elsewhere-{Path(str(options.data)).stem}"
    if run.base is not None:
        name += f"-on-{Path(str(options.taxonomy)).stem}"
    out = options.out or run.folder.home.path / name
    return evaluate_case(partial(_open_case, run, source, copied, options), RunFolder(out), options.progress)


def _open_case(
    run: TrainedRun, source: Source, copied: Sequence[str], options: EvaluateOptions
) -> EvaluationCase:
    settings, data = with_ridge_options(options.settings, run, ["test"]), Path(str(options.data))
    here = run.base or run  # on its own taxonomy
    classifiers = with_stored_rule(here, run_classifiers(here, options.classifier))
    known = _known_samples(here, options.place, options.progress)
    theirs = embed_source(here.network, source, answers=True, keep=False, progress=options.progress)
    given: dict[str, Classifiers | ChosenClassifier]
    name = run.recipe.objective
    if run.change is None:
        table, given = _add_reference(theirs, known), {name: classifiers}
    else:
        table = _move_to_version(theirs, known, run, f"'{options.taxonomy}'")
        given = {name: classifiers.chosen}
    decider = _open_answers(run)
    if decider is not None and run.change is not None:
        given = {
            name: classifiers_on(run, classifiers, decider.chosen, decider.record["merging_temperatures"])
        }
    if decider is not None:
        given = {
            key: replace(each, later=decider.later_classes) if isinstance(each, Classifiers) else each
            for key, each in given.items()
        }

    taught, later = seen_in_training(run, source), seen_since_training(run, source)
    seen = torch.from_numpy(taught | later)

    def remark(result: EvaluationResult) -> EvaluationResult:
        said = [
            f"The samples are those of '{data.name}'"
            + ("." if bool(seen.any()) else ", from which nothing was learned."),
            *(_compare_with_own(result, run.folder) if run.change is None else [_say_version(run, known)]),
            *filter(None, [lacks_groups(source, run, "intervals are too narrow")]),
            *(f"{note[0].upper()}{note[1:]}." for note in copied),
            *_drifted(open_decider(here), theirs.rows(~seen)),
            *_seen_before(taught, later),
            *_shared_groups(known, theirs.rows(~seen)),
            *_say_promise(result, decider, theirs, seen),
        ]
        return replace(
            result.with_notes(said, data_notes(source)),
            cautions=[*said, *result.cautions],
            reservations=_say_known(run, source, taught, later),
        )

    title = f"{data.stem}: {name}, trained on {Path(run.recipe.data).stem}"
    if run.change is not None:
        title += f", measured on {Path(str(options.taxonomy)).stem}"
    by_epochs = [name] if run.network.objective.solver is None else []
    return EvaluationCase(
        name=name,
        table=table,
        taxonomy=run.taxonomy,
        settings=replace(
            settings,
            protocols=tuple(dict.fromkeys(("decisions", *settings.protocols))),
            classifier=classifiers.chosen.asked,
        ),
        title=options.title or title,
        classifiers=given,
        answers_searched=by_epochs,
        trained_by_epochs=by_epochs,
        remarks=[remark],
        source=source,
        measured_on=name_version(options) if options.taxonomy is not None else None,
        steps=predict_steps(options, None if decider is None else decider.rule.fitted.num_groups),
        shown={
            "visible": torch.arange(len(table)) < len(theirs),
            "recipe": run.recipe.to_dict(),
            "trained": run.folder.read_versions(),
        },
    )


def _open_answers(run: TrainedRun) -> Decider | None:
    """The run as `predict` answers with it; None on another version where it cannot, see `_decider_on`."""
    try:
        return open_decider(run)
    except (DataError, RunError):
        if run.change is None:
            raise
        return None


def _known_samples(run: TrainedRun, path: str | Path, progress: Progress | None) -> EmbeddingTable:
    """Training and validation samples of a run: of its data, else the reference samples in its folder."""
    if is_merged(run.folder):
        raise RunError(
            f"the merged model in '{path}' holds sums and no training samples, which evaluate compares "
            f"others with; 'labeltree predict {typed(path)} --data DATA --labelled' says how often its "
            "answers hold the truth, and the runs that it was made from can be evaluated"
        )
    extended = run.folder.extension.is_file()  # its own samples know nothing of the classes that came later
    try:
        table = _extension_samples(run) if extended else OwnSamples(path, progress)()
    except LabeltreeError as error:
        reference = load_reference(run)
        if reference is None:
            raise RunError(
                f"to measure '{path}' on other data, its training samples are needed, and neither its data "
                f"nor reference samples in its folder can be read: {error}"
            ) from error
        return reference
    assert table.split is not None
    return table.rows(torch.from_numpy(np.isin(table.split, ("train", "val", CALIB))))


def _extension_samples(run: TrainedRun) -> EmbeddingTable:
    """Training samples of a run and its extensions, with their names, and the samples held out."""
    reference, training = load_reference(run), training_samples(run)
    if reference is None or training is None:
        raise RunError(f"'{run.folder.path}' has no reference samples")
    held = reference.rows(torch.from_numpy(np.asarray(reference.split) != "train"))
    known = joined(training, held)
    own = {  # numbers, which are no values of the samples that are measured
        name: np.where(values == "", "", np.char.add("own ", values))
        for name, values in known.attributes.items()
    }
    return replace(known, attributes=own)


def _add_reference(theirs: EmbeddingTable, known: EmbeddingTable) -> EmbeddingTable:
    """One table of the samples to measure, as split `test`, and those of training and validation."""
    sizes = len(theirs), len(known)
    assert theirs.instances is not None
    numbers: dict[str, Any] = {"instances": _apart(theirs.instances, torch.arange(len(known)))}
    for name in ("groups", "predictions", "depth_predictions"):
        columns = [getattr(table, name) for table in (theirs, known)]
        width = next((column.shape[1:] for column in columns if column is not None), ())
        parts = [
            torch.full((size, *width), -1) if column is None else column
            for column, size in zip(columns, sizes, strict=True)
        ]
        if any(bool((part >= 0).any()) for part in parts):
            numbers[name] = _apart(*parts) if name == "groups" else torch.cat(parts)
    texts: dict[str, Any] = {
        name: np.concatenate(
            [
                np.full(size, "") if (column := getattr(table, name)) is None else np.asarray(column)
                for table, size in zip((theirs, known), sizes, strict=True)
            ]
        )
        for name in ("paths", "group_names")
    }
    features = None
    if theirs.features is not None and known.features is not None:
        features = torch.cat([theirs.features, known.features])
    if theirs.label_sets is not None or known.label_sets is not None:
        numbers["label_sets"] = _sets_together(theirs, known)
    return EmbeddingTable(
        embeddings=torch.cat([theirs.embeddings, known.embeddings]),
        nodes=torch.cat([theirs.nodes, known.nodes]),
        split=np.concatenate([np.full(len(theirs), "test"), np.asarray(known.split, dtype=str)]),
        features=features,
        geometry=theirs.geometry,
        curvature=theirs.curvature,
        attributes={
            name: np.concatenate([column, known.attributes.get(name, np.full(len(known), ""))])
            for name, column in theirs.attributes.items()
        },
        **numbers,
        **texts,
    )


def _move_to_version(
    theirs: EmbeddingTable, known: EmbeddingTable, run: TrainedRun, where: str
) -> EmbeddingTable:
    """One table on another version of the run's taxonomy, of which the labels to measure are already."""
    assert run.change is not None
    assert run.base is not None
    unlabelled = replace(theirs, nodes=torch.full_like(theirs.nodes, -1), label_sets=None)
    both = carry_over(_add_reference(unlabelled, known), run.change, where, own_scores(run.base.network))
    moved = both.rows(torch.arange(len(theirs), len(both)))
    several = theirs.label_sets is not None or moved.label_sets is not None
    sets = _sets_together(theirs, moved) if several else None
    return replace(both, nodes=torch.cat([theirs.nodes, moved.nodes]), label_sets=sets)


def _say_version(run: TrainedRun, known: EmbeddingTable) -> str:
    """What the step to another version of the taxonomy did to the samples that classifiers learn from."""
    assert run.change is not None
    nodes, name = known.nodes, "the taxonomy that is measured on"
    said = run.change.sentence(nodes, name, "training and validation samples")
    return f"{said} {run.change.split_advice(nodes)}".rstrip()


def _sets_together(*tables: EmbeddingTable) -> Tensor:
    """All labels of each sample of the tables, −1 where there is no further one."""
    sets = [table.nodes[:, None] if table.label_sets is None else table.label_sets for table in tables]
    width = max(each.shape[1] for each in sets)
    return torch.cat([torch.nn.functional.pad(each, (0, width - each.shape[1]), value=-1) for each in sets])


def _apart(first: Tensor, second: Tensor) -> Tensor:
    """Both columns, with other numbers in the second than in the first; −1 stays."""
    beyond = int(first.max()) + 1 if len(first) else 0
    return torch.cat([first, torch.where(second >= 0, second + beyond, second)])


def _compare_with_own(result: EvaluationResult, folder: RunFolder) -> list[str]:
    """The accuracy on the run's own test samples, if it was evaluated."""
    try:
        own = EvaluationResult.load(folder.metrics)
    except LabeltreeError:
        return []
    if own.name not in own.methods or own.split != "test":
        return []
    numbers = []
    for each in (own, result):
        low, high = each.main.answer_interval("top1")
        ends = "" if low != low else f" [{low:.1%}, {high:.1%}]"
        numbers.append(f"{each.main.answer_score('top1'):.1%}{ends}")
    return [f"Top-1 accuracy: {numbers[1]} on these samples, {numbers[0]} on the run's own test samples."]


def _drifted(decider: Decider, theirs: EmbeddingTable) -> list[str]:
    """Whether the samples, without those that the run knows, are like those that promises rest on."""
    if decider.drift is None:
        return [
            "Whether these samples are like those of training cannot be tested: the run lacks a reference."
        ]
    if not len(theirs):
        return []
    seen = decider.drift.seen(theirs, decider.rule.probabilities(decider.scores(theirs)))
    drift = decider.drift.test(seen)
    if drift is None:
        why = decider.drift.cannot_test(seen)
        return [f"Whether the samples are like those of training cannot be tested: {why}."]
    if drift.alarms():
        said = drift.sentence()
        return [f"{said[0].upper()}{said[1:]}."]
    return [
        f"A two-sample test finds no difference between these {drift.count} {drift.unit} and the "
        f"{drift.held} held-out ones of the run (p = {drift.p_value:.2f}). Small differences, and those that "
        "the model's space does not show, go unnoticed."
    ]


def _say_promise(
    result: EvaluationResult, decider: Decider | None, theirs: EmbeddingTable, seen: Tensor
) -> list[str]:
    """Whether promises were kept, or that none can be made; nothing if all samples were seen before."""
    said = promise_sentence(result)
    if not said:
        notes = result.main.protocols["decisions"].notes
        return [note for note in notes if note.startswith(TOO_FEW_TO_PROMISE)]
    return [
        *([] if bool(seen.all()) else [said]),
        *([] if decider is None else _explain_other_share(decider, theirs, seen)),
    ]


def _explain_other_share(decider: Decider, theirs: EmbeddingTable, seen: Tensor) -> list[str]:
    """Why `predict --labelled` may say another coverage of the same samples; empty if it says the same."""
    unknown = decider.called_unknown(theirs.rows(~seen)) if not bool(seen.all()) else None
    called, known = 0 if unknown is None else int(unknown.sum()), int(seen.sum())
    why = []
    if called:
        why.append(f"gives coarser answers to the {say_count(called, 'sample')} that it calls unknown")
    if known:
        why.append(f"leaves out the {say_count(known, 'sample')} that the run knows")
    if not why:
        return []
    return [f"'labeltree predict --labelled' may say another share: it {' and '.join(why)}."]


def _shared_groups(known: EmbeddingTable, theirs: EmbeddingTable) -> list[str]:
    """A note if new samples are of groups, such as patients, that samples of the run have by name."""
    if known.group_names is None or theirs.group_names is None:
        return []
    shared = np.intersect1d(known.group_names, theirs.group_names)
    shared = shared[shared != ""]
    if not len(shared):
        return []
    groups, are = say_count(len(shared), "group", "groups"), "is" if len(shared) == 1 else "are"
    return [
        f"{groups} of these samples {are} named like groups of the run's own samples "
        f"({some(shared.tolist(), 3)}): if they are the same, such as the same patients, numbers on them are "
        "too good. Leave them out."
    ]


def _say_known(
    run: TrainedRun, source: Source, taught: np.ndarray[Any, Any], later: np.ndarray[Any, Any]
) -> list[str]:
    """What the first number needs beside it: samples that the run knows, and labels that it knows otherwise.

    Args:
        run: The run.
        source: The samples that are measured.
        taught: `(n,)` which are of training or validation, see `seen_in_training`.
        later: `(n,)` which are otherwise known, see `seen_since_training`.
    """
    measured = (source.nodes >= 0).numpy()
    said = []
    for count, where in (
        (int((taught & measured).sum()), "its training or validation"),
        (int((later & ~taught & measured).sum()), "later calibration or extension"),
    ):
        if count:
            all_of = "all" if count == measured.sum() else f"{count:,}"
            said.append(f"The model knows {all_of} of these samples from {where}: the number is too good.")
    own = CorrectionRounds.load(run.folder.home.correction_files)
    if taught.any() and any(table.entries for table in own.tables):
        said.append(
            "It was trained with corrected labels; the labels measured on are as they stand in "
            f"'{source.name}', without the corrections."
        )
    return said


def _seen_before(taught: np.ndarray[Any, Any], later: np.ndarray[Any, Any]) -> list[str]:
    """A note if samples are among those that the run was trained on, or later calibrated or extended with.

    Args:
        taught: See `_say_known`.
        later: See there; samples that are both are those of training.
    """
    said, count = [], int(taught.sum())
    if count:
        said.append(
            f"{count} of these samples {'is' if count == 1 else 'are'} also among the training or "
            "validation samples of the run: numbers on them are too good. Leave them out."
        )
    return [*said, *say_seen_since(int((later & ~taught).sum()))]
