"""The objectives that come with the library, by family, and those of other installed packages.

Importing this registers them. Another package adds its own through the entry point group
``labeltree.objectives``, each naming a module that registers objectives when it is imported.
"""

from labeltree import losses
from labeltree.plugins import load_plugins
from labeltree.training.registry import register_objective

__all__ = ["DeViSE"]

_SIMCLR = "Chen et al. 2020, A Simple Framework for Contrastive Learning"
_SUPCON = "Khosla et al. 2020, Supervised Contrastive Learning"
_ZHANG = "Zhang et al. 2022, Use All the Labels"
_HWC = "Climbing the Label Tree"
_FENG = "Feng & Patras 2023, MaskCon"
_CE = "cross entropy; logit adjustment: Menon et al. 2021, Long-Tail Learning via Logit Adjustment"
_BERTINETTO = "Bertinetto et al. 2020, Making Better Mistakes"
_BARZ = "Barz & Denzler 2019, Hierarchy-based Image Embeddings"

# Pairs of a batch, on one head or several, and prototypes of inner nodes.

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

# Labels coarser than what is wanted: a momentum encoder and a queue (MaskCon's paper).

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

# Vectors of the classes as targets: by the tree (Barz & Denzler), or by their names.

register_objective(
    "corr",
    summary="each class has a fixed place by the tree, and its samples are drawn there",
    source=f"{_BARZ}, Eq. 8",
    sampler="random",
    geometry="sphere",
)(losses.CorrelationLoss)


@register_objective(
    "devise",
    summary="features are mapped to the word vectors of their classes' names",
    source="Frome et al. 2013, DeViSE, Eq. 1",
    sampler="random",
    geometry="euclidean",
)
class DeViSE(losses.DeViSELoss):
    """`DeViSELoss` that reads the vectors in the cache folder where no others are named."""

    @staticmethod
    def default_vectors() -> str:
        """The GloVe vectors that `labeltree data get glove-50d` has brought."""
        from labeltree.datasets import glove_file  # which loads all readers

        return str(glove_file())


# Classifiers: cross entropy at any depth, and what the tree, centres or prototypes add.

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

load_plugins("objectives")
