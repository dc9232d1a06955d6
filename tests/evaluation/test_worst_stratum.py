"""The protocol `worst-stratum`, and the interval of the lowest of several numbers."""

import numpy as np
import pytest
import torch
from scipy.stats import beta

from labeltree.errors import DataError
from labeltree.evaluation import EvaluationSettings, JudgingTaxonomy, choose_samples
from labeltree.evaluation.protocol_registry import get_protocol, run_protocol
from labeltree.evaluation.result import ProtocolResult
from labeltree.evaluation.search_and_answer_columns import Inputs
from labeltree.evaluation.statistics import worst_ends
from labeltree.runs import EmbeddingTable
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths([(a, b) for a in "ab" for b in "cde"])


def measure(
    grouped: bool = False, by: tuple[str, ...] = ("site",), bounds: tuple[int, ...] = ()
) -> ProtocolResult:
    draw = torch.Generator().manual_seed(0)
    nodes = TREE.leaves[torch.randint(0, 6, (900,), generator=draw)]
    sites = np.array(["Graz", "Linz", "Wien"])[np.arange(900) % 9 // 3]
    vectors = torch.nn.functional.one_hot(nodes, len(TREE)).float()
    noise = torch.from_numpy(np.where(sites == "Linz", 1.5, 0.4)).float()[:, None]
    vectors = vectors + noise * torch.randn(900, len(TREE), generator=draw)
    split = np.array(["train", "val", "test"])[np.arange(900) % 3]
    groups = torch.arange(900) // 225 if grouped else None
    table = EmbeddingTable(
        vectors, nodes, split=split, groups=groups, geometry="euclidean", attributes={"site": sites}
    )
    settings = EvaluationSettings(by=by, resamples=50, frequency_bounds=bounds)
    samples = choose_samples(table, TREE, "test", settings)
    return run_protocol(
        get_protocol("worst-stratum"), Inputs(table, JudgingTaxonomy.of(TREE), samples, settings)
    )


def test_the_worst_site_is_named_with_an_exact_interval_for_all_sites() -> None:
    result = measure()
    worst = result.scores["site.worst_top1"]
    (note,) = (note for note in result.notes if note.startswith("site:"))
    assert f"the lowest of 3 is Linz, {worst:.3f} of 100 samples" in note
    low, high = result.intervals["site.worst_top1"]
    hits = round(worst * 100)
    # the worst is far below the others here, so that both ends are its own: 2.5 % below, 2.5 % / 3 above
    assert low == pytest.approx(beta.ppf(0.025, hits, 101 - hits))
    assert high == pytest.approx(beta.ppf(1 - 0.025 / 3, hits + 1, 100 - hits))


def test_few_groups_have_no_interval_and_the_note_says_so() -> None:
    result = measure(grouped=True)
    assert "site.worst_top1" not in result.intervals
    assert "fewer than 6 groups" in " ".join(result.notes)


def test_nothing_to_divide_by() -> None:
    with pytest.raises(DataError, match="name attributes by --by"):
        measure(by=(), bounds=(1, 2))  # all classes are of the head
    assert set(measure(by=()).scores) == {"class-frequency.worst_top1"}


def test_lower_ends_are_plain_and_upper_ends_hold_together() -> None:
    low, high = worst_ends(np.array([[0.2, 0.5], [0.3, 0.1]]), np.array([[0.6, 0.9], [0.8, 0.7]]))
    assert low.tolist() == [0.2, 0.1]
    assert high.tolist() == [0.6, 0.7]
    assert np.isnan(worst_ends(np.array([0.2, np.nan]), np.array([0.6, np.nan]))).all()
