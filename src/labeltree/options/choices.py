"""The words that options may have, a type for each; code that takes such words imports the type from here."""

from __future__ import annotations

from typing import Literal

__all__ = [
    "AnswerFormat",
    "Calibration",
    "ClassifierChoice",
    "Counted",
    "DepthRule",
    "Descent",
    "ExportFormat",
    "FeatureGeometry",
    "Form",
    "Format",
    "GeometryName",
    "IndexGeometry",
    "LeaveGroupOut",
    "Linkage",
    "Method",
    "Modality",
    "NameReading",
    "Optimised",
    "Placing",
    "ProjectionRule",
    "Ranking",
    "SamplerName",
    "SearchFormat",
    "Strategy",
    "Subject",
    "SuspectKind",
]

AnswerFormat = Literal["table", "csv", "json", "xlsx", "parquet"]
"""The format of a file of answers."""
Calibration = Literal["none", "temperature", "vector", "depth"]
ClassifierChoice = Literal["auto", "feature-means", "prototypes", "lda", "probe", "own"]
Counted = Literal["sample", "group"]
DepthRule = Literal["finest", "gain"]
Descent = Literal["child", "leaf"]
ExportFormat = Literal["onnx", "safetensors", "torch"]
FeatureGeometry = Literal["sphere", "euclidean"]
Form = Literal[
    "adjacency",
    "breadcrumb-list",
    "breadcrumbs",
    "categories",
    "checklist",
    "claml",
    "class-index",
    "codes",
    "edges",
    "google",
    "icd-tabular",
    "id-paths",
    "is-a",
    "levels",
    "meddra",
    "mesh",
    "ncbi",
    "nested",
    "newick",
    "nexml",
    "nexus",
    "objects",
    "obo",
    "obo-graph",
    "outline",
    "paths",
    "phyloxml",
    "ranks",
    "rdf",
    "records",
    "rf2",
    "saved",
    "tree-numbers",
]
"""What a taxonomy file holds."""
Format = Literal["table", "csv", "json"]
GeometryName = Literal["sphere", "euclidean", "poincare"]
IndexGeometry = Literal["cosine", "euclidean", "poincare"]
LeaveGroupOut = Literal["auto", "always", "never"]
"""Whether the samples of a query's own group are left out of its results."""
Linkage = Literal["complete", "average", "ward"]
Method = Literal["conformal", "threshold"]
Modality = Literal["both", "image", "text"]
NameReading = Literal["exact", "plain", "scientific"]
Optimised = Literal["top1", "hierarchical_f1", "tree_distance", "wu_palmer"]
"""A metric whose best expected value an answer can have."""
Placing = Literal["path", "nearest"]
ProjectionRule = Literal["odir", "yolo9000"]
Ranking = Literal["labels", "branches"]
SamplerName = Literal["hierarchical", "random", "balanced", "class-balanced"]
"""How batches are drawn."""
SearchFormat = Literal["table", "csv", "json", "html"]
Strategy = Literal["random", "entropy", "margin", "gain", "margin+clusters", "coreset", "typiclust", "badge"]
Subject = Literal["embeddings", "other data", "folds", "run"]
"""What an evaluation can be of."""
SuspectKind = Literal["move", "dissolve", "merge", "split"]
