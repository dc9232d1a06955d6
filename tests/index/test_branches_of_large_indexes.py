"""In large indexes the rows of small branches are looked up: the same rows as by a look at all."""

import numpy as np
import pyarrow as pa
import pytest

from labeltree.index.exact import ExactMatrix
from labeltree.index.filters import Filter

Ranges = tuple[tuple[int, int], ...]


@pytest.mark.parametrize(
    ("within", "not_within"),
    [
        (((5, 8),), ()),
        (((5, 8),), ((6, 7),)),
        (((5, 8), (6, 9)), ()),
        (((5, 8), (20, 21)), ((7, 21),)),
        ((), ()),
        (None, ((0, 90),)),
    ],
)
def test_rows_of_branches(
    within: tuple[tuple[int, int], ...] | None, not_within: tuple[tuple[int, int], ...]
) -> None:
    nodes = np.random.default_rng(0).integers(-1, 100, 5000)
    matrix = ExactMatrix(
        np.zeros((5000, 2), np.float32), np.arange(5000), nodes, np.zeros(5000), pa.table({"id": [""] * 5000})
    )
    chosen = Filter(within=within, not_within=not_within)
    inside = np.ones(5000, bool) if within is None else np.zeros(5000, bool)
    for first, last in within or ():
        inside |= (nodes >= first) & (nodes < last)
    for first, last in not_within:
        inside &= ~((nodes >= first) & (nodes < last))
    np.testing.assert_array_equal(matrix.labelled(chosen), np.flatnonzero(inside))
