"""The queue losses once more, one query and one stored key at a time, as Eq. 8 to 15 of MaskCon have it."""

import math
from dataclasses import dataclass

import torch
from slow_losses import agree, random_batch
from torch import Tensor

from labeltree.taxonomy import Taxonomy


@dataclass
class Stored:
    """Keys of earlier batches."""

    vectors: Tensor
    nodes: Tensor
    instances: Tensor


def random_queries(tree: Taxonomy, seed: int, b: int = 5, m: int = 9, d: int = 4, *, leaves: bool = False):
    """Queries, keys, a queue, nodes and instances; some stored keys are of samples of the batch."""
    queries, nodes, instances = random_batch(tree, seed, b, d, leaves=leaves)
    keys = queries + 0.4 * random_batch(tree, seed + 500, b, d)[0]
    vectors, stored_nodes, stored_instances = random_batch(tree, seed + 900, m, d, leaves=leaves)
    instances = 10 * instances + torch.arange(b) % 3
    stored_instances = torch.where(torch.arange(m) % 4 == 1, instances[0], 1000 + stored_instances)
    queue = Stored(vectors, stored_nodes, stored_instances)
    return queries, keys, queue, nodes, instances


def cosine(x: Tensor, y: Tensor) -> Tensor:
    return (x @ y) / (x.norm() * y.norm())


def relations(near: list[float], temperature: float) -> tuple[list[float], float]:
    """z' of the candidates, and their normalised entropy."""
    if not near:
        return [], 0.0
    if temperature == 0:
        z = [1.0 if x == max(near) else 0.0 for x in near]
    else:
        z = [math.exp(x / temperature) for x in near]
    share = [x / sum(z) for x in z]
    entropy = -sum(p * math.log(p) for p in share if p > 0)
    return [p / max(share) for p in share], entropy / math.log(len(share)) if len(share) > 1 else 0.0


def slow_queue_rows(
    tree: Taxonomy | None,
    batch: tuple[Tensor, Tensor, Stored, Tensor, Tensor],
    temperature: float,
    target_temperature: float,
    w: float | str,
    exclude_self: str,
    undecided: str = "ignore",
) -> Tensor:
    """The loss of every query; `w` may be a rule of ASCL; `tree=None`: no labels."""
    queries, keys, queue, nodes, instances = batch
    rows = []
    for i in range(len(queries)):
        own = cosine(queries[i], keys[i]) / temperature
        of_class, of_all, candidates = [own], [own], []
        for j in range(len(queue.vectors)):
            s = cosine(queries[i], queue.vectors[j]) / temperature
            old = bool(instances[i] == queue.instances[j])
            if old and exclude_self == "drop":
                continue
            of_all.append(s)
            same: bool | None = True
            if old:
                same = exclude_self == "keep"
            elif tree is not None:
                same = agree(tree, int(nodes[i]), int(queue.nodes[j]), tree.max_depth)
            if same is not None or undecided == "negative":
                of_class.append(s)
            if same:
                candidates.append((s, float(cosine(keys[i], queue.vectors[j]))))
        z, entropy = relations([near for _, near in candidates], target_temperature)
        share = {"entropy": entropy, "confidence": 1 - entropy}[w] if isinstance(w, str) else w
        total = 1 + sum(z)
        log_sum = torch.stack(of_class).exp().sum().log()
        soft = (log_sum - own) / total
        for weight, (s, _) in zip(z, candidates, strict=True):
            soft = soft + weight / total * (log_sum - s)
        rows.append(share * soft + (1 - share) * (torch.stack(of_all).exp().sum().log() - own))
    return torch.stack(rows)
