"""The probe by SGD against gradients that autograd finds, a step at a time in float64."""

from __future__ import annotations

import math

import pytest
import torch

from labeltree.metrics import SGDProbe


@pytest.mark.parametrize(
    ("schedule", "balanced", "decay"), [("constant", False, 0.0), ("cosine", True, 0.03)]
)
def test_steps_are_those_of_momentum_sgd(schedule: str, balanced: bool, decay: float) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(53, 6, generator=generator)
    y = torch.randint(0, 4, (53,), generator=generator) ** 2 + 2**25
    probe = SGDProbe(
        epochs=3, batch_size=10, schedule=schedule, balanced=balanced, weight_decay=decay, seed=5
    ).fit(torch.cat([x, x[:2]]), torch.cat([y, torch.tensor([-1, -1])]))

    classes, targets, sizes = torch.unique(y, return_inverse=True, return_counts=True)
    weight = torch.zeros(6, len(classes), dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(len(classes), dtype=torch.float64, requires_grad=True)
    class_weight = 53 / (len(classes) * sizes.double()) if balanced else None
    velocity = [torch.zeros_like(weight), torch.zeros_like(bias)]
    order = torch.Generator().manual_seed(5)
    for step in range(3 * 6):
        if step % 6 == 0:
            batches = torch.randperm(53, generator=order).split(10)
        rows = batches[step % 6]
        logits = x[rows].double() @ weight + bias
        loss = torch.nn.functional.cross_entropy(logits, targets[rows], weight=class_weight)
        gradients = torch.autograd.grad(loss + decay / 2 * weight.square().sum(), (weight, bias))
        rate = 0.1 * ((1 + math.cos(math.pi * step / 18)) / 2 if schedule == "cosine" else 1.0)
        with torch.no_grad():
            for parameter, speed, gradient in zip((weight, bias), velocity, gradients, strict=True):
                speed.mul_(0.9).add_(gradient)
                parameter -= rate * speed
    torch.testing.assert_close(probe.weight.double(), weight.detach(), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(probe.bias.double(), bias.detach(), rtol=1e-4, atol=1e-6)
    assert torch.equal(probe.predict(x), classes[(x.double() @ weight + bias).argmax(1)])


def test_many_classes_are_told_apart_and_one_class_is_no_error() -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(300).repeat(4)
    centres = torch.nn.functional.normalize(torch.randn(300, 32, generator=generator), dim=1)
    seen: list[int] = []
    probe = SGDProbe(batch_size=100, learning_rate=2.0)
    probe.fit(10 * centres[y], y, lambda _, done, total: seen.append(done))
    assert (probe.predict(10 * centres) == torch.arange(300)).double().mean() > 0.97
    assert seen == list(range(1, 41))
    alone = SGDProbe(epochs=1).fit(centres[:3], torch.tensor([7, 7, 7]))
    assert alone.predict(centres[:2]).tolist() == [7, 7]


def test_bad_arguments_are_named() -> None:
    for arguments, message in (
        ({"epochs": 0}, "epochs is 0"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0"),
        ({"momentum": 1.0}, "momentum is 1.0"),
        ({"weight_decay": -1.0}, "weight_decay is -1.0"),
        ({"schedule": "step"}, "schedule is 'step'"),
    ):
        with pytest.raises(ValueError, match=message):
            SGDProbe(**arguments)
    with pytest.raises(RuntimeError, match="not fitted"):
        SGDProbe().predict(torch.eye(2))
    with pytest.raises(ValueError, match="no class but -1"):
        SGDProbe().fit(torch.eye(2), torch.tensor([-1, -1]))
    with pytest.raises(ValueError, match="standardise the features or lower it"):
        SGDProbe(learning_rate=1e38, epochs=3).fit(
            torch.tensor([[1e20, 0.0], [0.0, 1e20], [1e20, 1e20]]), torch.tensor([0, 1, 2])
        )
