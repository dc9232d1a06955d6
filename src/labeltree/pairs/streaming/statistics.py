"""Pair statistics over tiles: the fast walk where the batch allows it, the general one elsewhere."""

from __future__ import annotations

from labeltree.pairs.streaming.chunked import pair_counts, pair_statistics

__all__ = ["pair_counts", "pair_statistics"]
