"""The bounded sum's kernels in Triton's interpreter."""

from unittest.mock import patch

import pytest
import torch
from interpreted import HALF_PRECISION, check, compared, inside, relation_of, vectors
from pair_batches import random_tree

from labeltree import losses
from labeltree.geometry import Sphere
from labeltree.pairs import PairRelation, bounded_sum, implementation
from labeltree.pairs.kernels import bounded_launch as kernels
from labeltree.taxonomy import Taxonomy

pytest.importorskip("triton")


def call_of(relation, terms=3):
    """The sum under random terms, offsets and bounds, of which one is none; some pairs lie on either side."""
    generator = torch.Generator().manual_seed(2)
    members = torch.rand(terms, relation.num_relations, generator=generator) < 0.5
    offset = 3 * torch.rand(relation.num_queries, terms, generator=generator)
    bound = torch.tensor([1.0, -torch.inf, 2.0])[:terms]

    def call(z, y=None, offset=offset, bound=bound):
        keys = z if y is None else y
        return (bounded_sum(z, keys, relation, Sphere(), 0.5, members=members, offset=offset, bound=bound),)

    return call, offset, bound


@inside
@pytest.mark.parametrize(
    ("n", "refined", "dtype"),
    [
        (18, True, torch.float32),
        pytest.param(20, False, torch.bfloat16, marks=pytest.mark.long),
        pytest.param(33, False, torch.float32, marks=pytest.mark.long),
    ],
)
def test_of_a_batch(n, refined, dtype):
    call, offset, bound = call_of(relation_of(n, refined=refined))
    z, half = vectors(n, 10, dtype=dtype), dtype != torch.float32
    check(compared(call, z), gradient=HALF_PRECISION if half else 3e-6)
    if not half:
        check(compared(lambda o, b: call(z, None, o, b), offset, bound))


@inside
@pytest.mark.long
def test_of_two_sides():
    relation = relation_of(24, keys=slice(3, 22), offset=-3)
    call, *_ = call_of(relation)
    check(compared(call, vectors(24, 8), vectors(relation.num_keys, 8, seed=1)))


@inside
@pytest.mark.long
def test_tiles_of_one_relation():
    tree = Taxonomy.from_paths([("a", "b"), ("a", "c"), ("d",)])
    nodes = tree.encode([name for name in ("b", "c", "d", None) for _ in range(16)])
    nodes = nodes[torch.randperm(len(nodes), generator=torch.Generator().manual_seed(0))]
    call, *_ = call_of(PairRelation.of_batch(tree.paths, nodes))
    check(compared(call, vectors(len(nodes), 8)))


@inside
def test_the_constrained_loss_runs_in_kernels():
    tree = random_tree(2)
    z = vectors(20, 8).requires_grad_()
    nodes = torch.arange(20) % len(tree)
    with patch.object(kernels, "bounded_sum", side_effect=kernels.bounded_sum) as called:
        with implementation("triton", tile=16):
            losses.HiConELoss(tree, variant="paper")(z, nodes).backward()
        assert called.call_count == 1
    assert z.grad.norm() > 0
