"""The relation of every pair of a batch, computed tile by tile on request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from labeltree.pairs.relation_codes import RelationCodes, relation_codes
from labeltree.taxonomy.relations import ANCESTOR, relation_from_paths

__all__ = ["LabelRows", "NodeCodes", "PairRelation", "Rows"]

Rows = slice | Tensor | None
_MOST_NODES, _TYPE = 1024, torch.int32  # their codes take 4 MB; int16 is too short for refined ones


class NodeCodes:
    """Relation codes of pairs of nodes of one taxonomy.

    Args:
        codes: `(N + 1, N + 1)` int32, row and column N standing for a missing label.
    """

    _kept: ClassVar[WeakIdKeyDictionary] = WeakIdKeyDictionary()

    def __init__(self, codes: Tensor) -> None:
        self.codes = codes

    @classmethod
    def of_taxonomy(
        cls, paths: Tensor, refined: bool, compute: Callable[[Tensor], Tensor]
    ) -> NodeCodes | None:
        """The codes of a taxonomy, cached for the lifetime of its `paths (N, L)`; None for a large taxonomy.

        Args:
            paths: Rows of `Taxonomy.paths`.
            refined: Whether the codes have the refined numbering.
            compute: Gives the codes `(m, m)` of m nodes with each other.
        """
        kept: dict[bool, NodeCodes] = cls._kept.get(paths, {})  # type: ignore[no-untyped-call]
        if refined not in kept and 0 < len(paths) <= _MOST_NODES:
            with torch.inference_mode(False):  # training uses what validation has cached
                every = torch.arange(-1, len(paths), device=paths.device).roll(-1)
                kept[refined] = cls(compute(every).to(_TYPE))
            cls._kept[paths] = kept
        return kept.get(refined)

    def among(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Codes `(m, m)` of m nodes with each other."""
        return self.codes.cpu().numpy().take(nodes, axis=0).take(nodes, axis=1).astype(np.int64)

    def of(self, u: Tensor, v: Tensor) -> Tensor:
        """Codes `(b, c)` int64 of nodes `u (b,)` with `v (c,)`, −1 being a missing label."""
        if self.codes.device.type == "cpu":
            return torch.from_numpy(self.codes.numpy()[u.numpy()][:, v.numpy()]).long()
        return self.codes[u][:, v].long()


@dataclass(frozen=True, eq=False)
class LabelRows:
    """The data that a relation needs for the samples on one side of its pairs.

    Attributes:
        nodes: `(n,)` the labels; −1 where missing.
        paths: `(n, L)` path of each label, from `Taxonomy.paths`.
        instances: `(n,)` instance ids, or None: every row is its own instance.
        depth: `(n,)` depth of each label, or None if no loss needs it.
        codes: Codes of all pairs of nodes, if the taxonomy is small; else None.
    """

    nodes: Tensor
    paths: Tensor
    instances: Tensor | None
    depth: Tensor | None
    codes: NodeCodes | None = None

    @classmethod
    def of(
        cls, taxonomy_paths: Tensor, nodes: Tensor, instances: Tensor | None, taxonomy_depth: Tensor | None
    ) -> LabelRows:
        """Rows of the labels `nodes (n,)`, looked up in the taxonomy's tensors."""
        index = nodes.clamp(min=0)
        depth = None if taxonomy_depth is None else taxonomy_depth[index]

        def computed(nodes: Tensor) -> Tensor:
            of_nodes = None if taxonomy_depth is None else taxonomy_depth[nodes]
            rows = cls(nodes, taxonomy_paths[nodes], None, of_nodes)
            return PairRelation(rows, rows, offset=None).label_codes(rows, rows)

        codes = NodeCodes.of_taxonomy(taxonomy_paths, taxonomy_depth is not None, computed)
        return cls(nodes, taxonomy_paths.index_select(0, index), instances, depth, codes)

    def __len__(self) -> int:
        return int(self.nodes.numel())

    def __getitem__(self, rows: Rows) -> LabelRows:
        if rows is None:
            return self
        return LabelRows(
            self.nodes[rows],
            self.paths[rows],
            None if self.instances is None else self.instances[rows],
            None if self.depth is None else self.depth[rows],
            self.codes,
        )


class PairRelation:
    """The relation of every (query, key) pair.

    Nothing of size (queries × keys) is stored: `codes` computes one tile at a time, so that a streaming
    computation can process a batch of any size.

    Args:
        queries: Labels of the n queries (the anchors).
        keys: Labels of the m keys.
        offset: The key with index `offset + i` is query i itself, and that pair is excluded; None if no key
            is a query. A batch against itself has offset 0, some of its rows against all have the index of
            the first of them.

    Attributes:
        shard: The rows of this rank in the union of all ranks' batches compared with itself; None: all rows
            are here. Every rank asks for the same statistics and then computes the same from them, so a
            primitive may compute those of the shard alone and gather the others', and return a gradient that
            is right in the rows of the shard alone, and for a temperature or scale one whose mean over ranks
            is right. It may where query and key embeddings are one and the same tensor.
        kept: Cache of primitives for their next pass over the pairs, with a key for each primitive.

    Example:
        Two views of one sample (instance 7), and a sample whose label is missing:

        >>> from labeltree.taxonomy import Taxonomy
        >>> t = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat")])
        >>> nodes, instances = t.encode(["dog", "dog", None]), torch.tensor([7, 7, 8])
        >>> relation = PairRelation.of_batch(t.paths, nodes, instances)
        >>> relation.codes()  # INSTANCE(2) = 11, UNKNOWN = 12, excluded = 13
        tensor([[13, 11, 12],
                [11, 13, 12],
                [12, 12, 13]])
    """

    def __init__(self, queries: LabelRows, keys: LabelRows, *, offset: int | None) -> None:
        self.queries = queries
        self.keys = keys
        self.offset = offset
        self.shard: slice | None = None
        self.kept: dict[Any, Any] = {}

    @classmethod
    def of_batch(
        cls,
        taxonomy_paths: Tensor,
        nodes: Tensor,
        instances: Tensor | None = None,
        *,
        taxonomy_depth: Tensor | None = None,
    ) -> PairRelation:
        """The relation of a batch with itself; a row is not its own partner.

        Args:
            taxonomy_paths: `Taxonomy.paths` `(N, L)`, on the device of `nodes`.
            nodes: `(n,)` labels; −1 where missing.
            instances: `(n,)` instance ids; None: every row is its own instance.
            taxonomy_depth: `Taxonomy.depth` `(N,)`; if given, the codes are those of the refined
                `RelationCodes`.
        """
        rows = LabelRows.of(taxonomy_paths, nodes, instances, taxonomy_depth)
        return cls(rows, rows, offset=0)

    @classmethod
    def of_instances(
        cls, instances: Tensor | None, n: int, device: torch.device | None = None
    ) -> PairRelation:
        """The relation of a batch of `n` rows without a taxonomy, by instances only."""
        device = device if instances is None else instances.device
        missing = torch.full((n,), -1, device=device)
        rows = LabelRows(missing, missing.new_empty((n, 0)), instances, None)
        return cls(rows, rows, offset=0)

    def __repr__(self) -> str:
        return f"PairRelation({self.num_queries} queries × {self.num_keys} keys, {self.num_relations} codes)"

    @property
    def num_queries(self) -> int:
        """Number of queries, n."""
        return len(self.queries)

    @property
    def num_keys(self) -> int:
        """Number of keys, m."""
        return len(self.keys)

    @property
    def max_depth(self) -> int:
        """Depth L of the taxonomy."""
        return int(self.queries.paths.shape[1])

    @property
    def refined(self) -> bool:
        """Whether the codes include the depth of the shallower label."""
        return self.queries.depth is not None and self.keys.depth is not None

    @property
    def space(self) -> RelationCodes:
        """The meaning of the codes."""
        return relation_codes(self.max_depth, self.refined)

    @property
    def num_relations(self) -> int:
        """Number R of codes; an excluded pair has the code R."""
        return self.space.size

    def codes(self, rows: Rows = None, cols: Rows = None) -> Tensor:
        """Codes `(b, c)` int64 of a tile.

        Args:
            rows: The queries of the tile: a slice, indices, or None for all.
            cols: The keys of the tile, likewise.
        """
        u, v = self.queries[rows], self.keys[cols]
        (first_u, label_u), (first_v, label_v) = _distinct(u.nodes), _distinct(v.nodes)
        of_labels = self.label_codes(u[first_u], v[first_v])
        codes = of_labels[label_u][:, label_v]  # a batch has fewer labels than rows
        if u.instances is not None and v.instances is not None:
            i, k = (u.instances[:, None] == v.instances[None]).nonzero(as_tuple=True)
            codes[i, k] = self.view_codes(codes[i, k])
        if self.offset is not None:
            query = _indices(rows, self.num_queries, codes.device) + self.offset
            key = _indices(cols, self.num_keys, codes.device)
            codes.masked_fill_(query[:, None] == key[None], self.num_relations)
        return codes

    def label_codes(self, u: LabelRows, v: LabelRows) -> Tensor:
        """The codes `(b, c)` of all pairs of labels, without regard to instances."""
        if u.codes is not None and u.codes is v.codes:
            return u.codes.of(u.nodes, v.nodes)
        depths = (u.depth, v.depth)
        if u.depth is not None and v.depth is not None:
            depths = (u.depth[:, None], v.depth[None])
        return self._codes(u.paths[:, None], u.nodes[:, None], v.paths[None], v.nodes[None], *depths)

    def paired_codes(self, u: LabelRows, v: LabelRows) -> Tensor:
        """The codes `(p,)` of the labels of p pairs of rows, without regard to instances."""
        return self._codes(u.paths, u.nodes, v.paths, v.nodes, u.depth, v.depth)

    def _codes(
        self,
        paths_u: Tensor,
        nodes_u: Tensor,
        paths_v: Tensor,
        nodes_v: Tensor,
        depth_u: Tensor | None,
        depth_v: Tensor | None,
    ) -> Tensor:
        codes = relation_from_paths(paths_u, nodes_u, paths_v, nodes_v)
        if depth_u is None or depth_v is None:
            return codes
        refined = self.space.refined_apart(codes, torch.minimum(depth_u, depth_v))
        return torch.where(codes < ANCESTOR * (self.max_depth + 1), refined, codes)

    def view_codes(self, codes: Tensor) -> Tensor:
        """The codes of views of one sample, from the codes of their labels."""
        return self.space.view_codes.to(codes.device)[codes]


def _distinct(nodes: Tensor) -> tuple[Tensor, Tensor]:
    """The index of one row for every distinct label `(C,)`, and the label index of each row `(n,)`."""
    labels, index = torch.unique(nodes, return_inverse=True)
    rows = torch.arange(len(nodes), device=nodes.device)
    return rows.new_empty(len(labels)).scatter_(0, index, rows), index


def _indices(rows: Rows, size: int, device: torch.device) -> Tensor:
    index = torch.arange(size, device=device)
    return index if rows is None else index[rows]
