"""Pairs of samples: their relation in the taxonomy, and the statistics of similarities that losses need."""

from labeltree.pairs.gather_ranks import (
    UnionBatch,
    gather_embeddings,
    gather_rows,
    num_ranks,
    own_rows,
    sum_over_ranks,
    union_batch,
)
from labeltree.pairs.manual_gradient import eager_gradient
from labeltree.pairs.pair_label_sets import SetRelation
from labeltree.pairs.pair_plan import Implementation, Plan, implementation
from labeltree.pairs.pair_results import PairStatistics, PairWeight, QueueContrast, Statistic
from labeltree.pairs.primitives import (
    bounded_sum,
    nearest_of_groups,
    nearest_other,
    pair_counts,
    pair_statistics,
    soft_target_contrast,
)
from labeltree.pairs.relation import LabelRows, PairRelation
from labeltree.pairs.relation_codes import RelationCodes, Rho, relation_codes
from labeltree.pairs.similarity import Similarity, as_kernels_take, pair_similarity, prototype_distances
from labeltree.pairs.terms import bounded_terms, masked_logsumexp, relation_terms, weigh, weighted_terms
from labeltree.pairs.two_sides import both_ways

__all__ = [
    "Implementation",
    "LabelRows",
    "PairRelation",
    "PairStatistics",
    "PairWeight",
    "Plan",
    "QueueContrast",
    "RelationCodes",
    "Rho",
    "SetRelation",
    "Similarity",
    "Statistic",
    "UnionBatch",
    "as_kernels_take",
    "both_ways",
    "bounded_sum",
    "bounded_terms",
    "eager_gradient",
    "gather_embeddings",
    "gather_rows",
    "implementation",
    "masked_logsumexp",
    "nearest_of_groups",
    "nearest_other",
    "num_ranks",
    "own_rows",
    "pair_counts",
    "pair_similarity",
    "pair_statistics",
    "prototype_distances",
    "relation_codes",
    "relation_terms",
    "soft_target_contrast",
    "sum_over_ranks",
    "union_batch",
    "weigh",
    "weighted_terms",
]
