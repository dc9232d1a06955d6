"""Ranks with parts of a batch are one process with all of it, where losses are means over rows."""

from pathlib import Path

import pytest
import torch
from slow_losses import random_tree
from slow_queue_losses import random_queries
from torch import Tensor, distributed

from forked import start_ranks
from labeltree.losses import ASCLLoss, CoInsLoss, CorrelationLoss, DeViSELoss, GrafitLoss, MLCLLoss
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

TREE = random_tree(8)
PARTS = [slice(0, 3), slice(3, 3), slice(3, 4), slice(4, 7)]
NAMES = ["coins", "grafit", "ascl", "corr", "devise", "mlcl"]


def word_vectors(folder: Path) -> str:
    generator = torch.Generator().manual_seed(5)
    rows = torch.randn(len(TREE), 4, generator=generator).tolist()
    lines = (f"node{v} {' '.join(map(str, row))}" for v, row in enumerate(rows))
    path = folder / "vectors.txt"
    path.write_text("\n".join(lines))
    return str(path)


def value_and_gradients(name: str, rows: slice, vectors: str) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """Of the given rows of one batch: the value, the gradients of its inputs, those of parameters."""
    queries, keys, queue, nodes, instances = random_queries(TREE, 2, b=7)
    nodes[:3] = torch.tensor([-1, int(TREE.leaves[0]), 1])  # the first rank has few labels
    logits = torch.randn(7, TREE.num_leaves, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x, y = (t[rows].clone().requires_grad_() for t in (queries, logits))
    of_queue = (keys[rows], queue, nodes[rows], instances[rows])
    parameters: list[Tensor] = []
    if name == "coins":
        loss = CoInsLoss(TREE, w=0.4)(y, x, *of_queue)
    elif name in ("grafit", "ascl"):
        loss = (GrafitLoss(TREE) if name == "grafit" else ASCLLoss())(x, *of_queue)
    elif name == "corr":
        loss = CorrelationLoss(TREE, 4)(x, nodes[rows])
    elif name == "devise":
        tree = Taxonomy([f"node{v}" for v in range(len(TREE))], TREE.parent.tolist())
        loss = DeViSELoss(tree, vectors)(x, nodes[rows])
    else:
        torch.manual_seed(0)
        mlcl = MLCLLoss(TREE, weights=0.1, ce=True, feature_dim=4).double()
        loss = mlcl([x] * mlcl.num_heads, nodes[rows], instances[rows], features=x)
        parameters = list(mlcl.parameters())
    loss.backward()
    inputs = [x.grad, y.grad] if name == "coins" else [x.grad]
    return loss.detach(), inputs, [p.grad for p in parameters]


def _rank(rank: int, folder: str, vectors: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=4)
    torch.save({name: value_and_gradients(name, PARTS[rank], vectors) for name in NAMES}, f"{folder}/{rank}")
    distributed.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[dict]]:
    folder = tmp_path_factory.mktemp("ranks")
    vectors = word_vectors(folder)
    start_ranks(_rank, (str(folder), vectors), nprocs=len(PARTS))
    return vectors, [torch.load(folder / str(rank)) for rank in range(len(PARTS))]


@pytest.mark.parametrize("name", NAMES)
def test_ranks_are_one_batch(name: str, ranks: tuple[str, list[dict]]) -> None:
    vectors, found = ranks
    value, inputs, parameters = value_and_gradients(name, slice(None), vectors)
    values, of_inputs, of_parameters = zip(*(result[name] for result in found), strict=True)
    assert value > 0
    close = {"rtol": 1e-11, "atol": 1e-13}
    torch.testing.assert_close(torch.stack(values), value.expand(len(PARTS)), **close)
    for whole, parts in zip(inputs, zip(*of_inputs, strict=True), strict=True):
        torch.testing.assert_close(torch.cat(parts) / len(PARTS), whole, **close)  # as DDP means it
    for whole, parts in zip(parameters, zip(*of_parameters, strict=True), strict=True):
        torch.testing.assert_close(torch.stack(parts).mean(0), whole, **close)
