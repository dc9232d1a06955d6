"""One `Retrieval` gives the numbers of all functions from one pass over the similarities."""

from typing import Any

import pytest
import torch
from metric_loops import ragged_tree

from labeltree.metrics import Retrieval, functional, retrieval
from labeltree.metrics.retrieval import RetrievalOptions

TAXONOMY = ragged_tree()
QUERIES = [torch.randn(60, 4, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 15 - 1]
GALLERY = [torch.randn(40, 4, generator=torch.Generator().manual_seed(1)), torch.arange(40) % 14 - 1]
PATIENTS = {"query_groups": torch.arange(60) % 20 - 1, "key_groups": torch.arange(40) % 20 - 1}


def numbers_of(search: Retrieval) -> dict[str, Any]:
    return {
        "recall": search.recall((1, 3)),
        "recall at depth": search.recall((1, 3), depth=1),
        "map@r": search.map_at_r(),
        "map at depth": search.mean_average_precision(depth=2),
        "hp": search.hierarchical_precision((1, 5)),
        "ahp": search.ahp(rule="trapezoid"),
        "h_ap": search.h_ap("map"),
        "asi": search.asi(),
        "ndcg": search.ndcg(),
        "ap": search.average_precision_at_depths(),
    }


def numbers_of_functions(rows: list[torch.Tensor], **options: Any) -> dict[str, Any]:
    judged = (*rows[:2], TAXONOMY, *rows[2:])
    flat = {"taxonomy": TAXONOMY, **options}
    return {
        "recall": functional.recall_at_k(*rows, ks=(1, 3), **options),
        "recall at depth": functional.recall_at_k(*rows, ks=(1, 3), depth=1, **flat),
        "map@r": functional.map_at_r(*rows, **options),
        "map at depth": functional.mean_average_precision(*rows, depth=2, **flat),
        "hp": functional.hierarchical_precision_at_k(*judged, ks=(1, 5), **options),
        "ahp": functional.average_hierarchical_precision(*judged, rule="trapezoid", **options),
        "h_ap": functional.h_ap(*judged, relevance="map", **options),
        "asi": functional.average_set_intersection(*judged, **options),
        "ndcg": functional.ndcg(*judged, **options),
        "ap": functional.average_precision_at_depths(*judged, **options),
    }


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("gallery", [True, False])
def test_ranks_once_and_gives_the_numbers_of_the_functions(
    gallery: bool, reduction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [*QUERIES, *GALLERY] if gallery else QUERIES
    options: dict[str, Any] = {"geometry": "euclidean", "reduction": reduction}
    options |= PATIENTS if gallery else {"query_groups": PATIENTS["query_groups"]}
    expected = numbers_of_functions(rows, **options)
    passes = []
    score = retrieval.score_rankings
    monkeypatch.setattr(retrieval, "score_rankings", lambda *a, **k: (passes.append(1), score(*a, **k)))
    found = numbers_of(Retrieval(*rows[:2], TAXONOMY, *rows[2:], **options))
    assert len(passes) == 1
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("depth", [None, 1])
def test_fewer_results_need_no_pass_of_their_own(depth: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [
        functional.map_at_r(*QUERIES, taxonomy=TAXONOMY, depth=depth),
        functional.recall_at_k(*QUERIES, ks=(1,), taxonomy=TAXONOMY, depth=depth)[1],
        functional.mean_average_precision(*QUERIES, taxonomy=TAXONOMY, depth=depth),
        functional.recall_at_k(*QUERIES, ks=(40,), taxonomy=TAXONOMY, depth=depth)[40],
    ]
    passes = []
    score = retrieval.score_rankings
    monkeypatch.setattr(retrieval, "score_rankings", lambda *a, **k: (passes.append(1), score(*a, **k)))
    search = Retrieval(*QUERIES, TAXONOMY, rank_once=False)
    found, so_far = [search.map_at_r(depth=depth)], [1]
    for number in (
        lambda: search.recall(1, depth=depth),
        lambda: search.mean_average_precision(depth=depth),
        lambda: search.recall(40, depth=depth),
    ):
        found.append(number())
        so_far.append(len(passes))
    assert so_far == [1, 1, 2, 2]
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_reads_rankings_that_are_known() -> None:
    points, nodes = QUERIES[0], QUERIES[1].clamp(min=1)
    near = torch.nn.functional.normalize(points.double())
    order = (near @ near.T).fill_diagonal_(-2.0).argsort(dim=1, descending=True)[:, :-1]
    known = numbers_of(Retrieval(torch.zeros_like(points), nodes, TAXONOMY, order=order))
    torch.testing.assert_close(known, numbers_of(Retrieval(points.double(), nodes, TAXONOMY)))


def test_settings_other_than_the_defaults_are_read_too() -> None:
    search = Retrieval(*QUERIES, TAXONOMY)
    search.ndcg()
    for found, expected in (
        (search.ahp(7), functional.average_hierarchical_precision(*QUERIES, TAXONOMY, k=7)),
        (search.h_ap(alpha=2.0), functional.h_ap(*QUERIES, TAXONOMY, alpha=2.0)),
        (search.hierarchical_precision(3), search.hierarchical_precision((3,))[3]),
    ):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_without_a_taxonomy_labels_are_any_integers() -> None:
    search = Retrieval(QUERIES[0], QUERIES[1] + 1000)
    assert search.recall(1) == functional.recall_at_k(QUERIES[0], QUERIES[1] + 1000)[1]
    for number in (search.ahp, search.h_ap, search.asi, lambda: search.recall(1, depth=1)):
        with pytest.raises(ValueError, match="expected the taxonomy that the labels belong to"):
            number()


@pytest.mark.parametrize("depth", [0, 99])
def test_refuses_a_depth_that_is_none(depth: int) -> None:
    with pytest.raises(ValueError, match=f"depth is {depth}; expected a depth of the taxonomy"):
        Retrieval(*QUERIES, TAXONOMY).map_at_r(depth=depth)


def test_every_option_of_the_functions_is_one_of_the_class() -> None:
    assert RetrievalOptions.__annotations__.keys() < Retrieval.__init__.__annotations__.keys()
    with pytest.raises(TypeError, match="unexpected keyword argument 'geometri'"):
        functional.map_at_r(*QUERIES, geometri="sphere")  # type: ignore[call-arg]
