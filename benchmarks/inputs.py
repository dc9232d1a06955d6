"""Trees and batches that the benchmarks of losses are run on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from labeltree.taxonomy import Taxonomy

__all__ = ["SHAPES", "Batch", "Stored", "balanced", "batch", "chain", "ragged"]


@dataclass(frozen=True)
class Stored:
    """Keys of a queue: `(m, d)`, `(m,)` and `(m,)`."""

    vectors: Tensor
    nodes: Tensor
    instances: Tensor


@dataclass(frozen=True)
class Batch:
    """Two views of each of n/2 samples.

    Attributes:
        taxonomy: the tree of the labels.
        z: `(n, d)` unit vectors, float32.
        nodes: `(n,)` labels.
        instances: `(n,)` the views of a sample have one id.
        ratings: `(n, 5)` from 1 to 5, equal for the views of a sample.
        keys: `(n, d)` of a queue loss: the row's other view.
        stored: the queue, n keys near those of the batch but of other samples.
    """

    taxonomy: Taxonomy
    z: Tensor
    nodes: Tensor
    instances: Tensor
    ratings: Tensor = field(repr=False)
    keys: Tensor = field(repr=False)
    stored: Stored = field(repr=False)

    def __len__(self) -> int:
        return len(self.z)

    def rows(self, rows: slice) -> Batch:
        """Some of the rows, with all of the queue."""
        columns = (self.z, self.nodes, self.instances, self.ratings, self.keys)
        z, nodes, instances, ratings, keys = (column[rows] for column in columns)
        return Batch(self.taxonomy, z, nodes, instances, ratings, keys, self.stored)

    def to(self, device: str | torch.device = "cpu", dtype: torch.dtype = torch.float32) -> Batch:
        """The batch elsewhere, its vectors as `dtype`."""
        queue = self.stored
        nodes, instances, ratings, theirs, samples = (
            column.to(device)
            for column in (self.nodes, self.instances, self.ratings, queue.nodes, queue.instances)
        )
        z, keys, vectors = (vector.to(device, dtype) for vector in (self.z, self.keys, queue.vectors))
        return Batch(self.taxonomy, z, nodes, instances, ratings, keys, Stored(vectors, theirs, samples))


def balanced(*counts: int) -> Taxonomy:
    """A tree with so many nodes at each depth, each depth's divided evenly over those above."""
    last = counts[-1]
    return Taxonomy.from_paths(
        [
            tuple(f"{depth}-{leaf * count // last}" for depth, count in enumerate(counts))
            for leaf in range(last)
        ]
    )


def chain(depths: int, leaves: int = 512) -> Taxonomy:
    """A tree of so many depths in which the number of nodes doubles towards `leaves`, from 2 at the least."""
    return balanced(*(max(leaves >> (depths - 1 - depth), 2) for depth in range(depths)))


def ragged(nodes: int, seed: int = 0) -> Taxonomy:
    """A tree whose leaves lie at many depths: every node's parent is drawn from the nodes before it."""
    rng = np.random.default_rng(seed)
    return Taxonomy.from_edges([(str(v), str(int(rng.integers(v)))) for v in range(1, nodes)])


def _even(tree: Taxonomy, samples: int, generator: torch.Generator) -> Tensor:
    return tree.leaves[torch.randint(len(tree.leaves), (samples,), generator=generator)]


def _zipf(tree: Taxonomy, samples: int, generator: torch.Generator) -> Tensor:
    share = 1 / torch.arange(1, len(tree.leaves) + 1)
    return tree.leaves[torch.multinomial(share, samples, replacement=True, generator=generator)]


Draw = Callable[[Taxonomy, int, torch.Generator], Tensor]
SHAPES: dict[str, tuple[Callable[[], Taxonomy], Draw]] = {
    "balanced, 8/64/512": (lambda: balanced(8, 64, 512), _even),
    "skewed (Zipf), 8/64/512": (lambda: balanced(8, 64, 512), _zipf),
    "2 leaves": (lambda: balanced(2), _even),
    "4000 leaves, flat": (lambda: balanced(4000), _even),
    "1200 nodes, ragged": (lambda: ragged(1200), _even),
}


def batch(
    n: int,
    d: int = 128,
    shape: str = "balanced, 8/64/512",
    *,
    taxonomy: Taxonomy | None = None,
    noise: float | None = None,
    apart: float = 0.03,
    seed: int = 0,
) -> Batch:
    """A batch of n rows in random order of labels, like one that a sampler gives.

    Args:
        n: rows, even.
        d: width.
        shape: one of `SHAPES`.
        taxonomy: instead of the shape's.
        noise: None: random directions. Else each leaf has a direction of its own, and its rows lie about it
            with Gaussian noise of so much in every coordinate: tight clusters.
        apart: Gaussian noise in every coordinate between a row and the stored key of its label.
        seed: of everything random.
    """
    build, draw = SHAPES[shape]
    tree = build() if taxonomy is None else taxonomy
    generator = torch.Generator().manual_seed(seed)
    nodes = draw(tree, n // 2, generator).repeat(2)
    z = torch.randn(n, d, generator=generator)
    if noise is not None:
        centres = normalize(torch.randn(len(tree), d, generator=generator), dim=1)
        z = centres[nodes] + noise * z
    ratings = torch.randint(1, 6, (n // 2, 5), generator=generator).repeat(2, 1)
    z = normalize(z, dim=1)
    near = normalize(z + apart * torch.randn(n, d, generator=generator), dim=1)
    instances = torch.arange(n // 2).repeat(2)
    return Batch(tree, z, nodes, instances, ratings, z.roll(n // 2, 0), Stored(near, nodes, instances + n))
