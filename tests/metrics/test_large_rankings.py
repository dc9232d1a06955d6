"""Rankings of many items: tiles read both ways, radix order, ties of equal items, relevant items placed."""

from typing import Any

import numpy as np
import pytest
import torch
from metric_loops import average_precision
from numpy.typing import NDArray
from torch import Tensor

from labeltree.geometry import Euclidean, Geometry, PoincareBall, Sphere
from labeltree.metrics import functional
from labeltree.metrics.search import ranking, score_rankings
from labeltree.metrics.search.ranking import Similarities, ranked_chunks
from labeltree.metrics.search.relevant_ranks import RelevantRanks
from labeltree.metrics.search.results_left_out import LeftOut
from labeltree.metrics.search.topk_candidates import falling_order
from labeltree.taxonomy import Taxonomy

pytestmark = pytest.mark.slow

GEOMETRIES = [Sphere(), Euclidean(), PoincareBall()]


def by_numpy(scores: Tensor, leave_one_out: bool) -> NDArray[np.int64]:
    """Falling score, then column; with the query itself behind everything."""
    falling = -scores.double().numpy()
    if leave_one_out:
        np.fill_diagonal(falling, np.inf)
    columns = np.broadcast_to(np.arange(falling.shape[1]), falling.shape)
    return np.lexsort((columns, falling), axis=1)


def points(count: int, seed: int, dimension: int = 7) -> Tensor:
    return 0.2 * torch.randn(count, dimension, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("leave_one_out", [True, False])
@pytest.mark.parametrize("top", [1, 20])
def test_tiles_give_the_order_of_the_similarities(
    top: int, leave_one_out: bool, geometry: Geometry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes that are no multiple of a tile's, so that every shape of tile occurs."""
    monkeypatch.setattr(ranking, "_TILE", 48)
    queries, database = points(331, 0), points(331 if leave_one_out else 287, 0 if leave_one_out else 1)
    keys = None if leave_one_out else database
    expected = by_numpy(geometry.pairwise_similarity(queries, database), leave_one_out)[:, :top]
    chunks = list(ranked_chunks(queries, keys, geometry=geometry, top=top))
    assert len(chunks) == 7, "it was read in tiles"
    assert torch.cat([chunk.order for chunk in chunks]).tolist() == expected.tolist()


@pytest.mark.parametrize("leave_one_out", [True, False])
def test_ties_within_and_across_tiles(leave_one_out: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Points on a grid without repetition: distances are exact, and equal ones abound."""
    monkeypatch.setattr(ranking, "_TILE", 40)
    grid = torch.cartesian_prod(*[torch.arange(7.0)] * 3)[torch.randperm(343, generator=torch.Generator())]
    queries = grid if leave_one_out else grid + 0.5
    expected = by_numpy(Euclidean().pairwise_similarity(queries, grid), leave_one_out)[:, :25]
    keys = None if leave_one_out else grid
    chunks = list(ranked_chunks(queries, keys, geometry=Euclidean(), top=25))
    assert len(chunks) == 9
    assert torch.cat([chunk.order for chunk in chunks]).tolist() == expected.tolist()


def test_a_part_of_the_queries_leaves_itself_out() -> None:
    rows = torch.tensor([250, 3, 3, 77])
    database = points(300, 2)
    everyone = torch.cat([chunk.order for chunk in ranked_chunks(database, geometry=Sphere(), top=9)])
    out = LeftOut.rows(rows.numpy(), len(database))
    some = ranked_chunks(database[rows], database, out, geometry=Sphere(), top=9)
    assert torch.cat([chunk.order for chunk in some]).tolist() == everyone[rows].tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_equal_items_tie_wherever_they_stand(geometry: Geometry, dtype: torch.dtype) -> None:
    """A product of matrices rounds equal columns differently; ranked in database order they must be."""
    few = points(9, 3, 33).to(dtype)
    kind = torch.randint(9, (601,), generator=torch.Generator().manual_seed(4))
    similarity = Similarities(points(50, 5, 33).to(dtype), few[kind], geometry).tile(slice(None))
    first = torch.stack([(kind == k).nonzero()[0, 0] for k in range(9)])
    assert torch.equal(similarity, similarity[:, first][:, kind])
    for chunk in ranked_chunks(points(50, 5, 33).to(dtype), few[kind], geometry=geometry, top=40):
        for order in chunk.order:
            kinds = kind[order]
            same = kinds[1:] == kinds[:-1]
            assert same.sum() > 25
            assert bool((order[1:] > order[:-1])[same].all())


@pytest.mark.parametrize("size", [1, 2, 5, 4095, 5000])
def test_radix_order_is_numpys_stable_order(size: int) -> None:
    generator = np.random.default_rng(size)
    scores = generator.normal(size=(3, size)).astype(np.float32).round(generator.integers(1, 4))
    special = np.array([0.0, -0.0, np.inf, -np.inf, 1e-45, -1e-45, 3e38, -3e38], dtype=np.float32)
    scores[:, : len(special)] = special[:size]
    assert (falling_order(scores) == np.argsort(-scores, axis=1, kind="stable")).all()
    own = generator.integers(size, size=3)
    order = falling_order(scores, (np.arange(3), own))
    assert (order[:, -1] == own).all()
    others = [[j for j in line if j != mine] for line, mine in zip(falling_order(scores), own, strict=True)]
    assert order[:, :-1].tolist() == others


def looped(scores: Tensor, labels: Tensor, key_labels: Tensor, leave_one_out: bool) -> list[list[bool]]:
    order = by_numpy(scores, leave_one_out)
    order = order[:, :-1] if leave_one_out else order
    hits: list[list[bool]] = (key_labels[torch.from_numpy(order)] == labels[:, None]).tolist()
    return hits


@pytest.mark.parametrize("kind", ["random", "clustered", "tied", "collapsed"])
@pytest.mark.parametrize("leave_one_out", [True, False])
def test_few_relevant_items_are_placed_as_by_sorting(
    leave_one_out: bool, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 40 classes a query has some ten relevant items of 400: they are placed and not sorted."""
    generator = torch.Generator().manual_seed(len(kind))
    labels = torch.randint(40, (400,), generator=generator)
    queries = torch.randn(400, 5, generator=generator)
    if kind == "clustered":
        queries += 2 * torch.randn(40, 5, generator=generator)[labels]
    if kind == "tied":
        queries = torch.randint(-2, 3, (400, 2), generator=generator).float()
    if kind == "collapsed":
        queries = torch.ones(400, 5)
    database, key_labels = (
        (queries, labels) if leave_one_out else (queries.flip(0)[:390], labels.roll(5)[:390])
    )
    keys = () if leave_one_out else (database, key_labels)
    placed = []

    def watched(*arguments: Any) -> RelevantRanks:
        placed.append(RelevantRanks(*arguments))
        return placed[-1]

    monkeypatch.setattr(score_rankings, "RelevantRanks", watched)
    taxonomy = Taxonomy.from_paths([(f"class {number}",) for number in range(40)])
    ours = functional.mean_average_precision(queries, labels, *keys, geometry=Euclidean(), reduction="none")
    at_r = functional.retrieval_metrics(
        queries,
        taxonomy.leaves[labels],
        taxonomy,
        *(keys and (keys[0], taxonomy.leaves[keys[1]])),
        geometry=Euclidean(),
        ahp_k=20,
    )["map@r"]
    assert len(placed) == 2
    hits = looped(Euclidean().pairwise_similarity(queries, database), labels, key_labels, leave_one_out)
    expected = torch.tensor([average_precision(row) for row in hits], dtype=torch.float64)
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12, equal_nan=True)
    within = torch.tensor([average_precision(row, sum(row)) for row in hits], dtype=torch.float64)
    torch.testing.assert_close(at_r, within.nanmean(), rtol=1e-12, atol=1e-12)
