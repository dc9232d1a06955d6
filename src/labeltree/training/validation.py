"""Which samples validation searches for, and among which."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from labeltree.data import Source
from labeltree.data.counter_rng import sample_keys
from labeltree.metrics.search.left_out import LeaveGroupOut, have_partner, leaves_group_out
from labeltree.taxonomy.finest import finest_labels

__all__ = ["ValidationSamples", "validation_samples"]

_DRAW = 0x6A11


@dataclass(frozen=True)
class ValidationSamples:
    """The samples that validation embeds.

    Attributes:
        source: the queries, then a gallery of training samples, if there is one.
        num_queries: how many are queries. Without a gallery they are searched among themselves.
        groups: ``(n,)`` of these samples, where those of a query's own group are left out of its results;
            None where they count.
    """

    source: Source
    num_queries: int
    groups: Tensor | None = None


def validation_samples(
    source: Source, seed: int, leave_group_out: LeaveGroupOut = "auto"
) -> ValidationSamples:
    """The validation samples of a source with splits.

    Of a source with groups, the samples of a query's own group are no results of it, except where every group
    is a label of its own; see `labeltree.metrics.search.left_out.leaves_group_out`.

    Where hardly any shares its label with another, as when one drawing style of everything is held out, there
    is nothing to be found among them. Then one training sample of each of their labels, drawn by the seed, is
    the gallery that they are searched in. Hardly any: fewer than half of those with a label.
    """
    queries = source.of_split("val")
    finest = finest_labels(source.nodes, source.taxonomy)[source.nodes.clamp(min=0)]
    classes = torch.where((source.nodes >= 0) & finest, source.nodes, -1)
    leave_out = leaves_group_out(leave_group_out, classes, source.groups)

    def groups(part: Source) -> Tensor | None:
        return part.groups if leave_out else None

    labelled = queries.nodes >= 0
    if 2 * int(have_partner(queries.nodes, groups(queries)).sum()) >= int(labelled.sum()):
        return ValidationSamples(queries, len(queries), groups(queries))
    split = np.asarray(source.split)
    training = source.of_split("train")
    order = sample_keys(seed, 0, _DRAW, training.instances).argsort(stable=True)
    order = order[training.nodes[order].argsort(stable=True)]
    nodes = training.nodes[order]
    first = torch.ones(len(nodes), dtype=torch.bool)
    first[1:] = nodes[1:] != nodes[:-1]
    chosen = order[first & torch.isin(nodes, queries.nodes[labelled])]
    gallery = np.flatnonzero(split == "train")[chosen.numpy()]
    both = np.concatenate([np.flatnonzero(split == "val"), gallery])
    searched = source.subset(torch.from_numpy(both))
    return ValidationSamples(searched, len(queries), groups(searched))
