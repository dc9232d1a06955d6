"""The ridge head: trained by one linear solve, changed by adding and taking away sums."""

from labeltree.ridge.class_similarity import Similarity, class_points, class_similarity
from labeltree.ridge.moments import Moments
from labeltree.ridge.tree_ridge import FoldOutputs, TreeRidge, fit_tree_ridge

__all__ = [
    "FoldOutputs",
    "Moments",
    "Similarity",
    "TreeRidge",
    "class_points",
    "class_similarity",
    "fit_tree_ridge",
]
