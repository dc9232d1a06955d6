"""The space that a search uses: a run's embeddings, unless the encoder's features find more of validation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from torch import Tensor

from labeltree.errors import DataError
from labeltree.geometry import Sphere
from labeltree.metrics.functional import hierarchical_f1, map_at_r, nearest_neighbour_labels
from labeltree.runs import EmbeddingTable
from labeltree.runs.table_file_columns import number_groups
from labeltree.safe_files import fits
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["SearchedSpace", "SpaceName", "choose_space", "searched_vectors"]

SpaceName = Literal["embeddings", "features"]
_FEWEST = 10
"""Samples, or groups, for which the two spaces must find different classes, or the embeddings stay."""


@dataclass(frozen=True)
class SearchedSpace:
    """The space that a search uses, and the reason for it.

    Attributes:
        name: `embeddings` or `features`, which are compared by cosine.
        hierarchical_f1: By space, that of each validation sample's nearest training sample; empty if there
            was nothing to choose by.
        samples: Number of validation samples.
        map_at_r: By space, that of the validation samples among the training samples; empty if the nearest
            one had decided.
    """

    name: SpaceName = "embeddings"
    hierarchical_f1: dict[str, float] = field(default_factory=dict)
    samples: int = 0
    map_at_r: dict[str, float] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """Why the features are searched, in one sentence; empty if the embeddings are."""
        if self.name == "embeddings":
            return ""
        ours, theirs = (self.hierarchical_f1[name] for name in get_args(SpaceName))
        ranked = ""
        if self.map_at_r:
            ranked = ", and MAP@R is {features:.3f} and {embeddings:.3f}".format(**self.map_at_r)
        return (
            f"Search uses the encoder's features, which were better on {self.samples:,} validation samples "
            f"than the embeddings: the nearest training sample has a hierarchical F1 of {theirs:.3f} by "
            f"features and {ours:.3f} by embeddings{ranked}."
        )

    @classmethod
    def from_dict(cls, content: object) -> SearchedSpace:
        """Read the fields from a dictionary.

        Raises:
            ValueError: If the dictionary is not valid.
        """
        if not isinstance(content, Mapping):
            raise ValueError(f"no searched space: {content!r}")
        names, scores, samples = get_args(SpaceName), content.get("hierarchical_f1"), content.get("samples")
        ranked = content.get("map_at_r", {})  # earlier versions looked at the nearest sample alone
        if (
            content.get("name") not in names
            or not fits(scores, dict[str, float])
            or (scores and set(scores) != set(names))
            or (not scores and content["name"] == "features")
            or not fits(samples, int)
            or not fits(ranked, dict[str, float])
            or (ranked and set(ranked) != set(names))
        ):
            raise ValueError(f"no searched space: {content!r}")
        return cls(content["name"], dict(content["hierarchical_f1"]), content["samples"], dict(ranked))


def choose_space(
    table: EmbeddingTable, taxonomy: AnyTaxonomy, *, learned: Tensor, held: Tensor
) -> SearchedSpace:
    """Choose between the embeddings and the features of a run by what validation finds among training.

    The features are taken if they are better by the nearest training sample and by the ranking of all. By the
    nearest one they are if its hierarchical F1 is higher by more than one standard error of the difference,
    over samples or, where the table has groups, over groups, of which at least ten differ; by the ranking if
    MAP@R is higher. Otherwise the embeddings are taken.

    Args:
        table: Embeddings and features of the run, perhaps with groups.
        taxonomy: Taxonomy of the labels.
        learned: Training rows, with finest labels.
        held: Validation rows, likewise.
    """
    if table.features is None or table.image_embeddings is not None or len(held) < 2 or not len(learned):
        return SearchedSpace()
    points = {"embeddings": (table.embeddings, table.space), "features": (table.features, Sphere())}
    scores = {}
    for name, (vectors, geometry) in points.items():
        keys, queries = vectors[learned].float(), vectors[held].float()
        nearest = nearest_neighbour_labels(queries, keys, table.nodes[learned], ks=(1,), geometry=geometry)[1]
        scores[name] = hierarchical_f1(nearest, table.nodes[held], taxonomy, reduction="none")
    gain = (scores["features"] - scores["embeddings"]).double().numpy()
    groups = np.full(len(held), -1) if table.groups is None else table.groups[held].numpy()
    units = number_groups(groups)
    sums = np.bincount(units, gain - gain.mean())
    error = math.sqrt(sums @ sums * len(sums) / max(len(sums) - 1, 1)) / len(held)
    differing = len(np.unique(units[abs(gain) > 1e-6]))
    means = {name: float(values.mean()) for name, values in scores.items()}
    if gain.mean() <= error or differing < _FEWEST:
        return SearchedSpace("embeddings", means, len(held))
    ranked = {
        name: float(
            map_at_r(
                vectors[held].float(),
                table.nodes[held],
                vectors[learned].float(),
                table.nodes[learned],
                taxonomy=taxonomy,
                geometry=geometry,
            )
        )
        for name, (vectors, geometry) in points.items()
    }
    if any(map(math.isnan, ranked.values())):  # training has no class of validation
        return SearchedSpace("embeddings", means, len(held))
    better = ranked["features"] > ranked["embeddings"]
    return SearchedSpace("features" if better else "embeddings", means, len(held), ranked)


def searched_vectors(table: EmbeddingTable, space: SpaceName) -> Tensor:
    """The vectors `(n, d)` of a table that a search in a space uses.

    Raises:
        DataError: If the table has no features, and these are searched.
    """
    if space == "embeddings":
        return table.embeddings
    if table.features is None:
        raise DataError("the index is of the encoder's features, and this table has only embeddings")
    return table.features
