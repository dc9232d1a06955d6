"""Objectives that compare all pairs of a batch, on one head or several, and their prototypes."""

from labeltree import losses
from labeltree.training.registry import register_objective

_SIMCLR = "Chen et al. 2020, A Simple Framework for Contrastive Learning"
_SUPCON = "Khosla et al. 2020, Supervised Contrastive Learning"
_ZHANG = "Zhang et al. 2022, Use All the Labels"
_HWC = "Climbing the Label Tree"

register_objective(
    "simclr", summary="views of one image attract; no labels", source=_SIMCLR, sampler="random"
)(losses.NTXentLoss)
register_objective("supcon", summary="samples of one leaf attract; the tree is not used", source=_SUPCON)(
    losses.SupConLoss
)
register_objective(
    "himulcon", summary="SupCon at every depth, finer depths weigh more", source=f"{_ZHANG}, Eq. 4"
)(losses.HiMulConLoss)
register_objective(
    "hicone", summary="no coarse pair may lose less than the worst finer one", source=f"{_ZHANG}, Eq. 6"
)(losses.HiConELoss)
register_objective("himulcone", summary="HiMulCon with HiConE's constraint", source=f"{_ZHANG}, Eq. 7")(
    losses.HiMulConELoss
)
register_objective(
    "hiercon", summary="SupCon with pair losses weighted by the tree, outside the softmax", source=_HWC
)(losses.WeightedSupConLoss)
register_objective(
    "hwc", summary="each pair's similarity is scaled by the tree, inside the softmax", source=f"{_HWC}, Eq. 7"
)(losses.HWCLoss)
register_objective(
    "lam", summary="inner nodes have prototypes; their own lies nearer by a margin", source=f"{_HWC}, Eq. 11"
)(losses.LevelAwareMarginLoss)
register_objective(
    "mlcl",
    summary="SupCon on a head of its own for every depth, or every aspect of the samples",
    source="Ghanooni et al., Multi-level Supervised Contrastive Learning, Eq. 2 and 3",
)(losses.MLCLLoss)
