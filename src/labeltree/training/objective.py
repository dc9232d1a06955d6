"""An objective: the head, the losses and the sampler, everything that training needs beyond the encoder."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from labeltree.geometry import get_geometry
from labeltree.models import ProjectionHead
from labeltree.sampling import (
    BalancedBatchSampler,
    BatchSampler,
    HierarchicalBatchSampler,
    RandomBatchSampler,
)
from labeltree.taxonomy import Taxonomy
from labeltree.training.recipe import Recipe
from labeltree.training.registry import objective_terms

__all__ = ["Objective"]


class Objective(nn.Module):
    """The weighted sum of the losses that ``recipe.objective`` names, over one shared head.

    Args:
        recipe: of the run.
        taxonomy: that the labels belong to.
        feature_dim: width of the encoder's features.

    Raises:
        ValueError: for unknown objectives or options, or weights that are not one a term.
    """

    def __init__(self, recipe: Recipe, taxonomy: Taxonomy, feature_dim: int) -> None:
        super().__init__()
        entries = objective_terms(recipe.objective)
        weights = recipe.term_weights or [1.0] * len(entries)
        if len(weights) != len(entries):
            raise ValueError(
                f"term_weights has {len(weights)} numbers but objective '{recipe.objective}' has "
                f"{len(entries)} terms"
            )
        stray = sorted(set(recipe.options) - {entry.name for entry in entries})
        if stray:
            raise ValueError(
                f"there are options for '{stray[0]}', which objective '{recipe.objective}' does not use"
            )
        self.geometry = get_geometry(recipe.geometry, recipe.curvature)
        head = recipe.head
        self.head = ProjectionHead(feature_dim, head.dim, hidden_dim=head.hidden, num_layers=head.layers)
        with torch.no_grad():
            for parameter in self.head.layers[-1].parameters():
                parameter.mul_(head.gain)
        given = {"taxonomy": taxonomy, "geometry": self.geometry, "dim": head.dim}
        self.terms = nn.ModuleDict({e.name: e.build(given, recipe.options.get(e.name, {})) for e in entries})
        self.weights = dict(zip(self.terms, weights, strict=True))
        self.sampler_name = entries[0].sampler if recipe.sampler == "auto" else recipe.sampler
        self._taxonomy = taxonomy

    def embed(self, features: Tensor) -> Tensor:
        """Embeddings ``(n, d)`` in the objective's geometry, from features ``(n, f)``."""
        embeddings: Tensor = self.geometry.embed(self.head(features))
        return embeddings

    def forward(self, features: Tensor, nodes: Tensor, instances: Tensor) -> dict[str, Tensor]:
        """The losses of a batch: ``loss`` is the weighted sum, and each term stands under its own name.

        Args:
            features: ``(n, f)``, all views of the batch.
            nodes: ``(n,)`` labels, −1 where missing.
            instances: ``(n,)``; views of one sample share a number.
        """
        embeddings = self.embed(features)
        losses = {name: term(embeddings, nodes, instances) for name, term in self.terms.items()}
        total = sum(
            (self.weights[name] * loss for name, loss in losses.items()), start=embeddings.new_zeros(())
        )
        return {"loss": total, **losses}

    def sampler(
        self, nodes: Tensor, batch_size: int, *, seed: int, rank: int = 0, world_size: int = 1
    ) -> BatchSampler:
        """The batch sampler over training samples with these labels."""
        labels = nodes.numpy()
        # Fewer samples than a batch: one short batch an epoch, rather than none.
        drop_last = len(labels) >= batch_size * world_size
        if self.sampler_name == "random":
            make: Callable[..., BatchSampler] = RandomBatchSampler
        else:
            tree = HierarchicalBatchSampler if self.sampler_name == "hierarchical" else BalancedBatchSampler
            make = partial(tree, self._taxonomy)
        return make(labels, batch_size, seed=seed, rank=rank, world_size=world_size, drop_last=drop_last)
