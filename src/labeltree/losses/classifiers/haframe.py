"""HAFrame: features collapse to fixed class vectors whose inner products follow the tree."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from labeltree.checks import check_choice
from labeltree.geometry import Sphere
from labeltree.losses.batch import check_width
from labeltree.losses.classifiers.classifier import ClassifierLoss
from labeltree.losses.reduction import propagate_nan
from labeltree.taxonomy import Taxonomy

__all__ = ["FrameSimilarity", "HAFrameLoss", "frame_similarities"]

FrameSimilarity = Literal["exponential", "linear", "flat"]

_MOST = 20_000  # leaves: a matrix of 3.2 GB


class HAFrameLoss(ClassifierLoss):
    """Cross entropy over fixed class vectors, and cosines drawn to the tree's (Liang & Davis 2023).

        L = mean over labelled rows of  −(1 − α)·log softmax(x·W)_y + α·Σ_c (cos(x, W_c) − W_y·W_c)²

    The class vectors W are unit vectors with the inner products of `frame_similarities` and do not learn. x
    is not normalised in the first term. A label at an inner node is as likely as its classes together, and
    its W is the normalised sum of theirs.

    Args:
        taxonomy: The tree of the labels.
        dim: d, dimension of the embeddings. None: the number of classes, C. With fewer than C − 1, W has the
            leading eigenvectors, brought to unit length.
        alpha: α in [0, 1].
        gamma: γ > 0 of the exponential similarity.
        similarity: `"exponential"` (the paper), `"linear"`, or `"flat"`: the simplex, without a tree.

    Attributes:
        frame: `(C, dim)`, W, in the order of `classes`.

    Call with `embeddings (n, dim)` and `nodes (n,)`, −1 where missing. The mean is over labelled rows, of all
    ranks in training; without any it is exactly 0. Labels at the root have no direction: they take no part in
    the second term.

    Raises:
        ValueError: An argument of the wrong shape or type, or a node that is not in the taxonomy.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "oak")])
        >>> loss = HAFrameLoss(taxonomy, similarity="flat")
        >>> (loss.frame @ loss.frame.T).mul(2).round()  # the simplex: −1/2 off the diagonal
        tensor([[ 2., -1., -1.],
                [-1.,  2., -1.],
                [-1., -1.,  2.]], dtype=torch.float64)
        >>> float(HAFrameLoss(taxonomy, alpha=1.0)(loss.frame, taxonomy.encode(["dog", "cat", "oak"]))) > 0
        True
    """

    schedulable = ("alpha",)
    frame: Tensor
    directions: Tensor

    def __init__(
        self,
        taxonomy: Taxonomy,
        dim: int | None = None,
        alpha: float = 0.4,
        *,
        gamma: float = 2.0,
        similarity: FrameSimilarity = "exponential",
    ) -> None:
        super().__init__(taxonomy)
        if not 0 <= alpha <= 1:
            raise ValueError(f"alpha must lie between 0 and 1; got {alpha}")
        self.dim = len(self.classes) if dim is None else dim
        if not (isinstance(self.dim, int) and self.dim > 0):
            raise ValueError(f"dim must be a whole number above 0, or None; got {dim!r}")
        self.alpha = float(alpha)
        self.gamma = gamma
        self.similarity = similarity
        wanted = frame_similarities(taxonomy, gamma, similarity)
        values, vectors = torch.linalg.eigh(wanted)
        frame = (vectors * values.clamp(min=0).sqrt())[:, -self.dim :]
        frame = nn.functional.normalize(nn.functional.pad(frame, (0, self.dim - frame.shape[1]))).contiguous()
        running = torch.cat([frame.new_zeros(1, self.dim), frame.cumsum(0)])
        sums = running[self.ranges[:-1, 1]] - running[self.ranges[:-1, 0]]
        sums[0] = 0.0
        # Eigenvectors of equal eigenvalues are not unique, and another machine may choose others.
        self.register_buffer("frame", frame)
        self.register_buffer("directions", nn.functional.normalize(sums, eps=1e-9))

    def logits(self, embeddings: Tensor) -> Tensor:
        """The logits x·W_c of embeddings `(n, dim)`, `(n, C)`, float32 or better."""
        check_width(embeddings, self.dim)
        points = embeddings.to(torch.promote_types(embeddings.dtype, torch.float32))
        with torch.autocast(points.device.type, enabled=False):
            return points @ self.frame.to(points.dtype).T

    @torch.no_grad()
    def predict(self, embeddings: Tensor) -> Tensor:
        """The class of the nearest class vector of each row, `(n,)` int64; ties go to the first."""
        return super().predict(self.logits(embeddings))

    def forward(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
        """Evaluate the loss of a batch; see the class."""
        logits, nodes = self.prepare(self.logits(embeddings), nodes)
        rows = -(1 - self.alpha) * self.log_likelihood(logits, nodes)
        if self.alpha:
            own = self.directions.to(logits.dtype)[nodes]
            away = Sphere().project(embeddings).to(logits.dtype) - own
            with torch.autocast(logits.device.type, enabled=False):
                far = (away @ self.frame.to(logits.dtype).T).square().sum(1)
            rows = rows + self.alpha * far.masked_fill((nodes <= 0) | ~own.any(1), 0.0)
        return propagate_nan(self.mean(rows, nodes), embeddings)


def frame_similarities(
    taxonomy: Taxonomy, gamma: float = 2.0, similarity: FrameSimilarity = "exponential"
) -> Tensor:
    """The inner products of HAFrame's class vectors (Liang & Davis 2023, Section 3).

        S = (1 − s)·f(height(lca)/H) + s,   f(x) = e^(−γx), or 1 − x, or 0 for x > 0

    s is the least number for which S is positive semi-definite. The paper searches it in 100 steps; it is
    s = −1/(m − 1) with m = Σ (F⁻¹)_cc', F the matrix of f, because 1 + s/(1 − s)·m must not be negative. In a
    tree m needs no inverse: a leaf has m = 1, and an inner node v with f(v) = b has m = a/(1 + b·a), a =
    Σ over its children i of m_i/(1 − b·m_i). No s below −1 is taken.

    Args:
        taxonomy: The tree of the labels.
        gamma: γ > 0.
        similarity: Which f.

    Returns:
        `(C, C)` float64, in the order of the leaves.

    Raises:
        ValueError: If γ is not above 0, the similarity has another name, or there are over 20,000 leaves.
    """
    check_choice("similarity", similarity, FrameSimilarity)
    if not 0 < gamma < float("inf"):
        raise ValueError(f"gamma must be finite and above 0; got {gamma}")
    share = taxonomy.height.double() / taxonomy.max_height
    if similarity == "exponential":
        value = torch.exp(-gamma * share)
    else:
        value = 1 - share if similarity == "linear" else (share == 0).double()
    classes = taxonomy.leaves
    if len(classes) > _MOST:
        raise ValueError(
            f"the frame of {len(classes):,} leaves needs a matrix of all their pairs, "
            f"{8e-9 * len(classes) ** 2:.0f} GB, and its eigenvectors; the limit is {_MOST:,} leaves. "
            "TreeProxyLoss (objective tree-proxies) follows the tree without that matrix"
        )
    among = value[taxonomy.lca(classes[:, None], classes[None, :])]
    if len(classes) == 1:
        return among
    least = max(-1.0, -1 / (_magnitude(taxonomy, value.tolist()) - 1))
    return (1 - least) * among + least


def _magnitude(taxonomy: Taxonomy, value: list[float]) -> float:
    """The sum of all entries of the inverse of the leaves' similarities `value[lca]`."""
    parts = [0.0] * taxonomy.num_nodes  # a of each node
    parent = taxonomy.parent.tolist()
    is_leaf = taxonomy.is_leaf.tolist()
    magnitude = 0.0
    for node in range(taxonomy.num_nodes - 1, -1, -1):  # children come after their parent
        magnitude = 1.0 if is_leaf[node] else parts[node] / (1 + value[node] * parts[node])
        if node:
            above = parent[node]
            parts[above] += magnitude / (1 - value[above] * magnitude)
    return magnitude
