"""The bounded sum over tiles against the dense one: value and every gradient, queries that are not keys."""

import pytest
import torch
from pair_batches import random_batch, random_tree

from labeltree.geometry import Euclidean, Sphere
from labeltree.pairs import LabelRows, PairRelation, bounded_sum, implementation


@pytest.mark.parametrize("tile", [1, 4, 64])
@pytest.mark.parametrize("seed", range(3))
def test_tiles_are_the_dense_sum(seed: int, tile: int) -> None:
    tree = random_tree(seed)
    nodes, instances = random_batch(tree, seed, 13)
    rows = LabelRows.of(tree.paths, nodes, instances, None)
    relation = PairRelation(rows[3:10], rows, offset=3)
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(13, 5, generator=generator, dtype=torch.float64)
    members = torch.rand(3, relation.num_relations, generator=generator) < 0.6
    geometry, similarity = [(Sphere(), "cosine"), (Euclidean(), "distance")][seed % 2]
    weight = torch.randn(7, 3, generator=generator, dtype=torch.float64)

    def evaluate(name: str) -> list[torch.Tensor]:
        queries, keys = z[3:10].clone(), z.clone()
        offset = torch.randn(7, 3, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
        bound = torch.tensor([0.5, 1.0, -torch.inf], dtype=torch.float64) + 4 * (similarity == "distance")
        temperature = torch.tensor(0.7, dtype=torch.float64)
        inputs = [x.requires_grad_() for x in (queries, keys, offset, bound, temperature)]
        with implementation(name, tile=tile):
            options = {"members": members, "offset": offset, "bound": bound, "similarity": similarity}
            value = bounded_sum(queries, keys, relation, geometry, temperature, **options)
            (value * weight).sum().backward()
        return [value.detach(), *(x.grad for x in inputs)]

    for ours, dense in zip(evaluate("streaming"), evaluate("dense"), strict=True):
        assert bool(dense.any())
        torch.testing.assert_close(ours, dense, rtol=1e-12, atol=1e-13)


def test_a_pair_ties_with_its_bound_but_for_rounding() -> None:
    """The similarity that set the bound is computed again, in another tile and to another last digit."""
    z = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], dtype=torch.float64, requires_grad=True)
    relation = PairRelation.of_instances(torch.tensor([0, 0, 0]), 3)
    members, offset = torch.arange(5)[None] == 3, torch.ones(3, 1, dtype=torch.float64)
    with implementation("streaming", tile=2):
        bound = torch.tensor([0.4 * (1 + 5e-16)], dtype=torch.float64)  # the second row's loss is 0.4
        options = {"members": members, "offset": offset, "bound": bound}
        bounded_sum(z, z, relation, Sphere(), 1.0, **options)[2].sum().backward()
    assert float(z.grad[2, 0]) == pytest.approx(-0.8 - 1.0, abs=1e-12)  # of the second row and of the first
