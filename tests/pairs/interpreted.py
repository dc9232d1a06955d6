"""Kernels in Triton's interpreter beside the dense implementation.

Triton reads whether to interpret when it is first imported: tests of kernels are marked `inside`, and run in
the process of their own that `test_triton.py` starts.
"""

import os

import pytest
import torch
from pair_batches import random_batch, random_tree

from labeltree.pairs import PairRelation, implementation

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
inside = pytest.mark.skipif(not INTERPRETED, reason="runs in a process with TRITON_INTERPRET=1")
HALF_PRECISION = 0.02  # slopes have 8 bits


def relation_of(n, *, refined=False, seed=None, keys=None, offset=0):
    """A batch with itself, or with its keys from some row on; all sorts of labels and instances."""
    seed = n if seed is None else seed
    tree = random_tree(seed)
    nodes, instances = random_batch(tree, seed, n)
    depth = tree.depth if refined else None
    relation = PairRelation.of_batch(tree.paths, nodes, instances, taxonomy_depth=depth)
    return relation if keys is None else PairRelation(relation.queries, relation.keys[keys], offset=offset)


def vectors(n, d, seed=0, dtype=torch.float32):
    z = torch.randn(n, d, generator=torch.Generator().manual_seed(seed))
    z[0] = 0  # has no direction
    return z.to(dtype)


def compared(call, *inputs):
    """Outputs and gradients, of dense and of kernels; `call` gives tensors, infinite where nothing is."""
    both = []
    for name in ("dense", "triton"):
        x = [z.clone().requires_grad_() for z in inputs]
        with implementation(name, tile=16):
            found = call(*x)
        generator = torch.Generator().manual_seed(5)
        total = torch.zeros(())
        for value in found:
            if value.requires_grad:
                weight = torch.randn(value.shape, generator=generator)
                total = total + (weight * torch.where(value.isfinite(), value, 0.0)).sum()
        total.backward()
        both.append(([value.detach() for value in found], [z.grad.float() for z in x]))
    return both


def check(both, *, value=1e-6, gradient=3e-6):
    (dense, dense_gradients), (found, gradients) = both
    for expected, got in zip(dense, found, strict=True):
        assert got.dtype == expected.dtype
        assert got.shape == expected.shape
        if expected.dtype == torch.int64:
            assert torch.equal(expected, got)
        else:
            here = expected.isfinite()
            assert torch.equal(expected[~here], got[~here])
            largest = expected[here].abs().max().clamp(min=1)
            assert (expected - got)[here].abs().max() <= value * 10 * largest
    for expected, got in zip(dense_gradients, gradients, strict=True):
        assert expected.norm() > 0
        assert (expected - got).norm() <= gradient * expected.norm()
