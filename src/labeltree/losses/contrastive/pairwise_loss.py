"""Pairwise losses given by a table over relation codes, without and with the hierarchical constraint.

The constraint: no pair of a coarser depth has a smaller loss than any pair of a finer one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.geometry import Geometry, Sphere, as_geometry
from labeltree.losses.batch import check_batch, follow_device
from labeltree.losses.loss_base import LabelSets, Loss
from labeltree.losses.reduction import Reduction, propagate_nan, reduce_terms
from labeltree.losses.relation_table import LossTable
from labeltree.pairs import (
    PairRelation,
    RelationCodes,
    SetRelation,
    Similarity,
    as_kernels_take,
    bounded_terms,
    relation_codes,
    relation_terms,
    union_batch,
)
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.relations import unknown_relation

__all__ = ["RelationLoss", "bounded_relation_loss", "relation_loss"]


def relation_loss(
    embeddings: Tensor,
    relation: PairRelation,
    table: LossTable,
    *,
    temperature: float | Tensor = 0.1,
    geometry: Geometry | str | None = None,
    similarity: Similarity = "cosine",
    reduction: Reduction = "valid",
) -> Tensor:
    """The loss that a table describes, for a batch compared with itself.

    With LSE_it the log-sum-exp over the members of term t, the row terms of `LossTable` are

        Σ_r positive_t(r)·(count_ir·LSE_it − ω(r)·sum_ir)

    Args:
        embeddings: `(n, d)`.
        relation: Relation of the batch with itself; with a `shard`, of the union of all ranks' batches.
        table: On the device of the embeddings, in float32 or better.
        temperature: τ.
        geometry: The geometry whose distance `similarity="distance"` uses; None: the sphere.
        similarity: As in `pair_statistics`.
        reduction: As in `reduce_terms`.

    Returns:
        A scalar; for `reduction="none"` `(n,)`, or with a shard its own rows of these.
    """
    geometry = as_geometry(geometry)
    row, normaliser = relation_terms(
        embeddings,
        relation,
        geometry,
        temperature,
        positive=table.positive,
        normaliser=table.normaliser,
        member=table.member,
        scale=table.scale,
        similarity=similarity,
    )
    loss = reduce_terms(row, normaliser, table.term_weight, reduction, relation.shard)
    return propagate_nan(loss, embeddings, shard=relation.shard)


class RelationLoss(Loss):
    """A pairwise loss given by a table over relation codes; the named losses make tables of their own.

    Args:
        taxonomy: The tree of the labels; None: there are no labels, only instances.
        table: The weights of each relation.
        temperature: τ > 0.
        geometry: The space of the embeddings, or its name; None: the sphere.
        similarity: `"cosine"` or `"distance"`; None: cosine on the sphere, distance elsewhere.
        reduction: `"valid"`, `"all"`, `"pairs"`, `"sum"` or `"none"`, see `reduce_terms`.
        space: The codes that the table is indexed by, if they are not the taxonomy's own.

    Call with `embeddings (n, d)`, `nodes (n,)` and `instances (n,)`; the loss is a scalar, `(n,)` for
    `reduction="none"`. `nodes` holds node ids of leaves or inner nodes, −1 where a label is missing. A
    row may have several labels, `nodes (n, k)`, −1 where there is no further one: pairs are then related as
    their closest two labels, see `labeltree.pairs.SetRelation`. `nodes=None` means that labels are not used
    at all: views are the positives and all others compete.
    `instances=None` means that every row is a sample of its own.

    With `torch.distributed`, a loss in training mode compares the batches of all ranks with each other. Its
    value is the same on every rank, and its gradient is scaled so that DDP's mean over ranks is the gradient
    of that value. All ranks must call it; batches can have any size, also 0, and an instance id must mean the
    same sample on every rank. `reduction="none"` gives the rank's own rows, see `own_rows`. In evaluation
    mode every rank compares only its own rows.

    Raises:
        ValueError: An argument of the wrong shape or type, a node that is not in the taxonomy, or an argument
            that is given on one rank and missing on another.

    Example:
        A custom loss: labels that share a parent attract each other half as much as equal labels.

        >>> from labeltree.losses import same_label
        >>> from labeltree.pairs import relation_codes
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
        >>> space = relation_codes(taxonomy.max_depth)
        >>> attract = torch.where(same_label(space), 1.0, 0.5 * same_label(space, depth=1))
        >>> table = LossTable.single(attract, torch.ones(space.size, dtype=torch.bool))
        >>> z = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8], [0.0, 1.0]])
        >>> RelationLoss(taxonomy, table, temperature=0.5)(z, taxonomy.encode(["dog", "dog", "cat", "oak"]))
        tensor(0.9741)
    """

    label_sets: LabelSets | None = "relation"
    taxonomy_paths: Tensor
    taxonomy_depth: Tensor | None

    def __init__(
        self,
        taxonomy: Taxonomy | None,
        table: LossTable,
        *,
        temperature: float = 0.1,
        geometry: Geometry | str | None = None,
        similarity: Similarity | None = None,
        reduction: Reduction = "valid",
        space: RelationCodes | None = None,
    ) -> None:
        super().__init__()
        if not temperature > 0:
            raise ValueError(f"temperature must be above 0; got {temperature}")
        if space is None:
            space = relation_codes(0 if taxonomy is None else taxonomy.max_depth)
        if table.positive.shape[1] != space.size:
            raise ValueError(
                f"table is over {table.positive.shape[1]} relations, the taxonomy's codes are {space.size}"
            )
        if bool(((table.positive != 0) & ~table.member).any()):
            raise ValueError("a relation that is a positive of a term must be a member of its denominator")
        self.table = table
        self._placed: dict[tuple[torch.device, torch.dtype, bool], LossTable] = {}
        self.temperature = temperature
        self.geometry = as_geometry(geometry)
        if similarity is None:
            similarity = "cosine" if isinstance(self.geometry, Sphere) else "distance"
        check_choice("similarity", similarity, Similarity)
        self.similarity: Similarity = similarity
        check_choice("reduction", reduction, Reduction)
        self.reduction: Reduction = reduction
        paths = torch.empty((0, 0), dtype=torch.int64) if taxonomy is None else taxonomy.paths
        depth = taxonomy.depth if taxonomy is not None and space.refined else None
        self.register_buffer("taxonomy_paths", paths, persistent=False)
        self.register_buffer("taxonomy_depth", depth, persistent=False)

    def relation(
        self, n: int, nodes: Tensor | None, instances: Tensor | None, device: torch.device
    ) -> PairRelation:
        """The relation of a batch of n rows with itself."""
        if len(self.taxonomy_paths) == 0:
            return PairRelation.of_instances(instances, n, device)
        if nodes is None:
            nodes = torch.full((n,), -1, device=device)
        of_batch = PairRelation.of_batch if nodes.ndim == 1 else SetRelation.of_sets
        return of_batch(self.taxonomy_paths, nodes, instances, taxonomy_depth=self.taxonomy_depth)

    def batch_table(self, table: LossTable, relation: PairRelation) -> LossTable:
        """The table for one batch; a loss whose weights depend on the batch overrides it."""
        return table

    def forward(
        self, embeddings: Tensor, nodes: Tensor | None = None, instances: Tensor | None = None
    ) -> Tensor:
        """Evaluate the loss of a batch; see the class."""
        return self._evaluate(*self._prepare(embeddings, nodes, instances))

    def _evaluate(self, embeddings: Tensor, relation: PairRelation, table: LossTable) -> Tensor:
        return relation_loss(
            embeddings,
            relation,
            table,
            temperature=self.temperature,
            geometry=self.geometry,
            similarity=self.similarity,
            reduction=self.reduction,
        )

    def _prepare(
        self, embeddings: Tensor, nodes: Tensor | None, instances: Tensor | None
    ) -> tuple[Tensor, PairRelation, LossTable]:
        num_nodes = len(self.taxonomy_paths) or None
        nodes, instances = check_batch(embeddings, nodes, instances, num_nodes, self, sets=True)
        follow_device(self, self.taxonomy_paths, embeddings.device)
        dtype = torch.float64 if embeddings.dtype == torch.float64 else torch.float32
        labelled = nodes is not None and num_nodes is not None
        labels = {"nodes": nodes if labelled else None, "instances": instances}
        batch = union_batch(as_kernels_take(embeddings, dtype), labels, over_ranks=self.training)
        relation = self.relation(len(batch.embeddings), **batch.columns, device=embeddings.device)
        relation.shard = batch.shard
        table = self._table(embeddings.device, dtype, labelled)
        return batch.embeddings, relation, self.batch_table(table, relation)

    def _table(self, device: torch.device, dtype: torch.dtype, labelled: bool) -> LossTable:
        key = (device, dtype, labelled)
        if key not in self._placed:
            with torch.inference_mode(False):  # training reuses the table that validation has moved
                table = self.table
                if not labelled:
                    table = table.without_labels(unknown_relation(self.taxonomy_paths.shape[1]))
                self._placed[key] = table.to(device, dtype)
        return self._placed[key]


def bounded_relation_loss(
    embeddings: Tensor,
    relation: PairRelation,
    table: LossTable,
    *,
    temperature: float | Tensor = 0.1,
    geometry: Geometry | str | None = None,
    similarity: Similarity = "cosine",
    reduction: Reduction = "valid",
    detach_bound: bool = False,
) -> Tensor:
    """The loss of a table, with each term's pair losses bounded below by the largest of the next finer term.

    Eq. 5 and 6 of Use All The Labels, see `labeltree.pairs.bounded_terms`.

    Args:
        embeddings: `(n, d)`.
        relation: Relation of the batch with itself; with a `shard`, of the union of all ranks' batches.
        table: T terms, coarse → fine, with positives of weight 1 and without a scale.
        temperature: τ.
        geometry: The geometry whose distance `similarity="distance"` uses; None: the sphere.
        similarity: As in `pair_statistics`.
        reduction: As in `reduce_terms`.
        detach_bound: Whether the bounds M are constants for the gradient. A pair that ties with its bound
            keeps its own gradient; this includes the pair that set the bound.

    Returns:
        A scalar; for `reduction="none"` `(n,)`, or with a shard its own rows of these.

    Example:
        >>> import torch
        >>> from labeltree.losses import instance_table
        >>> relation = PairRelation.of_instances(torch.tensor([0, 0, 1]), 3)
        >>> table = instance_table(relation.space)  # one term: nothing finer to be bounded by
        >>> z = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> bounded_relation_loss(z, relation, table.to(z.device, z.dtype), temperature=0.5)
        tensor(0.3485)
    """
    geometry = as_geometry(geometry)
    positive = table.positive > 0
    row, normaliser = bounded_terms(
        embeddings,
        relation,
        geometry,
        temperature,
        members=table.member,
        positives=positive,
        similarity=similarity,
        detach_bound=detach_bound,
    )
    loss = reduce_terms(row, normaliser, table.term_weight, reduction, relation.shard)
    return propagate_nan(loss, embeddings, shard=relation.shard)
