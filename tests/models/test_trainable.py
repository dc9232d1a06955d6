"""Policies: what is frozen does not move, neither parameters nor batch statistics."""

import copy

import pytest
import torch
from torch import nn

from labeltree.models import ProjectionHead, build_encoder, set_trainable

pytestmark = pytest.mark.slow

NAMES = ["small-conv", "small-resnet", "timm:resnet10t", "torchvision:mobilenet_v3_small"]


def step(encoder):
    """One training step with a head, as a trainer makes it; returns the states before and after."""
    head = ProjectionHead(encoder.feature_dim, 8)
    parameters = [p for p in [*encoder.parameters(), *head.parameters()] if p.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=0.1, weight_decay=0.1)
    encoder.eval()  # as validation leaves it
    encoder.train()
    before = copy.deepcopy(encoder.state_dict())
    x = torch.randn(4, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    head(encoder(x)).square().sum().backward()
    optimizer.step()
    return before, encoder.state_dict()


def frozen_and_trained(encoder, last):
    """Names of the state of the frozen part and of the last stages."""
    trained_ids = {
        id(t) for stage in encoder.stages[len(encoder.stages) - last :] for t in state_tensors(stage)
    }
    names = dict(encoder.named_parameters()) | dict(encoder.named_buffers())
    return (
        {name for name, tensor in names.items() if id(tensor) not in trained_ids},
        {name for name, tensor in names.items() if id(tensor) in trained_ids},
    )


def state_tensors(module):
    return [*module.parameters(), *module.buffers()]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("policy", "last"), [("head", 0), ("last:1", 1), ("last:2", 2)])
def test_frozen_parts_do_not_move(name, policy, last):
    encoder = build_encoder(name, channels=1, image_size=32)
    set_trainable(encoder, policy)
    frozen, trained = frozen_and_trained(encoder, last)
    before, after = step(encoder)
    assert frozen
    assert all(torch.equal(before[key], after[key]) for key in frozen)
    assert bool(trained) == (last > 0)
    moved = {key for key in trained if not torch.equal(before[key], after[key])}
    assert all("running_mean" not in key or key in moved for key in trained)
    assert {key for key, p in encoder.named_parameters() if p.requires_grad} <= moved | {
        key for key, p in encoder.named_parameters() if p.requires_grad and not p.grad.any()
    }
    assert not trained or moved


@pytest.mark.parametrize("name", NAMES)
def test_all_moves_every_stage(name):
    encoder = build_encoder(name, channels=1, image_size=32)
    set_trainable(encoder, "head")
    set_trainable(encoder, "all")
    assert encoder.trainable == "all"
    assert all(p.requires_grad for p in encoder.parameters())
    before, after = step(encoder)
    for stage in encoder.stages:
        ids = {id(t) for t in state_tensors(stage)}
        keys = [
            k
            for k, t in (dict(encoder.named_parameters()) | dict(encoder.named_buffers())).items()
            if id(t) in ids
        ]
        assert any(not torch.equal(before[k], after[k]) for k in keys)


def test_frozen_norms_stay_in_evaluation_mode():
    encoder = build_encoder("small-conv")
    set_trainable(encoder, "last:1")
    encoder.train()
    modes = [
        {m.training for m in stage.modules() if isinstance(m, nn.BatchNorm2d)} for stage in encoder.stages
    ]
    assert modes == [{False}] * (len(modes) - 1) + [{True}]
    assert encoder.training
    encoder.eval()
    assert not any(m.training for m in encoder.modules())


def test_the_policy_survives_a_copy_and_a_parent():
    encoder = build_encoder("small-conv")
    set_trainable(encoder, "head")
    parent = nn.Sequential(copy.deepcopy(encoder), nn.Linear(encoder.feature_dim, 2)).train()
    assert not any(m.training for m in parent[0].modules() if isinstance(m, nn.BatchNorm2d))
    assert parent[1].training


def test_every_stage_of_last_k_is_all_but_the_name():
    encoder = build_encoder("small-conv")
    set_trainable(encoder, f"last:{len(encoder.stages)}")
    assert all(p.requires_grad for p in encoder.parameters())


@pytest.mark.parametrize("policy", ["", "none", "last", "last:0", "last:-1", "last:x", "last:1.5"])
def test_an_unknown_policy_is_refused(policy):
    encoder = build_encoder("small-conv")
    with pytest.raises(ValueError, match=r"expected 'all', 'last:K' with K ≥ 1, 'head' or 'lora'"):
        set_trainable(encoder, policy)
    assert encoder.trainable == "all"


def test_too_many_stages_are_refused():
    encoder = build_encoder("small-conv")
    with pytest.raises(ValueError, match=rf"the encoder has {len(encoder.stages)} stages"):
        set_trainable(encoder, "last:99")
    assert all(p.requires_grad for p in encoder.parameters())
