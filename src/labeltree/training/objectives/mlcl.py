"""Objectives with several projection heads, one for every depth or aspect."""

from labeltree import losses
from labeltree.training.registry import register_objective

register_objective(
    "mlcl",
    summary="SupCon on a head of its own for every depth, or every aspect of the samples",
    source="Ghanooni et al., Multi-level Supervised Contrastive Learning, Eq. 2 and 3",
)(losses.MLCLLoss)
