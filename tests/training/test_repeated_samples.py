"""A sample that comes again within an epoch is seen in another view, also after resuming."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from labeltree.training.batches import Batch
from labeltree.training.experiment import prepare
from labeltree.training.recipe import Recipe

pytestmark = pytest.mark.slow


def batches(recipe: Recipe) -> list[Batch]:
    return list(prepare(recipe).batches.train_dataloader())


def test_turns_count_up_within_batches_and_over_the_epoch(recipe_of: Callable[..., Recipe]) -> None:
    """Every sample is numbered as it comes."""
    recipe = recipe_of("ce", sampler="class-balanced", batch_size=20)
    module = prepare(recipe)
    loader = module.batches.train_dataloader()
    sampler = loader.sampler
    seen: dict[int, int] = {}
    total = 0
    for epoch, positions, turns in sampler:
        assert epoch == 0
        assert turns is not None
        for position, turn in zip(positions.tolist(), turns.tolist(), strict=True):
            assert turn == seen.get(position, 0)
            seen[position] = turn + 1
            total += 1
    assert total == len(sampler) * 20


@pytest.mark.parametrize("seed", [0, 3])
def test_views_differ_by_turn(recipe_of: Callable[..., Recipe], seed: int) -> None:
    module = prepare(recipe_of("ce", seed=seed)).module
    batch = {
        "samples": torch.randint(0, 256, (1, 3, 28, 28), dtype=torch.uint8).repeat(3, 1, 1, 1),
        "instances": torch.tensor([5, 5, 5]),
        "epoch": torch.tensor(1),
    }
    same = module._view(batch, 0)
    assert torch.equal(same[0], same[1])
    first, second, again = module._view(batch | {"turns": torch.tensor([0, 1, 0])}, 0)
    assert torch.equal(first, same[0])
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


def test_turns_after_resuming_are_those_of_an_undisturbed_epoch(recipe_of: Callable[..., Recipe]) -> None:
    class Trainer:
        global_step = 1
        world_size = 1

    recipe = recipe_of("ce", sampler="class-balanced", batch_size=8)
    whole = batches(recipe)
    data = prepare(recipe).batches
    data.trainer = Trainer()  # type: ignore[assignment]
    rest = list(data.train_dataloader())
    assert len(rest) == len(whole) - 1
    for ours, theirs in zip(rest, whole[1:], strict=True):
        assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)


def test_samplers_that_repeat_nothing_have_no_turns(recipe_of: Callable[..., Recipe]) -> None:
    assert all("turns" not in batch for batch in batches(recipe_of("supcon")))
