"""Contrast with a queue by a Triton kernel, for relations of labels.

Every softmax is attention over the queue. Its mean key is the gradient of its log-sum-exp, so the backward
does not use the queue.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from labeltree.geometry import Sphere
from labeltree.pairs.kernels.launch_kernels import settings, splits, vectors
from labeltree.pairs.kernels.layout import unsorted_sides
from labeltree.pairs.manual_gradient import with_gradient
from labeltree.pairs.pair_results import QueueContrast
from labeltree.pairs.relation import PairRelation

__all__ = ["queue_contrast"]


def queue_contrast(
    queries: Tensor,
    keys: Tensor,
    stored: Tensor,
    relation: PairRelation,
    *,
    members: Tensor,
    temperature: float,
    tile: int | None,
) -> QueueContrast:
    """As `labeltree.pairs.soft_target_contrast` without candidates."""
    sphere = Sphere()
    unit = sphere.project(queries)
    own = (unit * sphere.project(keys)).sum(1) / temperature  # through one cast of half precision
    with torch.no_grad():
        lse, mean = _attention(queries.detach(), unit, stored, relation, members, temperature, tile)
    lse = torch.logaddexp(own[:, None], with_gradient(unit, lse.T, mean.transpose(0, 1) / temperature))
    none = torch.zeros_like(own.detach())
    return QueueContrast(own, lse, none + 1, own, none)


def _attention(
    given: Tensor,
    unit: Tensor,
    stored: Tensor,
    relation: PairRelation,
    members: Tensor,
    temperature: float,
    tile: int | None,
) -> tuple[Tensor, Tensor]:
    """Log-sum-exps `(T, b)` over the members of each term, and the mean keys `(T, b, d)` of the softmaxes."""
    from labeltree.pairs.kernels.queue_kernel import attention_kernel

    (b, d), sets = given.shape, len(members)
    how = settings(given.dtype if given.dtype == stored.dtype else torch.float32, d, tile)
    side = tile or (64 if how.half and how.width <= 128 else 32)
    u, v = unsorted_sides(relation, side, side)
    x, y = vectors(given, unit, u, how), vectors(stored, Sphere().project(stored), v, how)
    member = torch.cat([members, members.new_zeros(sets, 1)], dim=1).to(torch.int32)
    pad, blocks, tiles = u.labels.shape[1], u.labels.shape[1] // side, v.labels.shape[1] // side
    parts, span = splits(blocks * sets, tiles, stored.device)
    peak, total = torch.empty((2, parts, sets, pad), dtype=torch.float32, device=stored.device)
    pulled = torch.empty((parts, sets, pad, how.width), dtype=torch.float32, device=stored.device)
    with torch.cuda.device_of(u.labels):  # type: ignore[no-untyped-call]  # kernels run there
        attention_kernel[(blocks, parts, sets)](
            x.rows, x.inverse * (math.log2(math.e) / temperature), u.labels,
            y.rows, y.inverse, v.labels, member, peak, total, pulled,
            pad, v.labels.shape[1], len(v), tiles, span,
            T=side, U=side, D=how.width, L=relation.max_depth, R=relation.num_relations,
            REFINED=relation.refined, PRECISION=how.precision, HALF=how.half, num_warps=4, num_stages=2,
        )  # fmt: skip
    peak, total, pulled = peak[..., :b], total[..., :b], pulled[:, :, :b, :d]
    top = peak.amax(0)
    weight = torch.where(total > 0, peak - top, 0.0).exp2()
    mass = (weight * total).sum(0)
    mean = torch.einsum("stb,stbd->tbd", weight, pulled) / mass.clamp(min=1)[..., None]
    return top * math.log(2) + mass.log(), mean
