"""The base of the losses over a queue of keys: MaskCon, Grafit, SelfCon, NNCLR and ASCL."""

from __future__ import annotations

from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from labeltree.checks import check_choice
from labeltree.geometry import Geometry, Sphere, as_geometry
from labeltree.losses.batch import check_batch, describe, follow_device
from labeltree.losses.loss_base import Loss
from labeltree.losses.reduction import Reduction, labelled_mean
from labeltree.losses.relation_table import Undecided, members, same_label
from labeltree.pairs import (
    LabelRows,
    PairRelation,
    QueueContrast,
    as_kernels_take,
    relation_codes,
    soft_target_contrast,
)
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.relations import INSTANCE

__all__ = ["ExcludeSelf", "QueueLoss", "StoredKeys", "check_queries", "check_share"]

ExcludeSelf = Literal["drop", "negative", "keep"]


class StoredKeys(Protocol):
    """Keys of earlier batches with their labels and instances, such as a `labeltree.models.KeyQueue`."""

    @property
    def vectors(self) -> Tensor:
        """`(m, d)` the keys; m may be 0."""

    @property
    def nodes(self) -> Tensor:
        """`(m,)` int64 labels of the keys, −1 where missing."""

    @property
    def instances(self) -> Tensor:
        """`(m,)` int64 instance ids of the keys."""


def check_queries(
    queries: Tensor,
    keys: Tensor,
    queue: StoredKeys,
    nodes: Tensor | None,
    instances: Tensor | None,
    num_nodes: int | None,
    loss: nn.Module | None = None,
) -> tuple[Tensor | None, Tensor | None]:
    """Check the shapes, types and ranges of a batch and of the queue.

    Args:
        queries: `(b, d)` floating point.
        keys: `(b, d)` floating point.
        queue: The queue of keys `(m, d)`.
        nodes: `(b,)` node ids from −1 (missing) to `num_nodes` − 1, or None.
        instances: `(b,)` instance ids, or None.
        num_nodes: Number of nodes of the taxonomy; None if the loss does not use node labels.
        loss: As in `check_batch`.

    Returns:
        Nodes and instances as int64, on the device of the queries.

    Raises:
        ValueError: a bad argument; the message names it, its value and what was expected.
    """
    nodes, instances = check_batch(queries, nodes, instances, num_nodes, loss)
    if not isinstance(keys, Tensor) or keys.shape != queries.shape or not keys.is_floating_point():
        raise ValueError(
            f"keys must be a floating-point tensor of shape {tuple(queries.shape)}, one per query; got "
            f"{describe(keys)}"
        )
    stored = queue.vectors
    if stored.ndim != 2 or stored.shape[1] != queries.shape[1]:
        raise ValueError(
            f"the queue's keys must have shape (m, {queries.shape[1]}), as the queries have; "
            f"got {tuple(stored.shape)}"
        )
    if num_nodes is not None and len(stored):
        least, greatest = (int(node) for node in queue.nodes.aminmax())
        if least < -1 or greatest >= num_nodes:
            wrong = greatest if greatest >= num_nodes else least
            raise ValueError(
                f"the queue holds node {wrong}, but the taxonomy's are "
                f"-1 (missing) to {num_nodes - 1}; enqueue the nodes of this taxonomy"
            )
    return nodes, instances


class QueueLoss(Loss):
    """Contrast of queries with their own keys and a queue, under a target that is partly soft.

        L_i = w·(−Σ_j z_ij log q_ij) + (1 − w)·(−log q_i0)     (Eq. 15 of MaskCon)

    j = 0 is the sample's own key, j ≥ 1 the queue; q is the softmax of cos/τ0 over them and z the target of
    `soft_target_contrast`, normalised. The second part, SelfCon, uses no labels: all keys of the queue
    compete. In the first part, keys whose relation the labels leave open compete only if `undecided` says so.

    Args:
        taxonomy: The tree of the labels; None: all of the queue is of one class.
        temperature: τ0 > 0, of the softmax.
        target_temperature: τ ≥ 0, of the target; ∞: all of the class alike.
        w: Share of the first part, 0 to 1.
        exclude_self: How a sample's own old keys are treated: `"drop"` leaves them out of target and softmax,
            `"negative"` out of the target; `"keep"` treats them as all keys of its class.
        undecided: Keys whose labels leave open whether they are of the sample's class are left out
            (`"ignore"`) or compete (`"negative"`).
        reduction: `"valid"`, `"all"` and `"pairs"` are the mean over queries, of all ranks in training, as
            every query has a positive, its own key; or `"sum"`, `"none"`.
        geometry: The sphere or None, which mean the same: no other geometry is supported.

    Call with `queries (b, d)`, `keys (b, d)` of another view of the same samples, `queue` (see
    `StoredKeys`), `nodes (b,)` and `instances (b,)`, both as in `RelationLoss`. Without `nodes` it is
    SelfCon; without `instances` a sample's own old keys are not recognised. Only the queries receive a
    gradient.

    Raises:
        ValueError: An argument of the wrong shape, type or range, or another geometry than the sphere.
    """

    taxonomy_paths: Tensor
    candidates: Tensor
    members: Tensor

    def __init__(
        self,
        taxonomy: Taxonomy | None,
        *,
        temperature: float,
        target_temperature: float,
        w: float,
        exclude_self: ExcludeSelf,
        undecided: Undecided = "ignore",
        reduction: Reduction = "valid",
        geometry: Geometry | str | None = None,
    ) -> None:
        super().__init__()
        if not temperature > 0:
            raise ValueError(f"temperature must be above 0; got {temperature}")
        if not target_temperature >= 0:
            raise ValueError(f"target_temperature must not be negative; got {target_temperature}")
        check_choice("exclude_self", exclude_self, ExcludeSelf)
        space_of_keys = as_geometry(geometry)
        if not isinstance(space_of_keys, Sphere):
            raise ValueError(
                f"{type(self).__name__} compares by the cosine and knows the sphere alone, not geometry "
                f"{space_of_keys.name!r}; train with --geometry sphere"
            )
        self.temperature = float(temperature)
        self.target_temperature = float(target_temperature)
        self.w = check_share(w)
        self.exclude_self = exclude_self
        self.undecided = undecided
        self.geometry = Sphere()
        check_choice("reduction", reduction, Reduction)
        self.reduction: Reduction = reduction
        space = relation_codes(0 if taxonomy is None else taxonomy.max_depth)
        everything = torch.ones(space.size, dtype=torch.bool)
        candidates = everything if taxonomy is None else same_label(space)
        competing = everything if taxonomy is None else members(space, undecided)
        own = space.spread(space.relations.kind) == INSTANCE
        kept = everything if exclude_self != "drop" else ~own
        paths = torch.empty((0, 0), dtype=torch.int64) if taxonomy is None else taxonomy.paths
        self.register_buffer("taxonomy_paths", paths, persistent=False)
        self.register_buffer(
            "candidates", candidates if exclude_self == "keep" else candidates & ~own, persistent=False
        )
        self.register_buffer("members", torch.stack([competing & kept, kept]), persistent=False)

    def forward(
        self,
        queries: Tensor,
        keys: Tensor,
        queue: StoredKeys,
        nodes: Tensor | None = None,
        instances: Tensor | None = None,
    ) -> Tensor:
        """Evaluate the loss of a batch; see the class."""
        contrast = self.contrast(queries, keys, queue, nodes, instances)
        w = self.share(contrast)
        soft = contrast.lse[:, 0] - contrast.attraction / contrast.mass
        return self.reduce(w * soft + (1 - w) * (contrast.lse[:, 1] - contrast.own))

    def share(self, contrast: QueueContrast) -> Tensor | float:
        """w, a number or `(b,)`; overridden by losses whose w depends on the batch."""
        return self.w

    def contrast(
        self,
        queries: Tensor,
        keys: Tensor,
        queue: StoredKeys,
        nodes: Tensor | None,
        instances: Tensor | None,
    ) -> QueueContrast:
        """The contrast of a checked batch; softmax 0 is over the class's keys, softmax 1 over all keys."""
        labelled = len(self.taxonomy_paths) > 0
        num_nodes = len(self.taxonomy_paths) or None
        nodes, instances = check_queries(queries, keys, queue, nodes, instances, num_nodes, self)
        device, dtype = queries.device, torch.float64 if queries.dtype == torch.float64 else torch.float32
        follow_device(self, self.members, device)
        stored, ids = queue.vectors.to(device), queue.instances.to(device)
        queries, keys, stored = (as_kernels_take(x, dtype) for x in (queries, keys, stored))
        candidates = None if self.w == 0 or (labelled and nodes is None) else self.candidates
        if labelled and nodes is not None:
            theirs, competing = queue.nodes.to(device), self.members
        else:
            nodes, theirs = torch.full((len(queries),), -1, device=device), torch.full_like(ids, -1)
            competing = self.members[[1, 1]]
        relation = PairRelation(self._rows(nodes, instances), self._rows(theirs, ids), offset=None)
        return soft_target_contrast(
            queries,
            keys,
            stored,
            relation,
            positive=candidates,
            members=competing,
            temperature=self.temperature,
            target_temperature=self.target_temperature,
        )

    def reduce(self, rows: Tensor) -> Tensor:
        """Reduce the losses of the queries `(b,)` as set by `reduction`."""
        if self.reduction == "none":
            return rows
        if self.reduction == "sum":
            return rows.sum()
        return labelled_mean(rows, torch.ones_like(rows, dtype=torch.bool), over_ranks=self.training)

    def _rows(self, nodes: Tensor, instances: Tensor | None) -> LabelRows:
        if len(self.taxonomy_paths):
            return LabelRows.of(self.taxonomy_paths, nodes, instances, None)
        return LabelRows(nodes, nodes.new_empty((len(nodes), 0)), instances, None)


def check_share(w: float) -> float:
    """`w` as a float; raises a ValueError unless it is between 0 and 1."""
    if not 0 <= w <= 1:
        raise ValueError(f"w must lie between 0 and 1; got {w}")
    return float(w)
