"""The taxonomy that a command is given by the name of a file, a folder, a run, a table or a data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from labeltree.taxonomy import AnyTaxonomy, Taxonomy

__all__ = ["open_taxonomy", "open_tree"]


def open_taxonomy(name: str) -> tuple[AnyTaxonomy, Tensor | None]:
    """The taxonomy, and the labels of the samples, ``(n,)`` nodes, -1 where missing, if there are any."""
    import torch

    from labeltree.data import folder_labels, is_data_table, list_datasets, open_source, table_labels
    from labeltree.data.shards.finding import find_shards
    from labeltree.data.tables import shard_labels
    from labeltree.runs import RunFolder
    from labeltree.taxonomy import load_taxonomy

    path = Path(name)
    if (run := RunFolder(path)).recipe.is_file() and run.taxonomy.is_file():
        nodes = torch.from_numpy(run.load_samples().nodes) if run.samples.is_file() else None
        return run.load_taxonomy(), nodes
    if (shards := find_shards(name)) is not None:
        return shard_labels(shards)
    if path.is_dir():
        return folder_labels(path)
    if not path.exists() and name in list_datasets():
        source = open_source(name)
        return source.taxonomy, source.nodes
    if is_data_table(path):
        return table_labels(path)
    return load_taxonomy(path), None


def open_tree(name: str) -> Taxonomy:
    """The taxonomy of that name.

    Raises:
        TaxonomyError: if it is a DAG.
    """
    from labeltree.errors import TaxonomyError
    from labeltree.taxonomy import Taxonomy

    taxonomy, _ = open_taxonomy(name)
    if not isinstance(taxonomy, Taxonomy):
        raise TaxonomyError(
            f"'{name}' is a DAG, and versions of taxonomies are compared as trees; make a tree of it with "
            "'labeltree taxonomy project'"
        )
    return taxonomy
