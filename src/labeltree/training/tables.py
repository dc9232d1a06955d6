"""Embeddings tables of a source's samples."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from labeltree.data import Source
from labeltree.runs import EmbeddingTable

__all__ = ["chunks", "table_of"]


def table_of(source: Source, embeddings: Tensor, **columns: object) -> EmbeddingTable:
    """The table of these embeddings ``(n, d)``, with what the source knows of its n samples."""
    paths = source.paths(torch.arange(len(source)))
    return EmbeddingTable(
        embeddings=embeddings,
        nodes=source.nodes,
        split=None if source.split is None else np.asarray(source.split, dtype=str),
        instances=source.instances,
        groups=source.groups,
        group_names=source.group_names,
        paths=np.asarray(paths, dtype=str) if paths else None,
        aspects=source.aspects,
        aspect_taxonomies=source.aspect_taxonomies,
        **columns,  # type: ignore[arg-type]
    )


def chunks(n: int, size: int) -> Iterator[Tensor]:
    """Positions 0 … n−1, at most ``size`` at a time."""
    return (torch.arange(start, min(start + size, n)) for start in range(0, n, size))
