"""Distances on PostgreSQL: what its approximate index is made of, and scores to compare every row by."""

from __future__ import annotations

from typing import Any

import numpy as np

from labeltree.index.store import IndexSettings

__all__ = ["LONGEST", "exact_score", "indexed", "indexed_distance", "indexed_query", "score_query"]

Array = np.ndarray[Any, Any]
LONGEST = {"cosine": 4000, "euclidean": 2000, "poincare": 2000}
"""Dimensions that pgvector can index."""
_EPS = 2.0**-24


def indexed(settings: IndexSettings) -> tuple[Any, str]:
    """What the HNSW index is made of, and by which operators."""
    from psycopg import sql

    if settings.geometry == "cosine":
        half = sql.SQL("l2_normalize(vector)::halfvec({})").format(sql.Literal(settings.dim))
        return half, "halfvec_ip_ops"
    return sql.Identifier(settings.search_column), (
        "vector_l2_ops" if settings.geometry == "euclidean" else "vector_ip_ops"
    )


def indexed_distance(settings: IndexSettings) -> Any:
    """The distance of a row and a query, a parameter, by which the HNSW index orders."""
    from psycopg import sql

    operator = "<->" if settings.geometry == "euclidean" else "<#>"
    kind = f"halfvec({settings.dim})" if settings.geometry == "cosine" else "vector"
    return sql.SQL("{} {} %s::{}").format(indexed(settings)[0], sql.SQL(operator), sql.SQL(kind))


def indexed_query(settings: IndexSettings, query: Array) -> Any:
    """A query `(d,)` as `indexed_distance` takes it."""
    from pgvector import HalfVector, Vector

    return HalfVector(_unit(query)) if settings.geometry == "cosine" else Vector(query)


def exact_score(settings: IndexSettings) -> tuple[Any, float, float]:
    """A score that orders rows as the distance does; its rounding reaches to score·factor + margin."""
    from psycopg import sql

    share = (settings.dim + 8) * 2 * _EPS
    if settings.geometry == "cosine":
        usual = "vector_norm(vector) BETWEEN 1e-12 AND 1e15"
        score = f"CASE WHEN {usual} THEN vector <=> %s::vector ELSE 'NaN' END"
        return sql.SQL(score), 1.0, 4 * share
    if settings.geometry == "euclidean":
        return sql.SQL("vector <-> %s::vector"), 1 + 4 * share, 1e-17
    c = sql.Literal(-settings.curvature)
    score = (
        "CASE WHEN {0} * vector_norm(vector) ^ 2 < 1 - 1e-9 "
        "THEN (vector <-> %s::vector) ^ 2 / (1 - {0} * vector_norm(vector) ^ 2) ELSE 'NaN' END"
    )
    return sql.SQL(score).format(c), 1 + 8 * share, 1e-24


def score_query(settings: IndexSettings, query: Array) -> Any:
    """A query `(d,)` as `exact_score` takes it."""
    from pgvector import Vector

    return Vector(_unit(query) if settings.geometry == "cosine" else query)


def _unit(query: Array) -> Array:
    length = float(np.linalg.norm(query.astype(np.float64)))
    return np.asarray(query if length == 0 else query.astype(np.float64) / length, np.float32)
