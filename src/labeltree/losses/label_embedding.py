"""Label embedding network: soft labels that are learnt along with the classifier."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labeltree.losses.class_head import ClassHead, HeadForm
from labeltree.losses.classifier import ClassifierLoss
from labeltree.losses.labelled_mean import labelled_mean
from labeltree.losses.soft_targets import soft_cross_entropy
from labeltree.taxonomy import Taxonomy

__all__ = ["LabelEmbeddingLoss"]


class LabelEmbeddingLoss(ClassifierLoss):
    """The label embedding network (Sun et al. 2017), as Barz & Denzler 2019 compare with it.

    Two linear classifiers x¹ and x² read the features, the second without gradient to them, and each class
    has a learnt vector e_c of C numbers, at first the c-th unit vector, whose softmax is its soft label:

        L = mean over labelled rows of  β·CE(x¹, y) + (1−β)·CE(x¹, softmax(e_y)) + CE(x², y) + [p²_y − α]₊
          + mean over the rows that x² classifies rightly of CE(e_y, softmax(x²/τ))

    CE(x, t) = −Σ_c t_c log softmax(x)_c. The target softmax(e_y) and softmax(x²/τ) have no gradient. The term
    with α keeps x² from being too sure of itself, as soft labels would then carry nothing. x¹ answers.

    An inner-node label v has the likelihood Σ_{c∈v} p_c in both classifiers; its soft label is the mean of
    those of its leaves, merged into one event; the terms that teach soft labels leave it out.

    Args:
        taxonomy: the tree of the labels.
        feature_dim: f, width of the features.
        temperature: τ > 0.
        alpha: α in [0, 1].
        beta: β in [0, 1].
        head: `"linear"`: the classifiers are linear in the features. `"reference"`: ReLU and batch
            normalisation come before them (the published code of Barz & Denzler).

    Attributes:
        embeddings: `(num_leaves, num_leaves)` parameter, e.

    Call with `features (n, f)` and `nodes (n,)`, −1 where missing. Means are over rows of all ranks in
    training; without a labelled row it is exactly 0.

    Raises:
        ValueError: an argument of the wrong shape or type, or a node that is not of the taxonomy.

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
        """The node of the class that the first classifier finds likeliest, `(n,)` int64."""
        return super().predict(self.logits(features))

    @torch.no_grad()
    def logits(self, features: Tensor) -> Tensor:
        """The logits of the first classifier, `(n, C)`: scores of the `classes`."""
        found: Tensor = self.answers(self.head(features))
        return found

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
        """`(n, C)`: the soft label of a class, of other labels the mean of those of their classes."""
        soft = torch.softmax(self.embeddings, 1)
        first, end = self.ranges[nodes].unbind(1)
        targets, several = soft[first], end - first > 1
        if bool(several.any()):
            own = self.members(nodes[several]).to(soft.dtype)
            with torch.autocast(soft.device.type, enabled=False):
                targets[several] = own @ soft / own.sum(1, keepdim=True)
        return targets
