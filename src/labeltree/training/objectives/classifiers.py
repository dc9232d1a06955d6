"""Objectives that classify: cross entropy at any depth, and what the tree, centres or prototypes add."""

from labeltree import losses
from labeltree.training.registry import register_objective

_CE = "cross entropy; logit adjustment: Menon et al. 2021, Long-Tail Learning via Logit Adjustment"
_BERTINETTO = "Bertinetto et al. 2020, Making Better Mistakes"
_BARZ = "Barz & Denzler 2019, Hierarchy-based Image Embeddings"
_FENG = "Feng & Patras 2023, MaskCon"

register_objective(
    "ce",
    summary="a linear classifier of the leaves, or of one depth",
    source=_CE,
    sampler="random",
)(losses.CrossEntropyLoss)
register_objective(
    "supce",
    summary="cross entropy on the labels of training, coarse where they are coarsened",
    source=f"{_FENG}, section 4",
    sampler="random",
)(losses.CrossEntropyLoss)
register_objective(
    "supfine",
    summary="cross entropy on the finest labels, also where the others train on coarse ones",
    source=f"{_FENG}, section 4",
    sampler="random",
    finest=True,
)(losses.CrossEntropyLoss)
register_objective(
    "hxe",
    summary="cross entropy of every step from the root to the leaf, weighted by depth",
    source=f"{_BERTINETTO}, HXE",
    sampler="random",
)(losses.HXELoss)
register_objective(
    "soft-labels",
    summary="the target is spread over leaves that lie near in the tree",
    source=f"{_BERTINETTO}, soft labels",
    sampler="random",
)(losses.SoftLabelLoss)
register_objective(
    "guided",
    summary="nearest of learnt prototypes, whose distances follow the tree",
    source="Garnot & Landrieu 2021, Leveraging Class Hierarchies with Metric-Guided Prototype Learning",
    sampler="random",
    geometry="euclidean",
)(losses.GuidedPrototypeLoss)
register_objective(
    "center",
    summary="cross entropy, and features gather round a centre of their leaf",
    source="Wen et al. 2016, A Discriminative Feature Learning Approach for Deep Face Recognition",
    sampler="random",
)(losses.CenterLoss)
register_objective(
    "label-embedding",
    summary="cross entropy with soft labels that are learnt from a second classifier",
    source="Sun et al. 2017, Label Embedding Network",
    sampler="random",
)(losses.LabelEmbeddingLoss)
register_objective(
    "cls",
    summary="a classifier that reads embeddings, to be added to another objective: corr+cls",
    source=f"{_BARZ}, Eq. 9 and 10",
    sampler="random",
    weight=0.1,
)(losses.EmbeddingClassifierLoss)
