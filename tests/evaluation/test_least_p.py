"""The observed exchange is one of those that are counted, so that no p-value is 0."""

import numpy as np
import pytest

from labeltree.evaluation.statistics import GroupSums, sign_flip_test


@pytest.mark.parametrize("permutations", [10, 99, 1000])
def test_no_p_value_is_zero(permutations: int) -> None:
    values = np.stack([np.ones((400, 1)), np.zeros((400, 1))], axis=1)
    (p,) = sign_flip_test(GroupSums.of(values), permutations=permutations)
    assert p == pytest.approx(1 / (permutations + 1))


def test_all_exchanges_of_few_samples_are_counted() -> None:
    values = np.stack([np.ones((6, 1)), np.zeros((6, 1))], axis=1)
    (p,) = sign_flip_test(GroupSums.of(values), permutations=1000)
    assert p == pytest.approx(2 / 2**6)
