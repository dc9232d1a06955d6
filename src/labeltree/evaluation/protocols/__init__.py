"""The named protocols, a file each; importing this package registers them."""

from labeltree.evaluation.protocols.class_embeddings import class_embeddings
from labeltree.evaluation.protocols.clustering import clustering
from labeltree.evaluation.protocols.decisions import decisions
from labeltree.evaluation.protocols.few_samples import few_samples
from labeltree.evaluation.protocols.frequency import frequency
from labeltree.evaluation.protocols.k_fold import k_fold
from labeltree.evaluation.protocols.knn import knn
from labeltree.evaluation.protocols.node_scores import node_scores_protocol
from labeltree.evaluation.protocols.per_group import per_group
from labeltree.evaluation.protocols.query_gallery import query_gallery
from labeltree.evaluation.protocols.seen_unseen import seen_unseen
from labeltree.evaluation.protocols.sgd_probe import sgd_probe
from labeltree.evaluation.protocols.transfer import transfer

__all__ = [
    "class_embeddings",
    "clustering",
    "decisions",
    "few_samples",
    "frequency",
    "k_fold",
    "knn",
    "node_scores_protocol",
    "per_group",
    "query_gallery",
    "seen_unseen",
    "sgd_probe",
    "transfer",
]
