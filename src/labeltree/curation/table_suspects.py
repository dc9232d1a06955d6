"""Labels of samples that look wrong."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from labeltree.counted_nouns import say_count
from labeltree.curation.judged_samples import JudgedSamples
from labeltree.curation.suspects import Suspects, find_suspects
from labeltree.options.curation import SuspectsOptions
from labeltree.runs import EmbeddingTable

__all__ = ["find_table_suspects"]


def find_table_suspects(samples: JudgedSamples | EmbeddingTable, options: SuspectsOptions) -> Suspects:
    """Find the labels of samples that look wrong; of the options, those that say what looks wrong.

    An encoder that was trained agrees with the labels that it has memorised, wrong ones, too. So where there
    are spaces that know no label, the one of these that fits most of the labels held out of training judges,
    unless the encoder fits more of them, by more than one standard error of the difference.

    Raises:
        DataError: If there are too few labels.
        TaxonomyError: If there is no such node.
        ValueError: If a setting is out of range.
    """
    judged = JudgedSamples.of(samples) if isinstance(samples, EmbeddingTable) else samples
    own = _find(judged.table, options)
    held = _held_out(judged.table, own.scores)
    if not judged.label_free or not bool(held.any()):
        return replace(own, space=judged.space, notes=(judged.sentence, *own.notes))
    others = {name: _find(table, options) for name, table in judged.label_free.items()}
    fit = {name: _fit(one, held) for name, one in others.items()}
    best = max(fit, key=lambda name: float(fit[name].mean()))
    gain, called = fit[best] - _fit(own, held), judged.names[best]
    theirs, ours = float(fit[best].mean()), float(_fit(own, held).mean())
    shares = f"{theirs:.1%} fit {called}, and {ours:.1%} the encoder"
    shares = f"of {say_count(int(held.sum()), 'label')} held out of training, {shares}"
    if float(gain.mean()) < -float(gain.std(correction=0)) / math.sqrt(len(gain)):
        return replace(own, space=judged.space, notes=(f"{judged.sentence}; {shares}", *own.notes))
    said = f"labels are judged by {called}, not by the encoder, which has learned them and hides wrong ones"
    return replace(others[best], space=best, notes=(f"{said}: {shares}", *others[best].notes))


def _held_out(table: EmbeddingTable, scores: Tensor) -> Tensor:
    """The judged samples that training has not learned from, `(n,)` bool."""
    split = np.full(len(scores), "") if table.split is None else np.asarray(table.split)
    return torch.from_numpy(~np.isin(split, ("train", ""))) & torch.isfinite(scores)


def _fit(suspects: Suspects, held: Tensor) -> Tensor:
    """Which of some labels do not lose against a rival, 0 or 1 each."""
    return (suspects.scores[held] <= 0.5).double()


def _find(table: EmbeddingTable, options: SuspectsOptions) -> Suspects:
    """The suspects among the samples of a table, in its embeddings and features."""
    return find_suspects(
        table.vectors,
        table.embeddings,
        table.nodes,
        table.tree,
        geometry=table.space,
        ids=table.names,
        paths=None if table.paths is None else table.paths.tolist(),
        contents=None if table.contents is None else table.contents.tolist(),
        texts=table.texts,
        groups=table.groups,
        split=table.split,
        only_split=options.split,
        within=None if options.within is None else table.tree.find(options.within),
        ranking=options.ranking,
        k=options.k,
        folds=options.folds,
        fewest=options.fewest,
        least_score=options.least_score,
        seed=options.seed,
        progress=options.progress,
    )
