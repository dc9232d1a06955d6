"""Tree proxies: a normalised softmax whose proxies are held to the similarities of the tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor, nn

from labeltree.checks import check_choice
from labeltree.geometry import Sphere
from labeltree.geometry.precision import widen
from labeltree.losses.classifiers.classes import node_log_likelihood
from labeltree.losses.proxies.normalised_softmax import NormalisedSoftmaxLoss
from labeltree.losses.reduction import propagate_nan
from labeltree.taxonomy import Taxonomy

__all__ = ["Start", "TreeProxyLoss"]

Start = Literal["tree", "random"]
_LARGEST_SCALE = 40.0


class TreeProxyLoss(NormalisedSoftmaxLoss):
    """A normalised softmax whose proxies follow the tree (ours).

        L = mean over labelled rows of
              −log p(y_i) − b·mean over v above y_i of log p(v) + a·(1 − z_i · P_{y_i})
          + g·mean over classes c of Σ_{c'} (P_c · P_{c'} − S'_{cc'})²
        S'_{cc'} = (1 − s)·(1 − height(lca(c, c'))/H) for c ≠ c', and 1 for c = c'

    p is that of `NormalisedSoftmaxLoss`, z_i and P_c are unit vectors. s = 0 holds the proxies to the
    similarities of Barz & Denzler 2019, s = 1 to orthogonal ones (a flat tree). The proxy of an inner-node
    label is the normalised sum of the proxies below it.

    The last term needs no matrix of all pairs of classes. A similarity that depends on the lowest common
    ancestor alone is S = Σ_v w_v 1_v 1_vᵀ over nodes v, with 1_v the classes below v, so that
    ‖PPᵀ − S‖² = ‖PᵀP‖² − 2·Σ_v w_v·|Σ_{c∈v} P_c|² + ‖S‖²: O(C·d² + N·d) instead of O(C²·d).

    Args:
        taxonomy: The tree of the labels.
        dim: d, dimension of the embeddings.
        temperature: τ > 0.
        align: a ≥ 0, weight of the alignment of embeddings with their class's proxy.
        gram: g ≥ 0, weight of the proxies' similarities.
        ancestors: b ≥ 0, weight of the likelihood of the label's ancestors, p(v) = Σ_{c∈v} p(c), without the
            root.
        identity: s in [0, 1].
        start: `"tree"`: the proxies start with the inner products S', exactly where `dim` is at least the
            number of classes, else on average. `"random"`: in random directions.
        learn_temperature: Learn τ, from `temperature` on.
        lr_factor: Factor of the learning rate of the proxies; see `NormalisedSoftmaxLoss`.

    Attributes:
        proxies: `(num_leaves, dim)` parameter, in the order of `classes`; only directions count.

    Call with `embeddings (n, dim)` and `nodes (n,)`, −1 where missing. The means are over labelled rows, of
    all ranks in training. Rows without a label, or labelled with the root, are not aligned. Without a
    labelled row the first two terms are exactly 0.

    Raises:
        ValueError: An argument of the wrong shape or type, or a node that is not in the taxonomy.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
        >>> loss = TreeProxyLoss(taxonomy, dim=3, identity=0.5)
        >>> (loss.proxies @ loss.proxies.T).detach().mul(100).round().abs()
        tensor([[100.,  25.,   0.],
                [ 25., 100.,   0.],
                [  0.,   0., 100.]])
        >>> bool(loss.gram_distance() < 1e-6)
        True
    """

    schedulable = ("align", "gram", "ancestors")
    place: Tensor
    inner_increments: Tensor
    above_leaf: Tensor
    above: Tensor

    def __init__(
        self,
        taxonomy: Taxonomy,
        dim: int,
        temperature: float = 0.1,
        *,
        align: float = 1.0,
        gram: float = 1.0,
        ancestors: float = 0.0,
        identity: float = 0.5,
        start: Start = "tree",
        learn_temperature: bool = False,
        lr_factor: float = 1.0,
    ) -> None:
        super().__init__(taxonomy, dim, temperature, learn_temperature=learn_temperature, lr_factor=lr_factor)
        check_choice("start", start, Start)
        for name, value in (("align", align), ("gram", gram), ("ancestors", ancestors)):
            if not 0 <= value < float("inf"):
                raise ValueError(f"{name} must be finite and not negative; got {value}")
        if not 0 <= identity <= 1:
            raise ValueError(f"identity must lie between 0 and 1; got {identity}")
        self.align = float(align)
        self.gram = float(gram)
        self.ancestors = float(ancestors)
        self.identity = identity
        self.start = start
        self._most_above = taxonomy.max_depth - 1
        parent = taxonomy.parent.clone()
        parent[parent <= 0] = -1
        self.register_buffer("above", torch.cat([parent, torch.tensor([-1])]), persistent=False)
        # likeness(v) = (1 − s)·(1 − height(v)/H); w_v = likeness(v) − likeness(parent of v)
        likeness = (1 - identity) * (1 - taxonomy.height.double() / taxonomy.max_height)
        above = likeness[taxonomy.parent.clamp(min=0)]
        above[0] = 0.0
        increments = likeness - above
        inner = (~taxonomy.is_leaf).nonzero()[:, 0]
        place = torch.full((taxonomy.num_nodes + 1,), -1)  # the last for a missing label
        place[inner] = torch.arange(len(inner))
        self.register_buffer("place", place, persistent=False)
        self.register_buffer("inner_increments", increments[inner], persistent=False)
        self.register_buffer("above_leaf", place[taxonomy.parent[self.classes]], persistent=False)
        self._of_leaves = float(increments[self.classes].sum()) + identity * len(self.classes)
        self._depths = range(taxonomy.max_depth - 1, 0, -1)
        for depth in self._depths:
            level = inner[taxonomy.depth[inner] == depth]
            self.register_buffer(f"children_{depth}", place[level], persistent=False)
            self.register_buffer(f"parents_{depth}", place[taxonomy.parent[level]], persistent=False)
        sizes = (self.ranges[:-1, 1] - self.ranges[:-1, 0]).double()
        squares = (sizes.square() * (likeness.square() - above.square())).sum()
        self._norm = float(squares + len(self.classes) * (1 - (1 - identity) ** 2))
        if start == "tree":
            self.proxies = nn.Parameter(_frame(taxonomy, dim, identity).to(self.proxies.dtype))

    def forward(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
        """Evaluate the loss of a batch; see the class."""
        nodes = self.checked(embeddings, nodes)
        rows = -self._likelihoods(embeddings, nodes)
        if not self.align and not self.gram:
            return propagate_nan(self.mean(rows, nodes), embeddings)
        unit = Sphere().project(self.proxies)
        sums = self._sums(widen(unit))
        if self.align:
            own = self._label_proxies(unit, sums, nodes)
            cosine = (Sphere().project(embeddings).to(own.dtype) * own).sum(1)
            rows = rows + self.align * (1 - cosine).masked_fill(nodes <= 0, 0.0).to(rows.dtype)
        loss = self.mean(rows, nodes)
        if self.gram:
            loss = loss + self.gram * self._distance(unit, sums).to(loss.dtype)
        return propagate_nan(loss, embeddings)

    def _likelihoods(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
        """log p of each row's label, and b times the mean of those of its ancestors without the root."""
        if not self.ancestors:
            return self.row_likelihood(embeddings, nodes)
        if not self.keeps_logits(len(embeddings)):
            own = self.row_likelihood(embeddings, nodes)
            of_ancestors = [self.row_likelihood(embeddings, above) for above in self._above(nodes)]
        else:
            logits = self.logits(embeddings)
            own = node_log_likelihood(logits, nodes, self.ranges)
            # cosines are 2 apart at most, so that from this scale on float32 could lose a class
            shifted = logits - logits.detach().amax(1, keepdim=True)
            narrow = self.log_scale is None and self.scale < _LARGEST_SCALE
            sums = self._sums((shifted if narrow else widen(shifted)).exp().T)
            least = torch.finfo(sums.dtype).tiny
            of_nodes = (sums / sums[0]).clamp(min=least).log()  # (I, n), that of the root is 0
            rows = torch.arange(len(nodes), device=nodes.device)
            of_ancestors = [of_nodes[self.place[above].clamp(min=0), rows] for above in self._above(nodes)]
        total, count = torch.zeros_like(own), torch.zeros_like(nodes)
        for above, likelihood in zip(self._above(nodes), of_ancestors, strict=True):
            total = total + likelihood.to(own.dtype)
            count += above > 0
        return own + self.ancestors * total / count.clamp(min=1)

    def _above(self, nodes: Tensor) -> Iterator[Tensor]:
        """Parents, grandparents and so on of labels, `(n,)` each; −1 at and above the root."""
        for _ in range(self._most_above):
            nodes = self.above[nodes]
            yield nodes

    def gram_distance(self) -> Tensor:
        """The mean over classes of the squared differences of the proxies' inner products from S'."""
        unit = Sphere().project(self.proxies)
        return self._distance(unit, self._sums(widen(unit)))

    def _sums(self, of_classes: Tensor) -> Tensor:
        """Sums of rows `(C, k)` over the classes below each inner node, `(I, k)`, the root first."""
        with torch.autocast(of_classes.device.type, enabled=False):
            sums = of_classes.new_zeros(len(self.inner_increments), of_classes.shape[1])
            sums = sums.index_add(0, self.above_leaf, of_classes)
            for depth in self._depths:
                children, parents = (getattr(self, f"{name}_{depth}") for name in ("children", "parents"))
                sums = sums.index_add(0, parents, sums[children])
            return sums

    def _label_proxies(self, unit: Tensor, sums: Tensor, nodes: Tensor) -> Tensor:
        """The proxy of each label: a leaf's own, an inner node's normalised sum; of a missing one, any."""
        own = unit[self.ranges[nodes, 0].clamp(max=len(unit) - 1)]
        place = self.place[nodes]
        if bool((place >= 0).any()):
            own = torch.where((place >= 0)[:, None], Sphere().project(sums[place]).to(own.dtype), own)
        return own

    def _distance(self, unit: Tensor, sums: Tensor) -> Tensor:
        with torch.autocast(unit.device.type, enabled=False):
            ours = widen(unit.T @ unit).square().sum()
            both = (self.inner_increments.to(sums.dtype) * sums.square().sum(1)).sum() + self._of_leaves
            return (ours - 2 * both + self._norm) / len(unit)


def _frame(taxonomy: Taxonomy, dim: int, identity: float) -> Tensor:
    """Unit vectors `(num_leaves, dim)` float64 with the inner products S', in few dimensions on average.

    In few dimensions every node has a direction, and a leaf is the sum over its path, weighted as in
    `Taxonomy.sparse_class_embeddings`. Directions of the coarsest nodes are orthogonal, the others random.
    """
    classes = taxonomy.num_leaves
    if classes <= dim:
        target = taxonomy.class_embeddings()
        target = (1 - identity) * target @ target.T + identity * torch.eye(classes, dtype=torch.float64)
        values, vectors = torch.linalg.eigh(target)
        frame = nn.functional.pad(vectors * values.clamp(min=0).sqrt(), (0, dim - classes))
        return nn.functional.normalize(frame).contiguous()
    directions = torch.randn(taxonomy.num_nodes, dim, dtype=torch.float64) / dim**0.5
    inner = (~taxonomy.is_leaf).nonzero()[:, 0]
    coarsest = inner[taxonomy.depth[inner].argsort(stable=True)][1 : dim + 1]  # without the root
    directions[coarsest] = torch.linalg.qr(directions[coarsest].T).Q.T
    own = torch.randn(classes, dim, dtype=torch.float64) / dim**0.5
    frame = (1 - identity) ** 0.5 * (taxonomy.sparse_class_embeddings() @ directions) + identity**0.5 * own
    return nn.functional.normalize(frame)
