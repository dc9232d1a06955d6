"""Losses over embeddings and labels of a taxonomy."""

from labeltree.losses.center import CenterLoss
from labeltree.losses.classes import class_members, class_nodes, class_ranges, node_log_likelihood
from labeltree.losses.classifier import ClassifierLoss
from labeltree.losses.classifier_heads import EmbeddingClassifierLoss, LabelEmbeddingLoss
from labeltree.losses.cophenetic import CPCCLoss
from labeltree.losses.correlation import CorrelationLoss
from labeltree.losses.cross_entropy import CrossEntropyLoss
from labeltree.losses.csl import CSLLoss
from labeltree.losses.depthwise import HiConELoss, HiMulConELoss, HiMulConLoss
from labeltree.losses.devise import DeViSELoss
from labeltree.losses.guided import GuidedPrototypeLoss, prototype_distortion
from labeltree.losses.haf import HAFLoss
from labeltree.losses.haframe import HAFrameLoss, frame_similarities
from labeltree.losses.happier import HAPPIERLoss
from labeltree.losses.hierarchical_proxies import HierarchicalProxyLoss
from labeltree.losses.hwc import HWCLoss, hwc_table, mean_omega
from labeltree.losses.hxe import HXELoss
from labeltree.losses.image_text import ImageTextLoss, image_text_table
from labeltree.losses.level_aware_margin import LevelAwareMarginLoss
from labeltree.losses.maskcon import ASCLLoss, CoInsLoss, GrafitLoss, MaskConLoss, NNCLRLoss, SelfConLoss
from labeltree.losses.mlcl import MLCLLoss
from labeltree.losses.normalised_softmax import NormalisedSoftmaxLoss, streamed_log_likelihood
from labeltree.losses.pairwise import RelationLoss, bounded_relation_loss, relation_loss
from labeltree.losses.prototypes import NodePrototypes
from labeltree.losses.queue_loss import QueueLoss, StoredKeys
from labeltree.losses.ratings import JaccardSupConLoss
from labeltree.losses.soft_labels import SoftLabelLoss
from labeltree.losses.supcon import NTXentLoss, SupConLoss, WeightedSupConLoss, outside_table
from labeltree.losses.table import LossTable, depth_table, depth_weights, instance_table, members, same_label
from labeltree.losses.tree_proxies import TreeProxyLoss
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
