"""One evaluation: embeddings tables and a taxonomy in, one result out."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

import torch

from labeltree.errors import DataError
from labeltree.evaluation.aspect_result import aspect_means
from labeltree.evaluation.aspects import evaluate_aspects
from labeltree.evaluation.ground import Ground
from labeltree.evaluation.notes import different_samples, reading_notes
from labeltree.evaluation.own_answers import OwnAnswers, own_answers
from labeltree.evaluation.probe import linear_probe
from labeltree.evaluation.prototypes import PrototypeResult, prototype_scores
from labeltree.evaluation.reading import Reading, read
from labeltree.evaluation.result import EvaluationResult, MethodResult
from labeltree.evaluation.retrieval import RetrievalResult, retrieval_scores, titled
from labeltree.evaluation.samples import Samples, choose_samples
from labeltree.evaluation.settings import EvaluationSettings
from labeltree.metrics.ranking import Progress
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["evaluate"]

_log = logging.getLogger(__name__)


def evaluate(
    table: EmbeddingTable,
    taxonomy: AnyTaxonomy,
    *,
    name: str = "trained",
    baselines: Mapping[str, EmbeddingTable] | None = None,
    split: str = "test",
    settings: EvaluationSettings | None = None,
    progress: Progress | None = None,
) -> EvaluationResult:
    """Measure how well embeddings respect a taxonomy, by every protocol, beside baselines.

    - linear probe on the features: learned on the training split, tested on ``split``;
    - nearest prototype, parent violations and pair violations on the embeddings, in their geometry;
    - where the table has ``predictions``, the model's own answers within ``split``;
    - retrieval within ``split``, each sample left out of its own results, on features and on embeddings;
    - where the table has ``aspects``, probe, own answers and retrieval by each of them, and their means as a
      role of their own; see `evaluate_aspects`.

    A table without features gives its embeddings to all of them. A table without splits is halved for the
    classifiers and searched as a whole. What was read, counted and left out is in the result's notes.

    Args:
        table: the embeddings to evaluate.
        taxonomy: of their labels; it may be another than the one they were trained with, and a DAG, by which
            everything is judged that is defined on one. What needs a tree then is that of its projection by
            the ODIR rule, whose nodes the result names; `Ground` has it for the report.
        name: of the evaluated method in the result.
        baselines: other tables by name, of the same samples where possible: raw pixels, untrained encoder.
        split: the split to evaluate on, where the table has splits.
        settings: default `EvaluationSettings()`.
        progress: called as ``progress(message, done, total)`` while samples are searched.

    Raises:
        DataError: if nothing has a label, or the split is missing, or a label is outside the taxonomy.

    Example:
        >>> import torch
        >>> from labeltree.runs import EmbeddingTable
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> nodes = taxonomy.encode(["dog", "cat", "trout"]).repeat(8)
        >>> vectors = torch.eye(3).repeat(8, 1) + 0.01 * torch.arange(24)[:, None]
        >>> result = evaluate(EmbeddingTable(vectors, nodes), taxonomy)
        >>> result.main.score("top1"), result.main.score("recall_at_1")
        (1.0, 1.0)
    """
    settings = settings or EvaluationSettings()
    tables = {name: table, **(baselines or {})}
    if baselines and name in baselines:
        raise ValueError(
            f"name is '{name}', which is also the name of a baseline; give one of them another name"
        )
    ground = Ground.of(taxonomy)
    roles = ["embeddings"] if table.features is None else ["features", "embeddings"]
    for key, entry in tables.items():
        _check_nodes(key, entry, taxonomy)
    tables = {key: ground.table(entry) for key, entry in tables.items()}
    chosen = {key: _choose(key, entry, ground, split, settings) for key, entry in tables.items()}
    samples = chosen[name]
    measured = {
        key: _measure(key, entry, roles, chosen[key], ground, split, settings, progress)
        for key, entry in tables.items()
    }
    methods = {key: entry.method for key, entry in measured.items()}
    prototypes = measured[name].prototypes
    return EvaluationResult(
        name=name,
        split=samples.split,
        methods=methods,
        counts={
            "samples": len(table),
            **samples.counts,
            "test samples judged for parent violations": prototypes.judged,
        },
        notes=[
            *reading_notes(methods, name, roles),
            *ground.notes(),
            *samples.notes,
            *_parent_notes(prototypes),
            *_probe_notes(measured),
            *_silent_notes(measured),
            *dict.fromkeys(note for entry in measured.values() for note in entry.aspect_notes),
            *different_samples(tables, chosen, name),
        ],
        settings=settings,
    )


class _Measured(NamedTuple):
    method: MethodResult
    probe_gap: float
    prototypes: PrototypeResult
    own: OwnAnswers | None
    aspect_notes: list[str]


def _check_nodes(name: str, table: EmbeddingTable, taxonomy: AnyTaxonomy) -> None:
    if len(table) and not -1 <= int(table.nodes.min()) <= int(table.nodes.max()) < taxonomy.num_nodes:
        raise DataError(
            f"table '{name}' has labels from {int(table.nodes.min())} to {int(table.nodes.max())}, but the "
            f"taxonomy's nodes are 0 to {taxonomy.num_nodes - 1} (-1 = no label); give the table's own"
        )
    answers = table.predictions
    if answers is not None and len(answers) and not -1 <= answers.min() <= answers.max() < taxonomy.num_nodes:
        raise DataError(
            f"table '{name}' has predictions from {int(answers.min())} to {int(answers.max())}, but the "
            f"taxonomy's nodes are 0 to {taxonomy.num_nodes - 1} (-1 = no answer)"
        )


def _choose(
    name: str, table: EmbeddingTable, ground: Ground, split: str, settings: EvaluationSettings
) -> Samples:
    try:
        return choose_samples(table, ground.tree, split, settings)
    except DataError as error:
        raise DataError(f"table '{name}': {error}") from error


def _measure(
    name: str,
    table: EmbeddingTable,
    roles: list[str],
    samples: Samples,
    ground: Ground,
    split: str,
    settings: EvaluationSettings,
    progress: Progress | None,
) -> _Measured:
    readings = {role: read(table, role, settings.feature_geometry) for role in roles}
    nodes = table.nodes
    with torch.no_grad():
        _log.info("%s: linear probe", name)
        probe = linear_probe(readings[roles[0]], nodes, samples, ground, settings)
        _log.info("%s: prototypes and violations", name)
        prototypes = prototype_scores(readings["embeddings"], nodes, samples, ground, settings)
        own = own_answers(table.predictions, nodes, samples, ground)
        retrieval: dict[str, RetrievalResult] = {}
        for role, reading in readings.items():
            same = [other for other in retrieval if _same(readings[other], reading)]
            title = f"{name}: retrieval by {role}"
            _log.info(title)
            retrieval[role] = (
                retrieval[same[0]]
                if same
                else retrieval_scores(
                    reading,
                    nodes,
                    samples,
                    ground,
                    settings,
                    titled(progress, title),
                )
            )
    scores: dict[str, dict[str, float]] = {role: {} for role in roles}
    scores[roles[0]] |= probe.scores
    scores["embeddings"] |= prototypes.scores
    for role, found in retrieval.items():
        scores[role] |= found.scores
    by_depth = {"probe": probe.by_depth, "prototypes": prototypes.by_depth}
    if own is not None:
        scores["predictions"] = own.scores
        by_depth["own"] = own.by_depth
    aspects, aspect_notes = evaluate_aspects(table, split=split, settings=settings, progress=progress)
    if aspects:
        scores["aspects"] = aspect_means(aspects)
    method = MethodResult(
        name=name,
        representations={role: reading.representation for role, reading in readings.items()},
        scores=scores,
        by_depth=by_depth,
        hp_curve={role: found.hp_curve for role, found in retrieval.items()},
        errors=probe.errors,
        aspects=aspects,
    )
    return _Measured(method, probe.gap, prototypes, own, aspect_notes)


def _same(a: Reading, b: Reading) -> bool:
    return a.representation == b.representation


def _parent_notes(prototypes: PrototypeResult) -> list[str]:
    if not prototypes.judged:
        return [
            "Parent violations are not defined here: they need two inner nodes at one depth below the root."
        ]
    if prototypes.under_root:
        return [
            f"{prototypes.under_root} test samples have the root as parent and are left out of the parent "
            f"violations, which count {prototypes.judged}."
        ]
    return []


def _probe_notes(measured: Mapping[str, _Measured]) -> list[str]:
    return [
        f"The linear probe of '{name}' stopped up to {entry.probe_gap:.1%} (relative) above its minimum."
        for name, entry in measured.items()
        if entry.probe_gap
    ]


def _silent_notes(measured: Mapping[str, _Measured]) -> list[str]:
    return [
        f"'{name}' gave no answer of its own for {entry.own.silent} test samples: they count as wrong."
        for name, entry in measured.items()
        if entry.own is not None and entry.own.silent
    ]
