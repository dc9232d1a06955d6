"""Watches whether what a service is asked is like the samples that its coverage was calibrated on."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from labeltree.decisions.drift import NO_GROUPS, Drift, DriftRule, Seen
from labeltree.decisions.drift_evidence import DriftEvidence
from labeltree.runs import EmbeddingTable

__all__ = ["WINDOW", "DriftWatch"]

WINDOW = 200
"""The number of answered samples that are compared at a time."""
_log = logging.getLogger("labeltree.serving")


class DriftWatch:
    """Compares every `WINDOW` answered samples, and all of them, with the held-out ones, in its own thread.

    The embeddings of at most one window are held, and no sample; nothing is written.

    Args:
        rule: The held-out samples.

    Attributes:
        evidence: That of all full windows since the start.
    """

    def __init__(self, rule: DriftRule) -> None:
        self._rule = rule
        self.evidence = DriftEvidence(rule)
        self._lock = threading.Lock()
        self._tables: list[tuple[EmbeddingTable, Tensor]] = []
        self._count = 0
        # requests do not say of which patient a sample is
        self._last: Drift | str | None = NO_GROUPS if rule.held.groups is not None else None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="drift")

    @property
    def last(self) -> Drift | str | None:
        """The outcome of the last full window, or why there is none; None before the first."""
        with self._lock:
            return self._last

    def add(self, table: EmbeddingTable, probabilities: Tensor) -> None:
        """Take note of answered samples, and test the window if it is full.

        Args:
            table: n samples.
            probabilities: (n, C) their class probabilities.
        """
        if self._rule.held.groups is not None:
            return
        with self._lock:
            self._tables.append((table, probabilities))
            self._count += len(table)
            if self._count < WINDOW:
                return
            window, self._tables, self._count = self._tables, [], 0
        self._thread.submit(self._test, window)

    def close(self) -> None:
        """Wait for a test that has begun."""
        self._thread.shutdown(wait=True)

    def _test(self, window: list[tuple[EmbeddingTable, Tensor]]) -> None:
        seen = [self._rule.seen(table, probabilities) for table, probabilities in window]
        whole = Seen(
            torch.cat([each.distance for each in seen]),
            torch.cat([each.certainty for each in seen]),
            torch.cat([each.embeddings for each in seen if each.embeddings is not None]),
        )
        outcome = self._rule.cannot_test(whole) or self._rule.test(whole)
        known = self.evidence.alarms()
        self.evidence.add(whole)
        with self._lock:
            self._last = outcome
        if isinstance(outcome, Drift) and outcome.alarms():
            _log.warning("drift: %s; 1 in 20 windows without any drift says so, too", outcome.sentence())
        if self.evidence.alarms() and not known:
            _log.warning("drift: %s", self.evidence.sentence())
