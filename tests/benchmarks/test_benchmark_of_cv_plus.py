"""The simulation of CV+, and what folds of the ridge head say of labels at random."""

import importlib

import numpy as np
import pytest

from sweeps import some_now

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("world", ["balanced", "groups, tail"])
def test_a_row_of_coverage(world: str) -> None:
    measures = importlib.import_module("cv_plus").measures
    (high, low) = measures(world, 40, 5, 0)
    for row, asked in ((high, 0.9), (low, 0.8)):
        inside, held, depth, root, guaranteed = row
        assert guaranteed == pytest.approx(1 - 2 * (1 - asked) - 0.875 / 6)
        assert guaranteed < inside <= held
        assert 0 < depth < 3
        assert 0 <= root < 1
    assert high[2] < low[2], "answers are coarser where more is asked for"


@pytest.mark.parametrize(("count", "draws"), some_now([(500, 3), (50, 8), (80, 6)]))
def test_labels_at_random_are_answered_and_found_by_chance(count: int, draws: int) -> None:
    """With all settings chosen by the same folds, which flatters by less than the error of so few draws."""
    excess = importlib.import_module("cv_plus").excess
    values = np.array([excess(count, 5, True, number) for number in range(draws)])
    error = np.sqrt(0.2 * 0.8 / (draws * count))
    assert (np.abs(values.mean(0)) < 4 * error + 0.01).all()


def test_chance_is_that_of_results_in_random_order() -> None:
    random_order = importlib.import_module("cv_plus").random_order
    rng = np.random.default_rng(0)
    for relevant, others in ((1, 5), (3, 9), (4, 6)):
        hits = rng.permuted(np.tile(np.arange(others) < relevant, (20000, 1)), axis=1)[:, :relevant]
        drawn = np.sum(hits * hits.cumsum(1) / np.arange(1, relevant + 1), axis=1) / relevant
        assert random_order(relevant, others) == pytest.approx(np.mean(drawn), abs=0.01)
