"""The hierarchical constraint of a small batch in one go: the dense reference's, with all sorts of labels."""

import pytest
import torch
from pair_batches import random_batch, random_tree

from labeltree.losses import HiConELoss, HiMulConELoss
from labeltree.pairs import PairRelation, implementation
from labeltree.pairs.primitives import way_of
from labeltree.taxonomy import Taxonomy
from sweeps import some_now


def batch(seed):
    tree = random_tree(seed)
    n = (7, 23, 60)[seed % 3]
    nodes, instances = random_batch(tree, seed, n)
    if seed % 4 == 3:
        instances = None
    if seed % 5 == 4:  # leaves alone
        generator = torch.Generator().manual_seed(seed)
        nodes = tree.leaves[torch.randint(len(tree.leaves), (n,), generator=generator)]
    z = torch.randn(n, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return tree, z, nodes, instances


def both(loss, z, nodes, instances):
    """Loss and gradient by the walk in one go, and by the reference."""
    found = []
    for name in ("streaming", "dense"):
        x = z.clone().requires_grad_()
        with implementation(name):
            value = loss(x, nodes, instances)
            weight = torch.arange(1.0, value.numel() + 1, dtype=value.dtype).reshape(value.shape)
            (value * weight).sum().backward()
        found.append((value.detach(), x.grad))
    return zip(*found, strict=True)


def taken(loss: HiMulConELoss, z, nodes, instances) -> bool:
    """Whether the batch goes that way."""
    relation = PairRelation.of_batch(loss.taxonomy_paths, nodes, instances)
    with implementation("streaming"):
        return way_of(z, z, relation, loss.temperature, "cosine", small=True) == "small"


@pytest.mark.parametrize("positives", ["nested", "exact"])
@pytest.mark.parametrize("undecided", ["ignore", "negative"])
@pytest.mark.parametrize("seed", some_now(range(15), 6))
def test_value_and_gradient_are_those_of_the_reference(seed, undecided, positives):
    tree, z, nodes, instances = batch(seed)
    loss = HiMulConELoss(
        tree,
        temperature=(0.1, 0.5)[seed % 2],
        positives=positives,
        undecided=undecided,
        detach_bound=seed % 3 == 1,
        reduction=("valid", "none", "pairs")[seed % 3],
        variant="paper",
    )
    assert taken(loss, z, nodes, instances)
    for ours, theirs in both(loss, z, nodes, instances):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_float32_as_near_as_the_reference():
    tree, z, nodes, instances = batch(2)
    loss = HiConELoss(tree, variant="paper")
    (_, _), (_, exact) = both(loss, z, nodes, instances)
    (_, _), (ours, theirs) = both(loss, z.float(), nodes, instances)
    assert float((ours - exact).norm()) <= 2 * float((theirs - exact).norm()) + 1e-6 * float(exact.norm())


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_are_the_same_vector(seed):
    """Pairs tie with each other and with the bound; which of equal rows sets it is a matter of rounding."""
    tree = Taxonomy.from_paths([("a", "b"), ("a", "c"), ("d", "e")])
    generator = torch.Generator().manual_seed(seed)
    distinct = torch.randn(6, 3, generator=generator, dtype=torch.float64)
    row = torch.arange(6).repeat(3)
    nodes = tree.encode(["b", "b", "c", "c", "e", "e"])[row]
    (ours, theirs), gradients = both(HiConELoss(tree, variant="paper"), distinct[row], nodes, None)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    ours, theirs = (torch.zeros_like(distinct).index_add_(0, row, grad) for grad in gradients)
    assert float(theirs.abs().amax(1).min()) > 1e-3
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_the_bound_of_a_batch_without_positives_is_none():
    tree = Taxonomy.from_paths([("a", "b"), ("c", "d")])
    z = torch.eye(2, dtype=torch.float64)
    for ours, theirs in both(HiConELoss(tree, variant="paper"), z, tree.leaves, None):
        assert torch.equal(ours, theirs)
        assert not ours.any()


def test_the_same_gradient_twice_of_one_graph():
    tree, z, nodes, instances = batch(5)
    z.requires_grad_()
    with implementation("streaming"):
        loss = HiConELoss(tree, variant="paper")(z, nodes, instances)
        first, second = (torch.autograd.grad(loss, z, retain_graph=True)[0] for _ in range(2))
    assert bool(first.any())
    assert torch.equal(first, second)


def test_batches_that_go_another_way():
    tree, z, nodes, instances = batch(2)
    assert not taken(
        HiConELoss(tree, 0.001, variant="paper"), z.float(), nodes, instances
    )  # exponentials beyond float32
    whole = batch(2)[1].repeat(10, 1)
    assert not taken(HiConELoss(tree, variant="paper"), whole, nodes.repeat(10), None)  # more than a tile
    with torch.inference_mode():
        assert taken(HiConELoss(tree, variant="paper"), z, nodes, instances)
