"""Answers and rankings judged by samples that have several labels.

Labels are tables (n, k) of nodes, -1 where a sample has no further label; none of a sample's labels lies
above another.
An answer is judged by the label with which it shares most; a search result by the closest pair of labels.
"""

from __future__ import annotations

import torch
from torch import Tensor

from labeltree.geometry import Geometry, Sphere
from labeltree.metrics.metric_checks import check_embeddings, check_nodes, check_same_length
from labeltree.taxonomy import AnyTaxonomy
from labeltree.taxonomy.dag import check_tree

__all__ = ["nearest_labels", "set_overlap", "set_retrieval"]

_PAIRS = 2**22  # similarities in memory at once


def nearest_labels(predicted_nodes: Tensor, label_sets: Tensor, taxonomy: AnyTaxonomy) -> Tensor:
    """The label of each sample whose lowest common ancestor with the answer is deepest; ties go to the first.

    Judged by this label, an answer is right if it is one of the labels, and right at a depth if it agrees
    with any of them there.

    Args:
        predicted_nodes: (n,) nodes, none missing.
        label_sets: (n, k) labels, -1 where there is no further one.
        taxonomy: a tree or a DAG.

    Returns:
        (n,) nodes, -1 for a sample without a label.

    Raises:
        ValueError: For wrong shapes or dtypes, or entries outside the taxonomy.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> dog, cat, trout = taxonomy.encode(["dog", "cat", "trout"]).tolist()
        >>> labels = torch.tensor([[dog, trout], [dog, trout]])
        >>> taxonomy.decode(nearest_labels(torch.tensor([trout, cat]), labels, taxonomy))
        ['fish/trout', 'mammal/dog']

    """
    _check(predicted_nodes, label_sets, taxonomy)
    shared = [
        torch.where(column >= 0, taxonomy.lca_depth(predicted_nodes, column.clamp_min(0)), -1)
        for column in label_sets.unbind(1)
    ]
    best = torch.stack(shared, 1).argmax(1, keepdim=True)
    return label_sets.gather(1, best)[:, 0]


def set_overlap(
    predicted_nodes: Tensor, label_sets: Tensor, taxonomy: AnyTaxonomy
) -> tuple[Tensor, Tensor, Tensor]:
    """The sizes of the ancestor sets behind hierarchical precision, recall and F1, for several labels.

    With P the ancestors of the answer and T those of all labels together, each with the nodes themselves and
    without the root, precision is |P ∩ T| / |P|, recall |P ∩ T| / |T|, and F1 2 |P ∩ T| / (|P| + |T|). Over
    samples, the paper divides the sums (Kiritchenko, Matwin, Nock & Famili 2006, Learning and Evaluation in
    the Presence of Class Hierarchies). One answer cannot name several labels, so that its recall stays below
    1. Where the nearest label is an inner node, a finer
    answer is cut to the label's depth, as in `hierarchical_f1`.

    Args:
        predicted_nodes: (n,) nodes, none missing.
        label_sets: (n, k) labels, -1 where there is no further one.
        taxonomy: a tree or a DAG.

    Returns:
        (n,) int64 each: |P ∩ T|, |P| and |T|.

    Raises:
        ValueError: For wrong shapes or dtypes, or entries outside the taxonomy.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> dog, cat, trout = taxonomy.encode(["dog", "cat", "trout"]).tolist()
        >>> [size.item() for size in set_overlap(torch.tensor([cat]), torch.tensor([[dog, trout]]), taxonomy)]
        [1, 2, 4]

    """
    _check(predicted_nodes, label_sets, taxonomy)
    nearest = nearest_labels(predicted_nodes, label_sets, taxonomy)
    known = nearest >= 0
    cut = predicted_nodes.clone()
    cut[known] = taxonomy.cut_to_labels(predicted_nodes[known], nearest[known])
    lines: dict[int, frozenset[int]] = {-1: frozenset()}
    for node in torch.unique(torch.cat([cut, label_sets.flatten()])).tolist():
        lines[node] = frozenset({node, *taxonomy.ancestors_of(node)} - {0}) if node >= 0 else frozenset()
    sizes = []
    for answer, labels in zip(cut.tolist(), label_sets.tolist(), strict=True):
        truth = frozenset[int]().union(*(lines[label] for label in labels))
        sizes.append((len(lines[answer] & truth), len(lines[answer]), len(truth)))
    overlaps = torch.tensor(sizes, dtype=torch.int64, device=predicted_nodes.device).reshape(-1, 3)
    common, of_answer, of_labels = overlaps.unbind(1)
    return common, of_answer, of_labels


def set_retrieval(
    embeddings: Tensor,
    label_sets: Tensor,
    taxonomy: AnyTaxonomy,
    keys: Tensor | None = None,
    key_sets: Tensor | None = None,
    *,
    geometry: Geometry | None = None,
    query_groups: Tensor | None = None,
    key_groups: Tensor | None = None,
) -> dict[str, Tensor]:
    """Recall@1 and MAP@R of rankings in which a result is relevant if it shares a label with the query.

    At a depth, a result is relevant if any of its labels lies with any of the query's labels at or below one
    node of this depth.

    Args:
        embeddings: (n, d) queries.
        label_sets: (n, k) their labels.
        taxonomy: a tree.
        keys: (m, d) what is searched; None: the other queries.
        key_sets: (m, l) labels of the keys.
        geometry: The space of the embeddings; default the sphere. Ties are ranked in the order of the keys.
        query_groups: (n,) groups whose members are left out of each other's results, -1 for none.
        key_groups: (m,) likewise.

    Returns:
        (n,) float64 by name: `recall@1` and `map@r`, NaN for a query without a relevant result;
        `recall@1/depth1` …, NaN where no result is relevant at the depth.

    Raises:
        ValueError: For wrong shapes or dtypes, or entries outside the taxonomy.
        TaxonomyError: If the taxonomy is a DAG.

    Example:
        >>> from labeltree.taxonomy import Taxonomy
        >>> taxonomy = Taxonomy.from_paths([("mammal", "dog"), ("mammal", "cat"), ("fish", "trout")])
        >>> dog, cat, trout = taxonomy.encode(["dog", "cat", "trout"]).tolist()
        >>> labels = torch.tensor([[dog, trout], [cat, -1], [trout, -1]])
        >>> points = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
        >>> found = set_retrieval(points, labels, taxonomy)
        >>> found["recall@1"].tolist(), found["recall@1/depth1"].tolist()
        ([0.0, nan, 0.0], [1.0, 1.0, 0.0])

    """
    tree = check_tree("relevances by depth", taxonomy)
    check_embeddings("embeddings", embeddings)
    check_same_length("embeddings", embeddings, "label_sets", label_sets)
    alone = keys is None
    keys, key_sets = (embeddings, label_sets) if keys is None or key_sets is None else (keys, key_sets)
    check_embeddings("keys", keys)
    for name, sets in (("label_sets", label_sets), ("key_sets", key_sets)):
        check_nodes(name, sets.flatten(), tree)
    key_groups = query_groups if alone else key_groups
    space, depths = geometry or Sphere(), range(1, tree.max_depth + 1)
    names = ["recall@1", "map@r", *(f"recall@1/depth{depth}" for depth in depths)]
    scores = {name: torch.full((len(embeddings),), torch.nan, dtype=torch.float64) for name in names}
    above = tree.ancestors
    step = max(1, _PAIRS // max(len(keys), 1))
    for start in range(0, len(embeddings), step):
        rows = slice(start, min(start + step, len(embeddings)))
        similarity = space.pairwise_similarity(embeddings[rows], keys)
        out = torch.zeros_like(similarity, dtype=torch.bool)
        if alone:
            place = torch.arange(rows.start, rows.stop)
            out[place - start, place] = True
        if query_groups is not None and key_groups is not None:
            mine = query_groups[rows, None]
            out |= (mine == key_groups) & (mine >= 0)
        similarity = similarity.masked_fill(out, -torch.inf)
        own = label_sets[rows]
        relevant = _share(own, key_sets) & ~out
        counts = relevant.sum(1)
        most = max(int(counts.max()) if len(counts) else 0, 1)
        ranked = similarity.argsort(dim=1, descending=True, stable=True)[:, :most]
        hits = relevant.gather(1, ranked).double()
        ranks = torch.arange(1, hits.shape[1] + 1)
        precision = hits.cumsum(1) / ranks * hits * (ranks <= counts[:, None])
        asked = counts > 0
        scores["recall@1"][rows] = torch.where(asked, hits[:, 0], torch.nan)
        scores["map@r"][rows] = torch.where(asked, precision.sum(1) / counts.clamp_min(1), torch.nan)
        for depth in depths:
            at = (torch.where(sets >= 0, above[sets.clamp_min(0), depth], -1) for sets in (own, key_sets))
            alike = _share(*at) & ~out
            first = alike.gather(1, ranked[:, :1])[:, 0].double()
            scores[f"recall@1/depth{depth}"][rows] = torch.where(alike.any(1), first, torch.nan)
    return scores


def _share(own: Tensor, other: Tensor) -> Tensor:
    """(b, m) bool: whether rows of nodes (b, k) and (m, l) have a node in common; -1 is none."""
    shared = torch.zeros(len(own), len(other), dtype=torch.bool)
    for mine in own.unbind(1):
        for theirs in other.unbind(1):
            shared |= (mine[:, None] == theirs) & (mine >= 0)[:, None]
    return shared


def _check(predicted_nodes: Tensor, label_sets: Tensor, taxonomy: AnyTaxonomy) -> None:
    check_nodes("predicted_nodes", predicted_nodes, taxonomy)
    if label_sets.ndim != 2:
        raise ValueError(f"label_sets has shape {tuple(label_sets.shape)}; expected labels (n, k)")
    check_same_length("predicted_nodes", predicted_nodes, "label_sets", label_sets)
    check_nodes("label_sets", label_sets.flatten(), taxonomy)
