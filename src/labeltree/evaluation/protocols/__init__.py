"""The named protocols, one file each; importing this package registers them."""

from labeltree.evaluation.protocols import class_embedding_regression as class_embeddings
from labeltree.evaluation.protocols import classes_added as extend
from labeltree.evaluation.protocols import clusters as clustering
from labeltree.evaluation.protocols import (
    decisions,
    few_samples,
    frequency,
    k_fold,
    knn,
    novel,
    per_group,
    query_gallery,
    seen_unseen,
    standard,
    transfer,
)
from labeltree.evaluation.protocols import image_text_matching as image_text
from labeltree.evaluation.protocols import nodes_as_tests as node_scores
from labeltree.evaluation.protocols import published_probe as sgd_probe
from labeltree.evaluation.protocols import several_labels as label_sets

__all__ = [
    "class_embeddings",
    "clustering",
    "decisions",
    "extend",
    "few_samples",
    "frequency",
    "image_text",
    "k_fold",
    "knn",
    "label_sets",
    "node_scores",
    "novel",
    "per_group",
    "query_gallery",
    "seen_unseen",
    "sgd_probe",
    "standard",
    "transfer",
]
