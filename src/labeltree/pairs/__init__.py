"""Pairs of samples: their relation in the taxonomy, and statistics of their similarities by relation."""

from labeltree.pairs.bounded import bounded_sum
from labeltree.pairs.bounded_terms import bounded_terms
from labeltree.pairs.contrast import QueueContrast, soft_target_contrast
from labeltree.pairs.gather import gather_embeddings, gather_rows, num_ranks, own_rows, sum_over_ranks
from labeltree.pairs.implementation import Implementation, Plan, implementation
from labeltree.pairs.logsumexp import masked_logsumexp
from labeltree.pairs.nearest import nearest_other, prototype_distances
from labeltree.pairs.precision import as_kernels_take
from labeltree.pairs.relation import LabelRows, PairRelation
from labeltree.pairs.similarity import Similarity, pair_similarity
from labeltree.pairs.space import RelationSpace, Rho, relation_space
from labeltree.pairs.statistics import pair_counts, pair_statistics
from labeltree.pairs.summary import PairStatistics, PairWeight, Statistic
from labeltree.pairs.terms import denominators, relation_terms, term_logsumexp, weigh
from labeltree.pairs.union import UnionBatch, union_batch

__all__ = [
    "Implementation",
    "LabelRows",
    "PairRelation",
    "PairStatistics",
    "PairWeight",
    "Plan",
    "QueueContrast",
    "RelationSpace",
    "Rho",
    "Similarity",
    "Statistic",
    "UnionBatch",
    "as_kernels_take",
    "bounded_sum",
    "bounded_terms",
    "denominators",
    "gather_embeddings",
    "gather_rows",
    "implementation",
    "masked_logsumexp",
    "nearest_other",
    "num_ranks",
    "own_rows",
    "pair_counts",
    "pair_similarity",
    "pair_statistics",
    "prototype_distances",
    "relation_space",
    "relation_terms",
    "soft_target_contrast",
    "sum_over_ranks",
    "term_logsumexp",
    "union_batch",
    "weigh",
]
