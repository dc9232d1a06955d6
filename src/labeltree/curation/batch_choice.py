"""Orders in which samples are offered for labelling: by chance, doubt, cover, or several of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeltree.options.choices import Strategy

__all__ = ["STRATEGIES", "Pool", "choose", "copies_apart"]

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)

_PRESELECTED = 10  # of each sample that is wanted, so many of the least certain are clustered
_MOST_CLUSTERS = 500
_NEIGHBOURS = 20
_COPY = 1e-3  # of the median distance of two samples
_ROWS = 2048


@dataclass(frozen=True, eq=False)
class Pool:
    """Samples to choose from, and what is known of them.

    Attributes:
        points: `(n, d)` all samples.
        labelled: `(m,)` rows with a label.
        candidates: `(c,)` rows to choose from.
        doubt: `(c,)` how uncertain each candidate is, larger = less certain.
        guesses: `(c,)` most probable leaf of each candidate.
        confidence: `(c,)` its probability.
    """

    points: Tensor
    labelled: Tensor
    candidates: Tensor
    doubt: Tensor
    guesses: Tensor
    confidence: Tensor


def choose(strategy: Strategy, wanted: int, pool: Pool, seed: int) -> Tensor:
    """Candidates in the order in which a strategy asks for them.

    - `random`: by chance.
    - `entropy`, `margin`, `gain`: by `doubt` alone.
    - `margin+clusters`: the ten times as many most doubtful are clustered, and each cluster gives its most
      doubtful (Zhdanov 2019, Diverse mini-batch active learning).
    - `coreset`: always the one farthest from all labelled and chosen ones (Sener & Savarese 2018).
    - `typiclust`: clusters without a label, largest first, each gives its most typical (Hacohen et al.
      2022).
    - `badge`: k-means++ on the gradients of the last layer (Ash et al. 2020), here of the class that is
      most probable: its length is 1 − its probability.

    Args:
        strategy: Which.
        wanted: How many are needed; the order may hold fewer.
        pool: The samples; `doubt` as the strategy means it.
        seed: Of whatever is drawn.

    Returns:
        Rows, the first to ask for first.
    """
    points, candidates, doubt = pool.points, pool.candidates, pool.doubt
    wanted = min(wanted, len(candidates))
    draw = np.random.default_rng(seed)
    if strategy == "random":
        return candidates[torch.from_numpy(draw.permutation(len(candidates)))]
    # equal doubts in an order by chance, not in that of the file
    shuffled = torch.from_numpy(draw.permutation(len(candidates)))
    by_doubt = shuffled[doubt[shuffled].argsort(descending=True, stable=True)]
    if strategy in ("entropy", "margin", "gain"):
        return candidates[by_doubt]
    here = points[candidates]
    if strategy == "margin+clusters":
        unsure = by_doubt[: max(_PRESELECTED * wanted, 1)]
        cluster = _clusters(here[unsure], wanted, seed)
        _, first = np.unique(cluster, return_index=True)  # the first of each cluster is most doubtful
        order = unsure[torch.from_numpy(np.sort(first))]
        rest = by_doubt[~torch.isin(by_doubt, order)]
        return candidates[torch.cat([order, rest])]
    if strategy == "coreset":
        return candidates[_farthest(here, points[pool.labelled], wanted, draw)]
    if strategy == "typiclust":
        return candidates[_typical(points, pool.labelled, candidates, wanted, seed)]
    return candidates[_plus_plus(here, pool.guesses, pool.confidence, wanted, draw)]


def _clusters(points: Tensor, count: int, seed: int) -> NDArray[np.int64]:
    from sklearn.cluster import KMeans, MiniBatchKMeans

    count = max(1, min(count, len(points)))
    means = (
        KMeans(count, n_init=1, random_state=seed, max_iter=50)
        if len(points) * count <= 2_000_000
        else MiniBatchKMeans(count, n_init=1, random_state=seed, batch_size=4096)
    )
    clusters: NDArray[np.int64] = means.fit_predict(points.numpy()).astype(np.int64)
    return clusters


def _nearest(points: Tensor, others: Tensor) -> Tensor:
    """`(n,)` squared distance to the nearest of the others; infinite if there are none."""
    if not len(others):
        return torch.full((len(points),), torch.inf)
    parts = [torch.cdist(part, others).amin(1).square() for part in points.split(_ROWS)]  # type: ignore[no-untyped-call]
    return torch.cat(parts)


def _farthest(points: Tensor, labelled: Tensor, wanted: int, draw: np.random.Generator) -> Tensor:
    distance = _nearest(points, labelled)
    chosen: list[int] = []
    for _ in range(wanted):
        row = int(distance.argmax()) if bool(distance.isfinite().any()) else int(draw.integers(len(points)))
        chosen.append(row)
        distance = torch.minimum(distance, (points - points[row]).square().sum(1))
        distance[row] = -1.0
    return torch.tensor(chosen, dtype=torch.int64)


def _typical(points: Tensor, labelled: Tensor, candidates: Tensor, wanted: int, seed: int) -> Tensor:
    """Positions among the candidates; one of each cluster per turn."""
    count = min(len(labelled) + wanted, _MOST_CLUSTERS, len(points))
    cluster = _clusters(points, count, seed)
    place = np.full(len(points), -1)
    place[candidates.numpy()] = np.arange(len(candidates))
    covered = np.bincount(cluster[labelled.numpy()], minlength=count)
    sizes = np.bincount(cluster, minlength=count)
    queues: list[list[int]] = []
    for number in range(count):
        rows = np.flatnonzero(cluster == number)
        rows = rows[:_ROWS]  # of a huge cluster, enough to find a typical one
        free = rows[place[rows] >= 0]
        if not len(free):
            queues.append([])
            continue
        near = min(_NEIGHBOURS, len(rows) - 1)
        if near:
            apart = torch.cdist(points[free], points[rows]).topk(near + 1, largest=False).values
            typical = apart[:, 1:].mean(1).argsort(stable=True).numpy()
        else:
            typical = np.arange(len(free))
        queues.append(place[free[typical]].tolist()[::-1])
    chosen: list[int] = []
    asked = covered.copy()
    while len(chosen) < wanted and any(queues):
        open_ = [number for number in range(count) if queues[number]]
        best = min(open_, key=lambda number: (asked[number], -sizes[number], number))
        chosen.append(queues[best].pop())
        asked[best] += 1
    return torch.tensor(chosen, dtype=torch.int64)


def _plus_plus(
    points: Tensor, guesses: Tensor, confidence: Tensor, wanted: int, draw: np.random.Generator
) -> Tensor:
    """k-means++ on the vectors (1 − p)·x in the block of the guessed class; blocks are orthogonal."""
    scaled = points * (1 - confidence.float())[:, None]
    length = scaled.square().sum(1)
    first = int(length.argmax())
    chosen = [first]
    distance = torch.full((len(points),), torch.inf)
    for _ in range(wanted):
        last = chosen[-1]
        same = guesses == guesses[last]
        apart = torch.where(same, (scaled - scaled[last]).square().sum(1), length + length[last])
        distance = torch.minimum(distance, apart)
        distance[last] = 0.0
        if len(chosen) == wanted:
            break
        weight = distance.double().numpy()
        total = weight.sum()
        left = np.setdiff1d(np.arange(len(points)), chosen) if total <= 0 else None
        chosen.append(
            int(draw.choice(left)) if left is not None else int(draw.choice(len(points), p=weight / total))
        )
    return torch.tensor(chosen[:wanted], dtype=torch.int64)


def copies_apart(points: Tensor, order: Tensor, groups: Tensor, fits: int) -> Tensor:
    """The order with copies left out, and with samples evenly over groups in its beginning.

    A copy is a sample whose distance to one before it is less than a thousandth of the median distance. Of
    the first `fits` samples no group has more than it must have for there to be so many; what a group has
    beyond that follows later.

    Args:
        points: `(n, d)` all samples.
        order: `(m,)` rows.
        groups: `(n,)` int64 group of each sample, none missing.
        fits: About so many are needed.
    """
    if not len(order):
        return order
    sizes = torch.bincount(groups[order])
    sizes = sizes[sizes > 0]
    quota = 1
    while int(sizes.clamp(max=quota).sum()) < min(fits, len(order)):
        quota += 1
    sample = points[order[: _ROWS // 2]]
    near = _COPY * float(torch.pdist(sample).median()) if len(sample) > 1 else 0.0
    kept: list[int] = []
    later: list[int] = []
    used: dict[int, int] = {}
    buffer = torch.empty(min(fits, len(order)), points.shape[1])
    for row in order.tolist():
        if len(kept) >= fits:
            break
        group = int(groups[row])
        if used.get(group, 0) >= quota:
            later.append(row)
            continue
        if kept and float((buffer[: len(kept)] - points[row]).square().sum(1).min().sqrt()) <= near:
            continue
        buffer[len(kept)] = points[row]
        used[group] = used.get(group, 0) + 1
        kept.append(row)
    return torch.tensor([*kept, *later], dtype=torch.int64)
