"""`labeltree merge`: several solved runs as one model, from their sums, without a sample."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from labeltree.atomic import new_folder_in, writing
from labeltree.counted_nouns import say_count
from labeltree.data.source import digest_set, have_digest
from labeltree.decisions.choose_classifier import ChosenClassifier
from labeltree.decisions.classifiers import Classifiers
from labeltree.errors import DataError, RunError, typed
from labeltree.inference.calibrate_run import fit_decider
from labeltree.inference.forgetting import solver_of, weights_with
from labeltree.inference.load_run import TrainedRun, load_run
from labeltree.inference.public_settings import public_description
from labeltree.inference.reference import load_reference
from labeltree.inference.run_classifiers import own_scores, write_classifiers
from labeltree.inference.training_samples import joined
from labeltree.models import VectorEncoder
from labeltree.models.weights import add_weights
from labeltree.options.model_options import MergeOptions
from labeltree.options.schema import takes
from labeltree.ridge.moments import Moments
from labeltree.ridge.ridge_file import load_ridge, save_ridge
from labeltree.ridge.tree_ridge import TreeRidge
from labeltree.runs import EmbeddingTable, RunFolder
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.versions.paired_names import list_differences, match_orders

__all__ = ["Merged", "merge_runs", "pooled_head"]

_HELD_OUT = "held-out samples of the merged runs"


@dataclass(frozen=True)
class Merged:
    """A model of the samples of several runs.

    Attributes:
        folder: Its folder.
        samples: Number of training samples of each run.
        classes: Number of classes that it answers.
        held: Number of held-out samples of the runs that its answers were calibrated on.
        notes: Sentences on its settings, and on what it cannot do.
    """

    folder: RunFolder
    samples: tuple[int, ...]
    classes: int
    held: int
    notes: tuple[str, ...]

    def __str__(self) -> str:
        parts = " + ".join(f"{count:,}" for count in self.samples)
        lines = [f"merged: {sum(self.samples):,} training samples ({parts}), {self.classes:,} classes"]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes), f"model: {self.folder.path}"])


@takes(MergeOptions)
def merge_runs(options: MergeOptions) -> Merged:
    """Make one model of several runs with objective `tree-ridge`, from their sums.

    Its head equals one that was solved from the training samples of all runs at the λ and the dials of the
    first. The scale and the slopes of its probabilities are means over the runs, by their samples; answers
    are then calibrated on the held-out samples whose features the runs keep, of which only scores and labels
    stay.

    Raises:
        RunError: If `out` exists, or a run is no solved one, was extended, or differs in encoder, weights,
            preprocessing or standardisation.
        DataError: If taxonomies differ in more than the order of siblings, or runs have samples in common.
    """
    target = Path(options.out)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise RunError(f"'{target}' exists; name another folder")
    folders = [RunFolder(run).require() for run in options.runs]
    for folder in folders:
        if folder.home.extensions:
            raise RunError(
                f"the run in '{folder.path}' was extended; 'labeltree extend {typed(folder.path)} --undo' "
                "removes that, then merge, and extend the merged model"
            )
    runs = [load_run(folder.path, own_data=False) for folder in folders]
    first = runs[0]
    places = [torch.arange(first.taxonomy.num_nodes), *(_check_alike(first, run) for run in runs[1:])]
    _check_apart(folders)
    heads = [load_ridge(run.folder.ridge, solver_of(run).taxonomy) for run in runs]
    tables = [_held_out(run, own) for run, own in zip(runs, places, strict=True)]
    held = [table for table in tables if table is not None]
    head = pooled_head(heads)
    weights = weights_with(first, head)
    with writing(target), new_folder_in(target.absolute().parent) as fresh:
        made = _write(first, RunFolder(fresh), head, weights, held, _group_columns(runs))
        if target.is_dir():
            target.rmdir()
        fresh.rename(target)
    return Merged(
        RunFolder(target),
        tuple(one.moments.count for one in heads),
        len(head.classes),
        made,
        _notes(target, head, made, len(held), len(runs)),
    )


def pooled_head(heads: Sequence[TreeRidge]) -> TreeRidge:
    """The head of the samples of several heads at the settings of the first, on its taxonomy.

    Siblings may have another order in the other taxonomies. The logarithm of the scale is the mean over the
    heads, by their samples; so are the slope and the offset of a class over the heads that answer it, by
    their samples of it.
    """
    heads = [head.reorder(heads[0].taxonomy) for head in heads]
    pooled = heads[0].pool(*heads[1:])
    counts = torch.stack([_class_counts(head.moments, head) for head in heads])
    shares = counts / counts.sum(0).clamp_min(1e-300)
    calibration = (shares[..., None] * torch.stack([head.calibration for head in heads])).sum(0)
    calibration = torch.where((counts.sum(0) > 0)[:, None], calibration, pooled.calibration)
    sizes = torch.tensor([head.moments.count for head in heads], dtype=torch.float64)
    scales = torch.tensor([head.scale for head in heads], dtype=torch.float64).log()
    return replace(pooled, scale=float(((sizes * scales).sum() / sizes.sum()).exp()), calibration=calibration)


def _class_counts(moments: Moments, head: TreeRidge) -> Tensor:
    """How many samples of each class of a head have its label, `(num_nodes,)`; at least a tenth of one."""
    counts = torch.zeros(head.taxonomy.num_nodes, dtype=torch.float64)
    counts[head.classes] = 0.1  # by coarser labels alone
    for column in moments.labels.T:
        there = torch.isin(column, head.classes)
        counts.index_add_(0, column[there], moments.counts[there])
    return counts


def _check_alike(first: TrainedRun, run: TrainedRun) -> Tensor:
    """Raise an error unless the sums of two runs are of the same features and labels.

    Returns:
        For each node of the taxonomy of the second run the node of the same path in that of the first.
    """
    both = f"'{first.folder.path}' and '{run.folder.path}'"
    solver_of(first)
    solver_of(run)
    encoders = [one.network.encoder.without_adapter for one in (first, run)]
    for name in ("encoder", "pretrained", "pooling", "max_length"):
        ours, theirs = getattr(first.recipe, name), getattr(run.recipe, name)
        if ours != theirs:
            raise RunError(
                f"the runs in {both} have other features: {name} is {ours} there, and {theirs} here"
            )
    if all(isinstance(encoder, VectorEncoder) for encoder in encoders):
        one, other = (encoder.state_dict() for encoder in encoders)
        if one["centre"].shape != other["centre"].shape:
            raise RunError(f"the runs in {both} read vectors of other lengths")
        if any(not torch.equal(one[key], other[key]) for key in one):
            raise RunError(
                f"the runs in {both} standardise their vectors by column by other means and scales, so that "
                "their sums are of other features; they can be merged where none does"
            )
    elif _digest(encoders[0]) != _digest(encoders[1]):
        raise RunError(f"the encoders of {both} have other weights, so that their sums are of other features")
    ours, theirs = (
        (one.description.image_shape, one.description.normalisation, one.description.preprocessing)
        for one in (first, run)
    )
    if ours != theirs:
        raise RunError(f"the runs in {both} read images in another size, cut or normalisation")
    places = _match_taxonomies(first, run, run.taxonomy, first.taxonomy)
    trained = _match_taxonomies(first, run, solver_of(run).taxonomy, solver_of(first).taxonomy)
    seen, of_first = run.network.from_training.cpu(), first.network.from_training.cpu()
    if not torch.equal(of_first[trained], torch.where(seen >= 0, places[seen.clamp_min(0)], -1)):
        raise DataError(
            f"the runs in {both} were trained on labels that stand for others in their data; train them with "
            "the same settings of the labels (--train_taxonomy, --coarsen)"
        )
    return places


def _match_taxonomies(first: TrainedRun, run: TrainedRun, own: Taxonomy, other: Taxonomy) -> Tensor:
    """For each node of a taxonomy of a run the node of the same path in that of the first."""
    places = match_orders(own, other)
    if places is not None:
        return torch.from_numpy(places)
    ours, theirs = f"'{first.folder.path}'", f"'{run.folder.path}'"
    raise DataError(
        f"the runs in {ours} and {theirs} have other taxonomies: "
        f"{list_differences(other, own, (ours, theirs))}; train them on one taxonomy ('labeltree taxonomy "
        "map' finds what became of the classes, and 'labeltree train --mapping' reads labels through it)"
    )


def _digest(encoder: torch.nn.Module) -> str:
    digest = hashlib.sha256()
    add_weights(digest, encoder)
    return digest.hexdigest()


def _check_apart(folders: Sequence[RunFolder]) -> None:
    """Raise a `DataError` if runs that record their samples have some in common."""
    seen: list[tuple[set[bytes], RunFolder]] = []
    for folder in folders:
        digests = folder.load_samples().copy_digests if folder.samples.is_file() else None
        if digests is None:
            continue
        for known, other in seen:
            if shared := int(have_digest(digests, known).sum()):
                raise DataError(
                    f"{say_count(shared, 'sample')} of '{folder.path}' {'is' if shared == 1 else 'are'} in "
                    f"'{other.path}', too, and would count twice; let one of the runs forget "
                    f"{'it' if shared == 1 else 'them'} first ('labeltree forget')"
                )
        seen.append((digest_set(digests), folder))


def _held_out(run: TrainedRun, places: Tensor) -> EmbeddingTable | None:
    """The labelled samples that training has not seen, if the folder keeps their features.

    Args:
        run: The run.
        places: What each node of its taxonomy is in the taxonomy of the merged model.
    """
    table = load_reference(run)
    if table is None or table.features is None:
        return None
    held = table.rows(torch.from_numpy(np.asarray(table.split) != "train") & (table.nodes > 0))
    return replace(held, nodes=places[held.nodes], attributes={}, group_names=None) if len(held) else None


def _group_columns(runs: Sequence[TrainedRun]) -> tuple[str, ...] | None:
    """The columns of groups, such as patients, in the tables of all runs; None unless they have the same."""
    named = {run.columns.get("groups") for run in runs}
    return named.pop() if len(named) == 1 else None


def _write(
    first: TrainedRun,
    new: RunFolder,
    head: TreeRidge,
    weights: dict[str, Tensor],
    held: Sequence[EmbeddingTable],
    groups: tuple[str, ...] | None,
) -> int:
    """Write the model, which knows columns of groups; returns how many samples it was calibrated on."""
    description = public_description(first.description)
    if groups is not None:
        description = replace(description, columns={**description.columns, "groups": groups})
    description.save(new.description)
    first.taxonomy.save(new.taxonomy)
    if first.training_taxonomy is not None:
        first.training_taxonomy.save(new.training_taxonomy)
    if first.folder.encoder_config.is_dir():
        shutil.copytree(first.folder.encoder_config, new.encoder_config)
    new.save_weights(weights, 0)
    save_ridge(head, new.ridge)
    merged = replace(first, folder=new)
    own = own_scores(merged.network)
    if own is None:
        raise RunError(
            f"the classes of '{first.folder.path}' are not nodes of the taxonomy of its labels, so that a "
            "merged model could not answer"
        )
    classifiers = Classifiers({}, ChosenClassifier("own", "own", offered=("own",)), own)
    write_classifiers(merged, classifiers)
    if not held:
        return 0
    together = held[0]
    for table in held[1:]:
        together = joined(together, table)
    together = replace(together, split=None)
    try:
        decider = fit_decider(merged, classifiers, together, on=_HELD_OUT)
    except DataError:  # none has a label that says whether an answer is right
        return 0
    new.write_json(new.decisions, decider.record)
    return len(together)


def _notes(target: Path, head: TreeRidge, held: int, kept: int, count: int) -> tuple[str, ...]:
    told = [
        f"λ {head.penalty:g}, tree {head.tree:g} and instance {head.instance:g} are those of the first run; "
        "scale and slopes of the probabilities are means over the runs, by their samples"
    ]
    again = f"'labeltree calibrate {typed(target)} --data DATA' does it on labelled samples"
    if held:
        told.append(
            f"calibrated on {held:,} held-out samples of {kept} of the {count} runs, of which scores and "
            f"labels alone are kept; {again} of yours"
        )
    else:
        told.append(
            f"not calibrated, as no run keeps features of held-out samples: {again}, before it answers"
        )
    told.append(
        "it holds sums and no samples: predict, embed --data, export and serve work (--per group once it is "
        "calibrated on a table with groups); evaluate, index, suspects, extend and forget need samples, and "
        "are for the runs that it was made from"
    )
    return tuple(told)
