"""A loss with its gradient found on the way: as without, and only where that is exact."""

import pytest
import torch

from labeltree.losses import HWCLoss, MLCLLoss, SupConLoss
from labeltree.pairs import eager_gradient, implementation
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([(a, a + b) for a in "pqr" for b in "st"])


def embeddings(seed=0, n=260, dtype=torch.float64):
    return torch.randn(n, 5, generator=torch.Generator().manual_seed(seed), dtype=dtype).requires_grad_()


def labels(n=260):
    return TREE.leaves[torch.arange(n) % len(TREE.leaves)], torch.arange(n) // 2


def test_value_and_gradient():
    loss, z, again = HWCLoss(TREE, alpha=0.5), embeddings(), embeddings()
    value = 3 * eager_gradient(lambda x: loss(2 * x, *labels()), z)
    expected = 3 * loss(2 * again, *labels())
    value.backward(retain_graph=True)
    expected.backward()
    assert (value - expected).abs() <= 1e-12
    assert (z.grad - again.grad).abs().max() <= 1e-12 * again.grad.abs().max()
    value.backward()
    assert (z.grad - 2 * again.grad).abs().max() <= 1e-12 * again.grad.abs().max()


def test_nothing_is_kept_but_the_gradient():
    loss, z = SupConLoss(TREE), embeddings()
    value = eager_gradient(lambda x: loss(x, *labels()), z)  # torch 2.11 frees what its step keeps with it
    step = value.grad_fn
    gradient, given = step.saved_tensors
    assert gradient.shape == (260, 5)
    assert given.data_ptr() == z.data_ptr() != gradient.data_ptr()
    (of_z, _), *others = step.next_functions
    assert of_z.variable is z
    assert all(other is None for other, _ in others)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_keeps_its_graph(dtype):
    seen = []
    eager_gradient(lambda x: seen.append(x) or x.sum(), z := embeddings(dtype=dtype))
    assert seen[0] is z  # its gradient may need the scale that the backward brings


def test_no_gradient_is_found_where_none_is_asked_for():
    seen, z = [], embeddings()
    with torch.no_grad():
        eager_gradient(lambda x: seen.append(x) or x.sum(), z)
    eager_gradient(lambda x: seen.append(x) or x.sum(), z.detach())
    assert seen[0] is z
    assert not seen[1].requires_grad


def test_twice_differentiable_where_the_dense_implementation_is():
    z, loss = embeddings(), MLCLLoss(TREE)
    heads = [z] * loss.num_heads
    with implementation("dense"):
        (first,) = torch.autograd.grad(loss(heads, *labels()), z, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), z)
    assert second.abs().max() > 0
    (first,) = torch.autograd.grad(loss(heads, *labels()), z, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiated once, not twice"):
        first.square().sum().backward()


@pytest.mark.parametrize("reduction", ["valid", "none"])
def test_heads_of_mlcl(reduction):
    loss = MLCLLoss(TREE, reduction=reduction)
    found = []
    for name in ("streaming", "dense"):
        heads = [embeddings(seed) for seed in range(loss.num_heads)]
        with implementation(name, tile=64):
            value = loss(heads, *labels())
            value.square().sum().backward()
        found.append((value.detach(), *(z.grad for z in heads)))
    for one, other in zip(*found, strict=True):
        assert (one - other).abs().max() <= 1e-10 * other.abs().max()
