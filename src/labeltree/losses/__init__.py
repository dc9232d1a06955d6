"""Losses over embeddings and labels of a taxonomy."""

from labeltree.losses.classifiers.classes import class_members, class_nodes, class_ranges, node_log_likelihood
from labeltree.losses.classifiers.classifier import ClassifierLoss
from labeltree.losses.classifiers.classifier_heads import EmbeddingClassifierLoss, LabelEmbeddingLoss
from labeltree.losses.classifiers.cross_entropy import CrossEntropyLoss
from labeltree.losses.classifiers.devise import DeViSELoss
from labeltree.losses.classifiers.haf import HAFLoss
from labeltree.losses.classifiers.haframe import HAFrameLoss, frame_similarities
from labeltree.losses.classifiers.hier_cos import HierCOSLoss
from labeltree.losses.classifiers.hxe import HXELoss
from labeltree.losses.classifiers.soft_labels import SoftLabelLoss
from labeltree.losses.contrastive.correlation import CorrelationLoss
from labeltree.losses.contrastive.cpcc_loss import CPCCLoss
from labeltree.losses.contrastive.csl import CSLLoss
from labeltree.losses.contrastive.depthwise import HiConELoss, HiMulConELoss, HiMulConLoss
from labeltree.losses.contrastive.happier import HAPPIERLoss
from labeltree.losses.contrastive.hwc import HWCLoss, hwc_table, mean_omega
from labeltree.losses.contrastive.image_text_loss import ImageTextLoss, image_text_table
from labeltree.losses.contrastive.mlcl import MLCLLoss
from labeltree.losses.contrastive.pairwise_loss import RelationLoss, bounded_relation_loss, relation_loss
from labeltree.losses.contrastive.ratings import JaccardSupConLoss
from labeltree.losses.contrastive.supcon import NTXentLoss, SupConLoss, WeightedSupConLoss, outside_table
from labeltree.losses.guided import GuidedPrototypeLoss, prototype_distortion
from labeltree.losses.proxies.center import CenterLoss
from labeltree.losses.proxies.hierarchical_proxies import HierarchicalProxyLoss
from labeltree.losses.proxies.level_aware_margin import LevelAwareMarginLoss
from labeltree.losses.proxies.normalised_softmax import NormalisedSoftmaxLoss, streamed_log_likelihood
from labeltree.losses.proxies.prototypes import NodePrototypes
from labeltree.losses.proxies.tree_proxies import TreeProxyLoss
from labeltree.losses.queues.maskcon import (
    ASCLLoss,
    CoInsLoss,
    GrafitLoss,
    MaskConLoss,
    NNCLRLoss,
    SelfConLoss,
)
from labeltree.losses.queues.queue_loss import QueueLoss, StoredKeys
from labeltree.losses.relation_table import (
    LossTable,
    depth_table,
    depth_weights,
    instance_table,
    members,
    same_label,
)
from labeltree.pairs import QueueContrast, soft_target_contrast

__all__ = [
    "ASCLLoss",
    "CPCCLoss",
    "CSLLoss",
    "CenterLoss",
    "ClassifierLoss",
    "CoInsLoss",
    "CorrelationLoss",
    "CrossEntropyLoss",
    "DeViSELoss",
    "EmbeddingClassifierLoss",
    "GrafitLoss",
    "GuidedPrototypeLoss",
    "HAFLoss",
    "HAFrameLoss",
    "HAPPIERLoss",
    "HWCLoss",
    "HXELoss",
    "HiConELoss",
    "HiMulConELoss",
    "HiMulConLoss",
    "HierCOSLoss",
    "HierarchicalProxyLoss",
    "ImageTextLoss",
    "JaccardSupConLoss",
    "LabelEmbeddingLoss",
    "LevelAwareMarginLoss",
    "LossTable",
    "MLCLLoss",
    "MaskConLoss",
    "NNCLRLoss",
    "NTXentLoss",
    "NodePrototypes",
    "NormalisedSoftmaxLoss",
    "QueueContrast",
    "QueueLoss",
    "RelationLoss",
    "SelfConLoss",
    "SoftLabelLoss",
    "StoredKeys",
    "SupConLoss",
    "TreeProxyLoss",
    "WeightedSupConLoss",
    "bounded_relation_loss",
    "class_members",
    "class_nodes",
    "class_ranges",
    "depth_table",
    "depth_weights",
    "frame_similarities",
    "hwc_table",
    "image_text_table",
    "instance_table",
    "mean_omega",
    "members",
    "node_log_likelihood",
    "outside_table",
    "prototype_distortion",
    "relation_loss",
    "same_label",
    "soft_target_contrast",
    "streamed_log_likelihood",
]
