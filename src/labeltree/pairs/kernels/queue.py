"""Contrast with a queue under soft targets by a Triton kernel, for relations of labels.

Every softmax, and the target too, is attention over the queue. Its mean key is the gradient of its
log-sum-exp, so that the backward does not see the queue.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from labeltree.geometry import Sphere
from labeltree.pairs.kernels.launch import settings, splits, vectors
from labeltree.pairs.kernels.layout import unsorted_sides
from labeltree.pairs.manual_gradient import with_gradient
from labeltree.pairs.relation import PairRelation
from labeltree.pairs.results import QueueContrast

__all__ = ["soft_target_contrast"]


def soft_target_contrast(
    queries: Tensor,
    keys: Tensor,
    stored: Tensor,
    relation: PairRelation,
    *,
    positive: Tensor | None,
    members: Tensor,
    temperature: float,
    target_temperature: float,
    tile: int | None,
) -> QueueContrast:
    """As `labeltree.pairs.soft_target_contrast`."""
    sphere = Sphere()
    unit = sphere.project(queries)
    own = (unit * sphere.project(keys)).sum(1) / temperature  # through one cast of half precision
    sets = len(members)
    with torch.no_grad():
        given = [queries.detach()] * sets + ([] if positive is None else [keys])
        inside = members if positive is None else torch.cat([members, positive[None]])
        sharpness = [1 / temperature] * sets + ([] if positive is None else [_sharpness(target_temperature)])
        found = _attention(given, stored, relation, inside, sharpness, tile)
        lse = found.peak[:sets] / temperature + found.total[:sets].log()
        mean = found.mean[:sets] / (found.total[:sets].clamp(min=1)[..., None] * temperature)
    lse = torch.logaddexp(own[:, None], with_gradient(unit, lse.T, mean.transpose(0, 1)))
    if positive is None:
        none = torch.zeros_like(own.detach())
        return QueueContrast(own, lse, none + 1, own, none)
    with torch.no_grad():
        total, count = found.total[-1], found.count[-1]
        weighted = 0.0 if sharpness[-1] == math.inf else found.spread[-1] * sharpness[-1]
        entropy = total.clamp(min=1).log() - weighted / total.clamp(min=1)  # total ≥ 1 or 0
        uniform = count.clamp(min=2).log()
        entropy = torch.where(count > 1, (entropy / uniform).clamp(0, 1), 0.0)
    attraction = own + (unit * found.mean[-1]).sum(1) / temperature
    return QueueContrast(own, lse, 1 + total, attraction, entropy)


def _sharpness(temperature: float) -> float:
    return 1 / temperature if temperature >= torch.finfo(torch.float32).tiny else math.inf


class _Attention:
    """Fields of `attention_kernel`, `(sets, b)` and `mean` `(sets, b, d)`, in which logits are k·cosine."""

    def __init__(self, fields: list[Tensor], sharpness: Tensor, rows: int, d: int) -> None:
        peak, total, spread, count, mean = (x[:, :, :rows] for x in fields)
        self.peak = peak.amax(0)
        risen = torch.where(total > 0, peak - self.peak, 0.0)
        share = torch.where(risen == 0, 1.0, (risen * sharpness[:, None]).exp())
        self.total = (share * total).sum(0)
        self.spread = (share * (spread + risen * total)).sum(0)
        self.count = count.sum(0)
        self.mean = torch.einsum("stb,stbd->tbd", share, mean[..., :d])


def _attention(
    given: list[Tensor],
    stored: Tensor,
    relation: PairRelation,
    inside: Tensor,
    sharpness: list[float],
    tile: int | None,
) -> _Attention:
    from labeltree.pairs.kernels.queue_kernel import attention_kernel

    device, d, sphere = stored.device, stored.shape[1], Sphere()
    dtypes = {x.dtype for x in (*given, stored)}
    how = settings(dtypes.pop() if len(dtypes) == 1 else torch.float32, d, tile)
    side = tile or (64 if how.half and how.width <= 128 else 32)
    u, v = unsorted_sides(relation, side, side)
    each = [vectors(x, sphere.project(x), u, how) for x in given]
    y = vectors(stored, sphere.project(stored), v, how)
    member = torch.cat([inside, inside.new_zeros(len(inside), 1)], dim=1).to(torch.int32)
    k = torch.tensor(sharpness, dtype=torch.float32, device=device)
    pad, sets, blocks, tiles = (
        u.labels.shape[1],
        len(given),
        u.labels.shape[1] // side,
        v.labels.shape[1] // side,
    )
    parts, span = splits(blocks * sets, tiles, device)
    fields = [torch.empty((parts, sets, pad), dtype=torch.float32, device=device) for _ in range(3)]
    fields.append(torch.empty((parts, sets, pad), dtype=torch.int32, device=device))
    fields.append(torch.empty((parts, sets, pad, how.width), dtype=torch.float32, device=device))
    with torch.cuda.device_of(u.labels):  # type: ignore[no-untyped-call]  # kernels run there
        attention_kernel[(blocks, parts, sets)](
            torch.stack([x.rows for x in each]), torch.stack([x.inverse for x in each]), u.labels,
            y.rows, y.inverse, v.labels, member, k * math.log2(math.e), *fields,
            pad, v.labels.shape[1], len(v), tiles, span,
            T=side, U=side, D=how.width, L=relation.max_depth, R=relation.num_relations,
            REFINED=relation.refined, PRECISION=how.precision, HALF=how.half, num_warps=4, num_stages=2,
        )  # fmt: skip
    return _Attention(fields, k, len(u), d)
