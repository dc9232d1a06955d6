"""The library's objectives, by family, and those of other installed packages.

Importing this registers them. Another package adds its own through the entry point group
`labeltree.objectives`, each naming a module that registers objectives when it is imported.
"""

from collections.abc import Callable
from typing import Any

from torch import nn

from labeltree import losses
from labeltree.data import get_dataset
from labeltree.errors import DataError
from labeltree.plugins import load_plugins
from labeltree.ridge import TreeRidgeLoss
from labeltree.training.registry import ObjectiveSum, register_objective, register_sum

__all__ = ["DeViSE"]


class DeViSE(losses.DeViSELoss):
    """`DeViSELoss` with the word vectors in the cache folder as the default."""

    @staticmethod
    def default_vectors() -> str:
        """The GloVe vectors that `labeltree data get glove-50d` downloads."""
        entry = get_dataset("glove-50d")
        path = entry.folder / "vectors.npz"
        if not path.is_file():
            raise DataError(
                f"there are no word vectors in '{path}'; 'labeltree data get {entry.name}' fetches them, or "
                "name another file"
            )
        return str(path)


_SIMCLR = "Chen et al. 2020, A Simple Framework for Contrastive Learning"
_SUPCON = "Khosla et al. 2020, Supervised Contrastive Learning"
_ZHANG = "Zhang et al. 2022, Use All the Labels"
_HWC = "Climbing the Label Tree"
_FENG = "Feng & Patras 2023, MaskCon"
_CE = "cross entropy; logit adjustment: Menon et al. 2021, Long-Tail Learning via Logit Adjustment"
_BERTINETTO = "Bertinetto et al. 2020, Making Better Mistakes"
_CLIP = "Radford et al. 2021, CLIP; soft positives: Yang et al. 2022, UniCL"
_ZENG = "Zeng et al. 2023, Learning Structured Representations by Embedding Class Hierarchy"
_BARZ = "Barz & Denzler 2019, Hierarchy-based Image Embeddings"

_RANDOM: dict[str, Any] = {"sampler": "random"}
_SPHERE: dict[str, Any] = {**_RANDOM, "geometry": "sphere"}
_EUCLIDEAN: dict[str, Any] = {**_RANDOM, "geometry": "euclidean"}
# Name, loss, settings that differ from the defaults, summary, source; see `ObjectiveEntry`.
# fmt: off
_OBJECTIVES: tuple[tuple[str, Callable[..., nn.Module], dict[str, Any], str, str], ...] = (
    # Pairs of a batch, on one head or several, and prototypes of inner nodes.
    ("simclr", losses.NTXentLoss, _RANDOM,
     "views of one image attract; no labels", _SIMCLR),
    ("supcon", losses.SupConLoss, {},
     "samples of one leaf attract; the tree is not used", _SUPCON),
    ("himulcon", losses.HiMulConLoss, {},
     "SupCon at every depth, finer depths weigh more", f"{_ZHANG}, Eq. 4"),
    ("hicone", losses.HiConELoss, {},
     "no coarse pair may lose less than the worst finer one", f"{_ZHANG}, Eq. 6"),
    ("himulcone", losses.HiMulConELoss, {},
     "HiMulCon with HiConE's constraint", f"{_ZHANG}, Eq. 7"),
    ("hiercon", losses.WeightedSupConLoss, {},
     "SupCon with pair losses weighted by the tree, outside the softmax", _HWC),
    ("hwc", losses.HWCLoss, {},
     "each pair's similarity is scaled by the tree, inside the softmax", f"{_HWC}, Eq. 7"),
    ("image-text", losses.ImageTextLoss, _RANDOM,
     "images and texts in one space; related labels attract, too", _CLIP),
    ("lam", losses.LevelAwareMarginLoss, {},
     "inner nodes have prototypes; their own lies nearer by a margin", f"{_HWC}, Eq. 11"),
    ("cpcc", losses.CPCCLoss, {},
     "the distances of class means correlate with those in the tree; to be added: supcon+cpcc",
     f"{_ZENG}; in the ball Sinha et al. 2024, HypStructure"),
    ("mlcl", losses.MLCLLoss, {},
     "SupCon on a head of its own for every depth, or every aspect of the samples",
     "Ghanooni et al., Multi-level Supervised Contrastive Learning, Eq. 2 and 3"),
    # Training labels coarser than the target labels: a momentum encoder and a queue (MaskCon's paper).
    ("selfcon", losses.SelfConLoss, _SPHERE,
     "every image is its own class, against a queue; no labels",
     f"He et al. 2020, Momentum Contrast; {_FENG}, Eq. 6"),
    ("grafit", losses.GrafitLoss, _SPHERE,
     "SupCon over a queue, and SelfCon beside it", f"Touvron et al. 2021, Grafit; {_FENG}, Eq. 9"),
    ("coins", losses.CoInsLoss, _SPHERE,
     "cross entropy, and SelfCon beside it",
     f"Xu et al. 2021, Weakly Supervised Representation Learning with Coarse Labels; {_FENG}, Eq. 10"),
    ("maskcon", losses.MaskConLoss, _SPHERE,
     "samples of one coarse label attract by how near they are", f"{_FENG}, Eq. 11 to 15"),
    ("nnclr", losses.NNCLRLoss, _SPHERE,
     "the nearest neighbour attracts as the other view does; no labels",
     f"Dwibedi et al. 2021, With a Little Help from My Friends; {_FENG}, section 3.2"),
    ("ascl", losses.ASCLLoss, _SPHERE,
     "near keys attract, as far as a sample's neighbourhood is told; no labels",
     f"Feng & Patras 2022, Adaptive Soft Contrastive Learning; {_FENG}, section 3.2"),
    # Vectors of the classes as targets: by the tree (Barz & Denzler), or by their names.
    ("corr", losses.CorrelationLoss, _SPHERE,
     "each class has a fixed place by the tree, and its samples are drawn there", f"{_BARZ}, Eq. 8"),
    ("devise", DeViSE, _EUCLIDEAN,
     "features are mapped to the word vectors of their classes' names", "Frome et al. 2013, DeViSE, Eq. 1"),
    ("haframe", losses.HAFrameLoss, _EUCLIDEAN,
     "features collapse to fixed class vectors that follow the tree",
     "Liang & Davis 2023, Inducing Neural Collapse to a Fixed Hierarchy-Aware Frame"),
    ("hier-cos", losses.HierCOSLoss, _EUCLIDEAN,
     "every node has a direction; an answer at any depth is the subspace that holds most of the sample",
     "Sani & Anand 2026, Learning and Evaluating Hierarchical Feature Representations, Hier-COS"),
    # A learnt unit vector for each class.
    ("normalised-softmax", losses.NormalisedSoftmaxLoss, _SPHERE,
     "cross entropy over the cosines of embeddings and learnt proxies",
     "Wang et al. 2017, NormFace; Zhai & Wu 2019; Teh et al. 2020, ProxyNCA++"),
    ("tree-proxies", losses.TreeProxyLoss, _SPHERE,
     "the same, with proxies held to the similarities of the tree", "ours"),
    ("csl", losses.CSLLoss, _SPHERE,
     "a proxy for each leaf; proxies of other branches are held off by wider margins",
     "Sun et al. 2021, Dynamic Metric Learning, cross-scale learning"),
    ("hierarchical-proxies", losses.HierarchicalProxyLoss, _SPHERE,
     "a softmax over proxies at every depth; coarse proxies are means of the finer",
     "Yang et al. 2022, Hierarchical Proxy-based Loss"),
    ("happier", losses.HAPPIERLoss, {"geometry": "sphere"},
     "every sample ranks the others by the tree, and a normalised softmax beside it",
     "Ramzi et al. 2022, Hierarchical Average Precision Training for Pertinent Image Retrieval"),
    # Classifiers: cross entropy at any depth, and what the tree, centres or prototypes add.
    ("ce", losses.CrossEntropyLoss, _RANDOM,
     "a linear classifier of the leaves, or of one depth", _CE),
    ("supce", losses.CrossEntropyLoss, _RANDOM,
     "cross entropy on the labels of training, coarse where they are coarsened", f"{_FENG}, section 4"),
    ("supfine", losses.CrossEntropyLoss, {**_RANDOM, "finest": True},
     "cross entropy on the finest labels, also where the others train on coarse ones", f"{_FENG}, section 4"),
    ("hxe", losses.HXELoss, _RANDOM,
     "cross entropy of every step from the root to the leaf, weighted by depth", f"{_BERTINETTO}, HXE"),
    ("haf", losses.HAFLoss, _RANDOM,
     "a classifier at every depth, each in agreement with the next finer one",
     "Garg, Sani & Anand 2022, Learning Hierarchy Aware Features for Reducing Mistake Severity"),
    ("soft-labels", losses.SoftLabelLoss, _RANDOM,
     "the target is spread over leaves that lie near in the tree", f"{_BERTINETTO}, soft labels"),
    ("guided", losses.GuidedPrototypeLoss, _EUCLIDEAN,
     "nearest of learnt prototypes, whose distances follow the tree",
     "Garnot & Landrieu 2021, Leveraging Class Hierarchies with Metric-Guided Prototype Learning"),
    ("center", losses.CenterLoss, _RANDOM,
     "cross entropy, and features gather round a centre of their leaf",
     "Wen et al. 2016, A Discriminative Feature Learning Approach for Deep Face Recognition"),
    ("label-embedding", losses.LabelEmbeddingLoss, _RANDOM,
     "cross entropy with soft labels that are learnt from a second classifier",
     "Sun et al. 2017, Label Embedding Network"),
    ("tree-ridge", TreeRidgeLoss, _SPHERE,
     "ridge regression on a frozen encoder's features, solved at once; embeddings are expected classes",
     f"{_BARZ}, as an exact solution; embeddings: Norouzi et al. 2014, ConSE, on the tree"),
    ("cls", losses.EmbeddingClassifierLoss, {**_RANDOM, "weight": 0.1},
     "a classifier that reads embeddings, to be added to another objective: corr+cls",
     f"{_BARZ}, Eq. 9 and 10"),
)
# fmt: on

for _name, _loss, _suits, _summary, _source in _OBJECTIVES:
    register_objective(_name, summary=_summary, source=_source, **_suits)(_loss)

register_sum(
    ObjectiveSum(
        "pairs-proxies-means",
        terms=("hwc", "tree-proxies", "cpcc"),
        weights=(1.0, 1.0, 1.0),
        options={"tree-proxies": {"gram": 0.1}},
        layers=1,
        summary="pairs are compared, samples drawn to proxies of their class, and class means ordered as in "
        "the tree; on a linear head",
        source="ours",
    )
)

load_plugins("objectives")
