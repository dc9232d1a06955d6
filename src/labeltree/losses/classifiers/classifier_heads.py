"""Losses with a classifier of their own: on embeddings (L_CLS), and with learned soft labels."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from labeltree.checks import check_choice
from labeltree.losses.batch import describe
from labeltree.losses.classifiers.classes import soft_cross_entropy
from labeltree.losses.classifiers.classifier import ClassifierLoss
from labeltree.losses.classifiers.cross_entropy import CrossEntropyLoss
from labeltree.losses.reduction import labelled_mean
from labeltree.taxonomy import Taxonomy

__all__ = ["ClassHead", "EmbeddingClassifierLoss", "HeadForm", "LabelEmbeddingLoss"]

HeadForm = Literal["linear", "reference"]
_LARGEST = 2.0**40  # the square of a much larger value overflows float32


class ClassHead(nn.Module):
    """Identity, or ReLU and batch normalisation as in the published code of Barz & Denzler 2019.

    Args:
        width: Length of the vectors.
        form: `"linear"`: vectors pass unchanged. `"reference"`: ReLU, then batch normalisation; a batch of
            fewer than two rows has no statistics of its own and is normalised by the running ones, which
            ignore values that are not finite.
    """

    def __init__(self, width: int, form: HeadForm = "linear") -> None:
        super().__init__()
        check_choice("head", form, HeadForm)
        if not (isinstance(width, int) and width > 0):
            raise ValueError(f"the width of the vectors must be a whole number above 0; got {width!r}")
        self.width = width
        self.form = form
        self.norm = nn.BatchNorm1d(width) if form == "reference" else None

    def extra_repr(self) -> str:
        """The form, as `repr` shows it."""
        return f"form={self.form}"

    def forward(self, vectors: Tensor) -> Tensor:
        """Map vectors `(n, width)` to vectors `(n, width)`, in float32 or better."""
        fits = isinstance(vectors, Tensor) and vectors.dim() == 2 and vectors.shape[1] == self.width
        if not fits or not vectors.is_floating_point():
            raise ValueError(
                f"expected a floating-point tensor of shape (n, {self.width}); got {describe(vectors)}"
            )
        vectors = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
        if self.norm is None:
            return vectors
        vectors = vectors.relu()
        if not self.norm.training:
            normalised: Tensor = self.norm(vectors)
            return normalised
        if len(vectors) > 1:
            return _normalise(self.norm, vectors)
        return functional.batch_norm(
            vectors,
            self.norm.running_mean,
            self.norm.running_var,
            self.norm.weight,
            self.norm.bias,
            eps=self.norm.eps,
        )


def _normalise(norm: nn.BatchNorm1d, vectors: Tensor) -> Tensor:
    """Apply `norm` in training mode, after dividing columns whose squares would overflow by a power of 2."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.num_batches_tracked is not None
    with torch.no_grad():
        largest = vectors.abs().amax(0)
        scale = torch.where(largest > _LARGEST, torch.exp2((largest / _LARGEST).log2().ceil()), 1.0)
        mean, variance = norm.running_mean / scale, norm.running_var / scale / scale
    normalised = functional.batch_norm(
        vectors / scale, mean, variance, norm.weight, norm.bias, True, norm.momentum or 0.0, norm.eps
    )
    with torch.no_grad():
        mean, variance = mean * scale, variance * scale * scale
        finite = mean.isfinite() & variance.isfinite()
        norm.running_mean.copy_(torch.where(finite, mean, norm.running_mean))
        norm.running_var.copy_(torch.where(finite, variance, norm.running_var))
        norm.num_batches_tracked += 1
    return normalised


class EmbeddingClassifierLoss(CrossEntropyLoss):
    """The cross entropy of a classifier that reads embeddings (Eq. 10 of Barz & Denzler 2019).

        L_CLS = mean over labelled rows of −log p(y_i)   (Eq. 10 lacks the minus)

    The loss contains the classifier's layers. Added to the correlation loss with weight λ = 0.1 it gives the
    paper's L_CORR+CLS (Eq. 9).

    Args:
        taxonomy: The tree of the labels.
        dim: d, dimension of the embeddings.
        head: `"linear"`: one linear layer (the paper). `"reference"`: ReLU, batch normalisation and a linear
            layer (the published code).
        depth, logit_adjustment, label_smoothing: As of `CrossEntropyLoss`.

    Call with `embeddings (n, dim)` and `nodes (n,)`, −1 where missing; see `CrossEntropyLoss`.

    Raises:
        ValueError: As `CrossEntropyLoss`.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant",)])
        >>> loss = EmbeddingClassifierLoss(taxonomy, dim=2)
        >>> embeddings = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> loss(embeddings, taxonomy.encode(["dog", "animal"])).shape, loss.predict(embeddings).shape
        (torch.Size([]), torch.Size([2]))
    """

    def __init__(
        self,
        taxonomy: Taxonomy,
        dim: int,
        *,
        head: HeadForm = "linear",
        depth: int | None = None,
        logit_adjustment: float = 0.0,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(taxonomy, depth, logit_adjustment=logit_adjustment, label_smoothing=label_smoothing)
        self.dim = dim
        self.head = ClassHead(dim, head)
        self.linear = nn.Linear(dim, len(self.classes))

    def logits(self, embeddings: Tensor) -> Tensor:
        """The logits `(n, C)` of embeddings `(n, dim)`."""
        logits: Tensor = self.linear(self.head(embeddings))
        return logits

    @torch.no_grad()
    def predict(self, embeddings: Tensor) -> Tensor:
        """The node of the most likely class of each row, `(n,)` int64; ties go to the first."""
        return super().predict(self.logits(embeddings))

    def forward(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
        """Evaluate the loss of a batch; see the class."""
        return super().forward(self.logits(embeddings), nodes)


class LabelEmbeddingLoss(ClassifierLoss):
    """The label embedding network (Sun et al. 2017), as Barz & Denzler 2019 compare with it.

    Two linear classifiers x¹ and x² read the features; the second passes no gradient to the features. Each
    class has a learnt vector e_c of C numbers, initially the c-th unit vector, whose softmax is its soft
    label:

        L = mean over labelled rows of  β·CE(x¹, y) + (1−β)·CE(x¹, softmax(e_y)) + CE(x², y) + [p²_y − α]₊
          + mean over the rows that x² classifies rightly of CE(e_y, softmax(x²/τ))

    CE(x, t) = −Σ_c t_c log softmax(x)_c. The targets softmax(e_y) and softmax(x²/τ) have no gradient. The
    term with α keeps x² from becoming overconfident: soft labels would then carry no information. Predictions
    come from x¹.

    An inner-node label v has the likelihood Σ_{c∈v} p_c in both classifiers; its soft label is the mean of
    the soft labels of its leaves, merged into one event. Inner-node labels do not take part in the terms that
    learn soft labels.

    Args:
        taxonomy: The tree of the labels.
        feature_dim: f, width of the features.
        temperature: τ > 0.
        alpha: α in [0, 1].
        beta: β in [0, 1].
        head: `"linear"`: the classifiers are linear in the features. `"reference"`: ReLU and batch
            normalisation come before them (the published code of Barz & Denzler).

    Attributes:
        embeddings: `(num_leaves, num_leaves)` parameter, the vectors e_c.

    Call with `features (n, f)` and `nodes (n,)`, −1 where missing. Means are over rows of all ranks in
    training; without a labelled row the loss is exactly 0.

    Raises:
        ValueError: An argument of the wrong shape or type, or a node that is not in the taxonomy.

    Example:
        >>> taxonomy = Taxonomy.from_paths([("animal", "dog"), ("animal", "cat"), ("plant",)])
        >>> loss = LabelEmbeddingLoss(taxonomy, feature_dim=2)
        >>> features = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> loss(features, taxonomy.encode(["dog", "animal"])).shape, loss.predict(features).shape
        (torch.Size([]), torch.Size([2]))
    """

    schedulable = ("alpha", "beta")

    def __init__(
        self,
        taxonomy: Taxonomy,
        feature_dim: int,
        temperature: float = 2.0,
        *,
        alpha: float = 0.9,
        beta: float = 0.5,
        head: HeadForm = "linear",
    ) -> None:
        super().__init__(taxonomy)
        if not temperature > 0:
            raise ValueError(f"temperature must be above 0; got {temperature}")
        for name, value in (("alpha", alpha), ("beta", beta)):
            if not 0 <= value <= 1:
                raise ValueError(f"{name} must lie between 0 and 1; got {value}")
        self.feature_dim = feature_dim
        self.temperature = temperature
        self.alpha = alpha
        self.beta = beta
        classes = len(self.classes)
        self.head = ClassHead(feature_dim, head)
        self.answers = nn.Linear(feature_dim, classes)
        self.teacher = nn.Linear(feature_dim, classes)
        self.embeddings = nn.Parameter(torch.eye(classes))

    @torch.no_grad()
    def predict(self, features: Tensor) -> Tensor:
        """The node of the most likely class under the first classifier, `(n,)` int64."""
        return super().predict(self.logits(features))

    @torch.no_grad()
    def logits(self, features: Tensor) -> Tensor:
        """The logits of the first classifier, `(n, C)`: scores of the `classes`."""
        logits: Tensor = self.answers(self.head(features))
        return logits

    def forward(self, features: Tensor, nodes: Tensor) -> Tensor:
        """Evaluate the loss of a batch; see the class."""
        hidden = self.head(features)
        answers, nodes = self.prepare(self.answers(hidden), nodes)
        teacher = self.teacher(hidden.detach()).to(answers.dtype)
        return self.loss(answers, teacher, nodes)

    def loss(self, answers: Tensor, teacher: Tensor, nodes: Tensor) -> Tensor:
        """The loss from the logits of both classifiers, x¹ and x², `(n, C)` each."""
        first, end = self.ranges[nodes].unbind(1)
        whole = (end - first == 1) & (nodes >= 0)  # labels that are one class
        log_certainty = self.log_likelihood(teacher, nodes)
        soft = soft_cross_entropy(answers, nodes, self.ranges, self._soft_labels(nodes).to(answers.dtype))
        too_sure = (log_certainty.exp() - self.alpha).relu().masked_fill(~whole, 0.0)
        rows = -self.beta * self.log_likelihood(answers, nodes) + (1 - self.beta) * soft
        loss = self.mean(rows - log_certainty + too_sure, nodes)

        right = whole & (teacher.argmax(1) == first)
        target = torch.softmax(teacher.detach() / self.temperature, 1)
        labels = torch.log_softmax(self.embeddings.to(answers.dtype), 1)[first]
        return loss + labelled_mean(-(target * labels).sum(1), right, over_ranks=self.training)

    @torch.no_grad()
    def _soft_labels(self, nodes: Tensor) -> Tensor:
        """Soft labels `(n, C)`: for a class its own, for any other label the mean over its classes."""
        soft = torch.softmax(self.embeddings, 1)
        first, end = self.ranges[nodes].unbind(1)
        targets, several = soft[first], end - first > 1
        if bool(several.any()):
            own = self.members(nodes[several]).to(soft.dtype)
            with torch.autocast(soft.device.type, enabled=False):
                targets[several] = own @ soft / own.sum(1, keepdim=True)
        return targets
