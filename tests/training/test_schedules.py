"""Numbers of an objective that change while it trains."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from labeltree.runs import RunFolder
from labeltree.taxonomy import Taxonomy
from labeltree.training.experiment import prepare
from labeltree.training.fit import train
from labeltree.training.objective import Objective
from labeltree.training.objective_schedules import Schedules
from labeltree.training.recipe import Recipe

pytestmark = pytest.mark.slow

Recipes = Callable[..., Recipe]


@pytest.fixture
def objective(recipe_of: Recipes) -> Objective:
    taxonomy = Taxonomy.from_paths([("a", "b"), ("a", "c"), ("d", "e")])
    return Objective(recipe_of("supcon+simclr"), taxonomy, 6)


def test_straight_lines_between_points(objective: Objective) -> None:
    schedules = Schedules(
        {"supcon.temperature": [[0, 0.2], [10, 0.1]], "weights.simclr": [[2, 1.0], [4, 0.0], [6, 0.5]]},
        objective,
    )
    seen = []
    for epoch in (0, 2, 3, 5, 6, 99):
        schedules(epoch)
        seen.append((objective.terms["supcon"].loss.temperature, objective.terms["simclr"].weight))
    expected = [(0.2, 1.0), (0.18, 1.0), (0.17, 0.5), (0.15, 0.25), (0.14, 0.5), (0.1, 0.5)]
    assert seen == [pytest.approx(pair) for pair in expected]


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ({"supcon.depth": [[0, 1.0]]}, "of 'supcon' only temperature can change"),
        ({"hwc.temperature": [[0, 1.0]]}, "NAME one of supcon, simclr"),
        ({"weights.hwc": [[0, 1.0]]}, "NAME one of supcon, simclr"),
        ({"supcon.temperature": []}, "must be a list"),
        ({"supcon.temperature": [[0.0, 1.0, 2.0]]}, "must be a list"),
        ({"supcon.temperature": [[1, 1.0], [0, 2.0]]}, "must ascend"),
        (
            {"supcon.temperature": [[0, 1.0], [9, 0.0]]},
            r"supcon.temperature goes to 0.0: temperature must be",
        ),
        ({"simclr.temperature": [[0, -0.1]]}, r"simclr.temperature goes to -0.1: temperature must be"),
        ({"weights.simclr": [[0, -1.0]]}, r"weights.simclr goes to -1.0: a weight must be 0 or more"),
        ({"weights.simclr": [[0, float("nan")]]}, "expected a finite number"),
    ],
)
def test_what_cannot_be_scheduled(
    objective: Objective, points: dict[str, list[list[float]]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Schedules(points, objective)


def test_values_are_tried_without_touching_random_numbers(recipe_of: Recipes) -> None:
    """A loss with weights of its own is built again to try a value; training must not see it."""
    taxonomy = Taxonomy.from_paths([("a", "b"), ("a", "c"), ("d", "e")])
    objective = Objective(recipe_of("guided"), taxonomy, 6)
    state = torch.get_rng_state()
    Schedules({"guided.distortion_weight": [[0, 0.0], [1, 1.0]]}, objective)
    assert torch.equal(torch.get_rng_state(), state)
    with pytest.raises(ValueError, match="nothing of 'lam' can change"):
        Schedules({"lam.temperature": [[0, 1.0]]}, Objective(recipe_of("lam"), taxonomy, 6))


def test_numbers_of_a_list(recipe_of: Recipes) -> None:
    taxonomy = Taxonomy.from_paths([("a", "b"), ("a", "c"), ("d", "e")])
    objective = Objective(recipe_of("mlcl"), taxonomy, 6)
    loss = objective.terms["mlcl"].loss
    batch = (torch.randn(6, 6), taxonomy.leaves.repeat(2), torch.arange(6))
    before = objective(*batch)["loss"]
    schedules = Schedules(
        {"mlcl.temperatures.2": [[0, 0.1], [4, 0.5]], "mlcl.weights.1": [[0, 0.5]]}, objective
    )
    schedules(0)
    assert objective(*batch)["loss"].item() == pytest.approx(before.item())
    schedules(2)
    assert loss.temperatures == pytest.approx([0.5, 0.3])
    assert objective(*batch)["loss"].item() != pytest.approx(before.item())
    with pytest.raises(
        ValueError, match=r"only temperatures\.1, temperatures\.2, weights\.1, weights\.2 can"
    ):
        Schedules({"mlcl.temperatures.3": [[0, 0.1]]}, objective)
    with pytest.raises(ValueError, match=r"schedules\.mlcl\.temperatures\.1 goes to 0"):
        Schedules({"mlcl.temperatures.1": [[0, 0.0]]}, objective)


def test_a_run_follows_its_schedule_and_resumes_on_it(recipe_of: Recipes, tmp_path: Path) -> None:
    recipe = recipe_of("supcon", schedules='{"supcon.temperature": [[0, 0.5], [2, 0.1]]}')
    train(recipe, tmp_path / "run", progress_bar=False)
    trained = RunFolder(tmp_path / "run")
    plain = train(recipe_of("supcon"), tmp_path / "plain", progress_bar=False)
    ours, other = trained.read_history(), plain.read_history()
    assert ours[0]["train_loss"] != other[0]["train_loss"]
    module = prepare(recipe).module
    module._schedules(1.0)
    assert module.objective.terms["supcon"].loss.temperature == pytest.approx(0.3)
    assert torch.isfinite(torch.tensor(ours[-1]["train_loss"]))
