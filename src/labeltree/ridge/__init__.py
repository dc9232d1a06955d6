"""The ridge head: trained by one linear solve, changed by adding and taking away sums."""

from labeltree.ridge.cv_plus import CvPlus, fit_cv_plus
from labeltree.ridge.fitting import FoldOutputs, fit_tree_ridge
from labeltree.ridge.moments import Moments
from labeltree.ridge.ridge_loss import TreeRidgeLoss
from labeltree.ridge.tree_ridge import TreeRidge

__all__ = [
    "CvPlus",
    "FoldOutputs",
    "Moments",
    "TreeRidge",
    "TreeRidgeLoss",
    "fit_cv_plus",
    "fit_tree_ridge",
]
