"""A linear probe trained by stochastic gradient descent."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from labeltree.checks import check_choice
from labeltree.metrics.metric_checks import check_positive
from labeltree.metrics.probe import LinearClassifier
from labeltree.progress import Progress

__all__ = ["SGDProbe", "Schedule"]

Schedule = Literal["constant", "cosine"]


class SGDProbe(LinearClassifier):
    """A linear classifier trained on frozen features by SGD with momentum and cross entropy.

    The defaults are those of Zhang et al. 2022 (Section 4.2): 40 epochs, batches of 512, a learning rate of
    0.1, which the paper lowers only after 40 epochs. The paper gives neither the momentum (0.9 here, as in
    SupCon's code) nor a weight decay (none here). A step costs O(batch · d · classes), whatever the number of
    samples; the memory needed is that of weights, gradients and the logits of one batch.

    The update is that of `torch.optim.SGD`. Features are used as given: standardise them first if their
    scales are arbitrary. Weights start at 0.

    Args:
        epochs: Number of passes over the samples, each in a new order.
        batch_size: Number of samples in a batch; the last batch of an epoch may be smaller.
        learning_rate: Learning rate of the first step.
        momentum: Momentum of SGD.
        weight_decay: Weight decay; it does not apply to the intercepts.
        schedule: Schedule of the learning rate: "constant", or "cosine" down to 0, updated every step.
        balanced: Give every class the same total weight, as in `LinearProbe`; False: every sample the same
            weight.
        seed: Seed of the sample order.

    Attributes:
        classes: (c,) int64, ascending.
        weight: (d, c) float32.
        bias: (c,) float32.
        loss: Mean cross entropy over the batches of the last epoch.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> import torch
        >>> features = torch.tensor([[-1.0, 1.0], [-0.9, 0.9], [1.0, -1.0], [0.9, -0.8]])
        >>> probe = SGDProbe(epochs=5).fit(features, torch.tensor([7, 7, 30, 30]))
        >>> probe.predict(torch.tensor([[-0.8, 0.8], [0.8, -0.1]]))
        tensor([ 7, 30])

    """

    loss: float

    def __init__(
        self,
        *,
        epochs: int = 40,
        batch_size: int = 512,
        learning_rate: float = 0.1,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        schedule: Schedule = "constant",
        balanced: bool = False,
        seed: int = 0,
    ) -> None:
        check_positive("epochs", epochs)
        check_positive("batch_size", batch_size)
        if not learning_rate > 0:
            raise ValueError(f"learning_rate is {learning_rate!r}; expected a number above 0")
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum is {momentum!r}; expected a number from 0 to below 1")
        if not weight_decay >= 0:
            raise ValueError(f"weight_decay is {weight_decay!r}; expected a number of at least 0")
        check_choice("schedule", schedule, Schedule)
        self.epochs, self.batch_size, self.learning_rate = epochs, batch_size, learning_rate
        self.momentum, self.weight_decay = momentum, weight_decay
        self.schedule, self.balanced, self.seed = schedule, balanced, seed

    @torch.no_grad()
    def fit(self, features: Tensor, classes: Tensor, progress: Progress | None = None) -> SGDProbe:
        """Fit to features (n, d) and their classes (n,), any ids; rows of class -1 are left out.

        `progress("training the probe", done, total)` is called after every epoch.

        Raises:
            ValueError: For wrong shapes or dtypes, features that are not finite, or no row with a class; or
                if the loss became infinite, which a smaller learning rate avoids.

        """
        x, targets, sizes = self._classified(features, classes)
        x = x.float()
        count = len(self.classes)
        class_weight = len(targets) / (count * sizes.float()) if self.balanced else torch.ones(count)
        # intercepts are the weights of a feature that is always 1
        parameters = x.new_zeros(x.shape[1] + 1, count)
        velocity, gradient = torch.zeros_like(parameters), torch.empty_like(parameters)
        generator = torch.Generator().manual_seed(self.seed)
        steps = self.epochs * math.ceil(len(x) / self.batch_size)
        step = 0
        for epoch in range(self.epochs):
            total = torch.zeros(())
            order = torch.randperm(len(x), generator=generator)
            for rows in torch.split(order, self.batch_size):
                batch, truth = x[rows], targets[rows]
                weights = class_weight[truth]
                weights /= len(rows) if not self.balanced else weights.sum()
                residual = torch.log_softmax(torch.addmm(parameters[-1], batch, parameters[:-1]), dim=1)
                each = torch.arange(len(rows))
                total -= (residual[each, truth] * weights).sum() * len(rows)
                residual.exp_()
                residual[each, truth] -= 1.0
                residual *= weights[:, None]
                torch.mm(batch.T, residual, out=gradient[:-1])
                torch.sum(residual, dim=0, out=gradient[-1])
                if self.weight_decay:
                    gradient[:-1] += self.weight_decay * parameters[:-1]
                velocity.mul_(self.momentum).add_(gradient)
                parameters.sub_(velocity, alpha=self._rate(step, steps))
                step += 1
            self.loss = float(total) / len(x)
            if not math.isfinite(self.loss):
                raise ValueError(
                    f"the loss is {self.loss} after {epoch + 1} epochs at a learning rate of "
                    f"{self.learning_rate}; standardise the features or lower it"
                )
            if progress is not None:
                progress("training the probe", epoch + 1, self.epochs)
        self.weight, self.bias = parameters[:-1], parameters[-1]
        return self

    def _rate(self, step: int, steps: int) -> float:
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate * (1 + math.cos(math.pi * step / steps)) / 2
