"""The named protocols, one file each; importing this package registers them."""

from labeltree.evaluation.protocols import (
    class_embeddings,
    clustering,
    decisions,
    few_samples,
    frequency,
    image_text,
    k_fold,
    knn,
    node_scores,
    novel,
    per_group,
    query_gallery,
    seen_unseen,
    sgd_probe,
    standard,
    transfer,
)

__all__ = [
    "class_embeddings",
    "clustering",
    "decisions",
    "few_samples",
    "frequency",
    "image_text",
    "k_fold",
    "knn",
    "node_scores",
    "novel",
    "per_group",
    "query_gallery",
    "seen_unseen",
    "sgd_probe",
    "standard",
    "transfer",
]
