"""The samples whose labels are judged, and vectors of them that these labels have not drawn together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

import torch

from labeltree.curation.suspects import JudgedSpace
from labeltree.decisions.classifiers import features_as_embeddings
from labeltree.errors import LabeltreeError
from labeltree.index import Index, open_table
from labeltree.index.opened_tables import is_run
from labeltree.inference.run_embeddings import RAW_NAMES, TableName, head_fits_labels, run_tables, start_name
from labeltree.progress import Progress
from labeltree.runs import EmbeddingTable, PartFolder, RunFolder
from labeltree.training.read_recipes import read_recipe

__all__ = ["JudgedSamples", "LabelFree", "open_judged"]

LabelFree = Literal["untrained", "raw"]
"""Tables of a run that know no label."""

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
    "that it has memorised hide; a run whose encoder is pretrained and frozen may show more"
)
_RAW_DIM = 256
_EMBEDDINGS = "nearest samples are those in the embeddings"


@dataclass(frozen=True, eq=False)
class JudgedSamples:
    """Samples whose labels are judged.

    Attributes:
        table: The samples; neighbours are sought among its embeddings.
        space: What these are.
        sentence: The same for people, and what it means.
        label_free: If the encoder was trained on the labels: the same samples in spaces that know no label,
            by the names of the tables of a run.
        names: What these are called.
    """

    table: EmbeddingTable
    space: JudgedSpace
    sentence: str
    label_free: Mapping[LabelFree, EmbeddingTable] = field(default_factory=dict)
    names: Mapping[LabelFree, str] = field(default_factory=dict)

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
    has all samples of the index; likewise an encoder that was trained gets the spaces that know no label.
    """
    table = open_table(what, taxonomy=taxonomy, progress=progress, verify=verify)
    path = Path(what)
    if path.is_file() or PartFolder(path).exists():
        return JudgedSamples.of(table)
    if is_run(path):
        return _add_label_free(JudgedSamples.of(table), path, progress, verify=verify)
    index = Index.open(what)
    judged = JudgedSamples.of(_add_features(table, index, progress))
    return judged if index.model is None else _add_label_free(judged, index.model, progress)


def _add_label_free(
    judged: JudgedSamples, run: str | Path, progress: Progress | None, *, verify: bool = False
) -> JudgedSamples:
    """The samples also in the spaces of a run that know no label, if its encoder was trained.

    These are the raw samples and a pretrained encoder as it was before training. Without pretraining, it
    says less than the raw samples; other weights than pretrained ones may have seen these labels.
    """
    if judged.space != "embeddings" or judged.table.head_fits_labels or not judged.table.learned_features:
        return judged
    try:
        recipe = read_recipe(RunFolder(run).recipe)
        pretrained = recipe.pretrained and recipe.weights is None
        wanted: tuple[TableName, ...] = ("untrained", "raw") if pretrained else ("raw",)
        trained, tables = run_tables(run, wanted, progress, verify=verify)
        places = _places(judged.table, open_table(run, progress=progress))
    except (LabeltreeError, OSError, ValueError):  # files have gone; the embeddings are there
        return judged
    if places is None:
        return judged
    spaces: dict[LabelFree, EmbeddingTable] = {}
    for name in get_args(LabelFree):
        if name in tables:
            vectors = tables[name].vectors[places]
            vectors = _reduce(vectors) if name == "raw" else vectors
            seen = replace(judged.table, embeddings=vectors, image_embeddings=None, text_embeddings=None)
            spaces[name] = replace(seen, features=vectors, geometry="sphere", learned_features=False)
    names: dict[LabelFree, str] = {
        "untrained": f"the {start_name(recipe)} before training",
        "raw": f"the {RAW_NAMES[trained.network.modality]}",
    }
    return replace(judged, label_free=spaces, names=names)


def _reduce(vectors: torch.Tensor) -> torch.Tensor:
    """Vectors in at most 256 dimensions; a classifier of thousands of pixels takes long and finds no more."""
    if min(vectors.shape) <= _RAW_DIM:
        return vectors
    from sklearn.decomposition import TruncatedSVD

    return torch.from_numpy(TruncatedSVD(_RAW_DIM, random_state=0).fit_transform(vectors.numpy())).float()


def _places(table: EmbeddingTable, run: EmbeddingTable) -> torch.Tensor | None:
    """The rows of a run's samples `(n,)` that a table holds, by their names; None if one is not there."""
    rows = {name: row for row, name in enumerate(run.names)}
    places = torch.tensor([rows.get(name, -1) for name in table.names], dtype=torch.int64)
    return None if bool((places < 0).any()) else places


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
    places = _places(table, run)
    if run.features is None or places is None:
        return table
    return replace(table, features=run.features[places])
