"""Which samples validation searches for, and among which."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from labeltree.data import Source
from labeltree.data.views.counters import sample_keys

__all__ = ["ValidationSamples", "validation_samples"]

_DRAW = 0x6A11


@dataclass(frozen=True)
class ValidationSamples:
    """The samples that validation embeds.

    Attributes:
        source: the queries, then a gallery of training samples, if there is one.
        num_queries: how many are queries. Without a gallery they are searched among themselves.
    """

    source: Source
    num_queries: int


def validation_samples(source: Source, seed: int) -> ValidationSamples:
    """The validation samples of a source with splits.

    Where hardly any shares its label with another, as when one drawing style of everything is held out, there
    is nothing to be found among them. Then one training sample of each of their labels, drawn by the seed, is
    the gallery that they are searched in. Hardly any: fewer than half of those with a label.
    """
    queries = source.of_split("val")
    labels, counts = queries.nodes[queries.nodes >= 0].unique(return_counts=True)  # type: ignore[no-untyped-call]
    if 2 * int(counts[counts > 1].sum()) >= int(counts.sum()):
        return ValidationSamples(queries, len(queries))
    split = np.asarray(source.split)
    training = source.of_split("train")
    order = sample_keys(seed, 0, _DRAW, training.instances).argsort(stable=True)
    order = order[training.nodes[order].argsort(stable=True)]
    nodes = training.nodes[order]
    first = torch.ones(len(nodes), dtype=torch.bool)
    first[1:] = nodes[1:] != nodes[:-1]
    chosen = order[first & torch.isin(nodes, labels)]
    gallery = np.flatnonzero(split == "train")[chosen.numpy()]
    both = np.concatenate([np.flatnonzero(split == "val"), gallery])
    return ValidationSamples(source.subset(torch.from_numpy(both)), len(queries))
