"""The momentum encoder: how it follows, what stays its own, and the shuffle across ranks."""

import doctest

import pytest
import torch
from torch import distributed, nn

import labeltree.models.momentum as momentum_module
from forked import start_ranks
from labeltree.models import MomentumEncoder, ProjectionHead, build_encoder, set_trainable
from labeltree.pairs import gather_rows

pytestmark = pytest.mark.slow


def make():
    torch.manual_seed(0)
    encoder = build_encoder("small-conv", channels=1, image_size=8)
    return encoder, ProjectionHead(encoder.feature_dim, 4, hidden_dim=8)


def step(*modules: nn.Module) -> None:
    """Every parameter and every running statistic of the trained modules changes."""
    with torch.no_grad():
        for module in modules:
            for tensor in (*module.parameters(), *module.buffers()):
                tensor.add_(1)


def test_parameters_follow_and_statistics_stay():
    encoder, head = make()
    momentum = MomentumEncoder(encoder, head)
    assert not any(p.requires_grad for p in momentum.parameters())
    assert all(p.requires_grad for p in encoder.parameters())
    before = {name: tensor.clone() for name, tensor in momentum.state_dict().items()}
    step(encoder, head)
    momentum.update(encoder, head, 0.75)
    parameters = dict(momentum.named_parameters())
    for name, tensor in momentum.state_dict().items():
        torch.testing.assert_close(tensor, before[name] + (0.25 if name in parameters else 0))
    momentum.update(encoder, head, 1.0)
    torch.testing.assert_close(momentum.head.layers[0].weight, before["head.layers.0.weight"] + 0.25)
    momentum.update(encoder, head, 0.0)
    for mine, theirs in zip(momentum.encoder.parameters(), encoder.parameters(), strict=True):
        assert torch.equal(mine, theirs)
        assert mine is not theirs


def test_keys_are_the_copy_of_encoder_and_head_without_gradient():
    encoder, head = make()
    momentum = MomentumEncoder(encoder, head)
    images = torch.randn(6, 1, 8, 8)
    keys = momentum(images, seed=3)
    assert keys.shape == (6, 4)
    assert not keys.requires_grad
    torch.testing.assert_close(keys, head(encoder(images)).detach())
    assert torch.equal(
        MomentumEncoder(encoder)(images).mean(1), MomentumEncoder(encoder, None)(images).mean(1)
    )


def test_its_batch_norm_counts_its_own_batches_and_frozen_stages_stay_frozen():
    encoder, head = make()
    set_trainable(encoder, "last:1")
    momentum = MomentumEncoder(encoder, head)
    momentum.train()
    momentum(5 + torch.randn(6, 1, 8, 8))
    norms = [m for m in momentum.modules() if isinstance(m, nn.BatchNorm2d | nn.BatchNorm1d)]
    assert [int(norm.num_batches_tracked) for norm in norms] == [0, 0, 0, 1, 1]
    assert all(int(m.num_batches_tracked) == 0 for m in encoder.modules() if isinstance(m, nn.BatchNorm2d))


def test_wrong_arguments():
    encoder, head = make()
    momentum = MomentumEncoder(encoder, head)
    with pytest.raises(ValueError, match=r"momentum must lie between 0 and 1; got 1\.5"):
        momentum.update(encoder, head, 1.5)
    with pytest.raises(ValueError, match="the parameters of those that the momentum encoder was made from"):
        momentum.update(encoder, ProjectionHead(encoder.feature_dim, 5))
    with pytest.raises(ValueError, match="make a new MomentumEncoder"):
        momentum.update(encoder)


def test_the_example():
    assert doctest.testmod(momentum_module).failed == 0


class CountsWords(nn.Module):
    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return (tokens >= 0).sum(1, keepdim=True)


COUNTS = ((3, 3), (4, 1), (0, 5))


def _rank(rank: int, folder: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    encoder, head = make()
    momentum = MomentumEncoder(encoder, head)
    plain = MomentumEncoder(nn.Flatten(), nn.Identity())
    for seed, counts in enumerate(COUNTS):
        everything = torch.randn(sum(counts), 1, 8, 8, generator=torch.Generator().manual_seed(seed))
        images = everything.split(list(counts))[rank]
        assert torch.equal(plain(images, seed=seed), images.flatten(1))  # in order again
        momentum.update(encoder, head, 0.9)
        keys = momentum(images, seed=seed)
        assert keys.shape == (counts[rank], 4)
        step(encoder, head)
        # in training, keys follow from batch statistics, which are of the shuffled shares
        assert torch.equal(keys, momentum(images, seed=seed))
        others = [gather_rows(momentum(images, seed=another)) for another in range(10, 14)]
        assert not all(torch.allclose(gather_rows(keys), other) for other in others)
    words = torch.arange(2 + rank).repeat(3, 1)  # texts of another length on each rank
    of_texts = MomentumEncoder(CountsWords(), nn.Identity())
    assert of_texts(words).tolist() == [[2 + rank]] * 3
    torch.save(momentum.state_dict(), f"{folder}/{rank}.pt")
    distributed.destroy_process_group()


def test_two_ranks_are_one_model_and_shuffle_by_the_seed(tmp_path):
    start_ranks(_rank, (str(tmp_path),), nprocs=2)
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    alone = MomentumEncoder(*make())
    assert any(not torch.equal(first[name], value) for name, value in alone.named_buffers())
    alone.load_state_dict(first)
    assert alone.eval()(torch.randn(2, 1, 8, 8)).isfinite().all()
