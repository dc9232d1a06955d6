"""`novel`: samples of classes that training did not have, and answers that should stop above them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from labeltree.decisions import (
    Answers,
    ClassNodes,
    NoveltyRule,
    Promise,
    fit_novelty,
    fit_rule,
    holds_truth,
    mark_unknown,
)
from labeltree.decisions.novelty import check_false_alarms
from labeltree.decisions.promise_samples import for_promises, kept_for_probabilities
from labeltree.errors import DataError
from labeltree.evaluation.chosen_samples import labelled_rows, promise_rows
from labeltree.evaluation.protocol_registry import Inputs, ProtocolResult, register
from labeltree.evaluation.reported_nodes import mean_auroc
from labeltree.evaluation.sample_columns import Column, Number, Place
from labeltree.metrics.functional import node_auroc
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.label_sets import covered_nodes

__all__ = ["NovelOptions", "novel"]

_MOST_REFERENCE = 10_000  # as many training samples as a run folder keeps to answer with
_KINDS = Taxonomy.from_paths([("known",), ("unknown",)])


@dataclass(frozen=True)
class NovelOptions:
    """Options of `novel`.

    Attributes:
        false_alarms: Shares of samples of known classes that may be called unknown, from 0 to below 1.
        coverage: The coverage of the answers that are made coarser.
        level: See `NoveltyRule.fit`.
    """

    false_alarms: tuple[float, ...] = (0.01, 0.05, 0.1)
    coverage: float = 0.9
    level: float = 0.5

    def __post_init__(self) -> None:
        for share in self.false_alarms:
            check_false_alarms(share)
        if not self.false_alarms:
            raise ValueError("false_alarms must be one or more shares, from 0 to below 1")
        Promise(self.coverage)
        if not 0 <= self.level < 1:
            raise ValueError(f"level is {self.level}; expected a number from 0 to below 1")


@register(
    "novel",
    summary="classes that training did not have: how well they are told, and what is answered",
    source="ours; p-values as Vovk et al. 2005, distances as Sun et al. 2022, energy as Liu et al. 2020",
    options=NovelOptions,
)
def novel(inputs: Inputs, options: NovelOptions) -> ProtocolResult:
    """Measure how well samples of unknown classes are told from those of known ones, and their answers.

    A class is unknown if no training sample has it, or a label below it. An answer to a sample of it is right
    if it is the nearest known ancestor of its label, or an ancestor of that. Distances are compared with
    training samples, at most 10,000; validation samples, which are of known classes, give the p-values.

    Scores: `auroc` of the distance of embeddings, which answers use, and of other scores
    (`auroc_energy` …), also by the depth at which the class branches off what is known. For every share of
    false alarms that is asked for, `…_at_0.05`, and for the plain rule, `…_plain`: `found` (share of
    unknown samples that are called so), `false_alarms`, `right` and `exact` (answers of unknown
    samples), their hierarchical `precision` and `recall` against the nearest known ancestor, and of known
    samples the `coverage` and `depth` of the answers.

    Raises:
        DataError: If no test sample is of an unknown class, or none of a known one, or there is no validation
            sample.
    """
    tree, table, nodes = inputs.judging.tree, inputs.table, inputs.nodes
    train, held = labelled_rows(table, "train"), promise_rows(table)
    present = covered_nodes(nodes[train], tree)
    held = held[present[nodes[held]]]
    test = inputs.samples.test
    known, unknown = test[present[nodes[test]]], test[~present[nodes[test]]]
    if not len(unknown) or not len(known):
        which = "an unknown" if len(known) else "a known"
        raise DataError(f"no test sample is of {which} class; hide some from training with --unseen_classes")
    if not len(held):
        raise DataError("there are no validation samples, which tell how far known samples lie")
    scorer = inputs.classifiers.scores(_answering(inputs))
    classes = ClassNodes(scorer.classes, tree)
    known_held = inputs.standard_table.rows(held)
    rule = fit_rule(
        scorer(known_held),
        nodes[held],
        classes,
        groups=known_held.groups,
        seed=inputs.settings.seed,
        for_probabilities=kept_for_probabilities(known_held),
    )
    held = held[for_promises(known_held)]
    rows = torch.cat([known, unknown])
    shown = table.rows(rows)
    scores = scorer(inputs.standard_table.rows(rows))
    promise = Promise(options.coverage)
    plain, paths = rule.answer_on_paths(scores, promise, top=1)
    reference = inputs.subsample(train, _MOST_REFERENCE)
    novelty = fit_novelty(table.rows(reference), table.rows(held), tree, seed=inputs.settings.seed)
    fit = novelty.fit(shown, paths.nodes, options.level)

    line = tree.ancestors[nodes[rows]]
    nearest = torch.where((line >= 0) & present[line.clamp_min(0)], line, 0).amax(
        1
    )  # in preorder the deepest
    is_unknown = torch.arange(len(rows)) >= len(known)
    judged = classes.judges(nodes[rows])
    columns = _columns(plain, "plain", rows, nodes[rows], nearest, is_unknown, judged, tree)
    for share in sorted(options.false_alarms):
        marked = mark_unknown(plain, paths, fit, share)
        columns += _columns(marked, f"at_{share:g}", rows, nodes[rows], nearest, is_unknown, judged, tree)
    result = inputs.summarise(columns, "Classes that training did not have", by_frequency=False)
    others = {"": fit.distances, "_energy": -torch.logsumexp(scores, 1)}
    others["_uncertainty"] = 1 - rule.probabilities(scores).amax(1)
    if table.features is not None:
        of_features = _fit_on_features(table, reference, held, tree, inputs.settings.seed)
        others["_features"] = of_features.fit(_features(shown), paths.nodes).distances
    depths = tree.depth[nearest] + 1
    for name, values in others.items():
        _put_auroc(result, Place("scores", f"auroc{name}"), values, is_unknown, rows, inputs)
        for depth in range(1, tree.max_depth + 1):
            here = ~is_unknown | (depths == depth)
            place = Place("by_depth", f"auroc{name}", depth - 1)
            _put_auroc(result, place, values[here], is_unknown[here], rows[here], inputs)
    result.counts.update(
        {
            "test samples of known classes": len(known),
            "test samples of unknown classes": len(unknown),
            "unknown classes": len(torch.unique(nodes[unknown])),
            "training samples compared with": len(reference),
            "held-out samples of known classes": len(held),
        }
    )
    smallest = novelty.smallest()
    too_few = [f"{share:g}" for share in options.false_alarms if share < smallest]
    if too_few:
        unit = "samples" if table.groups is None else "groups"
        result.notes.append(
            f"With {novelty.known.count:.0f} held-out {unit} no p-value is below {smallest:.3f}: nothing is "
            f"called unknown at false alarms of {', '.join(too_few)}."
        )
    result.notes.append(
        "The intervals hold the encoder, the classifier, its calibration and the held-out distances fixed."
    )
    return result


def _answering(inputs: Inputs):  # type: ignore[no-untyped-def]
    """The classifier that answers, or the probe where it came without scores."""
    known = inputs.classifiers
    return "probe" if known.chosen.name == "own" and known.own is None else known.chosen.name


def _columns(
    answers: Answers,
    name: str,
    rows: Tensor,
    labels: Tensor,
    nearest: Tensor,
    is_unknown: Tensor,
    judged: Tensor,
    tree: Taxonomy,
) -> list[Column]:
    """The outcomes of one way to answer; NaN where a sample does not count."""
    depth, given = tree.depth.double(), answers.nodes
    common = depth[tree.lca(given, nearest)]
    counted = judged & ~is_unknown
    columns = [
        Column(f"right_{name}", _only(is_unknown, holds_truth(given, nearest, tree)), rows),
        Column(f"exact_{name}", _only(is_unknown, given == nearest), rows),
        Column(f"precision_{name}", _only(is_unknown, _share(common, depth[given])), rows),
        Column(f"recall_{name}", _only(is_unknown, _share(common, depth[nearest])), rows),
        Column(f"coverage_{name}", _only(counted, holds_truth(given, labels, tree)), rows),
        Column(f"depth_{name}", _only(counted, depth[given]), rows),
    ]
    if answers.unknown is not None:
        unknown = answers.unknown
        columns += [
            Column(f"found_{name}", _only(is_unknown, unknown), rows),
            Column(f"false_alarms_{name}", _only(~is_unknown, unknown), rows),
        ]
    return columns


def _only(counted: Tensor, values: Tensor) -> Tensor:
    return values.double().masked_fill(~counted, torch.nan)


def _share(part: Tensor, whole: Tensor) -> Tensor:
    """part / whole, and 1 where the whole is 0: the root names nothing that could be wrong or missed."""
    return torch.where(whole > 0, part / whole.clamp_min(1), torch.ones_like(part))


def _features(table: EmbeddingTable) -> EmbeddingTable:
    """The features of a table, normalised, in place of its embeddings."""
    assert table.features is not None
    points = normalize(table.features.double(), dim=1)
    return EmbeddingTable(embeddings=points, nodes=table.nodes, groups=table.groups)


def _fit_on_features(
    table: EmbeddingTable, reference: Tensor, held: Tensor, tree: Taxonomy, seed: int
) -> NoveltyRule:
    return fit_novelty(_features(table.rows(reference)), _features(table.rows(held)), tree, seed=seed)


def _put_auroc(
    result: ProtocolResult, place: Place, values: Tensor, is_unknown: Tensor, rows: Tensor, inputs: Inputs
) -> None:
    """How often an unknown sample has the larger value, ties one half; with its interval."""
    if bool(is_unknown.all()) or not bool(is_unknown.any()):
        result.put(place, Number(torch.nan))
        return
    places = torch.unique(values, return_inverse=True)[1].double()  # all that counts, as a share
    share = places / places.max().clamp_min(1)
    two = torch.stack([1 - share, share], dim=1)
    labels = _KINDS.leaves[is_unknown.long()]
    auroc = float(node_auroc(two, labels, _KINDS, classes=_KINDS.leaves)[_KINDS.leaves[1]])
    units = inputs.units_of(rows)
    ends = mean_auroc(two, labels, _KINDS, _KINDS.leaves, units).interval(units.resampling)[:2]
    result.put(place, Number(auroc, *ends))
