"""Checks of what an index is made with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import get_args

import numpy as np

from labeltree.errors import DataError, TaxonomyError
from labeltree.index.addresses import is_address
from labeltree.options.choices import IndexGeometry
from labeltree.taxonomy import AnyTaxonomy, Taxonomy

__all__ = ["checked_curvature", "checked_geometry", "checked_tree", "model_path"]


def checked_geometry(name: str) -> IndexGeometry:
    """The geometry of a name; `sphere` is `cosine`."""
    if name == "sphere":  # as embeddings tables call it
        return "cosine"
    if name not in get_args(IndexGeometry):
        raise DataError(f"geometry is '{name}'; expected one of {', '.join(get_args(IndexGeometry))}")
    return name  # type: ignore[return-value]


def checked_tree(taxonomy: AnyTaxonomy) -> Taxonomy:
    """The taxonomy, if it is a tree."""
    if not isinstance(taxonomy, Taxonomy):
        raise TaxonomyError("an index needs a tree; make one of the DAG with 'labeltree taxonomy project'")
    return taxonomy


def checked_curvature(curvature: float) -> float:
    """The curvature, if it is below 0."""
    if not (curvature < 0 and np.isfinite(curvature)):
        raise DataError(f"curvature is {curvature}; expected a number below 0, such as -1.0")
    return float(curvature)


def model_path(model: str | Path, where: str | Path) -> str:
    """The path of a run; relative to the index if that lies within, so that they can be moved together."""
    run, folder = Path(model).absolute(), Path(where).absolute()
    inside = not is_address(where) and folder.is_relative_to(run)
    return os.path.relpath(run, folder) if inside else str(run)
