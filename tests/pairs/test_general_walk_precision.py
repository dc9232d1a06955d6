"""The walk over tiles of any similarity, in float32: as near to float64 as the dense one."""

import pytest
import torch
from pair_batches import random_batch, random_tree

from labeltree.geometry import Euclidean, PoincareBall
from labeltree.pairs import PairRelation, implementation, pair_statistics


@pytest.mark.parametrize("geometry", [Euclidean(), PoincareBall()], ids=lambda g: g.name)
@pytest.mark.parametrize("tile", [32, 512])
def test_rounding_a_large_log_sum_exp_is_no_error_of_a_whole_row(geometry, tile):
    tree = random_tree(3)
    n = 160
    nodes, instances = random_batch(tree, 3, n)
    relation = PairRelation.of_batch(tree.paths, nodes, instances)
    generator = torch.Generator().manual_seed(0)
    z = torch.nn.functional.normalize(torch.randn(n, 32, generator=generator), dim=1).mul_(0.7)
    scale = torch.linspace(1.0, 1.5, relation.num_relations)

    def gradients(name, dtype):
        x, omega = z.to(dtype).requires_grad_(), scale.to(dtype).requires_grad_()
        with implementation(name, tile=tile):
            lse = pair_statistics(
                x, x, relation, geometry, 0.05, similarity="distance", scale=omega, want=("lse",)
            ).lse
        value = torch.where(lse > -torch.inf, lse, 0.0).sum()
        return [g.double() for g in torch.autograd.grad(value, (x, omega))]

    exact = gradients("dense", torch.float64)
    dense, ours = gradients("dense", torch.float32), gradients("streaming", torch.float32)
    for expected, theirs, mine in zip(exact, dense, ours, strict=True):
        assert (mine - expected).norm() <= 1.2 * (theirs - expected).norm()
