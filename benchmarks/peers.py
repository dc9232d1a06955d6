"""What ours are compared with: dense autograd losses as one would write them, and a package's SupCon.

All hold the (n, n) similarities and let autograd do the rest; masks and weights of labels are made once a
call, as they have to be in training. On trees whose leaves all lie at one depth they agree with ours
(tests/benchmarks/test_peers.py).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import torch
from torch import Tensor
from torch.nn.functional import normalize

from inputs import Batch

__all__ = ["PEERS", "dense_maskcon", "has_package", "package_supcon"]

Function = Callable[[Tensor], Tensor]


def similarities(z: Tensor, temperature: float) -> Tensor:
    """cos/τ of all pairs, −∞ on the diagonal."""
    z = normalize(z, dim=1)
    return (z @ z.T / temperature).fill_diagonal_(-torch.inf)


def positives(labels: Tensor) -> Tensor:
    """Pairs of one label, without the diagonal."""
    return (labels[:, None] == labels).fill_diagonal_(False)


def dense_supcon(batch: Batch, temperature: float = 0.1) -> Function:
    """SupCon (L_out), mean over anchors with a positive."""

    def loss(z: Tensor) -> Tensor:
        s, positive = similarities(z, temperature), positives(batch.nodes)
        log_q = (s - s.logsumexp(1, keepdim=True)).masked_fill(~positive, 0.0)
        count = positive.sum(1)
        return -(log_q.sum(1) / count.clamp(min=1))[count > 0].mean()

    return loss


def dense_hwc(batch: Batch, temperature: float = 0.1, alpha: float = 0.5, gamma: float = 0.5) -> Function:
    """HWC (Eq. 7 of Climbing the Label Tree), mean over positive pairs."""
    paths = batch.taxonomy.paths.to(batch.z.device)

    def loss(z: Tensor) -> Tensor:
        positive, rows = positives(batch.nodes), paths[batch.nodes]
        rho = torch.zeros(positive.shape, dtype=z.dtype, device=z.device)
        for nodes in rows.unbind(1):
            rho += nodes[:, None] == nodes
        rho /= rows.shape[1]
        omega = torch.where(positive, 1 + alpha * rho, 1 + gamma * (1 - rho))
        s = omega * similarities(z, temperature)
        return -(s - s.logsumexp(1, keepdim=True))[positive].mean()

    return loss


def dense_himulcon(batch: Batch, temperature: float = 0.1) -> Function:
    """HiMulCon (Eq. 4 of Use All The Labels) with the paper's weights."""
    paths = batch.taxonomy.paths.to(batch.z.device)
    depths = paths.shape[1]

    def loss(z: Tensor) -> Tensor:
        s = similarities(z, temperature)
        log_q, total = s - s.logsumexp(1, keepdim=True), torch.zeros((), device=z.device)
        for depth, nodes in enumerate(paths[batch.nodes].unbind(1), start=1):
            positive = positives(nodes)
            count = positive.sum(1)
            mean = log_q.masked_fill(~positive, 0.0).sum(1) / count.clamp(min=1)
            weight = torch.e ** (1 / (depths + 1 - depth)) / depths
            total = total - weight * mean[count > 0].mean()
        return total

    return loss


def dense_hicone(batch: Batch, temperature: float = 0.1) -> Function:
    """HiConE (Eq. 6 of Use All The Labels): pair losses at least the greatest of the finer depths."""
    paths = batch.taxonomy.paths.to(batch.z.device)

    def loss(z: Tensor) -> Tensor:
        s = similarities(z, temperature)
        pair = s.logsumexp(1, keepdim=True) - s
        total, bound = torch.zeros((), device=z.device), s.new_full((), -torch.inf)
        for nodes in reversed(paths[batch.nodes].unbind(1)):
            positive = positives(nodes)
            count = positive.sum(1)
            bounded = torch.where(pair >= bound, pair, bound).masked_fill(~positive, 0.0)
            total = total + (bounded.sum(1) / count.clamp(min=1))[count > 0].mean()
            here = pair.masked_fill(~positive, -torch.inf).max()
            bound = torch.where(here > bound, here, bound)
        return total / paths.shape[1]

    return loss


def dense_maskcon(batch: Batch, temperature: float = 0.1, target_temperature: float = 0.1) -> Function:
    """MaskCon (Eq. 8 to 15 there) with w = 1; keys and queue have no gradient."""
    stored = batch.stored

    def loss(z: Tensor) -> Tensor:
        q, k, queue = (normalize(x, dim=1) for x in (z, batch.keys, stored.vectors))
        s = torch.cat([(q * k).sum(1, keepdim=True), q @ queue.T], dim=1) / temperature
        with torch.no_grad():
            same = batch.nodes[:, None] == stored.nodes
            target = (k @ queue.T / target_temperature).masked_fill(~same, -torch.inf)
            most = target.amax(1, keepdim=True).clamp(min=torch.finfo(target.dtype).min)
            target = torch.cat([torch.ones_like(s[:, :1]), (target - most).exp()], dim=1)
            target /= target.sum(1, keepdim=True)
        return -(target * s.log_softmax(1)).sum(1).mean()

    return loss


PEERS: dict[str, Callable[[Batch], Function]] = {
    "supcon": dense_supcon,
    "hwc": dense_hwc,
    "himulcon": dense_himulcon,
    "hicone": dense_hicone,
    "maskcon": dense_maskcon,
}


def has_package() -> bool:
    """Whether pytorch-metric-learning is installed: `pip install 'labeltree[bench]'`."""
    return find_spec("pytorch_metric_learning") is not None


def package_supcon(batch: Batch, temperature: float = 0.1) -> Function:
    """SupConLoss of pytorch-metric-learning, on labels."""
    from pytorch_metric_learning.losses import SupConLoss

    loss = SupConLoss(temperature=temperature)
    return lambda z: loss(z, batch.nodes)
