"""The losses over a queue against slow loops, value and gradient, with every implementation."""

import pytest
import torch
from implementations import IMPLEMENTATIONS
from queue_settings import SETTINGS, TREES
from slow_queue_losses import random_queries, slow_queue_rows

from labeltree.pairs import implementation
from sweeps import long_unless, some_now

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("tree", long_unless(list(TREES), ["even", "deep and ragged"]))
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("exclude_self", some_now(["drop", "negative", "keep"], 2))
def test_slow_loops(name, tree, exclude_self):
    make, (tau, w, labelled) = SETTINGS[name]
    for seed, undecided in enumerate(
        ("ignore", "negative"), ("drop", "negative", "keep").index(exclude_self)
    ):
        batch = random_queries(TREES[tree], seed)
        options = {"undecided": undecided} if labelled else {}
        loss = make(TREES[tree], exclude_self=exclude_self, reduction="none", **options)
        y = batch[0].clone().requires_grad_()
        slow = slow_queue_rows(
            TREES[tree] if labelled else None, (y, *batch[1:]), 0.5, tau, w, exclude_self, undecided
        )
        weights = torch.linspace(0.5, 1.5, len(y), dtype=torch.float64)
        (weights @ slow).backward()
        for how, (by, tile) in IMPLEMENTATIONS.items():
            x = batch[0].clone().requires_grad_()
            with implementation(by, tile=tile):
                rows = loss(x, *batch[1:])
                (weights @ rows).backward()
            named = {"msg": lambda text, how=how: f"{how}: {text}"}
            torch.testing.assert_close(rows, slow, rtol=1e-11, atol=1e-12, **named)
            torch.testing.assert_close(x.grad, y.grad, rtol=1e-10, atol=1e-11, **named)


@pytest.mark.parametrize("name", SETTINGS)
def test_gradcheck(name):
    """Of one implementation, since all have the gradient of the slow loops."""
    queries, *rest = random_queries(TREES["ragged"], 1)
    loss = SETTINGS[name][0](TREES["ragged"])
    assert loss(queries, *rest) > 0
    assert torch.autograd.gradcheck(lambda q: loss(q, *rest), (queries.requires_grad_(),), fast_mode=True)
