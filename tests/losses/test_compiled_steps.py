"""Losses within what `torch.compile` compiles: they run as they are."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from labeltree import losses
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

TREE = Taxonomy.from_paths([("a", "b", "c"), ("a", "b", "d"), ("a", "e", "f"), ("g", "h", "i")])
NODES = TREE.leaves.repeat(3)
INSTANCES = torch.arange(len(NODES))


def made(name: str) -> Callable[[Tensor], Tensor]:
    """A loss of embeddings."""
    if name == "hwc":
        hwc = losses.HWCLoss(TREE, 0.5, 0.5)
        return lambda z: hwc(z, NODES)
    if name == "happier":
        happier = losses.HAPPIERLoss(TREE, 4)
        return lambda z: happier(z, NODES, INSTANCES)
    mlcl = losses.MLCLLoss(TREE)
    return lambda z: mlcl([z] * 3, NODES, INSTANCES)


@pytest.mark.parametrize("name", ["hwc", "happier", "mlcl"])
def test_a_compiled_step_has_the_graph_of_the_network_and_the_same_gradients(name: str) -> None:
    torch.manual_seed(0)
    loss, network, found = made(name), nn.Linear(6, 4), []
    x = torch.randn(len(NODES), 6)
    graphs: list[Any] = []

    def backend(graph: torch.fx.GraphModule, _: object) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    def step(x: Tensor) -> Tensor:
        return loss(nn.functional.normalize(network(x), dim=1))

    for each in (step, torch.compile(step, backend=backend)):
        network.zero_grad()
        value = each(x)
        value.backward()
        found += [value.detach(), network.weight.grad.clone()]
    assert len(graphs) == 1
    torch.testing.assert_close(found[:2], found[2:])
