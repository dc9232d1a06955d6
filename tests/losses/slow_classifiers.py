"""What classifiers' losses are made of, once more: leaves found by walking down, sums of probabilities."""

import math

import torch

from labeltree.taxonomy import Taxonomy


def below(tree: Taxonomy, node: int) -> list[int]:
    """The node and all its descendants."""
    return [node, *(deeper for child in tree.children(node) for deeper in below(tree, child))]


def line(tree: Taxonomy, node: int) -> list[int]:
    """Root, …, node."""
    return [node] if node == 0 else [*line(tree, int(tree.parent[node])), node]


def classes_at(tree: Taxonomy, depth: int | None = None) -> list[int]:
    """The classes in order, by a walk that stops at leaves and at the depth."""

    def walk(node: int, left: float) -> list[int]:
        children = tree.children(node)
        return [node] if left == 0 or not children else [c for v in children for c in walk(v, left - 1)]

    return walk(0, math.inf if depth is None else depth)


def columns_of(tree: Taxonomy, node: int, classes: list[int]) -> list[int]:
    """The columns that a label stands for."""
    if node < 0:
        return list(range(len(classes)))
    within = [k for k, c in enumerate(classes) if c in below(tree, node)]
    return within or [k for k, c in enumerate(classes) if c in line(tree, node)]


def probability(logits, columns):
    """Sum of the softmax over some columns, of one row."""
    exponentials = [torch.exp(x) for x in logits]
    return sum(exponentials[k] for k in columns) / sum(exponentials)


def labelled_mean(rows, nodes, zero):
    """The mean of the rows that have a label."""
    kept = [row for row, node in zip(rows, nodes.tolist(), strict=True) if node >= 0]
    return sum(kept) / len(kept) if kept else zero


def random_logits(tree: Taxonomy, seed: int, n: int = 9, depth: int | None = None, *, leaves: bool = False):
    """Logits that require a gradient, and labels of all sorts or leaves alone."""
    generator = torch.Generator().manual_seed(seed)
    width = len(classes_at(tree, depth))
    logits = torch.randn(n, width, generator=generator, dtype=torch.float64) * 2
    nodes = torch.randint(-1, len(tree), (n,), generator=generator)
    if leaves:
        nodes = tree.leaves[torch.randint(len(tree.leaves), (n,), generator=generator)]
    return logits.requires_grad_(), nodes


def same_value_and_gradient(value, expected, *inputs):
    """Both scalars agree to 1e-9, and so do their gradients."""
    torch.testing.assert_close(value, expected, rtol=1e-9, atol=1e-12)
    got = torch.autograd.grad(value, inputs, retain_graph=True, allow_unused=True)
    wanted = torch.autograd.grad(expected, inputs, retain_graph=True, allow_unused=True)
    for a, b, x in zip(got, wanted, inputs, strict=True):
        a, b = (torch.zeros_like(x) if g is None else g for g in (a, b))
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9 * max(float(b.abs().max()), 1e-3))
