"""Retrieval whose queries are divided over ranks equals that of one process; and what progress is told."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from metric_loops import ragged_tree
from torch import Tensor

from forked import start_ranks
from labeltree.geometry import Euclidean, PoincareBall
from labeltree.metrics import functional, modular
from labeltree.metrics.search import score_rankings
from sweeps import some_now

pytestmark = pytest.mark.slow

TAXONOMY = ragged_tree()


def sample(count: int, seed: int, low: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    points = 0.15 * torch.randn(count, 4, generator=generator)
    return points, torch.randint(low, TAXONOMY.num_nodes, (count,), generator=generator)


def results(shard: bool) -> dict[str, Tensor]:
    """Every function, with more and with fewer queries than ranks, short and whole rankings."""
    found: dict[str, Tensor] = {}
    few, many, coarse = sample(1, 0, 1), sample(181, 1, -1), sample(90, 2, 0)
    for name, arguments in {"one": (*few, *coarse), "others": (*many, *coarse), "all": many}.items():
        options: dict[str, Any] = {"reduction": "none", "shard": shard}
        found |= {f"{name} recall@{k}": v for k, v in functional.recall_at_k(*arguments, **options).items()}
        found[f"{name} map@r"] = functional.map_at_r(*arguments, geometry=Euclidean(), **options)
        found[f"{name} map"] = functional.mean_average_precision(*arguments, **options)
        points, nodes, *database = arguments
        judged = (points, nodes, TAXONOMY, *database)
        precision = functional.hierarchical_precision_at_k(*judged, geometry=PoincareBall(), **options)
        found |= {f"{name} hp@{k}": value for k, value in precision.items()}
        for length in (5, 1000):
            found[f"{name} ahp@{length}"] = functional.average_hierarchical_precision(
                *judged, k=length, **options
            )
            whole = functional.retrieval_metrics(*judged, ahp_k=length, depths=(1, 2), shard=shard)
            found |= {f"{name} {length} {key}": value for key, value in whole.items()}
    return found


def work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    shares: list[int] = []
    own_share = score_rankings.own_share

    def watched(rows: Any) -> Any:
        shares.append(len(own_share(rows)))
        return own_share(rows)

    score_rankings.own_share = watched
    found = results(shard=True)
    metric = modular.RetrievalMetrics(TAXONOMY, ahp_k=9, depths=(1,))
    points, nodes = sample(43, 3, -1)
    mine = slice(0, 25) if rank == 0 else slice(25, 43)
    metric.update(points[mine], nodes[mine])
    found |= metric.compute()
    torch.save((found, shares), f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.filterwarnings("ignore")
def test_two_ranks_equal_one(tmp_path: Path) -> None:
    start_ranks(work, (str(tmp_path),), nprocs=2)
    expected = results(shard=False)
    of_metric = functional.retrieval_metrics(*sample(43, 3, -1), TAXONOMY, ahp_k=9, depths=(1,))
    del of_metric["hp_curve"]  # the class has float64 scalars alone
    expected |= {name: value.double() for name, value in of_metric.items()}
    for rank in range(2):
        found, shares = torch.load(tmp_path / f"{rank}.pt")
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            torch.testing.assert_close(
                found[name], value, rtol=1e-12, atol=1e-12, equal_nan=True, msg=lambda text, n=name: n + text
            )
        searched = int((sample(43, 3, -1)[1] >= 0).sum())
        assert shares[-1] == [searched - searched // 2, searched // 2][rank]
        assert shares[0] == [1, 0][rank]


@pytest.mark.parametrize("top", some_now([5, 1000]))
def test_progress_rises_to_the_whole(top: int) -> None:
    points, nodes = sample(2500, 4, 0)
    told: list[tuple[str, int, int]] = []
    functional.average_hierarchical_precision(
        points, nodes, TAXONOMY, k=top, progress=lambda *news: told.append(news)
    )
    assert len(told) > 1
    assert {(message, total) for message, _, total in told} == {("ranking", told[0][2])}
    done = [done for _, done, _ in told]
    assert done == sorted(done)
    assert done[-1] == told[0][2]
