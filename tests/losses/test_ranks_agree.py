"""Parameters of a loss that differ between ranks are an error: nothing but DDP adds up their gradients."""

import pickle
from pathlib import Path

import pytest
import torch
from slow_losses import even_tree
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from forked import start_ranks
from labeltree.losses import HWCLoss, NormalisedSoftmaxLoss, SupConLoss
from labeltree.sampling import HierarchicalBatchSampler

pytestmark = pytest.mark.slow
TREE = even_tree(3, 3)


def steps(rank: int, loss: torch.nn.Module, count: int) -> None:
    """Train a loss and an encoder on samples of this rank's own."""
    torch.manual_seed(rank)
    nodes = TREE.leaves.repeat(8)
    x = torch.randn(len(nodes), 6)
    torch.manual_seed(0)
    encoder = DistributedDataParallel(torch.nn.Linear(6, 4))
    optimiser = torch.optim.SGD([*encoder.parameters(), *loss.parameters()], lr=0.1)
    sampler = HierarchicalBatchSampler(TREE, nodes, 18, seed=0)
    batches = [batch for epoch in range(count) for batch in sampler.batches(epoch)]
    for batch in batches[:count]:
        rows = torch.from_numpy(batch)
        optimiser.zero_grad()
        loss(encoder(x[rows]), nodes[rows]).backward()
        optimiser.step()


def _rank(rank: int, store: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)

    def proxies(seed: int) -> NormalisedSoftmaxLoss:
        torch.manual_seed(seed)
        return NormalisedSoftmaxLoss(TREE, 4)

    told = r"NormalisedSoftmaxLoss has parameters that differ between ranks \(proxies\)"
    with pytest.raises(RuntimeError, match=told):
        steps(rank, proxies(0), 2)
    with pytest.raises(RuntimeError, match=told):  # at once: they began apart
        steps(rank, proxies(rank), 1)
    steps(rank, proxies(rank).eval(), 2)  # nothing is trained
    for seed in (0, rank):
        steps(rank, DistributedDataParallel(proxies(seed)), 5)
    steps(rank, HWCLoss(TREE), 3)
    learnt = SupConLoss(TREE)  # every rank has the gradient of the joint batch
    learnt.temperature = torch.nn.Parameter(torch.tensor(0.4))
    steps(rank, learnt, 3)
    distributed.destroy_process_group()


def test_parameters_that_drift_apart_are_refused(tmp_path: Path) -> None:
    """Proxies outside DDP differed by 10 % after 60 steps, without a word."""
    start_ranks(_rank, (str(tmp_path / "store"),), nprocs=2)


def test_a_single_process_asks_nobody() -> None:
    loss = pickle.loads(pickle.dumps(NormalisedSoftmaxLoss(TREE, 4)))
    assert loss(torch.randn(9, 4), TREE.leaves).isfinite()
