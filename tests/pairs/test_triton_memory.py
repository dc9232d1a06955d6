"""What a step by the kernels leaves behind, in Triton's interpreter."""

import gc
import weakref
from unittest.mock import patch

import pytest
from interpreted import inside, vectors
from pair_batches import random_batch, random_tree

from labeltree import losses
from labeltree.pairs import PairRelation, implementation
from labeltree.pairs.kernels import launch_kernels as launch

pytest.importorskip("triton")


@inside
@pytest.mark.parametrize(
    "build",
    [losses.HiConELoss, pytest.param(losses.SupConLoss, marks=pytest.mark.long)],
    ids=["HiConE", "SupCon"],
)
def test_a_step_leaves_no_relation_alive(build):
    """Not until the garbage collector runs either, by when a GPU may be full."""
    tree = random_tree(2)
    nodes, instances = random_batch(tree, 2, 12)
    loss, z = build(tree), vectors(12, 4).requires_grad_()
    seen: list[weakref.ref[PairRelation]] = []
    layout = launch._layout

    def watched(relation, tile, shard):
        seen.append(weakref.ref(relation))
        return layout(relation, tile, shard)

    gc.collect()
    gc.disable()
    try:
        with patch.object(launch, "_layout", watched), implementation("triton", tile=16):
            loss(z, nodes, instances).backward()
        assert bool(z.grad.any())
        assert seen
        assert not any(relation() is not None for relation in seen)
    finally:
        gc.enable()
