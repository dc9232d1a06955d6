"""Pairs of samples: their relation in the taxonomy, and statistics of their similarities by relation."""

from labeltree.pairs.bounded import bounded_sum
from labeltree.pairs.gather import gather_rows, num_ranks, sum_over_ranks
from labeltree.pairs.relation import LabelRows, PairRelation
from labeltree.pairs.space import RelationSpace, Rho, relation_space
from labeltree.pairs.statistics import (
    PairStatistics,
    PairWeight,
    Similarity,
    Statistic,
    pair_counts,
    pair_similarity,
    pair_statistics,
)

__all__ = [
    "LabelRows",
    "PairRelation",
    "PairStatistics",
    "PairWeight",
    "RelationSpace",
    "Rho",
    "Similarity",
    "Statistic",
    "bounded_sum",
    "gather_rows",
    "num_ranks",
    "pair_counts",
    "pair_similarity",
    "pair_statistics",
    "relation_space",
    "sum_over_ranks",
]
