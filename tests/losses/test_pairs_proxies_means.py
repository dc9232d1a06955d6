"""What the page of pairs-proxies-means says of its optimum, checked with the losses themselves."""

import pytest
import torch
from slow_losses import even_tree

from labeltree.losses import CPCCLoss, TreeProxyLoss

TAU, GRAM = 0.4, 0.3


def at_heights(tree, of_height):
    """The Gram matrix of the leaves whose entries are those of the height of their lowest common ancestor."""
    leaves = tree.leaves
    heights = tree.height[tree.lca(leaves[:, None], leaves)]
    return torch.where(heights == 0, 1.0, of_height[heights]), heights


@pytest.mark.parametrize("sizes", [(2, 3, 2), (3, 3), (2, 2, 2, 2)])
def test_the_gradient_by_height_is_that_of_the_losses(sizes):
    tree = even_tree(*sizes)
    count, top = tree.num_leaves, int(tree.max_height)
    own = torch.linspace(0.6, 0.05, top + 1, dtype=torch.float64).square().requires_grad_()
    gram, heights = at_heights(tree, own)
    points = torch.linalg.cholesky(gram)
    loss = TreeProxyLoss(tree, count, TAU, align=1.0, gram=GRAM).double()
    loss.proxies = torch.nn.Parameter(torch.zeros(count, count, dtype=torch.float64))
    del loss.proxies
    loss.proxies = points  # samples lie on their proxies
    value = loss(points, tree.leaves) + CPCCLoss(tree)(points, tree.leaves)
    (found,) = torch.autograd.grad(value, own)

    with torch.no_grad():
        levels = torch.arange(1, top + 1)
        n = torch.stack([(heights[0] == h).sum() for h in levels]).double()
        share = (own[1:] / TAU).exp() / (gram[0] / TAU).exp().sum()
        wanted = (1 - 0.5) * (1 - levels.double() / top)
        weight = n / n.sum()
        d, tree_distance = (2 - 2 * own[1:]).sqrt(), 2.0 * levels

        def standard(x):
            mean = (weight * x).sum()
            spread = (weight * (x - mean).square()).sum().sqrt()
            return (x - mean) / spread, spread

        (near, spread), (far, _) = standard(d), standard(tree_distance.double())
        r = (weight * near * far).sum()
        expected = n * (share / TAU + 2 * GRAM * (own[1:] - wanted)) + weight * (far - r * near) / (
            spread * d
        )
    torch.testing.assert_close(found[1:], expected, rtol=1e-9, atol=1e-9)


def test_means_on_a_line_of_the_tree_are_left_alone():
    tree = even_tree(2, 3, 2)
    line = 1 - (0.3 + 0.2 * 2.0 * torch.arange(4, dtype=torch.float64)).square() / 2
    gram, _ = at_heights(tree, line)
    points = torch.linalg.cholesky(gram).requires_grad_()
    value = CPCCLoss(tree)(points, tree.leaves)
    value.backward()
    assert float(value.detach()) == pytest.approx(-1.0)
    assert points.grad.abs().max() < 1e-9


def test_in_a_flat_tree_means_say_nothing():
    tree = even_tree(5)
    points = torch.randn(5, 4, requires_grad=True)
    value = CPCCLoss(tree)(points, tree.leaves)
    value.backward()
    assert float(value.detach()) == 0
    assert not points.grad.any()
