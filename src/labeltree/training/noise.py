"""Wrong labels, for studies of how much of them training bears."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from labeltree.data import Source

__all__ = ["with_label_noise"]


def with_label_noise(source: Source, share: float, seed: int) -> Source:
    """The same samples, some with another's label (Ghanooni et al., section 8.1).

    With probability r a label is replaced by one drawn evenly from the N that occur; so it stays with
    probability 1 − r(N−1)/N. Missing labels stay missing. Each aspect is replaced by itself. Where there is a
    rating an aspect, it becomes that of a random sample with the new label; other ratings are replaced as a
    whole row, with probability r, by those of a random sample.

    Args:
        source: the training samples.
        share: r, 0 to 1.
        seed: of the draws.
    """
    generator = torch.Generator().manual_seed(seed)
    nodes, _ = _replaced(source.nodes, share, generator)
    aspects, ratings = source.aspects, source.ratings
    if aspects is not None:
        drawn = [_replaced(column, share, generator) for column in aspects.unbind(1)]
        aspects = torch.stack([column for column, _ in drawn], dim=1)
        if ratings is not None and ratings.shape == aspects.shape:
            columns = [column[donor] for column, (_, donor) in zip(ratings.unbind(1), drawn, strict=True)]
            return dataclasses.replace(
                source, nodes=nodes, aspects=aspects, ratings=torch.stack(columns, dim=1)
            )
    if ratings is not None and len(source):
        n = len(source)
        donor = torch.randint(n, (n,), generator=generator)
        ratings = torch.where((torch.rand(n, generator=generator) < share)[:, None], ratings[donor], ratings)
    return dataclasses.replace(source, nodes=nodes, aspects=aspects, ratings=ratings)


def _replaced(nodes: Tensor, share: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Labels after the noise, and for each row one that has had this label before: itself, if it stays."""
    n = len(nodes)
    order = nodes.argsort(stable=True)
    labels, counts = torch.unique(nodes[nodes >= 0], return_counts=True)
    donor = torch.arange(n)
    if not len(labels):
        return nodes, donor
    first = torch.searchsorted(nodes[order], labels)
    hit = (torch.rand(n, generator=generator) < share) & (nodes >= 0)
    which = torch.randint(len(labels), (n,), generator=generator)
    place = (torch.rand(n, generator=generator) * counts[which]).long()
    donor[hit] = order[first[which] + place][hit]
    return nodes[donor], donor
