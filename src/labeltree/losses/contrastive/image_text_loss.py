"""The contrast of images with texts, in which the taxonomy's relations are soft positives."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.geometry import Geometry
from labeltree.losses.batch import check_batch, follow_device
from labeltree.losses.contrastive.pairwise_loss import RelationLoss
from labeltree.losses.reduction import Reduction, propagate_nan, reduce_terms
from labeltree.losses.relation_table import LossTable, Undecided, depth_table, members, same_label
from labeltree.pairs import (
    LabelRows,
    PairRelation,
    RelationCodes,
    Rho,
    Similarity,
    UnionBatch,
    as_kernels_take,
    both_ways,
    relation_codes,
    relation_terms,
    union_batch,
)
from labeltree.taxonomy import Taxonomy
from labeltree.taxonomy.relations import INSTANCE

__all__ = ["ImageTextLoss", "image_text_table"]

Depths = Literal["joint", "separate"]
Positives = Literal["label", "instance"]
_OF_JOINT = {"positives": "label", "relatives": 0.2, "rho": "max_depth", "undecided": "negative"}


def image_text_table(
    space: RelationCodes,
    positives: Positives = "label",
    relatives: float = 0.2,
    rho: Rho = "max_depth",
    undecided: Undecided = "negative",
) -> LossTable:
    """One term for the positives and, unless `relatives` is 0, one for their relatives; see `ImageTextLoss`.

    Raises:
        ValueError: An argument is out of range.
    """
    check_choice("positives", positives, Positives)
    if not 0 <= relatives < 1:
        raise ValueError(f"relatives must be a share from 0 to below 1; got {relatives}")
    own = space.spread(space.relations.kind) == INSTANCE
    matches = own if positives == "instance" else same_label(space)
    member = members(space, undecided) | matches
    table = LossTable.single(matches, member)
    if relatives == 0:
        return table
    related = torch.where(matches, 0.0, space.rho(rho))
    weights = torch.stack([matches.double(), related])
    both = torch.stack([member, member | (related > 0)])
    shares = torch.tensor([1 - relatives, relatives], dtype=torch.float64)
    return LossTable(weights, weights, both, shares)


class ImageTextLoss(RelationLoss):
    """The contrast of images with texts in one space (CLIP), with soft positives from the taxonomy.

    Each image chooses among all texts of the batch, and each text among all images:

        L = ½·(L(images → texts) + L(texts → images))
        L_i = (1 − β)·1/|P(i)| Σ_{k∈P(i)} ℓ_ik  +  β·Σ_k ρ(i,k)·ℓ_ik / Σ_k ρ(i,k)
        ℓ_ik = −log( exp(s_ik) / Σ_m exp(s_im) ),   s = cos/τ

    k and m run over the rows of the other modality. P(i) are those of the same sample or the same label; the
    second sum is over its relatives, whose labels share a node below the root with that of i, by ρ =
    depth(lca) / L. Each sum is a mean over the rows that have such partners.

    - `positives="instance", relatives=0`: CLIP (Radford et al. 2021, Learning Transferable Visual Models From
      Natural Language Supervision, Fig. 3); the labels play no part;
    - `positives="label", relatives=0`: UniCL (Yang et al. 2022, Unified Contrastive Learning in Image-Text-
      Label Space, Eq. 2 to 4), which is SupCon (Khosla et al. 2020, L_out) across modalities;
    - `relatives` > 0: β, the share of the taxonomy, with the weights of `WeightedSupConLoss`.

    With `depths="separate"`, texts are names of nodes, and each depth has a contrast of its own, in which the
    names of other depths are no negatives (after BioCLIP-HC, Tao et al. 2026):

        L = mean over the depths l that have texts of ½·(L_l(images → texts) + L_l(texts → images))
        L_l = mean of 1/|P_l(i)| Σ_{k∈P_l(i)} ℓ_ik

    The texts of depth l are those whose own label has it. P_l are those that agree at depth l; rows whose
    labels do not reach depth l take no part in it. A leaf has its name at its own depth only, and is a
    negative of others at finer ones.

    Args:
        taxonomy: The tree of the labels.
        temperature: τ > 0.
        positives: Whether rows of equal labels are positives, or only those of the same sample.
        relatives: β, from 0 to below 1.
        rho: Which ρ, see `RelationCodes.rho`; `"max_depth"` or `"same_one"`.
        geometry: The space of the embeddings, or its name; None: the sphere.
        similarity: `"cosine"` or `"distance"`; None: cosine on the sphere, distance elsewhere.
        reduction: `"valid"`, `"all"`, `"pairs"` or `"sum"`, see `reduce_terms`.
        undecided: a pair whose labels leave open whether they agree (one is an ancestor of the other, or
            missing) counts as a negative (`"negative"`, as in CLIP) or competes for relatives only
            (`"ignore"`).
        depths: `"joint"` or `"separate"`. With the latter, `positives`, `relatives`, `rho` and `undecided`
            play no part, and training gives the names of the nodes on the paths of the batch's images as
            texts.

    Call with `images (n, d)`, `texts (m, d)`, `image_nodes (n,)`, `text_nodes (m,)`, `image_instances (n,)`
    and `text_instances (m,)`: rows with the same instance id are of one sample, which may lack its image or
    its text, and have several of either. Without images or without texts, the loss is 0. As for
    `RelationLoss`, in training the rows of all ranks are compared, exactly as on one.

    Raises:
        ValueError: An argument of the wrong shape or type, or a node that is not in the taxonomy.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
        >>> nodes, instances = taxonomy.encode(["dog", "cat", "oak"]), torch.arange(3)
        >>> images = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> texts = torch.tensor([[0.8, 0.6], [1.0, 0.0], [0.0, 1.0]])
        >>> rows = (images, texts, nodes, nodes, instances, instances)
        >>> clip = ImageTextLoss(taxonomy, 0.5, positives="instance", relatives=0)
        >>> clip(*rows), ImageTextLoss(taxonomy, 0.5)(*rows)
        (tensor(0.8675), tensor(0.8282))
    """

    label_sets = None  # images and texts are given apart
    text_depths: Tensor

    def __init__(
        self,
        taxonomy: Taxonomy,
        temperature: float = 0.1,
        *,
        positives: Positives = "label",
        relatives: float = 0.2,
        rho: Rho = "max_depth",
        geometry: Geometry | str | None = None,
        similarity: Similarity | None = None,
        reduction: Reduction = "valid",
        undecided: Undecided = "negative",
        depths: Depths = "joint",
    ) -> None:
        if reduction == "none":
            raise ValueError("reduction must not be 'none': images and texts may differ in number")
        check_choice("depths", depths, Depths)
        given = {"positives": positives, "relatives": relatives, "rho": rho, "undecided": undecided}
        codes = relation_codes(taxonomy.max_depth)
        table = image_text_table(codes, positives, relatives, rho, undecided)
        if depths == "separate":
            if idle := [name for name, value in given.items() if value != _OF_JOINT[name]]:
                raise ValueError(f"{idle[0]} plays no part with depths='separate'; leave it out")
            table = depth_table(codes, torch.ones(taxonomy.max_depth))
        super().__init__(
            taxonomy,
            table,
            temperature=temperature,
            geometry=geometry,
            similarity=similarity,
            reduction=reduction,
        )
        self.positives = positives
        self.relatives = relatives
        self.rho = rho
        self.undecided = undecided
        self.depths = depths
        self.reads_names = depths == "separate"
        depth_of_node = torch.cat([taxonomy.depth, torch.tensor([-1])])
        self.register_buffer("text_depths", depth_of_node, persistent=False)

    def forward(  # type: ignore[override]
        self,
        images: Tensor,
        texts: Tensor,
        image_nodes: Tensor,
        text_nodes: Tensor,
        image_instances: Tensor,
        text_instances: Tensor,
    ) -> Tensor:
        """Evaluate the loss of a batch; see the class."""
        if images.shape[1:] != texts.shape[1:]:
            raise ValueError(
                f"images and texts must lie in one space; they have {images.shape[-1]} and {texts.shape[-1]} "
                "dimensions"
            )
        dtype = torch.float64 if torch.float64 in (images.dtype, texts.dtype) else torch.float32
        follow_device(self, self.taxonomy_paths, images.device)
        table = self._table(images.device, dtype, labelled=True)
        sides = [
            self._union(images, image_nodes, image_instances, dtype),
            self._union(texts, text_nodes, text_instances, dtype),
        ]
        if self.depths == "joint":
            return self._both_ways(sides[0], sides[1], table)
        return self._depthwise(sides[0], sides[1], table)

    def _depthwise(self, images: UnionBatch, texts: UnionBatch, table: LossTable) -> Tensor:
        """The mean over depths of the contrast with the texts of that depth."""
        nodes = texts.columns["nodes"]
        assert nodes is not None
        depths = self.text_depths[nodes]
        total, there = (images.embeddings.sum() + texts.embeddings.sum()) * 0, 0
        for depth in range(1, len(table) + 1):
            rows = (depths == depth).nonzero()[:, 0]
            if len(rows):
                columns = {name: None if ids is None else ids[rows] for name, ids in texts.columns.items()}
                of_depth = replace(texts, embeddings=texts.embeddings[rows], columns=columns)
                total = total + self._both_ways(images, of_depth, table.term(depth - 1))
                there += 1
        return total / max(there, 1)

    @property
    def _is_clip(self) -> bool:
        """Whether labels play no part, and all of the other side compete by cosine."""
        alone = self.positives == "instance" and self.relatives == 0 and self.undecided == "negative"
        return alone and self.depths == "joint" and self.similarity == "cosine"

    def _both_ways(self, images: UnionBatch, texts: UnionBatch, table: LossTable) -> Tensor:
        image_ids, text_ids = images.columns["instances"], texts.columns["instances"]
        empty = not len(images.embeddings) or not len(texts.embeddings)
        if self._is_clip and not empty and image_ids is not None and text_ids is not None:
            terms = both_ways(images.embeddings, texts.embeddings, image_ids, text_ids, self.temperature)
            losses = [reduce_terms(*each, table.term_weight, self.reduction) for each in terms]
            return propagate_nan((losses[0] + losses[1]) / 2, images.embeddings, texts.embeddings)
        return (self._one_way(images, texts, table) + self._one_way(texts, images, table)) / 2

    def _union(self, rows: Tensor, nodes: Tensor, instances: Tensor, dtype: torch.dtype) -> UnionBatch:
        checked, ids = check_batch(rows, nodes, instances, len(self.taxonomy_paths), self)
        columns = {"nodes": checked, "instances": ids}
        return union_batch(as_kernels_take(rows, dtype), columns, over_ranks=self.training)

    def _one_way(self, queries: UnionBatch, keys: UnionBatch, table: LossTable) -> Tensor:
        if not len(queries.embeddings) or not len(keys.embeddings):
            return (queries.embeddings.sum() + keys.embeddings.sum()) * 0
        sides = [self._labels(side) for side in (queries, keys)]
        row, normaliser = relation_terms(
            queries.embeddings,
            PairRelation(sides[0], sides[1], offset=None),
            self.geometry,
            self.temperature,
            positive=table.positive,
            normaliser=table.normaliser,
            member=table.member,
            similarity=self.similarity,
            keys=keys.embeddings,
        )
        loss = reduce_terms(row, normaliser, table.term_weight, self.reduction)
        return propagate_nan(loss, queries.embeddings, keys.embeddings)

    def _labels(self, side: UnionBatch) -> LabelRows:
        nodes, instances = side.columns["nodes"], side.columns["instances"]
        assert nodes is not None
        return LabelRows.of(self.taxonomy_paths, nodes, instances, None)
