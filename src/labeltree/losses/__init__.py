"""Losses over embeddings and labels of a taxonomy."""

from labeltree.losses.ascl import ASCLLoss
from labeltree.losses.bounded_loss import bounded_relation_loss
from labeltree.losses.center import CenterLoss
from labeltree.losses.classes import class_members, class_nodes, class_ranges, node_log_likelihood
from labeltree.losses.classifier import ClassifierLoss
from labeltree.losses.coins import CoInsLoss
from labeltree.losses.correlation import CorrelationLoss
from labeltree.losses.cross_entropy import CrossEntropyLoss
from labeltree.losses.depth_weights import depth_weights
from labeltree.losses.devise import DeViSELoss
from labeltree.losses.embedding_classifier import EmbeddingClassifierLoss
from labeltree.losses.grafit import GrafitLoss
from labeltree.losses.guided import GuidedPrototypeLoss, prototype_distortion
from labeltree.losses.hicone import HiConELoss, HiMulConELoss
from labeltree.losses.himulcon import HiMulConLoss
from labeltree.losses.hwc import HWCLoss, hwc_table, mean_omega
from labeltree.losses.hxe import HXELoss
from labeltree.losses.jaccard import JaccardSupConLoss
from labeltree.losses.label_embedding import LabelEmbeddingLoss
from labeltree.losses.level_aware_margin import LevelAwareMarginLoss
from labeltree.losses.maskcon import MaskConLoss
from labeltree.losses.mlcl import MLCLLoss
from labeltree.losses.nnclr import NNCLRLoss
from labeltree.losses.ntxent import NTXentLoss
from labeltree.losses.prototypes import NodePrototypes
from labeltree.losses.queue_batch import StoredKeys
from labeltree.losses.queue_loss import QueueLoss
from labeltree.losses.relation_loss import RelationLoss, relation_loss
from labeltree.losses.selfcon import SelfConLoss
from labeltree.losses.soft_labels import SoftLabelLoss
from labeltree.losses.supcon import SupConLoss
from labeltree.losses.table import LossTable, depth_table, instance_table, members, same_label
from labeltree.losses.weighted_supcon import WeightedSupConLoss, outside_table
from labeltree.pairs import QueueContrast, soft_target_contrast

__all__ = [
    "ASCLLoss",
    "CenterLoss",
    "ClassifierLoss",
    "CoInsLoss",
    "CorrelationLoss",
    "CrossEntropyLoss",
    "DeViSELoss",
    "EmbeddingClassifierLoss",
    "GrafitLoss",
    "GuidedPrototypeLoss",
    "HWCLoss",
    "HXELoss",
    "HiConELoss",
    "HiMulConELoss",
    "HiMulConLoss",
    "JaccardSupConLoss",
    "LabelEmbeddingLoss",
    "LevelAwareMarginLoss",
    "LossTable",
    "MLCLLoss",
    "MaskConLoss",
    "NNCLRLoss",
    "NTXentLoss",
    "NodePrototypes",
    "QueueContrast",
    "QueueLoss",
    "RelationLoss",
    "SelfConLoss",
    "SoftLabelLoss",
    "StoredKeys",
    "SupConLoss",
    "WeightedSupConLoss",
    "bounded_relation_loss",
    "class_members",
    "class_nodes",
    "class_ranges",
    "depth_table",
    "depth_weights",
    "hwc_table",
    "instance_table",
    "mean_omega",
    "members",
    "node_log_likelihood",
    "outside_table",
    "prototype_distortion",
    "relation_loss",
    "same_label",
    "soft_target_contrast",
]
