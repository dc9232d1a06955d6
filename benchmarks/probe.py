"""The linear probe beside scikit-learn's logistic regression, which solves the same problem.

    python benchmarks/probe.py [--short]

scikit-learn stops by the largest entry of the gradient, ours by a bound on the distance to the minimum. So
each row gives scikit-learn at its default tolerance, with how far it then is above the minimum, and at the
first tolerance (a tenth of the one before) at which it lies within 1e-5 of our value.
"""

from __future__ import annotations

import time
import warnings

import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from harness import Results, Row, Size, Table, choose, main
from labeltree.metrics import LinearProbe

ABOVE = 1e-5


def features(n: int, d: int, classes: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Standardised features `(n, d)`, most of whose variance lies in few directions, and classes `(n,)`."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (n,), generator=generator)
    scale = 0.95 ** torch.arange(d)
    x = (
        torch.randn(classes, d, generator=generator)[labels] + torch.randn(n, d, generator=generator)
    ) * scale
    x = (x @ torch.randn(d, d, generator=generator)).relu().double()
    return (x - x.mean(dim=0)) / x.std(dim=0), labels


def value(x: Tensor, labels: Tensor, weight: Tensor, bias: Tensor) -> float:
    """The objective of the balanced probe at C = 1 with more than two classes; `weight` is `(d, c)`."""
    _, index, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    missed = torch.nn.functional.cross_entropy(x @ weight + bias, index, reduction="none")
    per_class = len(labels) / (len(counts) * counts.double())
    return float((per_class[index] * missed).sum() + 0.5 * weight.square().sum())


def sklearn_fit(x: Tensor, labels: Tensor, tolerance: float) -> tuple[float, float]:
    """CPU seconds, and the objective's value."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = LogisticRegression(class_weight="balanced", tol=tolerance, max_iter=5000)
        fitted.fit(x.numpy(), labels.numpy())
    seconds = time.process_time() - began
    return seconds, value(x, labels, torch.from_numpy(fitted.coef_.T), torch.from_numpy(fitted.intercept_))


def row(n: int, d: int, classes: int) -> Row:
    """One problem, solved by both."""
    x, labels = features(n, d, classes)
    began = time.process_time()
    probe = LinearProbe().fit(x, labels)
    ours = time.process_time() - began
    least = value(x, labels, probe.weight, probe.bias)
    tolerance = 1e-4
    default, reached = sklearn_fit(x, labels, tolerance)
    seconds, above = default, reached / least - 1
    found = above
    while found > ABOVE and tolerance > 1e-8:
        tolerance /= 10
        seconds, reached = sklearn_fit(x, labels, tolerance)
        found = reached / least - 1
    return [n, d, classes, ours, default, default / ours, above, seconds / ours, tolerance]


def measure(size: Size) -> Results:
    """A row for each number of classes."""
    problems = choose(
        size,
        full=[(3000, 96, 10), (3000, 96, 100), (6000, 256, 100), (6000, 96, 600), (6000, 256, 600)],
        short=[(3000, 96, 10), (3000, 96, 100), (3000, 96, 300)],
        tiny=[(60, 8, 3)],
    )
    columns = (
        "n",
        "d",
        "classes",
        "ours, CPU s",
        "scikit-learn, CPU s",
        "÷ ours",
        "above the minimum",
        f"within {ABOVE:g}: ÷ ours",
        "its tolerance",
    )
    rows = [row(*problem) for problem in problems]
    return Results([Table("Balanced logistic regression, C = 1, float64", columns, rows)])


if __name__ == "__main__":
    main(__doc__, measure)
