"""A service watches its samples: by full windows, and all of them since the start."""

import logging

import pytest
import torch

from labeltree.decisions.drift import NO_GROUPS, Drift, fit_drift
from labeltree.runs import EmbeddingTable
from labeltree.serving.drift_watch import WINDOW, DriftWatch
from labeltree.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["cat", "dog"])


def samples(count: int, seed: int, place: float = 0.0, groups: torch.Tensor | None = None) -> EmbeddingTable:
    points = torch.randn(count, 3, generator=torch.Generator().manual_seed(seed))
    points[:, 0] += place
    return EmbeddingTable(points, TREE.leaves[[0] * count], groups=groups, geometry="euclidean")


def chances(table: EmbeddingTable) -> torch.Tensor:
    return table.embeddings[:, :2].double().softmax(1)


def watch_beside(held: EmbeddingTable, *, named_groups: bool = False) -> DriftWatch:
    return DriftWatch(fit_drift(samples(50, 0), held, chances(held), named_groups=named_groups))


def ask(watch: DriftWatch, table: EmbeddingTable, at_once: int = 50) -> None:
    """Samples as batches of a service, and what their windows gave."""
    for rows in torch.arange(len(table)).split(at_once):
        watch.add(table.rows(rows), chances(table)[rows])
    watch._thread.submit(lambda: None).result(60)  # after the tests that were begun


def test_a_window_is_full_by_its_samples() -> None:
    watch = watch_beside(samples(300, 1))
    ask(watch, samples(WINDOW - 1, 2))
    assert (watch.last, watch.evidence.count) == (None, 0)
    ask(watch, samples(3, 3))
    assert isinstance(watch.last, Drift)
    assert not watch.last.alarms()
    assert (watch.last.count, watch.last.unit) == (WINDOW + 2, "samples")
    assert watch.evidence.count == WINDOW + 2
    ask(watch, samples(WINDOW - 1, 4, place=5.0))
    assert watch.evidence.count == WINDOW + 2, "the next window begins at none"
    ask(watch, samples(1, 5, place=5.0))
    assert watch.last.alarms(), "of the last window alone"
    assert watch.last.count == WINDOW
    watch.close()


def test_a_window_that_cannot_be_tested_says_why() -> None:
    watch = watch_beside(samples(10, 1))
    ask(watch, samples(WINDOW, 2))
    assert watch.last == "10 held-out samples (or groups of them) are too few; a test takes 20"
    assert watch.evidence.count == WINDOW
    watch.close()


def test_an_alarm_of_a_window_and_of_all_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """That of a window each time, that of all samples once."""
    watch = watch_beside(samples(300, 1))
    with caplog.at_level(logging.WARNING, "labeltree.serving"):
        ask(watch, samples(WINDOW, 2))
        assert not caplog.messages
        ask(watch, samples(2 * WINDOW, 3, place=5.0))
        watch.close()
    windows = [said for said in caplog.messages if "1 in 20 windows" in said]
    whole = [said for said in caplog.messages if "samples since the start are not all like" in said]
    assert (len(windows), len(whole)) == (2, 1), caplog.messages
    assert whole[0].startswith("drift: the 400 samples"), whole


def test_patients_are_not_compared_with_samples_of_nobody() -> None:
    watch = watch_beside(samples(60, 1, groups=torch.arange(30).repeat(2)), named_groups=True)
    ask(watch, samples(WINDOW, 2, place=5.0))
    assert watch.last == NO_GROUPS
    assert watch.evidence.count == 0
    watch.close()
