"""From what the protocols found to the outcomes of every sample."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from labeltree.evaluation.drawn import drawn_groups
from labeltree.evaluation.frequency import class_frequency
from labeltree.evaluation.ground import Ground
from labeltree.evaluation.outcomes import Key, Outcomes
from labeltree.evaluation.own_answers import OwnAnswers
from labeltree.evaluation.probe import ProbeResult
from labeltree.evaluation.prototypes import PrototypeResult
from labeltree.evaluation.retrieval import RetrievalResult
from labeltree.evaluation.samples import Samples
from labeltree.evaluation.settings import EvaluationSettings
from labeltree.metrics.functional import hierarchical_f1, mistake_severity, tree_accuracy
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy.shared_depths import shared_depth

__all__ = ["CLASSIFIERS", "gather_outcomes", "sample_scores"]

CLASSIFIERS = {"probe": "", "prototypes": "prototype_", "own": "own_"}
"""What the scores of each classifier begin with."""


def gather_outcomes(
    table: EmbeddingTable,
    samples: Samples,
    ground: Ground,
    settings: EvaluationSettings,
    *,
    roles: list[str],
    probe: ProbeResult,
    prototypes: PrototypeResult,
    own: OwnAnswers | None,
    retrieval: Mapping[str, RetrievalResult],
) -> Outcomes:
    """The outcomes of one method: a row for every sample that was tested or searched, in table order.

    Besides the scores of `MethodResult` there are the accuracy at each depth (``accuracy_at_depth_1``), HP@k,
    and the hierarchical F1 over all samples at once, ``hierarchical_f1_micro`` = 2 Σ |A_y ∩ A_ŷ| / Σ (|A_y| +
    |A_ŷ|) (Silla and Freitas 2011, Section 5), in which samples with longer paths count for more.

    Args:
        table: whose samples they are.
        samples: which rows were tested and searched.
        ground: of the labels.
        settings: of the evaluation.
        roles: of the scores; the probe read the first.
        probe: what it found.
        prototypes: what was found.
        own: what was found of the model's own answers.
        retrieval: role → what was found.
    """
    everything = torch.cat([samples.test, samples.search]).unique()  # type: ignore[no-untyped-call]
    tested, searched = (
        torch.searchsorted(everything, samples.test),
        torch.searchsorted(everything, samples.plan.queries),
    )
    nodes = table.nodes[everything]
    answers = {"probe": (roles[0], probe.predicted), "prototypes": ("embeddings", prototypes.predicted)}
    if own is not None:
        answers["own"] = ("predictions", own.predicted)
    values: dict[Key, Tensor] = {}
    weights: dict[Key, Tensor] = {}
    predicted = {}
    target = table.nodes[samples.test]
    for name, (role, found) in answers.items():
        shared = None if name == "own" else samples.shared
        scores, sizes = sample_scores(found.clamp(min=0), target, samples.finest[target], ground, shared)
        prefix = CLASSIFIERS[name]
        values |= {
            (role, f"{prefix}{metric}"): _placed(v, tested, len(nodes)) for metric, v in scores.items()
        }
        weights[role, f"{prefix}hierarchical_f1_micro"] = _placed(sizes, tested, len(nodes)).nan_to_num(0.0)
        predicted[name] = torch.full_like(nodes, -1).index_put_((tested,), found)
    violated = _placed(prototypes.violated, tested, len(nodes))
    values["embeddings", "parent_violations"] = violated
    values["embeddings", "parent_order_accuracy"] = 1 - violated
    pairs: Key = ("embeddings", "pair_violations")
    values[pairs] = _placed(prototypes.pair_values, tested, len(nodes))
    for role, ranked in retrieval.items():
        values |= {(role, m): _placed(v, searched, len(nodes)) for m, v in ranked.values.items()}
    frequency = class_frequency(table, samples, ground.tree.num_nodes, settings.frequency_bounds)
    groups = drawn_groups(table, samples.test)
    return Outcomes(
        whole=frozenset([pairs]),
        search=samples.plan.described(),
        instances=(everything if table.instances is None else table.instances[everything]).numpy(),
        nodes=nodes.numpy(),
        taxonomy=ground.tree,
        values={key: column.numpy() for key, column in values.items()},
        weights={key: column.numpy() for key, column in weights.items()},
        groups=None if groups is None else groups[everything].numpy(),
        bands=frequency.group(nodes).numpy() if frequency.uneven else None,
        predicted={name: column.numpy().astype(np.int64) for name, column in predicted.items()},
    )


def sample_scores(
    predicted: Tensor, target: Tensor, decided: Tensor, ground: Ground, shared: int | None = None
) -> tuple[dict[str, Tensor], Tensor]:
    """What each sample contributes to `classification_scores`.

    Args:
        predicted: ``(n,)`` nodes, none missing.
        target: ``(n,)`` labels, none missing.
        decided: ``(n,)`` bool, which labels are finest.
        ground: of the nodes.
        shared: as for `classification_scores`.

    Returns:
        ``(n,)`` float64 by metric, NaN where a sample does not count; and the ``(n,)`` weights
        |A_y| + |A_ŷ| of ``hierarchical_f1_micro``.
    """
    pair = ground.in_judge(predicted), ground.in_judge(target)
    f1 = hierarchical_f1(*pair, ground.judge, reduction="none")
    sizes = ground.judge.ancestor_count[pair[0]] + ground.judge.ancestor_count[pair[1]] - 2
    scores = {
        "top1": (predicted == target).double(),
        "hierarchical_f1": f1,
        "hierarchical_f1_micro": f1,
        "tree_accuracy": tree_accuracy(*pair, ground.judge, reduction="none"),
        "mistake_severity": mistake_severity(*pair, ground.judge, reduction="none"),
    }
    scores = {name: torch.where(decided, column, torch.nan) for name, column in scores.items()}
    paths = ground.tree.paths
    right = torch.where(paths[target] >= 0, (paths[predicted] == paths[target]).double(), torch.nan)
    right[:, : shared_depth(ground.tree.leaves, ground.tree) if shared is None else shared] = torch.nan
    for depth, column in enumerate(right.unbind(1), start=1):
        scores[f"accuracy_at_depth_{depth}"] = column
    return scores, sizes.double()


def _placed(values: Tensor, rows: Tensor, count: int) -> Tensor:
    """``(count,)`` float64: the values at the rows, NaN elsewhere."""
    return torch.full((count,), torch.nan, dtype=torch.float64).index_put_((rows,), values.double())
