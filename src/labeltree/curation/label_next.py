"""What to label next, and how finely: samples and the depth of the answer that teaches most for its cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.counted_nouns import say_count
from labeltree.curation.answer_costs import answer_costs
from labeltree.curation.batch_choice import STRATEGIES, Pool, choose, copies_apart
from labeltree.curation.partial_labels import DepthProbes, fit_depth_probes
from labeltree.data.stratified import group_numbers
from labeltree.errors import DataError
from labeltree.metrics.metric_checks import check_embeddings, check_nodes, check_same_length
from labeltree.options.choices import DepthRule, Strategy
from labeltree.taxonomy import Taxonomy

__all__ = ["DEPTH_RULES", "DepthRule", "LabelRequests", "label_next"]

DEPTH_RULES: tuple[DepthRule, ...] = get_args(DepthRule)

_FREE = 1e-9  # an answer that costs less, as a share of the dearest one, costs nothing
_CLEAR = 0.8  # a guess at least so probable is called clear
_UNLABELLED = "typical of samples like it; nothing is labelled yet"
_REASONS: dict[Strategy, str] = {
    "typiclust": "typical of samples with few labels; ",
    "coreset": "far from all samples with a label; ",
}


@dataclass(frozen=True, eq=False)
class LabelRequests:
    """Samples to label, the most useful first; m of them.

    Attributes:
        rows: `(m,)` int64 positions of the samples.
        known: `(m,)` int64 their labels so far, −1 = none.
        depths: `(m,)` int64 depth to which an answer is asked for; a shallower leaf is a full answer, too.
        costs: `(m,)` float64 expected cost of each answer.
        gains: `(m,)` float64 expected information in bits: entropy of the answer times its reliability.
        likely: `(m,)` int64 the most probable answer.
        probabilities: `(m,)` float64 its probability.
        reasons: Why each was chosen, in words.
        strategy: How samples were chosen.
        candidates: Number of samples that could have been chosen.
    """

    rows: Tensor
    known: Tensor
    depths: Tensor
    costs: Tensor
    gains: Tensor
    likely: Tensor
    probabilities: Tensor
    reasons: tuple[str, ...]
    strategy: Strategy
    candidates: int

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class _Doubts:
    """What the probes say of each candidate.

    Attributes:
        information: `(c, L)` entropy in bits of the answer at depth 1 … L, given the label so far.
        costs: `(c, L)` its expected cost; 0 where nothing is left to ask.
        margin: `(c,)` −(probability of the first leaf − that of the second).
        leaf: `(c,)` most probable leaf.
        confidence: `(c,)` its probability.
    """

    information: Tensor
    costs: Tensor
    margin: Tensor
    leaf: Tensor
    confidence: Tensor


def label_next(
    vectors: Tensor,
    nodes: Tensor,
    taxonomy: Taxonomy,
    *,
    budget: float = 100.0,
    strategy: Strategy = "margin+clusters",
    depth: DepthRule | int = "finest",
    costs: str | Sequence[float] = "levels",
    reliability: Sequence[float] | None = None,
    groups: Tensor | None = None,
    candidates: Tensor | None = None,
    seed: int = 0,
) -> LabelRequests:
    """Choose samples without a label, or with a coarse one, whose labels would teach most for a budget.

    Args:
        vectors: `(n, d)` finite float features or embeddings of all samples.
        nodes: `(n,)` int64 labels, leaves or inner nodes; −1 (or the root) where missing.
        taxonomy: Tree of the labels.
        budget: Sum of the expected costs of the answers, in units of `costs`.
        strategy: How samples are chosen; see `choose`. Of `gain` the doubt is the expected information
            per unit of cost, of `margin` and `margin+clusters` how close the second leaf comes to the
            first, else the entropy of the leaf. Without any label, `typiclust` is used.
        depth: How finely to ask: `finest`: for a leaf; `gain`: at the depth with the most expected
            information per unit of cost; or a depth.
        costs: Of an answer by its depth; see `answer_costs`.
        reliability: For depth 1, 2 … L the probability that an answer is right; it multiplies the expected
            information. None = 1 throughout.
        groups: `(n,)` int64 group of each sample, −1 for none: a batch takes from them as evenly as it can.
        candidates: `(n,)` bool, samples that may be chosen; None = all. Those with a leaf label never are.
        seed: Of whatever is drawn.

    Raises:
        DataError: If there is nothing to choose from.
        ValueError: For wrong shapes or a setting out of range, or if costs make an answer free.

    Example:
        >>> import torch
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths(["animal/dog", "animal/cat", "plant/oak"])
        >>> vectors = torch.tensor([[0.0, 0.0], [0.0, 1.0], [9.0, 0.0], [0.1, 0.5], [9.0, 0.1]])
        >>> labels = taxonomy.encode(["dog", "cat", "oak", None, None])
        >>> asked = label_next(vectors, labels, taxonomy, budget=2, strategy="entropy")
        >>> asked.rows.tolist(), asked.depths.tolist()
        ([3], [2])
    """
    check_embeddings("vectors", vectors)
    check_same_length("vectors", vectors, "nodes", nodes)
    check_nodes("nodes", nodes, taxonomy)
    _check_settings(taxonomy, budget, strategy, depth, reliability)
    cost_of = answer_costs(taxonomy, costs)
    labels = torch.where(nodes > 0, nodes, -1)
    open_ = (labels < 0) | ~taxonomy.is_leaf[labels.clamp(min=0)]
    if isinstance(depth, int):
        open_ &= (labels < 0) | (taxonomy.depth[labels.clamp(min=0)] < depth)
    if candidates is not None:
        check_same_length("vectors", vectors, "candidates", candidates)
        open_ &= candidates
    rows = open_.nonzero()[:, 0]
    if not len(rows):
        raise DataError(
            "there is nothing to label: every sample that may be chosen has a label as fine as is asked for"
        )
    labelled = (labels >= 0).nonzero()[:, 0]
    if not len(labelled) and strategy != "random":
        strategy = "typiclust"
    probes = fit_depth_probes(vectors, labels, taxonomy, seed=seed)
    sure = torch.ones(taxonomy.max_depth) if reliability is None else torch.tensor([*reliability])
    doubts = _doubts(probes, vectors[rows], labels[rows], cost_of)
    information = doubts.information * sure[: taxonomy.max_depth].double()
    at = _depths(information, doubts, depth)
    each = torch.arange(len(rows))
    paid, gained = doubts.costs[each, at - 1], information[each, at - 1]
    _check_costs(paid, labels[rows], taxonomy, cost_of, costs)
    if strategy in ("margin", "margin+clusters"):
        doubt = doubts.margin
    else:
        doubt = gained / paid.clamp_min(1e-12) if strategy == "gain" else doubts.information[:, -1]
    points = probes.standardized(vectors)
    within = (paid <= budget + 1e-9).nonzero()[:, 0]
    if not len(within):
        raise DataError(
            f"a budget of {budget:g} does not pay for one answer, the cheapest of which costs "
            f"{float(paid.min()):.3g}; give a larger budget, or ask at a coarser depth"
        )
    wanted = max(1, math.ceil(min(budget / float(paid.min()), len(within))))
    pool = Pool(points, labelled, rows[within], doubt[within], doubts.leaf[within], doubts.confidence[within])
    order = choose(strategy, min(len(within), wanted + wanted // 4 + 1), pool, seed)
    if strategy != "random":
        numbers = torch.from_numpy(group_numbers(groups, len(nodes)))
        order = copies_apart(points, order, numbers, wanted)
    place = torch.full((len(nodes),), -1, dtype=torch.int64)
    place[rows] = each
    chosen = _paid_for(place[order], paid, budget)
    requested = rows[chosen]
    known, depths = labels[requested], at[chosen]
    likely, probabilities, reasons = _guesses(probes, vectors[requested], known, depths, strategy)
    return LabelRequests(
        requested,
        known,
        depths,
        paid[chosen],
        gained[chosen],
        likely,
        probabilities,
        reasons,
        strategy,
        len(rows),
    )


def _paid_for(order: Tensor, paid: Tensor, budget: float) -> Tensor:
    """Those of an order that the budget pays for; what is too dear for the rest of it is passed over."""
    left, chosen = budget + 1e-9, []
    for row in order.tolist():
        if float(paid[row]) <= left:
            left -= float(paid[row])
            chosen.append(row)
    return torch.tensor(chosen, dtype=torch.int64)


def _check_settings(
    taxonomy: Taxonomy,
    budget: float,
    strategy: str,
    depth: DepthRule | int,
    reliability: Sequence[float] | None,
) -> None:
    if not (math.isfinite(budget) and budget > 0):
        raise ValueError(f"budget is {budget}; expected a number above 0")
    check_choice("strategy", strategy, STRATEGIES)
    if isinstance(depth, int):
        if not 1 <= depth <= taxonomy.max_depth:
            raise ValueError(f"depth is {depth}; this taxonomy has depths 1 to {taxonomy.max_depth}")
    elif depth not in DEPTH_RULES:
        raise ValueError(f"depth is {depth!r}; expected {', '.join(DEPTH_RULES)} or a number")
    if reliability is not None and (
        len(reliability) < taxonomy.max_depth or not all(0 < share <= 1 for share in reliability)
    ):
        raise ValueError(
            f"reliability is {list(reliability)}; expected a probability above 0 for each of "
            f"{taxonomy.max_depth} depths"
        )


def _check_costs(
    paid: Tensor, known: Tensor, taxonomy: Taxonomy, cost_of: Tensor, costs: str | Sequence[float]
) -> None:
    """Refuse costs by which an answer is free: any number of them would fit every budget."""
    free = (paid <= _FREE * cost_of.max()).nonzero()[:, 0]
    if len(free):
        node = int(known[free[0]])
        raise ValueError(
            f"costs are {costs if isinstance(costs, str) else [*costs]}, so that a finer answer is free for "
            f"{len(free)} samples with a coarse label, such as '{taxonomy.path_name(node)}': it costs the "
            "difference to a coarser one; give costs that rise from depth to depth"
        )


def _doubts(probes: DepthProbes, vectors: Tensor, known: Tensor, cost_of: Tensor) -> _Doubts:
    taxonomy = probes.taxonomy
    paid = torch.where(known >= 0, cost_of[known.clamp(min=0)], 0.0)
    started = torch.where(known >= 0, taxonomy.depth[known.clamp(min=0)], 0)
    information = torch.zeros(len(vectors), taxonomy.max_depth, dtype=torch.float64)
    costs = torch.zeros_like(information)
    margin = torch.zeros(len(vectors), dtype=torch.float64)
    confidence = torch.zeros_like(margin)
    leaf = torch.zeros(len(vectors), dtype=torch.int64)
    leaves = taxonomy.leaves
    for part, probabilities in probes.chunks(vectors, known):
        for depth in range(1, taxonomy.max_depth + 1):
            answers = _answers(taxonomy, depth)
            share = probabilities[:, answers]
            information[part, depth - 1] = -torch.special.xlogy(share, share).sum(1) / math.log(2)
            costs[part, depth - 1] = (share * cost_of[answers]).sum(1) - paid[part]
        top = probabilities[:, leaves].topk(min(2, len(leaves)), dim=1)
        second = top.values[:, 1] if top.values.shape[1] > 1 else torch.zeros(len(probabilities))
        margin[part] = second - top.values[:, 0]
        leaf[part], confidence[part] = leaves[top.indices[:, 0]], top.values[:, 0]
    asked = torch.arange(1, taxonomy.max_depth + 1) > started[:, None]
    costs = torch.where(asked, costs.clamp_min(0), 0.0)
    return _Doubts(torch.where(asked, information.clamp_min(0), 0.0), costs, margin, leaf, confidence)


def _answers(taxonomy: Taxonomy, depth: int) -> Tensor:
    """The nodes that answer a question at a depth: those of the depth, and shallower leaves."""
    return ((taxonomy.depth == depth) | (taxonomy.is_leaf & (taxonomy.depth < depth))).nonzero()[:, 0]


def _depths(information: Tensor, doubts: _Doubts, depth: DepthRule | int) -> Tensor:
    """`(c,)` the depth to ask each candidate at."""
    deepest = information.shape[1]
    if isinstance(depth, int):
        return torch.full((len(information),), depth)
    if depth == "finest":
        return torch.full((len(information),), deepest)
    per_cost = information / doubts.costs.clamp_min(1e-12)
    per_cost = torch.where(doubts.costs > 1e-9, per_cost, -1.0)
    # ties go to the finer depth: it says more
    return deepest - per_cost.flip(1).argmax(1)


def _guesses(
    probes: DepthProbes, vectors: Tensor, known: Tensor, depths: Tensor, strategy: Strategy
) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """The likeliest answer for each sample, its probability, and why the sample was chosen."""
    taxonomy = probes.taxonomy
    likely = torch.zeros(len(known), dtype=torch.int64)
    probabilities = torch.zeros(len(known), dtype=torch.float64)
    reasons: list[str] = []
    for part, by_node in probes.chunks(vectors, known):
        for share, depth, label in zip(by_node, depths[part].tolist(), known[part].tolist(), strict=True):
            answers = _answers(taxonomy, depth)
            order = share[answers].argsort(descending=True, stable=True)
            best = answers[order[:2]].tolist()
            place = len(reasons)
            likely[place], probabilities[place] = best[0], share[best[0]]
            reason = _reason(probes, share, depth, label, best)
            reasons.append(_REASONS.get(strategy, "") + reason if bool(probes.samples.any()) else _UNLABELLED)
    return likely, probabilities, tuple(reasons)


def _reason(probes: DepthProbes, share: Tensor, depth: int, known: int, best: list[int]) -> str:
    """What is likely of a sample, and why it is asked at this depth."""
    taxonomy = probes.taxonomy
    words = [f"{taxonomy.path_name(node)} ({float(share[node]):.0%})" for node in best]
    which = "which"
    if float(share[best[0]]) >= _CLEAR:
        said = f"probably {words[0]}"
    elif len(words) > 1:
        said, which = f"unsure between {words[0]} and {words[1]}", "of which the first"
    else:
        said = f"perhaps {words[0]}"
    few = int(probes.samples[best[0]])
    if few < 3:
        said += f", {which} has {say_count(few, 'labelled sample') if few else 'no labelled sample'}"
    if known > 0:
        said += f"; known so far: {taxonomy.path_name(known)}"
    start = int(taxonomy.depth[known]) if known > 0 else 0
    for above in range(depth - 1, start, -1):
        nodes = (taxonomy.depth == above).nonzero()[:, 0]
        top = int(nodes[share[nodes].argmax()])
        if float(share[top]) >= _CLEAR:
            return f"{said}; depth {above} is clear ({taxonomy.path_name(top)}, {float(share[top]):.0%})"
    return said
