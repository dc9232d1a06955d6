"""The standard evaluation once more for every aspect of the samples."""

from __future__ import annotations

import logging
from dataclasses import replace

import torch

from labeltree.errors import DataError
from labeltree.evaluation.inputs import Inputs
from labeltree.evaluation.judging_taxonomy import JudgingTaxonomy
from labeltree.evaluation.registry import get_protocol, run_protocol
from labeltree.evaluation.result import AspectResult
from labeltree.evaluation.samples import choose_samples, labelled_rows
from labeltree.evaluation.settings import EvaluationSettings
from labeltree.progress import Progress
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

__all__ = ["evaluate_aspects"]

_log = logging.getLogger(__name__)


def evaluate_aspects(
    table: EmbeddingTable,
    *,
    split: str = "test",
    settings: EvaluationSettings | None = None,
    progress: Progress | None = None,
) -> tuple[dict[str, AspectResult], list[str]]:
    """Measure a table by each of its aspects: linear probe, own answers, retrieval.

    All read the features, or the embeddings of a table without features: an aspect has no embedding that
    training shaped for it alone and that a table could hold. The cost is one probe and one ranking an aspect.

    Args:
        table: with or without aspects; its labels do not matter.
        split: as in `evaluate`.
        settings: as in `evaluate`.
        progress: as in `evaluate`.

    Returns:
        the results by the aspects' names, and sentences on aspects that could not be measured.

    Raises:
        DataError: if the split is missing or empty.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> mood = Taxonomy.from_paths(["good", "bad"], root_name="service")
        >>> table = EmbeddingTable(
        ...     embeddings=torch.eye(2).repeat(8, 1),
        ...     nodes=torch.full((16,), -1),
        ...     aspects=mood.encode(["good", "bad"] * 8)[:, None],
        ...     aspect_taxonomies=(mood,),
        ... )
        >>> results, _ = evaluate_aspects(table)
        >>> results["service"].scores["top1"]
        1.0
    """
    settings = settings or EvaluationSettings()
    results: dict[str, AspectResult] = {}
    notes = []
    if table.split is not None and len(table.aspect_names):
        table.select(split)  # a missing split is an error, an aspect without labels in it is not
    for number, (name, taxonomy) in enumerate(zip(table.aspect_names, table.aspect_taxonomies, strict=True)):
        _log.info("aspect %s", name)
        try:
            results[name] = _measure(name, table.aspect(number), taxonomy, split, settings, progress)
        except DataError as error:
            notes.append(f"The aspect '{name}' could not be measured and is in no mean: {error}.")
    return results, notes


def _measure(
    name: str,
    table: EmbeddingTable,
    taxonomy: Taxonomy,
    split: str,
    settings: EvaluationSettings,
    progress: Progress | None,
) -> AspectResult:
    judging = JudgingTaxonomy.of(taxonomy)
    there = table.split is not None and split != "train" and bool((table.split == "train").any())
    if there and not len(labelled_rows(table, "train")):
        raise DataError("no training sample has a label in it")
    samples = choose_samples(table, taxonomy, split, settings)
    if samples.one_class is not None:
        raise DataError(f"all its samples are of one class, '{samples.one_class}'")
    if not samples.counts["classes learned"]:
        raise DataError("all its training samples are labelled only coarsely")
    plain = replace(settings, resamples=0)  # aspects have no intervals
    inputs = Inputs(table, judging, samples, plain, split, progress=progress, name=name, roles=("features",))
    with torch.no_grad():
        found = {kind: run_protocol(get_protocol(kind), inputs) for kind in ("probe", "own", "retrieval")}
    return AspectResult(
        scores={
            key.partition(".")[2]: value for part in found.values() for key, value in part.scores.items()
        },
        by_depth={kind: depths for kind, part in found.items() for depths in part.by_depth.values()},
        counts=samples.counts,
    )
