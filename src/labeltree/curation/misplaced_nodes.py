"""Branches of a tree that do not fit their samples: nodes to move, and inner nodes to dissolve."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import false_discovery_control

from labeltree.curation.tree_samples import FEWEST_UNITS, TreeSamples, TreeSuspect
from labeltree.evaluation.statistics import holm

__all__ = ["nodes_to_dissolve", "nodes_to_move"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ROWS = 4096
_FEWEST_DEALS = 20
_WORK_OF_DEALS = 5e10  # multiplications
_FEWEST_DRAWS, _MOST_DRAWS = 1999, 199_999
_WORK_OF_DRAWS = 5e10  # additions
_NUMBERS_AT_ONCE = 8_000_000


def nodes_to_move(samples: TreeSamples, level: float, seed: int) -> tuple[list[TreeSuspect], int]:
    """Nodes that lie nearer to the children of another parent than to their siblings.

    The null hypothesis is that the node lies no nearer to another parent Q than to its own parent P, where
    a parent is the centre C of what could be its children. The node is given; what is sampled are the
    children by which the centres are known, and the node's units. (That the node is no ordinary child of P
    is another question, which any node of a parent that reaches far would pass.) Two things must be shown,
    and p is the larger of the two p values, after Benjamini & Hochberg over nodes:

    - *Beyond chance among nodes.* A mean c of m children lies farther from any node than C does, by s²/m in
      squared distance, where s² is the spread of the children, Σ|x − c|²/(m − 1) (for a single child that
      of all parents, pooled). |v − c|² − s²/m is free of that, so numbers of children do not matter. The
      difference of the two distances is divided by its standard error, with 4 aᵀSa/m of each centre, where
      a = v − c and S is the covariance of children about their centres, pooled over parents without v, and
      enlarged for a parent that spreads more than the pool. How large the largest of these ratios over all
      other parents becomes by chance is seen where the nodes of the depth are dealt to its parents at
      random, sizes kept: p is the share of all nodes in all deals (200 at a level of 0.05, fewer on large
      trees) with a larger one.
    - *Beyond chance among units.* Student's t test of the units' differences of squared distance, one-sided,
      times the number of other parents.

    Args:
        samples: The samples of the nodes.
        level: Largest corrected p of what is called significant.
        seed: Of the deals.

    Returns:
        The suspects, the clearest first, which are the nodes with an uncorrected p of at most the level;
        and the number of nodes tested: from depth 2 on, with a sibling, with another parent at its depth.
    """
    draw = np.random.default_rng(seed)
    taxonomy = samples.taxonomy
    moves: list[_Move] = []
    for depth in range(2, taxonomy.max_depth + 1):
        here = samples.with_samples(depth)
        means = samples.means[here].numpy()
        parents, place = np.unique(taxonomy.parent[here].numpy(), return_inverse=True)
        if len(parents) < 2 or len(here) - len(parents) < 2:
            continue
        nearest = _nearest_others(means, place)
        work = len(here) * means.shape[1] * (len(parents) + means.shape[1])
        deals = round(max(_FEWEST_DEALS, min(10 / level, _WORK_OF_DEALS / work)))
        dealt = np.concatenate([_nearest_others(means, draw.permutation(place)).ratio for _ in range(deals)])
        dealt = np.sort(dealt[~np.isnan(dealt)])
        larger = len(dealt) - np.searchsorted(dealt, nearest.ratio - 1e-9)
        for row in np.flatnonzero(~np.isnan(nearest.ratio)).tolist():
            p = float((1 + larger[row]) / (1 + len(dealt)))
            units = samples.units(int(here[row])).numpy()
            count, units_p = _units_nearer(units, nearest.towards[row], nearest.threshold[row])
            moves.append(
                _Move(
                    int(here[row]),
                    int(parents[nearest.other[row]]),
                    float(nearest.effect[row]),
                    max(p, min(1.0, units_p * (len(parents) - 1))) if len(units) >= FEWEST_UNITS else p,
                    count,
                    len(units),
                )
            )
    tested = [one for one in moves if one.units >= FEWEST_UNITS]
    corrected = false_discovery_control(np.array([one.p for one in tested]))
    p_of = {one.node: p for one, p in zip(tested, corrected.tolist(), strict=True)}
    listed = sorted((one for one in moves if one.p <= level), key=lambda one: (one.p, -one.effect, one.node))
    return [_suspect_of(samples, one, p_of.get(one.node, math.nan), level) for one in listed], len(moves)


@dataclass(frozen=True)
class _Move:
    """A node, the other parent it lies nearest to, and p before correction for many nodes."""

    node: int
    other: int
    effect: float
    p: float
    nearer: int
    units: int


def _suspect_of(samples: TreeSamples, one: _Move, p: float, level: float) -> TreeSuspect:
    sure = f"p {p:.2g}" if one.units >= FEWEST_UNITS else f"{one.units} are too few to be sure"
    return TreeSuspect(
        "move",
        one.node,
        one.other,
        one.effect,
        p,
        one.units,
        p <= level,
        f"{one.nearer} of {one.units} lie nearer to {samples.name(one.other)} than to its siblings in "
        f"{samples.name(int(samples.taxonomy.parent[one.node]))}, and their mean by {one.effect:.0%} of the "
        f"distance ({sure})",
    )


@dataclass(frozen=True)
class _Others:
    """Of each of n nodes the other parent for which the ratio is largest; see `nodes_to_move`.

    Attributes:
        other: `(n,)` number of that parent.
        ratio: `(n,)` by how much nearer it is, over the standard error; NaN for a node without siblings.
        effect: `(n,)` the same as a share of the distance to the siblings.
        towards: `(n, d)` the centre of the other parent minus that of the siblings.
        threshold: `(n,)` a unit x lies nearer to the other parent where x · towards is larger than this.
    """

    other: Ints
    ratio: Floats
    effect: Floats
    towards: Floats
    threshold: Floats


def _nearest_others(means: Floats, place: Ints) -> _Others:
    """Compare the distance of n nodes to their siblings with that to every other parent's children.

    Args:
        means: `(n, d)` of the nodes of one depth.
        place: `(n,)` number of the parent of each, from 0, with fewer parents than n − 1.
    """
    count = np.bincount(place).astype(np.float64)
    nodes, parents = len(place), len(count)
    by_parent = np.argsort(place, kind="stable")
    starts = np.concatenate([[0], np.cumsum(count)[:-1]]).astype(np.int64)
    centres = np.add.reduceat(means[by_parent], starts) / count[:, None]
    rest = means - centres[place]
    square = np.square(rest).sum(1)
    scatter = np.bincount(place, square, parents)
    covariance = rest.T @ rest
    siblings = count[place] - 1
    lone = siblings == 0
    with np.errstate(divide="ignore", invalid="ignore"):
        # What is left without the node itself.
        own_part = count[place] / siblings
        pool = np.where(lone, scatter.sum(), scatter.sum() - own_part * square)
        pool /= np.where(lone, nodes - parents, nodes - parents - 1)
        own_spread = np.where(siblings > 1, (scatter[place] - own_part * square) / (siblings - 1), pool)
        own_centre = (count[place, None] * centres[place] - means) / siblings[:, None]
    own_centre[lone] = means[lone]
    own_part[lone] = 0
    pool = np.maximum(pool, 1e-12)
    from_own = means - own_centre
    along_own = np.einsum("nd,nd->n", from_own @ covariance, from_own)
    along_own -= own_part * np.einsum("nd,nd->n", from_own, rest) ** 2
    to_own = np.square(from_own).sum(1) - own_spread / np.maximum(siblings, 1)
    error = 4 * along_own / (nodes - parents - 1) * np.maximum(1, own_spread / pool) / np.maximum(siblings, 1)
    centre_square = np.square(centres).sum(1)
    turned = centres @ covariance
    centre_along = np.einsum("kd,kd->k", turned, centres)
    best, ratio, to_best, best_spread = (
        np.zeros(nodes, np.int64),
        np.zeros(nodes),
        np.zeros(nodes),
        np.zeros(nodes),
    )
    for start in range(0, nodes, _ROWS):
        rows = slice(start, start + _ROWS)
        some, own = means[rows], place[rows]
        spread = np.where(count > 1, scatter / np.maximum(count - 1, 1), pool[rows, None])
        to_all = np.square(some).sum(1)[:, None] - 2 * some @ centres.T + centre_square - spread / count
        along = np.einsum("nd,nd->n", some @ covariance, some)[:, None] - 2 * some @ turned.T + centre_along
        along -= own_part[rows, None] * ((some * rest[rows]).sum(1)[:, None] - rest[rows] @ centres.T) ** 2
        of_centre = 4 * along / (nodes - parents - 1) * np.maximum(1, spread / pool[rows, None]) / count
        variance = np.maximum(error[rows, None] + of_centre, 1e-18)
        ratios = (to_own[rows, None] - to_all) / np.sqrt(variance)
        ratios[np.arange(len(own)), own] = -np.inf
        chosen = ratios.argmax(1)
        taken = np.arange(len(own)), chosen
        best[rows], ratio[rows] = chosen, ratios[taken]
        to_best[rows], best_spread[rows] = to_all[taken], spread[taken] / count[chosen]
    ratio[lone] = np.nan
    effect = 1 - np.sqrt(np.maximum(to_best, 0) / np.maximum(to_own, 1e-12))
    towards = centres[best] - own_centre
    taken_off = own_spread / np.maximum(siblings, 1) - best_spread
    threshold = (np.square(centres[best]).sum(1) - np.square(own_centre).sum(1) + taken_off) / 2
    return _Others(best, ratio, effect, towards, threshold)


def _units_nearer(units: Floats, towards: Floats, threshold: float) -> tuple[int, float]:
    """How many units lie nearer to the other parent, and p of Student's t test of their mean, one-sided."""
    from scipy.special import stdtr

    differences = units @ towards - threshold
    count = int((differences > 0).sum())
    if len(units) < 2:
        return count, 1.0
    error = float(differences.std(ddof=1)) / math.sqrt(len(units))
    mean = float(differences.mean())
    return count, float(stdtr(len(units) - 1, -mean / max(error, 1e-9)))


def nodes_to_dissolve(samples: TreeSamples, level: float, seed: int) -> tuple[list[TreeSuspect], int, str]:
    """Inner nodes whose children are no more alike than random nodes of their depth, by a permutation test.

    The mean cosine of the means of k ≥ 3 children, about the mean of their depth, is compared with that of k
    nodes of their depth drawn at random. There are 2K/level draws for K tested nodes or more (at least
    1,999), so that a single one can be significant after Holm; the largest trees get fewer, and the note says
    so.

    Args:
        samples: The samples of the nodes.
        level: Largest corrected p of what is called significant.
        seed: Of the draws.

    Returns:
        The suspects, the least alike first: those that are not more alike than random nodes (p after
        Benjamini & Hochberg above the level), significant if less alike (p of the other side, after Holm, at
        most the level); the number of nodes tested; and a note where there were too few draws.
    """
    taxonomy = samples.taxonomy
    families: list[tuple[Floats, dict[int, Ints]]] = []
    for depth in range(2, taxonomy.max_depth + 1):
        here = samples.with_samples(depth)
        means = samples.means[here].numpy()
        centred = means - means.mean(0) if len(here) else means
        length = np.linalg.norm(centred, axis=1, keepdims=True)
        directions = np.divide(centred, length, out=np.zeros_like(centred), where=length > 1e-12)
        parent = taxonomy.parent[here].numpy()
        children = {node: np.flatnonzero(parent == node) for node in np.unique(parent).tolist()}
        least = 2 / level  # with fewer choices of children, no p could be below the level
        enough = {
            node: some
            for node, some in children.items()
            if 3 <= len(some) < len(here) - 1 and math.comb(len(here), len(some)) >= least
        }
        if enough:
            families.append((directions, enough))
    tested = sum(len(children) for _, children in families)
    if not tested:
        return [], 0, ""
    wanted, fewest = max(_FEWEST_DRAWS, math.ceil(2 * tested / level)), _MOST_DRAWS
    rows: list[tuple[int, float, float, float, int]] = []
    draw = np.random.default_rng(seed)
    for directions, children in families:
        sizes = sorted({len(some) for some in children.values()})
        most = round(_WORK_OF_DRAWS / (sizes[-1] * directions.shape[1]))
        draws = min(wanted, max(_FEWEST_DRAWS, min(_MOST_DRAWS, most)))
        fewest = min(fewest, draws)
        chance = dict(zip(sizes, _random_likeness(directions, sizes, draws, draw), strict=True))
        for node, some in children.items():
            random = chance[len(some)]
            like = float(_likeness(directions[some].sum(0), len(some)))
            alike = (1 + int((random >= like - 1e-12).sum())) / (draws + 1)
            unlike = (1 + int((random <= like + 1e-12).sum())) / (draws + 1)
            deviations = (like - float(random.mean())) / max(float(random.std()), 1e-12)
            rows.append((node, deviations, alike, unlike, len(some)))
    alike_p = false_discovery_control(np.array([row[2] for row in rows]))
    unlike_p = holm(np.array([row[3] for row in rows]))
    suspects = []
    for (node, effect, _, _, size), more, less in zip(rows, alike_p.tolist(), unlike_p.tolist(), strict=True):
        if more > level:
            significant = less <= level
            p = less if significant else more
            claim = "less alike" if significant else "no more alike"
            of = "" if significant else " of being more alike"
            reason = f"its {size} children are {claim} than random nodes of their depth: "
            reason += f"{effect:+.1f} sd (p {p:.2g}{of})"
            suspects.append(TreeSuspect("dissolve", node, -1, effect, p, size, significant, reason))
    note = ""
    if fewest < wanted:
        note = (
            f"dissolve: {fewest:,} draws for {tested:,} nodes, so no p is below {tested / (fewest + 1):.2g} "
            "after correction; look at a part of the tree to be surer"
        )
    return sorted(suspects, key=lambda one: (one.effect, one.node)), tested, note


def _random_likeness(
    directions: Floats, sizes: list[int], draws: int, draw: np.random.Generator
) -> list[Floats]:
    """The mean cosine of as many random rows as each of the ascending sizes says.

    Returns:
        For each size `(draws,)`.
    """
    largest = sizes[-1]
    at_once = max(1, _NUMBERS_AT_ONCE // (largest * directions.shape[1]))
    parts: list[list[Floats]] = [[] for _ in sizes]
    for start in range(0, draws, at_once):
        drawn = np.stack(
            [draw.choice(len(directions), largest, replace=False) for _ in range(min(at_once, draws - start))]
        )
        sums = np.add.reduceat(directions[drawn], [0, *sizes[:-1]], axis=1).cumsum(1)
        for place, size in enumerate(sizes):
            parts[place].append(_likeness(sums[:, place], size))
    return [np.concatenate(some) for some in parts]


def _likeness(total: Floats, size: int) -> Floats:
    """The mean cosine of all pairs of k unit vectors from their sum: (|Σ|² − k) / k(k − 1)."""
    cosine: Floats = (np.square(total).sum(-1) - size) / (size * (size - 1))
    return cosine
