"""Warm restarts are a function of the step alone, also across a stop; gradients are clipped to a norm."""

import math
from collections.abc import Callable
from pathlib import Path

import lightning as L
import pytest
import torch
from lightning.pytorch.callbacks import Callback

from labeltree.training.fit import train
from labeltree.training.optimizer_and_learning_rate import build_optimizer, learning_rate_factor
from labeltree.training.recipe import OptimizerRecipe, Recipe

pytestmark = pytest.mark.slow

PAPER = OptimizerRecipe(name="sgd", lr=0.1, schedule="sgdr", warmup_epochs=0)


def by_epochs(recipe: OptimizerRecipe, epochs: int, steps: int, rate: float) -> list[float]:
    """Eq. 5 of Loshchilov & Hutter 2017, one cycle after the other."""
    rates, length = [], recipe.cycle_epochs
    while len(rates) < epochs * steps:
        for step in range(length * steps):
            cosine = 1 + math.cos(math.pi * step / (length * steps))
            rates.append(recipe.min_lr + 0.5 * (rate - recipe.min_lr) * cosine)
        length *= recipe.cycle_factor
    return rates[: epochs * steps]


@pytest.mark.parametrize(("first", "growth", "least"), [(12, 2, 1e-6), (3, 1, 1e-3), (1, 3, 0.0)])
@pytest.mark.parametrize("steps", [1, 7])
def test_cycles(first: int, growth: int, least: float, steps: int) -> None:
    recipe = OptimizerRecipe(
        name="sgd", schedule="sgdr", warmup_epochs=0, cycle_epochs=first, cycle_factor=growth, min_lr=least
    )
    factor = learning_rate_factor(recipe, 50, steps, rate=0.1)
    rates = [0.1 * factor(step) for step in range(50 * steps)]
    assert rates == pytest.approx(by_epochs(recipe, 50, steps, 0.1), rel=1e-12)


def test_the_papers_five_cycles_are_372_epochs() -> None:
    factor = learning_rate_factor(PAPER, 372, 500)
    starts = [step for step in range(372 * 500) if factor(step) == 1]
    assert starts == [500 * epoch for epoch in (0, 12, 36, 84, 180)]
    assert factor(372 * 500) == 1  # where the sixth would begin
    ends = [0.1 * factor(start - 1) for start in starts[1:]]
    assert all(1e-6 <= rate < 1.1e-5 for rate in ends)


def test_any_step_can_be_asked_in_any_order() -> None:
    factor = learning_rate_factor(PAPER, 100, 10)
    forward = [factor(step) for step in range(1000)]
    assert [factor(step) for step in reversed(range(1000))] == forward[::-1]
    assert learning_rate_factor(PAPER, 20, 10)(150) == forward[150]  # the length of training does not matter


def test_cycles_begin_after_the_warm_up() -> None:
    recipe = OptimizerRecipe(name="sgd", lr=0.1, schedule="sgdr", warmup_epochs=2, cycle_epochs=3)
    factor = learning_rate_factor(recipe, 20, 4)
    plain = learning_rate_factor(
        OptimizerRecipe(name="sgd", lr=0.1, schedule="sgdr", warmup_epochs=0, cycle_epochs=3), 20, 4
    )
    assert [factor(step) for step in range(8)] == pytest.approx([(step + 1) / 9 for step in range(8)])
    assert [factor(8 + step) for step in range(60)] == [plain(step) for step in range(60)]


def test_the_smallest_rate_needs_a_rate_to_compare_with() -> None:
    with pytest.raises(ValueError, match="'sgdr' needs the learning rate"):
        learning_rate_factor(OptimizerRecipe(schedule="sgdr"), 12, 1)
    above = learning_rate_factor(OptimizerRecipe(schedule="sgdr", warmup_epochs=0, min_lr=1.0), 12, 1, 0.1)
    assert {above(step) for step in range(24)} == {1.0}  # a rate is not raised


def test_momentum_looks_ahead_where_asked() -> None:
    module = torch.nn.Linear(2, 2)
    for nesterov in (False, True):
        recipe = OptimizerRecipe(name="sgd", nesterov=nesterov)
        optimizer = build_optimizer(recipe, module, torch.nn.Linear(2, 2), (0.1, 0.1))
        assert all(group["nesterov"] is nesterov for group in optimizer.param_groups)


class Watch(Callback):
    """Learning rates and the lengths of steps, step by step; may stop the run."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.rates: dict[int, float] = {}
        self.lengths: list[float] = []
        self.stop_at = stop_at

    def on_train_batch_start(self, trainer: L.Trainer, module: L.LightningModule, *_: object) -> None:
        if trainer.global_step == self.stop_at:
            raise RuntimeError("the power fails")
        self.rates[trainer.global_step] = trainer.optimizers[0].param_groups[0]["lr"]
        self.before = [p.detach().clone() for p in module.parameters()]

    def on_train_batch_end(self, trainer: L.Trainer, module: L.LightningModule, *_: object) -> None:
        moved = [(p.detach() - q).norm() for p, q in zip(module.parameters(), self.before, strict=True)]
        self.lengths.append(float(torch.stack(moved).norm()))


@pytest.fixture
def restarting(recipe_of: Callable[..., Recipe]) -> Callable[..., Recipe]:
    def make(**settings: object) -> Recipe:
        sgd = {"name": "sgd", "lr": 0.1, "schedule": "sgdr", "warmup_epochs": 0, "cycle_epochs": 1}
        given = {**sgd, "clip_norm": 10.0, **settings}
        return recipe_of("corr", epochs=4, **{f"optimizer__{key}": value for key, value in given.items()})

    return make


def test_a_stop_changes_neither_rates_nor_weights(tmp_path: Path, restarting: Callable[..., Recipe]) -> None:
    recipe = restarting()
    whole, first, second = Watch(), Watch(stop_at=6), Watch()
    undisturbed = train(recipe, tmp_path / "whole", callbacks=[whole], progress_bar=False)
    with pytest.raises(RuntimeError, match="power"):
        train(recipe, tmp_path / "stopped", callbacks=[first], progress_bar=False, every_n_steps=1)
    continued = train(recipe, tmp_path / "stopped", callbacks=[second], progress_bar=False)
    assert first.rates | second.rates == whole.rates
    assert min(second.rates) == 6
    steps = len(whole.rates) // 4
    factor = learning_rate_factor(recipe.optimizer, 4, steps)
    assert [whole.rates[step] for step in range(4 * steps)] == pytest.approx(
        [0.1 * factor(step) for step in range(4 * steps)]
    )
    assert [step for step in whole.rates if whole.rates[step] == pytest.approx(0.1)] == [0, steps, 3 * steps]
    mine, theirs = undisturbed.load_weights(), continued.load_weights()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_no_step_is_longer_than_the_clipped_gradient(
    tmp_path: Path, restarting: Callable[..., Recipe]
) -> None:
    plain = {"momentum": 0.0, "weight_decay": 0.0}
    free, clipped = Watch(), Watch()
    train(restarting(clip_norm=1e6, **plain), tmp_path / "free", callbacks=[free], progress_bar=False)
    least = 0.5 * min(length / free.rates[step] for step, length in enumerate(free.lengths))
    recipe = restarting(clip_norm=least, **plain)
    train(recipe, tmp_path / "clipped", callbacks=[clipped], progress_bar=False)
    for step, length in enumerate(clipped.lengths):
        assert length <= clipped.rates[step] * least * (1 + 1e-4)
    assert clipped.lengths[0] == pytest.approx(clipped.rates[0] * least, rel=1e-3)  # the first is clipped
