"""Objectives for labels coarser than what is wanted: a momentum encoder, a queue (MaskCon's paper)."""

from labeltree import losses
from labeltree.training.registry import register_objective

_FENG = "Feng & Patras 2023, MaskCon"

register_objective(
    "selfcon",
    summary="every image is its own class, against a queue; no labels",
    source=f"He et al. 2020, Momentum Contrast; {_FENG}, Eq. 6",
    sampler="random",
    geometry="sphere",
)(losses.SelfConLoss)
register_objective(
    "grafit",
    summary="SupCon over a queue, and SelfCon beside it",
    source=f"Touvron et al. 2021, Grafit; {_FENG}, Eq. 9",
    sampler="random",
    geometry="sphere",
)(losses.GrafitLoss)
register_objective(
    "coins",
    summary="cross entropy, and SelfCon beside it",
    source=f"Xu et al. 2021, Weakly Supervised Representation Learning with Coarse Labels; {_FENG}, Eq. 10",
    sampler="random",
    geometry="sphere",
)(losses.CoInsLoss)
register_objective(
    "maskcon",
    summary="samples of one coarse label attract by how near they are",
    source=f"{_FENG}, Eq. 11 to 15",
    sampler="random",
    geometry="sphere",
)(losses.MaskConLoss)
register_objective(
    "nnclr",
    summary="the nearest neighbour attracts as the other view does; no labels",
    source=f"Dwibedi et al. 2021, With a Little Help from My Friends; {_FENG}, section 3.2",
    sampler="random",
    geometry="sphere",
)(losses.NNCLRLoss)
register_objective(
    "ascl",
    summary="near keys attract, as far as a sample's neighbourhood is told; no labels",
    source=f"Feng & Patras 2022, Adaptive Soft Contrastive Learning; {_FENG}, section 3.2",
    sampler="random",
    geometry="sphere",
)(losses.ASCLLoss)
