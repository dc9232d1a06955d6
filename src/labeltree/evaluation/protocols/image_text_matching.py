"""`image-text`: texts searched by image and images by text, by depth."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from labeltree.errors import DataError
from labeltree.evaluation.fewest_samples import FEW, few_note
from labeltree.evaluation.protocol_registry import Inputs, ProtocolResult, register
from labeltree.evaluation.sample_columns import Column
from labeltree.evaluation.subsampling import stratified_subsample
from labeltree.geometry import Geometry
from labeltree.taxonomy import AnyTaxonomy

__all__ = ["ImageTextOptions", "image_text", "search_counterparts"]

_AT_ONCE = 1024  # queries
_ALIKE = 1e-6  # of equal texts, computed in different batches


@dataclass(frozen=True)
class ImageTextOptions:
    """Options of `image_text`.

    Attributes:
        ks: The k of recall@k.
    """

    ks: tuple[int, ...] = (1, 5, 10)

    def __post_init__(self) -> None:
        if not self.ks or min(self.ks) < 1:
            raise ValueError(f"ks must be integers above 0, got {self.ks}")


@register(
    "image-text",
    summary="search of texts by image and of images by text, by depth",
    source="recall@k both ways: Radford et al. 2021, CLIP, Section 3; by depth: labeltree",
    options=ImageTextOptions,
)
def image_text(inputs: Inputs, options: ImageTextOptions) -> ProtocolResult:
    """Recall@k of searches from images to texts and from texts to images, among the test samples.

    A query is the image alone (or the text alone) of a sample, and searches among the texts (the images)
    alone of all. Recall@k is the share of queries of which one of the first k results is labelled alike, by
    depth: lies below the same node of that depth. `own@k` is that of queries whose own counterpart, or one
    exactly as similar (an equal text), is among the first k.

    Raises:
        DataError: If the table does not hold embeddings of images and of texts.
    """
    table = inputs.table
    if table.image_embeddings is None or table.text_embeddings is None:
        raise DataError(
            "the table has no image_embeddings and text_embeddings: it is not of a run on images and texts"
        )
    sides = {"image": table.image_embeddings, "text": table.text_embeddings}
    tested = inputs.tested
    there = {name: ~points[tested].isnan().any(1) for name, points in sides.items()}
    rows = tested[there["image"] & there["text"]]
    if not len(rows):
        raise DataError("no test sample has a finest label, an image and a text")
    limit, seed = inputs.settings.max_retrieval_samples, inputs.settings.seed
    kept = stratified_subsample(rows, inputs.nodes[rows], limit, seed).sort().values
    notes = []
    if len(kept) < len(tested):
        notes.append(
            f"{len(kept)} of {len(tested)} test samples, which have an image and a text, are searched."
        )
    if len(kept) < FEW:
        notes.append(few_note(len(kept), "Search"))
    columns = []
    for query, key in (("image", "text"), ("text", "image")):
        ranks, own = search_counterparts(
            sides[query][kept],
            sides[key][kept],
            inputs.nodes[kept],
            inputs.judging.tree,
            table.space,
            max(options.ks),
        )
        name = f"{query}_to_{key}"
        for k in options.ks:
            hits = ranks[:, :k].amax(1)  # the greatest depth at which one of the first k agrees
            depth = inputs.judging.tree.depth[inputs.nodes[kept]]
            columns.append(Column(f"{name}.recall@{k}", (hits >= depth).double(), kept, by_node=k == 1))
            columns.append(Column(f"{name}.own@{k}", (own <= k).double(), kept))
            columns += [
                Column(
                    f"{name}.recall@{k}",
                    torch.where(depth >= at, (hits >= at).double(), torch.nan),
                    kept,
                    kind="by_depth",
                    at=at - 1,
                )
                for at in range(1, inputs.judging.tree.max_depth + 1)
            ]
    if inputs.samples.one_class is not None:
        columns = [column.undefined() for column in columns]
    result = inputs.summarise(columns, "Search between images and texts", rows=kept)
    return replace(result, notes=[*result.notes, *notes], counts={"samples with image and text": len(kept)})


def search_counterparts(
    queries: Tensor, keys: Tensor, nodes: Tensor, taxonomy: AnyTaxonomy, geometry: Geometry, most: int
) -> tuple[Tensor, Tensor]:
    """Search the counterparts of n samples in another modality.

    Args:
        queries: Embeddings `(n, d)` of one modality.
        keys: Embeddings `(n, d)` of the other, of the same samples.
        nodes: Labels `(n,)`.
        taxonomy: Taxonomy of the labels.
        geometry: Geometry of the embeddings.
        most: Number of results, k.

    Returns:
        Depths `(n, k)` of the LCA of each query's label with those of its first results; rank `(n,)` of
        its own counterpart, 1 for the first. Keys as similar as the counterpart do not lower its rank.
    """
    depths, ranks = [], []
    for rows in torch.arange(len(queries)).split(_AT_ONCE):  # type: ignore[no-untyped-call]
        similarity = geometry.pairwise_similarity(queries[rows].double(), keys.double())
        first = similarity.topk(min(most, len(keys)), dim=1).indices
        lca = taxonomy.lca(nodes[rows][:, None].expand_as(first), nodes[first])
        depths.append(taxonomy.depth[lca])
        own = similarity.gather(1, rows[:, None])
        ranks.append(1 + (similarity > own + _ALIKE).sum(1))
    return torch.cat(depths), torch.cat(ranks)
