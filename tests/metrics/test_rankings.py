"""The ranking core: exact order, ties, the query left out by identity, one pass in chunks."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from torch import Tensor

from labeltree.geometry import Euclidean, Geometry, PoincareBall, Sphere
from labeltree.metrics import functional
from labeltree.metrics.search import ranking as ranking_module
from labeltree.metrics.search.ranking import ranked_chunks
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow


def ranking(queries: Tensor, keys: Tensor | None, geometry: Geometry, **options: int) -> list[list[int]]:
    chunks = list(ranked_chunks(queries, keys, geometry=geometry, **options))
    assert [chunk.start for chunk in chunks] == [
        sum(len(chunk.order) for chunk in chunks[:i]) for i in range(len(chunks))
    ]
    return [row for chunk in chunks for row in chunk.order.tolist()]


def by_python(similarity: Tensor, leave_one_out: bool) -> list[list[int]]:
    return [
        [j for _, j in sorted((-s, j) for j, s in enumerate(row) if not (leave_one_out and i == j))]
        for i, row in enumerate(similarity.tolist())
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("leave_one_out", [True, False])
def test_ties_are_ranked_in_database_order(dtype: torch.dtype, leave_one_out: bool) -> None:
    """Integer points on a line: nearly all scores tie, and all are exact and at most 0."""
    points = torch.randint(-2, 3, (60, 1), generator=torch.Generator().manual_seed(0)).to(dtype)
    keys = None if leave_one_out else points.flip(0)
    database = points if keys is None else keys
    expected = by_python(-(points - database.T).abs(), leave_one_out)
    assert ranking(points, keys, Euclidean()) == expected
    for top in (1, 7, 30, 1000):
        assert ranking(points, keys, Euclidean(), top=top) == [row[:top] for row in expected]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("geometry", [Sphere(), Euclidean(), PoincareBall()])
def test_order_is_that_of_the_similarities(geometry: Geometry, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    points = 0.2 * torch.randn(50, 6, generator=generator, dtype=torch.float64).to(dtype)
    expected = by_python(geometry.pairwise_similarity(points, points).double(), True)
    for rows in (1, 7, 50, 99):
        assert ranking(points, None, geometry, chunk_rows=rows) == expected
        assert ranking(points, None, geometry, chunk_rows=rows, top=3) == [row[:3] for row in expected]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_query_is_left_out_by_row_and_its_duplicates_stay(dtype: torch.dtype) -> None:
    points = torch.zeros(5, 2, dtype=dtype)
    assert ranking(points, None, Euclidean()) == [[j for j in range(5) if j != i] for i in range(5)]
    assert ranking(points, points, Euclidean()) == [list(range(5))] * 5


@dataclass(frozen=True)
class Given(Euclidean):
    """Scores given as the keys, the same for every query."""

    def pairwise_similarity(self, x: Tensor, y: Tensor) -> Tensor:
        return y.T.expand(len(x), -1).clone()


def test_extreme_scores_of_both_signs_keep_their_order() -> None:
    large = [3e38, -3e38, torch.inf, -torch.inf]
    scores = torch.tensor([-0.0, 0.0, -0.0, 1e-45, -1e-45, 1.0, -1.0, 1.0 + 2**-23, *large])
    keys = scores[:, None]
    expected = by_python(scores[None], False)
    assert ranking(torch.ones(1, 1), keys, Given()) == expected
    assert ranking(torch.ones(1, 1), keys, Given(), top=2) == [row[:2] for row in expected]


@pytest.mark.parametrize(
    "shape", ["random", "by class", "sampled are best", "sampled are worst", "all equal"]
)
@pytest.mark.long
def test_the_best_few_of_many_whatever_the_sample(shape: str) -> None:
    """The bound on the best comes from a sample of columns, which may mislead: the result may not."""
    size = 4000
    scores = torch.randn(size, generator=torch.Generator().manual_seed(2))
    sampled = np.random.default_rng(0).integers(size, size=size // ranking_module._SAMPLING)
    if shape == "by class":
        scores += 10.0 * (torch.arange(size) % 16 == 3)
    elif shape == "all equal":
        scores[:] = -1.0
    elif shape != "random":
        scores[sampled] += 100.0 if shape == "sampled are best" else -100.0
    expected = by_python(scores[None], False)[0]
    for top in (1, 10, 100, 400):
        assert ranking(torch.ones(2, 1), scores[:, None], Given(), top=top) == [expected[:top]] * 2
    rows = torch.arange(0, size, 400)
    own = torch.cat([chunk.order for chunk in ranked_chunks(scores[:, None], geometry=Given(), top=10)])
    for row in rows.tolist():
        assert own[row].tolist() == [j for j in expected if j != row][:10]


@pytest.mark.parametrize("count", [0, 1])
def test_an_empty_database_gives_empty_rankings(count: int) -> None:
    points = torch.ones(count, 3)
    assert ranking(points, None, Sphere()) == [[]] * count
    assert ranking(torch.ones(2, 3), torch.empty(0, 3), Sphere()) == [[], []]


@dataclass(frozen=True)
class Watched(Sphere):
    shapes: list[tuple[int, ...]] = field(default_factory=list, compare=False)

    def pairwise_similarity(self, x: Tensor, y: Tensor) -> Tensor:
        self.shapes.append((len(x), len(y)))
        return super().pairwise_similarity(x, y)


def test_all_retrieval_metrics_share_one_pass_over_chunks() -> None:
    taxonomy = Taxonomy.from_paths([("a", "b"), ("a", "c"), ("d", "e")])
    nodes = taxonomy.leaves[torch.randint(3, (3000,))]
    watched = Watched()
    functional.retrieval_metrics(torch.randn(3000, 4), nodes, taxonomy, geometry=watched, depths=(1, 2))
    assert sum(rows for rows, _ in watched.shapes) == 3000
    assert {columns for _, columns in watched.shapes} == {3000}
    assert max(rows for rows, _ in watched.shapes) <= 2**22 // 3000
