"""An objective: the heads, the losses and the sampler, everything that training needs beyond the encoder."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from labeltree.geometry import get_geometry
from labeltree.models import ProjectionHead
from labeltree.sampling import (
    BalancedBatchSampler,
    BatchSampler,
    ClassBalancedBatchSampler,
    HierarchicalBatchSampler,
    RandomBatchSampler,
)
from labeltree.taxonomy import Taxonomy
from labeltree.training.objective_checks import check_terms, check_use, chosen_geometry
from labeltree.training.recipe import Recipe
from labeltree.training.registry import ObjectiveEntry, objective_terms
from labeltree.training.term import Term

__all__ = ["Objective"]

Builder = Callable[[dict[str, Any]], nn.Module]

_DIM = 128
_SAMPLERS: dict[str, Callable[..., BatchSampler]] = {
    "hierarchical": HierarchicalBatchSampler,
    "balanced": BalancedBatchSampler,
    "class-balanced": ClassBalancedBatchSampler,
}


class Objective(nn.Module):
    """The weighted sum of the losses that ``recipe.objective`` names, and the heads that they read.

    Every loss is fed by the names of its ``forward``'s parameters:

    - ``embeddings (n, d)``: of one projection head that all losses share, in the run's geometry; all views;
    - ``features (n, f)``: what the encoder gives;
    - ``logits (n, C)``: of a linear classifier of its own, whose columns are the nodes ``loss.classes``;
    - ``heads``: a list of ``loss.num_heads`` tensors ``(n, d)``, raw outputs of projection heads of its own;
    - ``queries (b, d)``, ``keys (b, d)``, ``queue``: embeddings of the first view, the momentum encoder's of
      the second, and the keys of earlier batches. A loss that asks for ``queries`` gets the rows of the first
      view alone in everything else, too;
    - ``nodes (n,)``, ``instances (n,)``, ``ratings (n, R)``: labels, the sample of each row, ordinal ratings;
      a loss that cannot do without ratings says ``needs_ratings = True``.

    Where samples have aspects, a loss with ``takes_aspects = True`` gets those: their taxonomies as its
    ``taxonomy``, and ``nodes (n, A)``. All others get the labels.

    Args:
        recipe: of the run.
        taxonomy: that the labels of training belong to.
        feature_dim: width of the encoder's features.
        aspects: taxonomies of the samples' aspects, if they have any.

    Raises:
        ValueError: for unknown objectives or options, weights that are not one a term, or a loss that asks
            for something that is not offered.
    """

    def __init__(
        self, recipe: Recipe, taxonomy: Taxonomy, feature_dim: int, aspects: Sequence[Taxonomy] = ()
    ) -> None:
        super().__init__()
        entries = objective_terms(recipe.objective)
        check_terms(recipe, entries)
        self.geometry = get_geometry(chosen_geometry(recipe, entries), recipe.curvature)
        self.sampler_name = entries[0].sampler if recipe.sampler == "auto" else recipe.sampler
        self._taxonomy = taxonomy
        self._options = recipe.options

        given = {"taxonomy": taxonomy, "geometry": self.geometry, "feature_dim": feature_dim}
        dim, losses, self._builders = _build(entries, recipe, given, aspects)
        make_head = partial(_projection, recipe, feature_dim, dim)
        widths = {"features": feature_dim, "embeddings": dim}
        weights = recipe.term_weights or [entry.weight for entry in entries]
        self.terms = nn.ModuleDict(
            {
                entry.name: Term(
                    entry.name,
                    loss,
                    weight,
                    entry.classifier,
                    widths,
                    make_head,
                    of_aspects=_of_aspects(entry, aspects),
                )
                for entry, loss, weight in zip(entries, losses, weights, strict=True)
            }
        )
        self.head = make_head() if any(term.reads_embeddings for term in self._terms) else None
        self.dim = feature_dim if self.head is None else dim
        compares = any("instances" in term.asks and "queries" not in term.asks for term in self._terms)
        self.num_views = recipe.num_views or (2 if compares else 1)
        has_head = self.head is not None
        check_use(recipe, self._terms, head=has_head, num_views=self.num_views, aspects=bool(aspects))

    @property
    def _terms(self) -> list[Term]:
        return list(self.terms.values())  # type: ignore[arg-type]

    @property
    def needs_keys(self) -> bool:
        """Whether a loss asks for keys of a momentum encoder."""
        return any(term.asks & {"keys", "queue"} for term in self._terms)

    def embed(self, features: Tensor) -> Tensor:
        """Embeddings ``(n, d)`` in the objective's geometry, from features ``(n, f)``.

        Where no loss reads embeddings there is no head, and the features themselves are embedded.
        """
        embeddings: Tensor = self.geometry.embed(features if self.head is None else self.head(features))
        return embeddings

    def forward(
        self,
        features: Tensor,
        nodes: Tensor,
        instances: Tensor,
        *,
        keys: Tensor | None = None,
        queue: Any = None,
        aspects: Tensor | None = None,
        ratings: Tensor | None = None,
        num_queries: int | None = None,
    ) -> dict[str, Tensor]:
        """The losses of a batch: ``loss`` is the weighted sum, and each term stands under its own name.

        Args:
            features: ``(n, f)``, all views of the batch, view by view.
            nodes: ``(n,)`` labels, −1 where missing.
            instances: ``(n,)``; views of one sample share a number.
            keys: ``(b, d)`` embeddings by the momentum encoder.
            queue: keys of earlier batches.
            aspects: ``(n, A)`` labels of the aspects, −1 where missing.
            ratings: ``(n, R)``.
            num_queries: b, the rows of the first view; None = n.
        """
        offered: dict[str, Any] = {"features": features, "nodes": nodes, "instances": instances}
        offered |= {"aspects": aspects, "ratings": ratings, "keys": keys, "queue": queue}
        if self.head is not None:
            offered["embeddings"] = self.embed(features)
        losses = {term.name: term(offered, num_queries) for term in self._terms}
        total = sum((term.weight * losses[term.name] for term in self._terms), start=features.new_zeros(()))
        return {"loss": total, **losses}

    def predict(self, features: Tensor) -> Tensor | None:
        """The model's own answers from features ``(n, f)``: nodes ``(n,)`` of the training taxonomy.

        Of several losses that can answer the last one does, so corr+cls answers by its classifier as in the
        paper; None where none can.
        """
        offered = self._offered_for_answers(features)
        return next(
            (nodes for term in reversed(self._terms) if (nodes := term.predict(offered)) is not None), None
        )

    def predict_aspects(self, features: Tensor) -> Tensor | None:
        """The model's own answers for every aspect, nodes ``(n, A)`` of the aspects' taxonomies.

        As in `predict`, the last loss that can answer does; None where none can, or there are no aspects.
        """
        offered = self._offered_for_answers(features)
        return next(
            (nodes for term in reversed(self._terms) if (nodes := term.predict_aspects(offered)) is not None),
            None,
        )

    def _offered_for_answers(self, features: Tensor) -> dict[str, Tensor]:
        return {"features": features} | ({} if self.head is None else {"embeddings": self.embed(features)})

    def check_option(self, name: str, option: str, value: float | list[float]) -> None:
        """Let the loss of that name refuse a value of an option, with its own `ValueError`."""
        with torch.random.fork_rng(devices=[]):
            self._builders[name]({**self._options.get(name, {}), option: value})

    def check_samples(self, *, aspects: bool, ratings: bool) -> None:
        """Let every loss refuse samples without what it needs, with a `ValueError`."""
        for term in self._terms:
            term.check_samples(aspects=aspects, ratings=ratings)

    def observe_labels(self, nodes: Tensor) -> None:
        """Show all labels of training to the losses that want them, before training begins."""
        for term in self._terms:
            observe = getattr(term.loss, "observe_labels", None)
            if observe is not None:
                observe(nodes)

    def sampler(
        self, nodes: Tensor, batch_size: int, *, seed: int, rank: int = 0, world_size: int = 1
    ) -> BatchSampler:
        """The batch sampler over training samples with these labels, ``(n,)``."""
        labels = nodes.numpy()
        # Fewer samples than a batch: one short batch an epoch, rather than none.
        drop_last = len(labels) >= batch_size * world_size
        make = (
            RandomBatchSampler
            if self.sampler_name == "random"
            else partial(_SAMPLERS[self.sampler_name], self._taxonomy)
        )
        return make(labels, batch_size, seed=seed, rank=rank, world_size=world_size, drop_last=drop_last)


def _build(
    entries: list[ObjectiveEntry], recipe: Recipe, given: dict[str, Any], aspects: Sequence[Taxonomy]
) -> tuple[int, list[nn.Module], dict[str, Builder]]:
    """The width of the embeddings that all terms agree on, their losses, and what builds each anew."""
    losses: dict[str, nn.Module] = {}
    builders: dict[str, Builder] = {}
    dim, chosen_by = recipe.head.dim, "head.dim"
    free = {e.name for e in entries if _leaves_dim_open(e)}
    for entry in sorted(entries, key=lambda e: e.name not in free):
        width = dim if entry.name in free else (dim or _DIM)
        taxonomy = aspects if _of_aspects(entry, aspects) else given["taxonomy"]
        builders[entry.name] = partial(entry.build, given | {"dim": width, "taxonomy": taxonomy})
        loss = losses[entry.name] = builders[entry.name](recipe.options.get(entry.name, {}))
        wish = getattr(loss, "dim", None) if entry.name in free else None
        if wish is not None and dim is not None and wish != dim:
            raise ValueError(
                f"objective '{entry.name}' has embeddings of {wish} dimensions, but {chosen_by} says {dim}"
            )
        if wish is not None:
            dim, chosen_by = wish, f"'{entry.name}'"
    return dim or _DIM, [losses[entry.name] for entry in entries], builders


def _of_aspects(entry: ObjectiveEntry, aspects: Sequence[Taxonomy]) -> bool:
    return bool(aspects) and getattr(entry.loss, "takes_aspects", False)


def _leaves_dim_open(entry: ObjectiveEntry) -> bool:
    parameter = inspect.signature(entry.loss).parameters.get("dim")
    return parameter is not None and parameter.default is None


def _projection(recipe: Recipe, feature_dim: int, dim: int) -> ProjectionHead:
    head = recipe.head
    projection = ProjectionHead(feature_dim, dim, hidden_dim=head.hidden, num_layers=head.layers)
    with torch.no_grad():
        for parameter in projection.layers[-1].parameters():
            parameter.mul_(head.gain)
    return projection
