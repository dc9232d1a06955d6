"""Labels of samples that look wrong."""

from __future__ import annotations

from dataclasses import replace

from labeltree.curation.judged_samples import JudgedSamples
from labeltree.curation.suspects import Suspects, find_suspects
from labeltree.options.curation import SuspectsOptions
from labeltree.runs import EmbeddingTable

__all__ = ["find_table_suspects"]


def find_table_suspects(samples: JudgedSamples | EmbeddingTable, options: SuspectsOptions) -> Suspects:
    """Find the labels of samples that look wrong; of the options, those that say what looks wrong.

    Raises:
        DataError: If there are too few labels.
        TaxonomyError: If there is no such node.
        ValueError: If a setting is out of range.
    """
    judged = JudgedSamples.of(samples) if isinstance(samples, EmbeddingTable) else samples
    table = judged.table
    suspected = find_suspects(
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
    return replace(suspected, space=judged.space, notes=(judged.sentence, *suspected.notes))
