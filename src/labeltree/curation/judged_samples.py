"""The samples whose labels are judged, and vectors of them that these labels have not drawn together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from labeltree.decisions.classifiers import features_as_embeddings
from labeltree.decisions.searched_space import SpaceName
from labeltree.errors import LabeltreeError
from labeltree.index import Index, open_table
from labeltree.index.opened_tables import is_run
from labeltree.inference.run_embeddings import head_fits_labels
from labeltree.progress import Progress
from labeltree.runs import EmbeddingTable, PartFolder, RunFolder
from labeltree.training.read_recipes import read_recipe

__all__ = ["JudgedSamples", "open_judged"]

_FEATURES = (
    "nearest samples are those in the features of the encoder, not in the embeddings: these are learned from "
    "the labels, and a wrong label draws its sample to the wrong class"
)
_DRAWN = (
    "nearest samples are those in the embeddings, which are learned from these labels: a wrong label draws "
    "its sample to the wrong class, and hides; the features of the run show more, but it cannot give those "
    "of all samples of the index"
)
_TRAINED = (
    "nearest samples are those in the embeddings of an encoder that was trained on these labels: wrong ones "
    "that it has memorised hide"
)
_EMBEDDINGS = "nearest samples are those in the embeddings"


@dataclass(frozen=True, eq=False)
class JudgedSamples:
    """Samples whose labels are judged.

    Attributes:
        table: The samples; neighbours are sought among its embeddings.
        space: What these are.
        sentence: The same for people, and what it means.
    """

    table: EmbeddingTable
    space: SpaceName
    sentence: str

    @classmethod
    def of(cls, table: EmbeddingTable) -> JudgedSamples:
        """The samples of a table, in its features if a head has drawn its embeddings to the labels."""
        if table.head_fits_labels and table.features is not None:
            return cls(features_as_embeddings(table), "features", _FEATURES)
        if table.head_fits_labels:
            return cls(table, "embeddings", _DRAWN)
        return cls(table, "embeddings", _TRAINED if table.learned_features else _EMBEDDINGS)


def open_judged(
    what: str | Path,
    *,
    taxonomy: str | Path | None = None,
    progress: Progress | None = None,
    verify: bool = False,
) -> JudgedSamples:
    """The samples of a run, an index or an embeddings file, as `open_table` reads them.

    An index of embeddings that a head has drawn to the labels gets the features of its run, if that still
    has all samples of the index.
    """
    table = open_table(what, taxonomy=taxonomy, progress=progress, verify=verify)
    path = Path(what)
    if path.is_file() or PartFolder(path).exists() or is_run(path):
        return JudgedSamples.of(table)
    return JudgedSamples.of(_add_features(table, Index.open(what), progress))


def _add_features(table: EmbeddingTable, index: Index, progress: Progress | None) -> EmbeddingTable:
    """The table of an index, with features of its run if a head has drawn the embeddings to the labels."""
    if index.model is None:
        return table
    folder = RunFolder(index.model)
    try:
        fits = head_fits_labels(folder, read_recipe(folder.recipe))
    except (LabeltreeError, OSError, ValueError):  # a model without the run that it was made in
        return table
    if not fits:
        return replace(table, learned_features=True)
    table = replace(table, head_fits_labels=True)
    if index.settings.vectors == "features":
        return replace(table, features=table.embeddings)
    try:
        run = open_table(index.model, progress=progress)
    except (LabeltreeError, OSError):
        return table
    rows = {name: row for row, name in enumerate(run.names)}
    places = np.array([rows.get(name, -1) for name in table.names], np.int64)
    if run.features is None or places.min(initial=0) < 0:
        return table
    return replace(table, features=run.features[torch.from_numpy(places)])
